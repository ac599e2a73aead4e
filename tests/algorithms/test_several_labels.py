"""Images of several labels in every algorithm: what they learn and are rewarded by, and who is refused."""

from typing import Any, ClassVar

import pytest
import torch
from each import each
from search_problems import SMALL_SETTINGS, small_images, small_settings
from sklearn.metrics import average_precision_score
from torch import nn

import hba
from hba.algorithms import ALGORITHMS, Algorithm
from hba.algorithms.lookahead import rewards_of
from hba.algorithms.scores import AugmentedBatch
from hba.data import LabelledImages, SearchData
from hba.errors import SettingsError

NAMES = ("left", "right", "both")


def two_sides(n: int, seed: int) -> LabelledImages:
    """Small images of one label, and a second that every third has."""
    images = small_images(n, seed)
    labels = torch.zeros(n, 3, dtype=torch.bool)
    labels[torch.arange(n), images.labels] = True
    labels[::3, 2] = True
    labels[::5] = False
    return LabelledImages(images.images, labels)


def several_labels() -> SearchData:
    return SearchData("several", NAMES, two_sides(40, seed=0), two_sides(16, seed=1))


@each("algorithm", ALGORITHMS)
def test_every_algorithm_searches_and_measures_as_scikit_learn_does(algorithm: str) -> None:
    data = several_labels()
    settings = small_settings(algorithm=algorithm)
    result = hba.search(data, **settings)
    assert result.schedule is not None
    assert (result.schedule.values[0] != result.schedule.values[-1]).any()
    assert "mean average precision" in result.schedule.provenance["error"]
    val = two_sides(16, seed=1)
    mean, std = (torch.tensor(colour)[:, None, None] for colour in (data.train.mean_color(), data.train.std_color()))
    with torch.no_grad():
        logits = result.network.eval()((val.images / 255 - mean) / std)
    precision = average_precision_score(val.labels.numpy(), logits.numpy(), average="macro")
    assert result.metrics[-1]["val_error_percent"] == pytest.approx(100 * (1 - precision), abs=1e-3)
    expected = nn.functional.binary_cross_entropy_with_logits(logits, val.labels.float())
    assert result.metrics[-1]["val_loss"] == pytest.approx(expected.item(), rel=1e-4)


@each("draws", [1, 3])
def test_a_reward_on_a_linear_network_has_its_closed_form(draws: int) -> None:
    """The gradient of the loss of an image x is (sigma(z) - y) / classes times x."""
    generator = torch.Generator().manual_seed(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(12, 4)).double()
    images = torch.randn(6, 3, 2, 2, generator=generator, dtype=torch.double)
    labels = torch.rand(6, 4, generator=generator) < 0.4
    direction = {name: torch.randn_like(weight) for name, weight in network.named_parameters()}
    nothing: Any = None
    trial = AugmentedBatch(images, labels, nothing, nothing, nothing, 1.0, draws)
    with torch.no_grad():
        residual = (network(images).sigmoid() - labels.double()) / 4
    along = images.flatten(1) @ direction["1.weight"].T + direction["1.bias"]
    torch.testing.assert_close(rewards_of(network, trial, direction), (residual * along).sum(dim=1))


class Idle(Algorithm):
    name: ClassVar[str] = "idle"

    def begin(self, task: Any, networks: Any) -> Any:
        raise AssertionError("it is refused before")

    def step(self, task: Any, state: Any) -> None:
        raise AssertionError("it is refused before")


def test_an_algorithm_that_does_not_say_so_is_refused_by_its_name() -> None:
    settings: dict[str, Any] = {
        name: value for name, value in SMALL_SETTINGS.items() if name in ("model", "epochs", "batch_size")
    }
    with pytest.raises(SettingsError, match=r"the algorithm idle learns one label of an image: .* or choose the algo"):
        hba.search(several_labels(), algorithm=Idle(), **settings)
