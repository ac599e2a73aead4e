"""set_epoch: the rows of a schedule for trainings of its own and of another length."""

import copy
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from test_transform import dimming, factor_in_use

from hba.errors import ScheduleLengthWarning, SettingsError
from hba.schedule.schedule import Schedule
from hba.schedule.transform import PolicyTransform

FACTORS = (0.2, 1.0, 0.6, 0.4)


@pytest.mark.parametrize("epochs", [2, 3, 4, 7, 11])
def test_with_the_training_s_epochs_set_epoch_goes_from_the_first_row_to_the_last(epochs: int) -> None:
    transform = PolicyTransform(dimming(*FACTORS))
    places = np.linspace(0, len(FACTORS) - 1, epochs)
    expected = np.interp(places, np.arange(len(FACTORS)), FACTORS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for epoch in range(epochs):
            transform.set_epoch(epoch, epochs)
            assert factor_in_use(transform) == pytest.approx(expected[epoch], rel=1e-5)


def test_a_training_of_one_epoch_gets_the_middle() -> None:
    transform = PolicyTransform(dimming(0.2, 0.9, 0.4))
    transform.set_epoch(0, 1)
    assert factor_in_use(transform) == pytest.approx(0.9)


def test_without_the_training_s_epochs_it_warns_once_and_says_what_to_do() -> None:
    transform = PolicyTransform(dimming(*FACTORS))
    with pytest.warns(
        ScheduleLengthWarning, match=r"a training of 4 epochs only; say set_epoch\(epoch, epochs\)"
    ) as seen:
        transform.set_epoch(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for epoch in range(4):
            transform.set_epoch(epoch)
    assert len(seen) == 1
    assert seen[0].filename == __file__
    assert issubclass(ScheduleLengthWarning, UserWarning)


def silent(schedule: Schedule) -> PolicyTransform:
    transform = PolicyTransform(schedule)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for epoch in range(schedule.epochs):
            transform.set_epoch(epoch)
    return transform


def test_a_schedule_that_was_stretched_has_the_length_that_was_wanted() -> None:
    stretched = dimming(*FACTORS).stretched(6)
    for schedule in (stretched, copy.deepcopy(stretched), pickle.loads(pickle.dumps(stretched))):
        assert schedule.is_stretched
        assert factor_in_use(silent(schedule)) == pytest.approx(FACTORS[-1])
    assert not dimming(*FACTORS).is_stretched


def test_a_schedule_of_one_row_suits_no_other_training() -> None:
    silent(dimming(0.3))


@pytest.mark.parametrize(
    "epoch", [1.5, 1.0, True, "1", None, np.float64(1), np.True_, torch.tensor(1.0), torch.tensor(True)]
)
def test_an_epoch_that_is_no_whole_number_is_refused(epoch: Any) -> None:
    schedule = dimming(*FACTORS).stretched(4)
    transform = schedule.transform()
    transform.set_epoch(2)
    with pytest.raises(SettingsError, match="epoch must be a whole number, got "):
        transform.set_epoch(epoch)
    with pytest.raises(SettingsError, match="epoch must be a whole number, got "):
        schedule.policy(epoch)
    if epoch is not None:
        with pytest.raises(SettingsError, match="epochs must be a whole number, got "):
            transform.set_epoch(0, epoch)
    with pytest.raises(SettingsError, match="epochs must be a whole number, got "):
        schedule.stretched(epoch)
    assert transform.position == 2


@pytest.mark.parametrize("epoch", [1, np.int64(1), np.uint8(1), torch.tensor(1)], ids=repr)
def test_integers_of_numpy_and_torch_are_epochs(epoch: Any) -> None:
    schedule = dimming(*FACTORS).stretched(4)
    transform = schedule.transform()
    transform.set_epoch(epoch)
    assert transform.position == 1
    assert schedule.policy(epoch).values[1] == 1.0
    transform.set_epoch(epoch, 1 + epoch)
    assert transform.position == 3


@pytest.mark.parametrize(("epoch", "epochs"), [(3, 3), (-1, 3), (5, 1)])
def test_an_epoch_outside_of_the_training_is_refused(epoch: int, epochs: int) -> None:
    with pytest.raises(SettingsError, match=rf"epoch must lie in \[0, {epochs - 1}\], got {epoch}$"):
        PolicyTransform(dimming(*FACTORS)).set_epoch(epoch, epochs)


@pytest.mark.parametrize("epochs", [0, -2])
def test_a_training_has_at_least_one_epoch(epochs: int) -> None:
    with pytest.raises(SettingsError, match=f"epochs must be at least 1, got {epochs}$"):
        PolicyTransform(dimming(*FACTORS)).set_epoch(0, epochs)
