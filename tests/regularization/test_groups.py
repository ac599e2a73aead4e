"""What can be tuned by name, and the table of it in the documentation."""

import pytest
import torch
from documents import text_of
from torch import Tensor, nn

import hba
from hba.errors import SettingsError
from hba.models import build_model
from hba.regularization import groups
from hba.regularization.groups import REGULARIZERS, Regularization, dropouts, hyperparameters_of, tunable
from hba.regularization.regularizer import Hyperparameter, Regularizer


def test_the_documentation_has_all_regularizers_of_images() -> None:
    text = text_of("docs/regularization.md")
    for regularizer in REGULARIZERS.values():
        if regularizer.place != "states":
            assert f"`{regularizer.tuned_as}`" in text
            for one in regularizer.hyperparameters:
                assert f"`{one.name}` | {one.low:g} to {one.high:g}" in text


def test_every_dropout_of_a_network_has_a_rate_that_begins_at_its_own() -> None:
    network = build_model("wrn-16-2", 10, seed=0)
    names = list(dropouts(network))
    assert len(names) == 6
    dropouts(network)[names[0]].p = 0.3  # type: ignore[assignment]
    found = hyperparameters_of(["dropout"], lambda: network, 0.0)
    assert [one.name for one in found] == [f"dropout.{name}" for name in names]
    assert [one.initial for one in found] == [0.3] + [0.05] * 5


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
