"""What can be tuned by name, and the table of it in the documentation."""

import re

import pytest
import torch
from documents import text_of
from each import each
from torch import Tensor, nn

import hba
from hba.errors import SettingsError
from hba.models import build_model
from hba.regularization import groups
from hba.regularization.groups import REGULARIZERS, hyperparameters_of, table, tunable
from hba.regularization.in_training import dropouts
from hba.regularization.regularization import Regularization
from hba.regularization.regularizer import Hyperparameter, Regularizer

GENERATOR = torch.Generator()


def test_the_table_in_the_documentation_is_the_generated_one() -> None:
    found = re.search(
        "<!-- regularizers: begin -->\n(.*)\n<!-- regularizers: end -->", text_of("docs/regularization.md"), re.DOTALL
    )
    assert found is not None
    assert found[1] == table()
    assert all(f"`{name}`" in found[1] for name in tunable() if name != "augmentation")


def test_every_dropout_of_a_network_has_a_rate_that_begins_at_its_own() -> None:
    network = build_model("wrn-16-2", 10, seed=0)
    names = list(dropouts(network))
    assert len(names) == 6
    dropouts(network)[names[0]].p = 0.3  # type: ignore[assignment]
    found = hyperparameters_of(["dropout"], lambda: network, 0.0)
    assert [one.name for one in found] == [f"dropout.{name}" for name in names]
    assert [one.initial for one in found] == [0.3] + [0.05] * 5


@each(("image_size", "length"), [(32, (0, 24, 4)), (8, (0, 6, 1)), (224, (0, 168, 28))])
def test_ranges_in_pixels_go_with_the_size_of_the_images(image_size: int, length: tuple[int, int, int]) -> None:
    of_length, of_holes = hyperparameters_of(["cutout"], nn.Module, 0.0, image_size)
    assert (of_length.low, of_length.high, of_length.initial) == length
    assert (of_holes.low, of_holes.high, of_holes.initial) == (0, 4, 1)


@each("name", [name for name, one in REGULARIZERS.items() if one.place in ("pixels", "inputs")])
def test_each_regularizer_of_images_acts_by_the_values_of_each_image(name: str) -> None:
    """Image 0 has zeros and stays; image 1 has the ends of the ranges and does not."""
    hyperparameters = REGULARIZERS[name].hyperparameters
    acts = Regularization(hyperparameters, first=2)
    images = torch.rand(2, 3, 32, 32, generator=GENERATOR.manual_seed(0))
    values = torch.zeros(2, 2 + len(hyperparameters))
    values[1, 2:] = torch.tensor([one.high for one in hyperparameters])
    pixels = acts.on_pixels(images, values, GENERATOR, torch.full((3,), 0.5))
    found = acts.on_inputs(pixels, values, GENERATOR)
    assert torch.equal(found[0], images[0])
    assert not torch.equal(found[1], images[1])
    assert acts.image_columns == tuple(range(2, 2 + len(hyperparameters)))


@each(
    "one",
    [
        Hyperparameter("dropout.fc", 0.0, 3.0, 0.5),
        Hyperparameter("weight_decay", -1.0, 1.0, 0.5),
        Hyperparameter("label_smoothing", 0.0, 1.5, 0.5),
        Hyperparameter("cutout.holes", 0, 10**6, 1),
    ],
)
def test_ranges_that_mean_nothing_are_refused(one: Hyperparameter) -> None:
    with pytest.raises(SettingsError, match=f"the range of {one.name} must lie in "):
        groups.check_range(one)


@pytest.mark.usefixtures("registered")
def test_whole_numbers_are_rounded_before_they_act() -> None:
    seen: list[Tensor] = []

    def noted(logits: Tensor, labels: Tensor, *, value: Tensor) -> Tensor:
        seen.append(value)
        return value

    whole = Hyperparameter("counted", 0.0, 4.0, 1.0, whole=True)
    hba.register_regularizer(Regularizer("counted", (whole,), "loss", noted))
    Regularization((whole,), 0).penalty(torch.zeros(2, 3), torch.zeros(2), torch.tensor([[0.4], [2.6]]))
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
