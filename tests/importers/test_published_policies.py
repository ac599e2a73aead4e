"""torchvision's policies: what hba then does to images, against the calls that
torchvision itself makes.
"""

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from random_inputs import seeded
from scipy import stats
from torchvision.transforms import autoaugment

import hba
from hba.errors import ScheduleError, SettingsError
from hba.operations import OPERATIONS
from hba.schedule.torchvision_policies import PHOTOGRAPH_SIDE, POLICIES

N_DRAWS = 3000
N_IMAGES = 20_000
Sizes = dict[str, list[float]]


def calls_of(
    transform: Any, monkeypatch: pytest.MonkeyPatch
) -> tuple[Sizes, list[int]]:
    """The magnitudes that torchvision asks of each operation in hba's units, without
    sign where hba draws it, and how many operations each image gets.
    """
    sizes: Sizes = defaultdict(list)
    numbers = [0]

    def note(image: Any, name: str, magnitude: float, **_: Any) -> Any:
        if name != "Identity":
            numbers[-1] += 1
            is_factor = name in ("Brightness", "Color", "Contrast", "Sharpness")
            is_shift = name.startswith("Translate")
            sizes[name].append(
                1 + magnitude
                if is_factor
                else abs(magnitude) / (PHOTOGRAPH_SIDE if is_shift else 1)
            )
        return image

    monkeypatch.setattr(autoaugment, "_apply_op", note)
    image = Image.new("RGB", (PHOTOGRAPH_SIDE, PHOTOGRAPH_SIDE))
    with torch.random.fork_rng():
        torch.manual_seed(0)
        for _ in range(N_DRAWS):
            transform(image)
            numbers.append(0)
    return sizes, numbers[:-1]


def draws_of(schedule: hba.Schedule, n_images: int) -> tuple[Sizes, list[int]]:
    draw = schedule.policy(0).draw(n_images, seeded(0))
    sizes: Sizes = defaultdict(list)
    for slots, magnitudes in zip(
        draw.slots.tolist(), draw.magnitudes.tolist(), strict=True
    ):
        for slot, magnitude in zip(slots, magnitudes, strict=True):
            if slot >= 0:
                sizes[schedule.space.slots[slot].operation.name].append(abs(magnitude))
    return sizes, (draw.slots >= 0).sum(dim=1).tolist()


@pytest.mark.parametrize("name", POLICIES)
def test_operations_are_applied_as_often_and_as_strongly_as_torchvision_does(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs, their_numbers = calls_of(POLICIES[name], monkeypatch)
    schedule = hba.import_policy("torchvision", name)
    ours, our_numbers = draws_of(schedule, N_IMAGES)
    assert ours.keys() == theirs.keys()
    assert schedule.provenance["largest_rate_difference"] < 5e-6
    for operation, sizes in theirs.items():
        our_sizes = ours[operation]
        rate = len(sizes) / N_DRAWS
        assert len(our_sizes) / N_IMAGES == pytest.approx(
            rate, abs=6 * np.sqrt(rate / N_DRAWS)
        ), operation
        if OPERATIONS[operation].magnitude_range is not None:
            error = stats.sem(sizes) + stats.sem(our_sizes)
            # torchvision keeps single precision.
            assert np.mean(our_sizes) == pytest.approx(
                np.mean(sizes), abs=6 * error + 1e-5
            ), operation
    for number in range(max(their_numbers) + 1):
        share = their_numbers.count(number) / N_DRAWS
        assert our_numbers.count(number) / N_IMAGES == pytest.approx(
            share, abs=6 * np.sqrt(share / N_DRAWS) + 1e-9
        )
    assert max(our_numbers) == max(their_numbers)


def test_trivialaugment_spreads_over_ranges_that_are_wider_than_hbas() -> None:
    schedule = hba.import_policy("torchvision", "trivialaugment")
    widened = schedule.provenance["widened"]
    assert widened["Rotate"] == [0.0, 135.0]
    assert widened["Color"] == [0.01, 1.99]
    assert "TranslateX" not in widened
    magnitudes = draws_of(schedule, N_IMAGES)[0]["Rotate"]
    uniform = 135 * np.arange(31) / 30
    assert np.std(magnitudes) == pytest.approx(np.std(uniform), rel=0.02)


def test_epochs_are_the_same_row_and_the_fill_is_black() -> None:
    schedule = hba.import_policy("torchvision", "randaugment", epochs=3)
    assert schedule.epochs == 3
    assert (schedule.values == schedule.values[0]).all()
    assert schedule.fill == (0, 0, 0)
    assert hba.import_policy("torchvision", "randaugment", fill=(0.5,)).fill == (0.5,)


def test_arguments_that_do_not_fit_are_refused() -> None:
    for arguments, options, named in (
        (("torchvison", "randaugment"), {}, "torchvision"),
        (("torchvision", "augmix"), {}, "augmix"),
        (("torchvision", "randaugment"), {"epochs": 0}, "epochs"),
        (("torchvision", "randaugment"), {"name": "A"}, "name"),
        (("pba", "log.txt"), {}, "epochs"),
    ):
        with pytest.raises((ScheduleError, SettingsError), match=named):
            hba.import_policy(*arguments, **options)
