"""What can be tuned by name, and the table of it in the documentation."""

import numpy as np
import pytest
import torch
from documents import text_of
from random_inputs import seeded
from torch import Tensor, nn

import hba
from hba.errors import SettingsError
from hba.models import build_model
from hba.regularization import groups
from hba.regularization.groups import (
    REGULARIZERS,
    Regularization,
    dropouts,
    hyperparameters_of,
    input_dropout,
    tasks_of,
    tunable,
    tunable_in,
)
from hba.regularization.regularizer import Hyperparameter, Regularizer
from hba.tasks import IMAGE_TASKS


def test_the_documentation_has_all_regularizers_of_images() -> None:
    text = text_of("docs/regularization.md")
    for regularizer in REGULARIZERS.values():
        if not IMAGE_TASKS.keys().isdisjoint(tasks_of(regularizer)):
            assert f"`{regularizer.tuned_as}`" in text
            for number in regularizer.hyperparameters:
                row = f"`{number.name}` | {number.low:g} to {number.high:g}"
                assert row in text


def test_every_dropout_of_a_network_has_a_rate_that_begins_at_its_own() -> None:
    network = build_model("wrn-16-2", 10, seed=0)
    names = list(dropouts(network))
    assert len(names) == 6
    dropouts(network)[names[0]].p = 0.3  # type: ignore[assignment]
    hyperparameters = hyperparameters_of(["dropout"], lambda: network, 0.0)
    assert [hyperparameter.name for hyperparameter in hyperparameters] == [
        f"dropout.{name}" for name in names
    ]
    assert [hyperparameter.initial for hyperparameter in hyperparameters] == [0.3] + [
        0.05
    ] * 5


@pytest.mark.usefixtures("registered")
def test_whole_numbers_are_rounded_before_they_act() -> None:
    seen: list[Tensor] = []

    def noted(logits: Tensor, labels: Tensor, *, value: Tensor) -> Tensor:
        seen.append(value)
        return value

    whole = Hyperparameter("counted", 0.0, 4.0, 1.0, whole=True)
    hba.register_regularizer(Regularizer("counted", (whole,), "loss", noted))
    Regularization((whole,), 0).penalty(
        torch.zeros(2, 3), torch.zeros(2), torch.tensor([[0.4], [2.6]])
    )
    assert seen[0].tolist() == [0, 3]


def nothing(logits: Tensor, labels: Tensor, *, value: Tensor) -> Tensor:
    return value


MINE = Hyperparameter("mine", 0.0, 1.0, 0.5)


@pytest.mark.usefixtures("registered")
def test_one_of_ones_own_can_be_tuned_by_name() -> None:
    assert "mine" not in tunable()
    hba.register_regularizer(Regularizer("mine", (MINE,), "loss", nothing))
    assert tunable()[-1] == "mine"
    assert hyperparameters_of(["mine"], nn.Module, 0.0) == (MINE,)
    with pytest.raises(SettingsError, match="unknown group 'min'; did you mean mine"):
        groups.check_tune(["min"])


@pytest.mark.usefixtures("registered")
def test_a_regularizer_is_only_for_the_tasks_that_it_names() -> None:
    hba.register_regularizer(
        Regularizer("mine", (MINE,), "loss", nothing, ("language",))
    )
    assert "mine" not in tunable()
    assert "mine" in tunable_in(["language"])
    with pytest.raises(SettingsError, match=r"classification, .*, language"):
        hba.register_regularizer(
            Regularizer("mine", (MINE,), "loss", nothing, ("lan",))
        )


def test_dropout_of_the_input_keeps_the_mean_and_has_the_variance_of_its_rate() -> None:
    n = 100_000
    rates = (0.1, 0.4, 0.75)
    values = (-1.5, 0.2, 3.0)
    images = torch.tensor(values)[:, None, None, None].expand(-1, 2, 500, n // 1000)
    result = (
        input_dropout(images, seeded(0), rate=torch.tensor(rates))
        .double()
        .flatten(1)
        .numpy()
    )
    for image, value, rate in zip(result, values, rates, strict=True):
        deviation = abs(value) * (rate / (1 - rate)) ** 0.5
        np.testing.assert_allclose(image.mean(), value, atol=5 * deviation / n**0.5)
        np.testing.assert_allclose((image == 0).mean(), rate, atol=0.01)
        np.testing.assert_allclose(image[image != 0], value / (1 - rate), rtol=1e-6)


def test_rate_0_leaves_every_bit_and_others_change_by_the_generator_alone() -> None:
    images = torch.rand(4, 5, 11, 9, generator=seeded(9))
    rate = torch.tensor([0.0, 0.4, 0.0, 0.4])
    before = images.clone()
    state = torch.get_rng_state()
    result = input_dropout(images, seeded(1), rate=rate)
    assert (result != images).flatten(1).any(dim=1).tolist() == [
        False,
        True,
        False,
        True,
    ]
    assert torch.equal(input_dropout(images, seeded(1), rate=rate), result)
    assert not torch.equal(input_dropout(images, seeded(6), rate=rate), result)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(images, before)


@pytest.mark.gpu
def test_on_a_gpu_dropout_of_the_input_never_waits_for_the_host() -> None:
    images = torch.rand(6, 3, 9, 9).cuda()
    rate = torch.full((6,), 0.4).cuda()
    generator = torch.Generator("cuda")
    input_dropout(images, generator, rate=rate)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        input_dropout(images, generator, rate=rate)
    finally:
        torch.cuda.set_sync_debug_mode("default")
