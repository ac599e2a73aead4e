"""Contests of trainings of one's own: planted differences, none at all, time, resuming,
mistakes, and processes.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import t as student

import hba
from hba.errors import RunError, SettingsError
from hba.own_training import race
from hba.own_training.ledger import FIRST_TEST_SEED, Ledger
from hba.own_training.run import named_policies
from hba.schedule.recipes import RECIPES, recipe_of

N_EXAMPLES = 60
SECONDS = 90.0
"""Of a whole training by the simulated clock."""
NAMES = ("flip", "photo", "crop", "trivialaugment")


class Clock:
    """A clock that only trainings advance."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    simulated = Clock()
    monkeypatch.setattr("hba.own_training.run.monotonic", simulated)
    return simulated


class Simulated:
    """A training whose score depends on the policy, the example and luck.

    better: what policies add to the score. clock: advanced by each training. fails_at:
    the number of a training that is interrupted.
    """

    def __init__(
        self,
        clock: Clock,
        better: dict[str, float] | None = None,
        luck: int = 0,
        fails_at: int | None = None,
    ) -> None:
        self.clock = clock
        self.better = better or {}
        self.luck = luck
        self.fails_at = fails_at
        self.calls: list[tuple[str, int, float]] = []

    def __call__(self, transform: Any, seed: int, effort: float) -> list[float]:
        name = transform.schedule.provenance["recipe"]
        if len(self.calls) == self.fails_at:
            raise KeyboardInterrupt
        self.calls.append((name, seed, effort))
        self.clock.seconds += effort * SECONDS
        rng = np.random.default_rng(
            [self.luck, seed, round(9 * effort), *map(ord, name)]
        )
        examples = np.random.default_rng(self.luck).normal(size=N_EXAMPLES)
        shared = 0.02 * rng.normal()
        noise = 0.2 * rng.normal(size=N_EXAMPLES)
        scores: list[float] = (
            examples + shared + noise + self.better.get(name, 0.0)
        ).tolist()
        return scores


def held(train: Callable[..., Any], out: Path, **options: Any) -> hba.ContestResult:
    arguments = {"policies": NAMES, "budget_seconds": 20 * SECONDS, **options}
    return hba.contest(train, out=out, **arguments)


def test_a_planted_difference_is_found_and_shown(tmp_path: Path, clock: Clock) -> None:
    train = Simulated(clock, {"photo": 0.3})
    result = held(train, tmp_path)
    assert (result.chosen, result.kind) == ("photo", "better")
    assert clock.seconds <= 20 * SECONDS
    assert "photo" in str(result)
    of_test = [call for call in train.calls if call[1] >= FIRST_TEST_SEED]
    assert {name for name, _, _ in of_test} == {"photo", "none", "randaugment"}
    assert {effort for *_, effort in of_test} == {1.0}
    saved = hba.load_policy(tmp_path / "policy.json")
    assert saved.provenance["recipe"] == "photo"
    assert (tmp_path / "pipeline.py").exists()


@pytest.mark.slow
def test_policies_that_do_the_same_are_not_called_better(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At most in 2 of 100 contests."""
    for name in ("export", "write_report"):
        monkeypatch.setattr(f"hba.own_training.run.{name}", lambda *_, **__: None)
    n_better = 0
    for luck in range(200):
        train = Simulated(clock, luck=luck)
        result = held(train, tmp_path / str(luck), policies=NAMES[:2])
        n_better += result.kind == "better"
    assert n_better <= 4


def test_examples_that_choose_do_not_test() -> None:
    for n_examples in (2, 3, 60):
        chooses, tests = race.chooses(n_examples), race.tests(n_examples)
        assert not (chooses & tests).any()
        assert (chooses | tests).all()
        assert chooses.any()


def test_single_scores_are_compared_by_a_paired_t_test() -> None:
    scores = np.random.default_rng(0).normal(size=(5, 1))
    others = np.random.default_rng(1).normal(size=(5, 1))
    differences = (scores - others)[:, 0]
    error = differences.std(ddof=1) / 5**0.5
    expected = student.cdf(differences.mean() / error, df=4)
    compared = race.compared(scores, others)
    assert compared.probability is not None
    # The normal distribution, which is surer, does not count.
    assert compared.probability == pytest.approx(expected)


def test_rounds_halve_but_keep_two() -> None:
    assert race.sizes_of_rounds(9) == [9, 5, 3]
    assert race.sizes_of_rounds(3) == [3, 2, 2]
    assert race.sizes_of_rounds(2) == [2, 2, 2]


def test_an_interrupted_contest_goes_on_where_it_was(
    tmp_path: Path, clock: Clock
) -> None:
    whole = held(Simulated(clock, {"photo": 0.3}), tmp_path / "whole")
    calls = list[tuple[str, int, float]]()
    for fails_at in (4, 5, None):
        train = Simulated(clock, {"photo": 0.3}, fails_at=fails_at)
        options = {"resume": bool(calls)}
        if fails_at is None:
            resumed = held(train, tmp_path / "resumed", **options)
        else:
            with pytest.raises(KeyboardInterrupt):
                held(train, tmp_path / "resumed", **options)
        calls += train.calls
    assert len(set(calls)) == len(calls)
    ledgers = [Ledger.read(tmp_path / name) for name in ("whole", "resumed")]
    assert ledgers[0].trainings == ledgers[1].trainings
    assert resumed.sentence == whole.sentence
    with pytest.raises(RunError, match="exists"):
        held(Simulated(clock), tmp_path / "whole")
    with pytest.raises(SettingsError, match="keeps its policies"):
        held(Simulated(clock), tmp_path / "whole", resume=True, policies=["flip"])


def test_a_short_time_has_fewer_policies_and_a_shorter_one_is_refused(
    tmp_path: Path, clock: Clock
) -> None:
    train = Simulated(clock)
    held(train, tmp_path / "short", budget_seconds=10.6 * SECONDS)
    assert len({name for name, _, _ in train.calls}) < len(NAMES) + 2
    with pytest.raises(SettingsError, match="at least"):
        held(Simulated(clock), tmp_path / "shorter", budget_seconds=2 * SECONDS)
    # The training that told the time is kept.
    train = Simulated(clock)
    held(train, tmp_path / "shorter", resume=True)
    assert train.calls[0][0] != "none"


@pytest.mark.parametrize("fails_at", [8, 10, 12])
def test_an_interrupted_contest_of_little_time_chooses_the_same(
    tmp_path: Path, clock: Clock, fails_at: int
) -> None:
    results = []
    for name, interruption in (("whole", None), ("resumed", fails_at)):
        clock.seconds = 0.0
        better = {"trivialaugment": 0.3}
        train = Simulated(clock, better, fails_at=interruption)
        options: dict[str, Any] = {"budget_seconds": 11.5 * SECONDS}
        if interruption is not None:
            with pytest.raises(KeyboardInterrupt):
                held(train, tmp_path / name, **options)
            train = Simulated(clock, better)
            options["resume"] = True
        results.append(held(train, tmp_path / name, **options))
    assert results[0].chosen == results[1].chosen == "trivialaugment"


@pytest.mark.parametrize(
    "form", [torch.tensor, np.array, lambda scores: [*map(torch.tensor, scores)]]
)
def test_scores_may_be_tensors_and_arrays(
    tmp_path: Path, clock: Clock, form: Callable[..., Any]
) -> None:
    plain = Simulated(clock)
    result = held(lambda *arguments: form(plain(*arguments)), tmp_path)
    assert len(result.scores[result.chosen]) >= race.LEAST_SEEDS


WRONG: dict[str, Callable[..., Any]] = {
    "boom": lambda *_: 1 / 0,
    "finite": lambda *_: float("nan"),
    "return a number": lambda *_: "good",
    "ValueError": lambda *_: int("mine"),
    "same validation examples": lambda transform, *_: (
        [0.0] * len(transform.schedule.provenance["recipe"])
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_a_mistake_of_a_training_is_one_line(tmp_path: Path, message: str) -> None:
    expected = "ZeroDivisionError|division" if message == "boom" else message
    with pytest.raises(RunError, match=expected) as caught:
        held(WRONG[message], tmp_path)
    assert "\n" not in str(caught.value)


def test_a_mistake_names_its_place_and_the_training(tmp_path: Path) -> None:
    def mine(transform: Any, seed: int, effort: float) -> float:
        return [1.0][seed + 1]

    def third(transform: Any, seed: int, effort: float) -> list[float]:
        return [0.0, 0.0, float("nan"), 0.0]

    with pytest.raises(RunError, match="mine with policy none, seed 0") as caught:
        held(mine, tmp_path)
    assert f"({Path(__file__).name}, line " in str(caught.value)
    with pytest.raises(RunError, match="nan as number 2 of 4"):
        held(third, tmp_path)


def test_a_resumed_contest_keeps_its_time(tmp_path: Path, clock: Clock) -> None:
    held(Simulated(clock), tmp_path)
    before = Ledger.read(tmp_path)
    held(Simulated(clock), tmp_path, resume=True, budget_seconds=None)
    assert Ledger.read(tmp_path).budget_seconds == before.budget_seconds
    for folder, options in (("new", {}), ("empty", {"resume": True})):
        with pytest.raises((RunError, SettingsError), match="budget"):
            held(Simulated(clock), tmp_path / folder, budget_seconds=None, **options)


def test_no_seeds_are_added_to_a_test_that_has_ended(
    tmp_path: Path, clock: Clock
) -> None:
    result = held(Simulated(clock), tmp_path)
    with pytest.raises(SettingsError, match="another folder"):
        held(Simulated(clock), tmp_path, resume=True, budget_seconds=1000 * SECONDS)
    train = Simulated(clock)
    assert held(train, tmp_path, resume=True).scores == result.scores
    assert not train.calls


def test_default_policies_have_the_symmetries_that_are_declared() -> None:
    plain = named_policies(None, ())
    assert [*plain][:2] == ["none", "randaugment"]
    names = {"HorizontalFlip", "VerticalFlip", "QuarterTurn"}
    for policy in plain.values():
        last = dict(zip(policy.space.names, policy.values[-1], strict=True))
        assert not any(last.get(f"{name}.probability") for name in names)
    flipped = named_policies(None, ["horizontal flip"])
    for name, policy in [*flipped.items()][2:]:
        last = dict(zip(policy.space.names, policy.values[-1], strict=True))
        assert last["HorizontalFlip.probability"] == 0.5, name
    with pytest.raises(SettingsError, match="symmetry"):
        named_policies(None, ["mirror"])


def test_default_policies_have_the_symmetries_that_a_search_has_found(
    tmp_path: Path,
) -> None:
    searched = recipe_of(
        "found", {"VerticalFlip": (0.5, None), "BrightnessJitter": (0.5, 0.3)}
    )
    searched.save(tmp_path / "policy.json")
    measured = named_policies(None, [str(tmp_path)])
    assert [*measured][2] == "symmetries alone"
    for name, policy in [*measured.items()][2:]:
        last = dict(zip(policy.space.names, policy.values[-1], strict=True))
        assert last["VerticalFlip.probability"] == 0.5, name
        assert not last.get("HorizontalFlip.probability")
        assert "BrightnessJitter.probability" not in last
    RECIPES["crop"].make().save(tmp_path / "policy.json")
    with pytest.raises(SettingsError, match="no symmetries"):
        named_policies(None, [str(tmp_path)])


def test_policies_that_no_contest_can_have_are_refused() -> None:
    with pytest.raises(SettingsError, match="reference"):
        named_policies({"none": RECIPES["flip"].make()}, ())
    with pytest.raises(SettingsError, match="mixes"):
        named_policies({"mine": RECIPES["timm"].make()}, ())


def quick(transform: Any, seed: int, effort: float) -> list[float]:
    """A training that any process can import."""
    return Simulated(Clock(), {"photo": 0.3})(transform, seed, effort)


@pytest.mark.slow
def test_processes_make_the_same_trainings(tmp_path: Path) -> None:
    options = {"policies": ["photo"], "budget_seconds": 40.0}
    for jobs in (1, 2):
        held(quick, tmp_path / str(jobs), jobs=jobs, **options)
    scores = [
        {
            (training.policy, training.seed, training.effort): training.scores
            for training in Ledger.read(tmp_path / str(jobs)).trainings
        }
        for jobs in (1, 2)
    ]
    assert scores[0].keys() & scores[1].keys()
    for key in scores[0].keys() & scores[1].keys():
        assert scores[0][key] == scores[1][key]
