"""Probes: what they predict, measure and leave alone."""

import copy
import csv
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from search_problems import SMALL_SETTINGS, StopAfter, WithDropout, small_data, small_images
from search_steps import algorithm_of, assert_same, begun, respond_at_random, space_of, step
from torch import Tensor
from torch.optim import SGD

import hba
from hba.algorithms import Lookahead
from hba.algorithms.gradient_stats import PROBE_STEPS, GradientStats
from hba.algorithms.lambda_steps import LambdaSteps
from hba.algorithms.task import ImageTask
from hba.data import LabelledImages, SearchData
from hba.policy_search import cost, trainer
from hba.policy_search.probes import (
    PROBED,
    _validation_loss,
    is_probe_epoch,
    loss_after_training,
    probe,
    probes_of,
)
from hba.utils.snapshot import snapshot

ALGORITHMS = ["hba", "fixed-noise", "lookahead", "hba-lookahead"]
"""Those that can be probed."""


@pytest.fixture(autouse=True)
def probes_may_cost_what_they_like(monkeypatch: pytest.MonkeyPatch) -> None:
    """A probe of ten steps is longer than the searches here."""
    monkeypatch.setattr(cost, "LARGEST_SHARE", 1000.0)


def run(algorithm: str, out: Path | None = None, **settings: Any) -> hba.SearchResult:
    return hba.search(small_data(), out=out, **{**SMALL_SETTINGS, "algorithm": algorithm, **settings})


def without_time(metrics: Mapping[str, float | None]) -> dict[str, float | None]:
    return {name: value for name, value in metrics.items() if name != "seconds"}


def search_begun(algorithm: str = "hba", **settings: Any) -> tuple[ImageTask, Any]:
    """Not calibrated: the small images are told apart so well that the calibrated loss is zero."""
    task, state = begun(algorithm=algorithm, **{"calibrate": False, **settings})
    if algorithm != "lookahead":
        respond_at_random(state.learner.hypernetwork, 0.1)
    return task, state


def test_what_is_predicted_is_the_mean_gradient_times_the_move() -> None:
    generator = np.random.default_rng(0)
    gradients, start, end = generator.normal(1, 2, (7, 5)), generator.normal(size=5), generator.normal(size=5)
    moves = GradientStats.since(torch.tensor(start))
    for gradient in gradients:
        moves.add(torch.tensor(gradient))
    assert moves.predicted_change(torch.tensor(end)).item() == pytest.approx(gradients.mean(0) @ (end - start))
    variance = gradients.var(0, ddof=1).sum()
    expected = ((gradients.mean(0) ** 2).sum() - variance / 7) / variance
    assert moves.signal_to_noise().item() == pytest.approx(expected)


@pytest.mark.parametrize("true", [0.0, 0.05, 1.0])
def test_signal_to_noise_finds_the_planted_one(true: float) -> None:
    n, count, scale = 20, 12, 3.0
    generator = np.random.default_rng(1)
    mean = np.full(n, scale * math.sqrt(true))
    found = []
    for _ in range(600):
        moves = GradientStats.since(torch.zeros(n).double())
        for gradient in mean + scale * generator.normal(size=(count, n)):
            moves.add(torch.tensor(gradient))
        found.append(moves.signal_to_noise().item())
    # Mean and variance of normal numbers are independent; one over the latter is too large by freedom / (freedom - 2).
    freedom = (count - 1) * n
    expected = (true + 1 / count) * freedom / (freedom - 2) - 1 / count
    error = float(np.std(found, ddof=1)) / math.sqrt(len(found))
    assert abs(float(np.mean(found)) - expected) < 4 * error
    assert error < 0.02


def test_probes_are_evenly_spread_and_the_last_is_at_the_end() -> None:
    for epochs in range(1, 41):
        for probes in range(61):
            found = [epoch for epoch in range(1, epochs + 1) if is_probe_epoch(epoch, epochs, probes)]
            assert len(found) == min(probes, epochs)
            if found:
                assert found[-1] == epochs
                gaps = np.diff([0, *found])
                assert gaps.max() - gaps.min() <= 1


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_probe_reports_on_the_gradients_that_lambda_got(algorithm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    task, state = search_begun(algorithm, train_steps=1, warm_up_epochs=0)
    gradients: list[Tensor] = []
    add = GradientStats.add

    def record(self: GradientStats, gradient: Tensor) -> None:
        gradients.append(gradient.clone())
        add(self, gradient)

    monkeypatch.setattr(GradientStats, "add", record)
    start = state.lam.detach().clone()
    step(task, state, 6)
    with torch.no_grad():
        state.lam[:3] = torch.tensor([-4.5, 4.1, 9.0])
        state.lam[3:] = state.lam[3:].clamp(-3.9, 3.9)
    found = probe(algorithm_of(task), task, state, epoch=2)
    recorded = torch.stack(gradients).double().numpy()
    assert len(recorded) == 6
    moved = (state.lam.detach() - start).double().numpy()
    assert found["predicted_change"] == pytest.approx(recorded.mean(0) @ moved, rel=1e-3)
    variance = recorded.var(0, ddof=1).sum()
    expected = ((recorded.mean(0) ** 2).sum() - variance / 6) / variance
    assert found["signal_to_noise"] == pytest.approx(expected, rel=1e-2, abs=1e-3)
    assert found["saturated_percent"] == pytest.approx(100 * 3 / 54)
    before, after = (
        loss_after_training(algorithm_of(task), task, state, lam, 2) for lam in (start, state.lam.detach())
    )
    assert found["realized_change"] == pytest.approx(after - before)
    assert found["realized_change"] != 0
    assert tuple(sorted(found)) == tuple(sorted(PROBED))


def test_without_lambda_steps_a_probe_knows_nothing_of_moves() -> None:
    task, state = search_begun(val_steps=0)
    step(task, state, 3)
    found = probe(algorithm_of(task), task, state, epoch=1)
    assert found == {**dict.fromkeys(PROBED), "saturated_percent": 0.0}
    result = run("hba", val_steps=0, probes=2)
    assert result.schedule is not None
    assert result.schedule.provenance["probes"] == []


def test_after_one_lambda_step_noise_is_not_known() -> None:
    task, state = search_begun()
    step(task, state, 2)
    found = probe(algorithm_of(task), task, state, epoch=1)
    assert found["signal_to_noise"] is None
    assert found["predicted_change"] is not None
    assert found["predicted_change"] < 0, "one step of Adam goes downhill"


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_short_trainings_at_the_same_lambda_end_alike_and_leave_the_search(algorithm: str) -> None:
    task, state = search_begun(algorithm)
    step(task, state, 4)
    before, random = copy.deepcopy(snapshot(state)), torch.get_rng_state()
    of_search, lam = (algorithm_of(task), task, state), state.lam.detach()
    first, other, again = (loss_after_training(*of_search, at, epoch=3) for at in (lam, lam + 2, lam.clone()))
    assert first == again != other
    assert loss_after_training(*of_search, lam, epoch=4) != first
    assert_same(snapshot(state), before)
    assert torch.equal(torch.get_rng_state(), random)


def test_two_lambdas_are_tried_on_the_same_ten_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    task, state = search_begun()
    step(task, state, 4)
    seen: list[tuple[Tensor, Tensor]] = []
    augment = ImageTask.augment

    def record(self: ImageTask, images: Tensor, lam: Tensor, generator: torch.Generator) -> Tensor:
        seen.append((images.clone(), lam.clone()))
        return augment(self, images, lam, generator)

    monkeypatch.setattr(ImageTask, "augment", record)
    probe(algorithm_of(task), task, state, epoch=1)
    assert len(seen) == 2 * PROBE_STEPS == 20
    for (images, lam), (same, other) in zip(seen[:10], seen[10:], strict=True):
        assert torch.equal(images, same)
        assert torch.equal(lam, state.mover.moves.start.expand(8, -1))
        assert torch.equal(other, state.lam.detach().expand(8, -1))
    # Three batches are a pass over all 24 images.
    assert len(torch.cat([images for images, _ in seen[:3]]).unique(dim=0)) == 24
    assert not torch.equal(seen[0][0], seen[3][0])


@pytest.mark.parametrize(("n_steps", "share"), [(0, 1.0), (6, 0.5), (12, 0.1)])
def test_late_in_a_search_a_probe_still_learns(n_steps: int, share: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the rate of now, which falls to zero by a cosine, but at a tenth of the first rate at least."""
    task, state = search_begun(epochs=4, learning_rate=0.02, learning_rate_schedule="cosine")
    step(task, state, n_steps)
    rates: list[float] = []

    def record(*arguments: Any, **settings: Any) -> Any:
        rates.append(arguments[1])
        return SGD(*arguments, **settings)

    monkeypatch.setattr(torch.optim, "SGD", record)
    lam = state.lam.detach()
    losses = [loss_after_training(algorithm_of(task), task, state, at, epoch=4) for at in (lam, lam + 2)]
    assert rates == pytest.approx([share * 0.02] * 2)
    assert losses[0] != losses[1]


@pytest.mark.parametrize("optimizer", ["sgd", "sgd-classical"])
def test_a_probe_trains_by_the_momentum_of_the_search(optimizer: str, monkeypatch: pytest.MonkeyPatch) -> None:
    task, state = search_begun(optimizer=optimizer)
    made: list[SGD] = []

    def record(*arguments: Any, **settings: Any) -> SGD:
        made.append(SGD(*arguments, **settings))
        return made[-1]

    monkeypatch.setattr(torch.optim, "SGD", record)
    loss_after_training(algorithm_of(task), task, state, state.lam.detach(), epoch=1)
    (group,), (own, *_) = made[0].param_groups, state.learner.optimizer.param_groups
    assert (group["momentum"], group["nesterov"]) == (own["momentum"], own["nesterov"]) == (0.9, optimizer == "sgd")


def test_a_calibrated_search_is_probed_by_the_calibrated_loss() -> None:
    task, state = begun(algorithm="lookahead", calibrate=True)
    step(task, state, 2)
    network, val = state.learner.network.eval(), small_data().val
    calibrated, uncalibrated = (
        _validation_loss(one, task, network) for one in (algorithm_of(task), Lookahead(calibrate=False))
    )
    images, labels = next(val.once(len(val)))
    with torch.no_grad():
        logits = network(task.preprocessing.measure(images / 255)).double()
    scale = torch.logspace(-2, 1, 3001, dtype=torch.float64)
    least = min(F.cross_entropy(logits * one, labels).item() for one in scale)
    assert uncalibrated == pytest.approx(F.cross_entropy(logits, labels).item(), rel=1e-5)
    assert calibrated == pytest.approx(least, rel=1e-2, abs=1e-6)
    assert calibrated < uncalibrated


def inverted_validation() -> SearchData:
    data, val = small_data(), small_images(16, seed=1)
    return SearchData(data.name, data.class_names, data.train, LabelledImages(255 - val.images, val.labels))


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize(("data", "sign"), [(inverted_validation(), -1), (small_data(), 1)])
def test_moves_towards_what_validation_images_are_like_lower_the_loss(
    algorithm: str, data: SearchData, sign: int
) -> None:
    """Lambda went from never inverting to always: right where validation images are inverted, and else wrong."""
    space = space_of("Invert", count_probabilities=(0.0, 1.0))
    task, state = begun(space, data, algorithm=algorithm, learning_rate=0.05, sigma=0.01, calibrate=False)
    step(task, state, 10)
    with torch.no_grad():
        state.mover.moves.start.fill_(-20.0)
        state.lam.fill_(20.0)
    if algorithm != "lookahead":
        with torch.no_grad():
            for parameter in state.learner.hypernetwork.response_parameters():
                parameter.zero_()
    found = probe(algorithm_of(task), task, state, epoch=1)
    assert found["realized_change"] is not None
    assert sign * found["realized_change"] > 0.1
    with torch.no_grad():
        state.mover.moves.start.fill_(20.0)
        state.lam.fill_(-20.0)
    back = probe(algorithm_of(task), task, state, epoch=1)
    assert back["realized_change"] == pytest.approx(-found["realized_change"], rel=1e-4)


def test_a_search_that_is_not_asked_to_makes_no_probe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(trainer, "probe")
    run("lookahead", tmp_path, epochs=5)
    with (tmp_path / "metrics.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 5
    assert all(row[name] == "" for row in rows for name in PROBED)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("own", [False, True])
def test_a_search_does_not_depend_on_its_probes(algorithm: str, own: bool) -> None:
    network = WithDropout() if own else None
    without, probed = (run(algorithm, probes=probes, network=network, learning_rate=0.005) for probes in (0, 3))
    assert without.schedule is not None
    assert probed.schedule is not None
    assert np.array_equal(without.schedule.values, probed.schedule.values)
    assert torch.equal(without.lam, probed.lam)
    assert_same(probed.network.state_dict(), without.network.state_dict())
    for row, other in zip(without.metrics, probed.metrics, strict=True):
        assert {**without_time(other), **dict.fromkeys(PROBED)} == without_time(row)
    assert without.schedule.provenance["probes"] == []


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_metrics_and_provenance_have_the_probes(algorithm: str, tmp_path: Path) -> None:
    result = run(algorithm, tmp_path, epochs=5, probes=2, warm_up_epochs=0)
    probed = [row for row in result.metrics if row["realized_change"] is not None]
    assert [row["epoch"] for row in probed] == [3, 5]
    assert all(row[name] is None for row in result.metrics if row not in probed for name in PROBED)
    assert result.schedule is not None
    loaded = hba.load_policy(tmp_path / "policy.json")
    for provenance in (result.schedule.provenance, loaded.provenance):
        assert len(provenance["probes"]) == 2
        for kept, row in zip(provenance["probes"], probed, strict=True):
            assert set(kept) == {"epoch", *PROBED}
            for name, value in kept.items():
                assert value == pytest.approx(row[name], rel=1e-5)
    with (tmp_path / "metrics.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows if row["realized_change"]] == ["3", "5"]


@pytest.mark.parametrize("algorithm", ["hyper-population", "population"])
def test_algorithms_without_lambda_steps_are_not_probed(algorithm: str) -> None:
    result = run(algorithm)
    assert result.schedule is not None
    assert result.schedule.provenance["probes"] == []
    assert all(row[name] is None for row in result.metrics for name in PROBED)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("n_steps", [9, *(pytest.param(n, marks=pytest.mark.slow) for n in (5, 10))])
def test_a_search_stopped_between_probes_goes_on_to_the_same_probes(
    algorithm: str, n_steps: int, tmp_path: Path
) -> None:
    """Probes come after 9 and 18 steps."""
    settings: dict[str, Any] = {"epochs": 6, "probes": 2, "warm_up_epochs": 0}
    whole = run(algorithm, **settings)
    run(algorithm, tmp_path, callback=StopAfter(n_steps), **settings)
    resumed = run(algorithm, tmp_path, resume=True, **settings)
    assert [without_time(row) for row in resumed.metrics] == [without_time(row) for row in whole.metrics]
    assert sum(row["realized_change"] is not None for row in resumed.metrics) == 2


def test_a_probe_counts_the_moves_since_the_one_before_it(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, Tensor, Tensor]] = []

    def record(algorithm: LambdaSteps, task: ImageTask, state: Any, epoch: int) -> dict[str, float | None]:
        moves = state.mover.moves
        seen.append((int(moves.count), moves.start.clone(), state.lam.detach().clone()))
        return probe(algorithm, task, state, epoch)

    monkeypatch.setattr(trainer, "probe", record)
    result = run("hba", epochs=4, probes=2, train_steps=1, initial_fraction=0.05)
    assert [count for count, _, _ in seen] == [6, 6]
    (_, start, middle), (_, again, end) = seen
    torch.testing.assert_close(start, torch.full((54,), math.log(0.05 / 0.95)))
    assert torch.equal(again, middle)
    assert torch.equal(end, result.lam)
    assert not torch.equal(middle, end)


def test_probes_are_kept_with_six_digits_and_without_what_json_has_no_word_for() -> None:
    row = {"epoch": 4, "train_loss": 1.0, "seconds": 2.0, **dict.fromkeys(PROBED)}
    probed = {
        **row,
        "predicted_change": -0.123456789,
        "realized_change": 1234567.89,
        "signal_to_noise": float("nan"),
        "saturated_percent": float("inf"),
    }
    assert probes_of([row, probed]) == [
        {
            "epoch": 4,
            "predicted_change": -0.123457,
            "realized_change": 1234570.0,
            "signal_to_noise": None,
            "saturated_percent": None,
        }
    ]
