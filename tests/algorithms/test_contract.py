"""What every algorithm must do. A new one is tested by being listed; each is searched
with once for all tests.
"""

import functools
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from opened_images import record_images
from PIL import Image
from random_inputs import seeded
from search_problems import (
    SMALL_SETTINGS,
    StopAfter,
    small_data,
    small_images,
    small_settings,
)
from search_steps import assert_same
from sklearn.metrics import average_precision_score
from torch import nn

import hba
from hba.algorithms import ALGORITHMS, Algorithm, SearchProblem, SearchState
from hba.algorithms.rewards import rewards_of
from hba.algorithms.scores import AugmentedBatch
from hba.algorithms.state import NetworkModel, Networks
from hba.data import LabelledImages, SearchData
from hba.errors import DivergedError, SettingsError

COUNTED = ("lookahead", "joint", "race")
"""They search K too."""
every = pytest.mark.parametrize("algorithm", ALGORITHMS)


def run(
    algorithm: str, data: SearchData | None = None, **settings: Any
) -> hba.SearchResult:
    return hba.search(
        data or small_data(), **small_settings(algorithm=algorithm, **settings)
    )


whole = functools.cache(run)


def values_of(result: hba.SearchResult) -> np.ndarray:
    assert result.schedule is not None
    return result.schedule.values


@every
def test_the_schedule_is_valid_survives_its_file_and_ends_at_lambda(
    algorithm: str, tmp_path: Path
) -> None:
    result = whole(algorithm)
    assert result.finished
    assert result.schedule is not None
    values = result.schedule.values
    space = result.schedule.space
    assert values.shape == (3 if algorithm != "race" else len(values), space.n)
    assert space.searches_count == (algorithm in COUNTED)
    low, high = np.sort(space.ranges).T
    assert ((values >= low) & (values <= high)).all()
    assert np.allclose(values[-1], space.decode(result.lam.double()), atol=1e-6)
    assert not np.allclose(values[-1], space.decode(space.initial().double())), (
        "the policy moves"
    )
    result.schedule.save(tmp_path / "policy.json")
    loaded = hba.load_policy(tmp_path / "policy.json")
    assert np.array_equal(loaded.values, values)
    assert (
        loaded.provenance["algorithm"]
        == loaded.provenance["settings"]["algorithm"]
        == algorithm
    )


@every
def test_the_network_of_the_result_is_an_ordinary_one_and_measures_as_reported(
    algorithm: str,
) -> None:
    result = whole(algorithm)
    data = small_data()
    val = small_images(16, seed=1)
    assert all(
        type(module).__module__.startswith(("torch.", "hba.models"))
        for module in result.network.modules()
    )
    mean, std = (
        torch.tensor(color)[:, None, None] for color in data.train.mean_and_std()
    )
    with torch.no_grad():
        logits = result.network.eval()((val.images / 255 - mean) / std)
    last = result.metrics[-1]
    assert nn.functional.cross_entropy(logits, val.labels).item() == pytest.approx(
        last["val_loss"], rel=1e-4
    )
    wrong = (logits.argmax(1) != val.labels).double().mean().item()
    assert 100 * wrong == pytest.approx(last["val_error_percent"])


@every
def test_settings_that_it_does_not_read_are_refused_and_not_noted_as_used(
    algorithm: str,
) -> None:
    other_settings: dict[str, Any] = {
        "weight_sigma": 0.5,
        "population_size": 4,
        "sharing": "bn",
        "val_steps": 2,
        "lambda_learning_rate": 0.5,
    }
    idle = [
        name
        for name in other_settings
        if name not in ALGORITHMS[algorithm].model_fields
    ]
    assert idle
    for name in idle:
        with pytest.raises(SettingsError, match=f"^{name} .*{algorithm}"):
            run(algorithm, **{name: other_settings[name]})
    assert not whole(algorithm).schedule.provenance["settings"].keys() & set(idle)  # type: ignore[union-attr]


def test_files_of_the_test_split_are_never_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = {
        "train": small_images(24, seed=0),
        "val": small_images(16, seed=1),
        "test": small_images(8, seed=2),
    }
    for split, labelled in images.items():
        for number, (image, label) in enumerate(
            zip(labelled.images, labelled.labels.tolist(), strict=True)
        ):
            path = tmp_path / split / str(label) / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image.permute(1, 2, 0).numpy()).save(path)
    opened = record_images(monkeypatch)
    assert hba.search(tmp_path, **small_settings(image_size=8)).finished
    assert {path.parts[-3] for path in opened} == {"train", "val"}


def test_your_own_network_is_trained_in_a_copy() -> None:
    network = nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(3 * 64, 2))
    before = [parameter.clone() for parameter in network.parameters()]
    result = run("population", network=network, learning_rate=0.001)
    assert all(
        torch.equal(a, b) for a, b in zip(before, network.parameters(), strict=True)
    )
    assert any(
        not torch.equal(a, b)
        for a, b in zip(before, result.network.parameters(), strict=True)
    )


def test_a_loss_that_is_not_finite_ends_it() -> None:
    with pytest.raises(DivergedError, match="learning rate below"):
        run("hba", learning_rate=1e30)


class Drifting(Algorithm[SearchState[NetworkModel], SearchProblem]):
    """Lambda goes at random."""

    name: ClassVar[str] = "drifting"

    strength: float = 0.1
    """How far it goes."""

    def begin(
        self, problem: SearchProblem, networks: Networks
    ) -> SearchState[NetworkModel]:
        return SearchState.of(
            problem, self.start(problem), NetworkModel.of(problem, networks(0))
        )

    def step(self, problem: SearchProblem, state: SearchState[NetworkModel]) -> None:
        images, labels = state.train_stream.next()
        inputs = problem.augment(
            images, state.lam.expand(len(images), -1), state.generator
        )
        state.totals.add_training(*state.learner.learn(inputs, labels))
        state.learner.schedule.step()
        state.step += 1
        if state.step % self.train_steps == 0:
            state.lam += self.strength * torch.randn(
                state.lam.shape, generator=state.generator
            )


def test_an_algorithm_of_ones_own_is_given_as_an_object_or_a_class_and_resumed(
    tmp_path: Path,
) -> None:
    settings: dict[str, Any] = {
        name: SMALL_SETTINGS[name]
        for name in ("model", "epochs", "batch_size", "device")
    }
    flat: dict[str, Any] = {"train_steps": 2, "strength": -0.5}
    own_algorithm = Drifting(**flat)
    whole = hba.search(small_data(), algorithm=own_algorithm, **settings)
    assert (values_of(whole)[0] != values_of(whole)[-1]).any()
    hba.search(
        small_data(),
        out=tmp_path,
        algorithm=Drifting,
        callback=StopAfter(4),
        **flat,
        **settings,
    )
    resumed = hba.search(small_data(), out=tmp_path, resume=True, algorithm=Drifting)
    assert resumed.finished
    assert torch.equal(resumed.lam, whole.lam)
    assert_same(resumed.network.state_dict(), whole.network.state_dict())


@pytest.mark.gpu
@every
def test_it_runs_on_a_gpu_and_goes_on_there(algorithm: str, tmp_path: Path) -> None:
    on_gpu = run(algorithm, device="cuda")
    assert on_gpu.lam.device.type == "cuda"
    assert np.isfinite(values_of(on_gpu)).all()
    run(algorithm, out=tmp_path, device="cuda", callback=StopAfter(4))
    resumed = run(algorithm, out=tmp_path, device="cuda", resume=True)
    # Sums on a GPU have no fixed order, and look-ahead takes differences of losses.
    assert np.allclose(values_of(resumed), values_of(on_gpu), rtol=1e-2)


NAMES = ("left", "right", "both")


def two_sides(n_images: int, seed: int) -> LabelledImages:
    """Small images of one label, and a second that every third has."""
    images = small_images(n_images, seed)
    labels = torch.zeros(n_images, 3, dtype=torch.bool)
    labels[torch.arange(n_images), images.labels] = True
    labels[::3, 2] = True
    labels[::5] = False
    return LabelledImages(images.images, labels)


def several_labels() -> SearchData:
    return SearchData("several", NAMES, two_sides(40, seed=0), two_sides(16, seed=1))


@pytest.mark.parametrize("algorithm", ["hba", "joint", "lookahead", "population"])
def test_every_algorithm_searches_and_measures_as_scikit_learn_does(
    algorithm: str,
) -> None:
    data = several_labels()
    settings = small_settings(algorithm=algorithm)
    result = hba.search(data, **settings)
    assert result.schedule is not None
    assert (result.schedule.values[0] != result.schedule.values[-1]).any()
    assert "mean average precision" in result.schedule.provenance["error"]
    val = two_sides(16, seed=1)
    mean, std = (
        torch.tensor(colour)[:, None, None] for colour in data.train.mean_and_std()
    )
    with torch.no_grad():
        logits = result.network.eval()((val.images / 255 - mean) / std)
    precision = average_precision_score(
        val.labels.numpy(), logits.numpy(), average="macro"
    )
    assert result.metrics[-1]["val_error_percent"] == pytest.approx(
        100 * (1 - precision), abs=1e-3
    )
    expected = nn.functional.binary_cross_entropy_with_logits(
        logits, val.labels.float()
    )
    assert result.metrics[-1]["val_loss"] == pytest.approx(expected.item(), rel=1e-4)


@pytest.mark.parametrize("draws", [1, 3])
def test_a_reward_on_a_linear_network_has_its_closed_form(draws: int) -> None:
    """The gradient of the loss of an image x is (sigma(z) - y) / classes times x."""
    generator = seeded(0)
    network = nn.Sequential(nn.Flatten(), nn.Linear(12, 4)).double()
    images = torch.randn(6, 3, 2, 2, generator=generator, dtype=torch.double)
    labels = torch.rand(6, 4, generator=generator) < 0.4
    direction = {
        name: torch.randn_like(weight) for name, weight in network.named_parameters()
    }
    nothing: Any = None
    trial = AugmentedBatch(images, labels, nothing, nothing, nothing, 1.0, draws)
    with torch.no_grad():
        residual = (network(images).sigmoid() - labels.double()) / 4
    along = images.flatten(1) @ direction["1.weight"].T + direction["1.bias"]
    torch.testing.assert_close(
        rewards_of(network, trial, direction), (residual * along).sum(dim=1)
    )
