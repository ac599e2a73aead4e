"""The function hba.contest."""

import contextlib
import math
import sysconfig
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from hba.errors import HbaError, RunError, SettingsError
from hba.executors.executor import Executor, OnStep, Shared
from hba.executors.ray_executor import check_one_way, connected, executor_for
from hba.exports import export
from hba.own_training import race
from hba.own_training.ledger import (
    FIRST_TEST_SEED,
    LEDGER_NAME,
    REFERENCES,
    Ledger,
    Training,
)
from hba.own_training.result import ContestResult, result_of
from hba.results.report_hook import write_report
from hba.schedule.compose import joined, symmetries_of, with_symmetries
from hba.schedule.library import POLICY_NAME, load_policy
from hba.schedule.recipes import RECIPES, TURNS, recipe_of
from hba.schedule.schedule import Schedule
from hba.training.augmentation import ScheduleAugmentation
from hba.utils.files import run_lock
from hba.utils.processes import end_if_importing_main
from hba.utils.python_files import error_in_words
from hba.utils.text import counted, duration, unknown

Train = Callable[[Any, int, float], Any]
"""A function of a transform, a seed and an effort in (0, 1]; returns a score, or one
for each validation example. Higher is better.
"""
Policies = Mapping[str, Schedule | str | Path] | Sequence[str]
"""Policies by name, or names of recipes and of shipped schedules, or files."""
WITHOUT_SYMMETRIES = ("randaugment-light", "trivialaugment", "resized-crop", "crop")
"""Recipes that keep left and right, and up and down."""
SYMMETRIES = {
    "horizontal flip": "HorizontalFlip",
    "vertical flip": "VerticalFlip",
    "turns": "QuarterTurn",
}
"""By name, the operations of symmetries that a user can declare."""
PIPELINE_NAME = "pipeline.py"
"""The file of the chosen policy for trainings without hba."""
PACKAGE = Path(__file__).parents[1]
"""The folder of the code of hba."""
PLANNED_SHARE = 0.9
"""Share of the budget that the plan uses."""


def contest(
    train: Train,
    policies: Policies | None = None,
    *,
    symmetries: Sequence[str] = (),
    budget_seconds: float | None = None,
    out: str | Path,
    resume: bool = False,
    jobs: int = 1,
    cluster: str | None = None,
    mask_fill: float = 0,
    say: Callable[[str], None] = lambda line: None,
) -> ContestResult:
    """Choose the augmentation of a training of your own, and test it.

    Your function makes a whole training: of a detector, of a model of 3-D data, of
    anything. It gets a `hba.PolicyTransform`, which augments an image with its boxes,
    masks and keypoints, a seed, and an effort: the share of a whole training that it
    should take, such as of the epochs. It returns the score of each validation example,
    or a single one, such as the mean average precision; higher is better.

    Args:
        train: `train(transform, seed, effort)`. The seed decides weights, batches and,
            by torch.manual_seed, the draws of the transform. With several jobs, it must
            be picklable.
        policies: The policies to compare, by default recipes. None and RandAugment are
            always among them.
        symmetries: Moves after which an image is still one of its kind: `horizontal
            flip`, `vertical flip`, `turns`; or the folder or policy of a search, which
            has measured them. The default policies have them.
        budget_seconds: The time for everything. A resumed contest keeps its own by
            default.
        out: The folder for trainings.json, which is written after each training, and
            for policy.json and pipeline.py of the chosen policy and report.html.
        resume: Continue the contest in `out` with the same policies.
        jobs: Trainings at a time, each in its own process.
        cluster: The address of a Ray cluster, or `auto` for that of this machine.
        mask_fill: The value of pixels of masks that operations uncover.
        say: Takes lines about the progress.

    Raises:
        SettingsError: For what cannot work, and if the budget is too short.
        RunError: If your function fails.
    """
    end_if_importing_main()
    check_one_way(jobs, cluster)
    is_known = budget_seconds is None and resume
    if not (is_known or 0 < (budget_seconds or 0) < math.inf):
        raise SettingsError(
            "the budget must be a time above 0, such as 4h or budget_seconds=14400, got"
            f" {budget_seconds!r}"
        )
    folder = Path(out)
    named = named_policies(policies, symmetries)
    with run_lock(folder), connected(cluster) as machines:
        run = _Run(
            folder,
            _begun(folder, named, budget_seconds, resume=resume),
            named,
            executor_for("auto", jobs, machines),
            Shared((train, mask_fill)),
            say,
        )
        run.choose()
        result = run.test()
    result.policy.save(folder / POLICY_NAME)
    try:
        path = folder / PIPELINE_NAME
        export(result.policy, "torchvision", path, mask_fill=mask_fill)
    except SettingsError as error:
        # An operation of the user's own has no file for other libraries.
        say(f"No {PIPELINE_NAME}: {error}")
    write_report(folder)
    return result


def named_policies(
    policies: Policies | None, symmetries: Sequence[str]
) -> dict[str, Schedule]:
    """The policies of a contest by name, the references first.

    Raises:
        SettingsError: For an unknown symmetry, and for symmetries next to policies.
    """
    if policies is not None:
        if symmetries:
            raise SettingsError("symmetries are for the default policies; omit them")
        items = policies if isinstance(policies, Mapping) else dict.fromkeys(policies)
        given = {
            str(name): policy
            if isinstance(policy, Schedule)
            else load_policy(name if policy is None else policy)
            for name, policy in items.items()
        }
        for name, policy in given.items():
            if policy.space.mixing:
                raise SettingsError(
                    f"{name} mixes images, which a transform of single images cannot;"
                    " leave it out, or use policy.without(...)"
                )
        references = {name: RECIPES[name].make() for name in REFERENCES}
        for name in references.keys() & given.keys():
            if _definition(given[name]) != _definition(references[name]):
                raise SettingsError(
                    f"{name} is the name of a reference; give your policy another one"
                )
        return {**references, **given}
    names = [*REFERENCES, *WITHOUT_SYMMETRIES]
    named = {name: RECIPES[name].make() for name in names}
    if not symmetries:
        return named
    moves = _moves_of(symmetries)
    composed = {
        "symmetries alone" if name == "none" else f"{name} with symmetries": joined(
            policy, moves
        )
        for name, policy in named.items()
    }
    return {**{name: named[name] for name in REFERENCES}, **composed}


def _moves_of(symmetries: Sequence[str]) -> Schedule:
    """A policy of these symmetries alone, or of those that a search has found.

    Raises:
        SettingsError: For an unknown symmetry, and for a search that has found none.
    """
    is_named = {*symmetries} <= {*SYMMETRIES}
    if not is_named and len(symmetries) == 1 and Path(symmetries[0]).exists():
        found = load_policy(symmetries[0])
        if not symmetries_of(found):
            raise SettingsError(
                f"{symmetries[0]} has no symmetries, so declare them, or omit them"
            )
        return with_symmetries(RECIPES["none"].make(), found)
    for name in symmetries:
        if name not in SYMMETRIES:
            raise SettingsError(unknown("symmetry", name, SYMMETRIES))
    operations = [SYMMETRIES[name] for name in symmetries]
    return recipe_of("symmetries", {name: TURNS[name] for name in operations})


def _definition(policy: Schedule) -> str:
    """A string that is equal for policies that do the same."""
    return ScheduleAugmentation(policy).definition


def _begun(
    folder: Path,
    policies: Mapping[str, Schedule],
    budget_seconds: float | None,
    *,
    resume: bool,
) -> Ledger:
    """A new ledger, or the one in the folder, with this budget if it is given.

    Raises:
        SettingsError: If a resumed contest would have other policies, or more time
            after its test.
        RunError: If there is a contest that is not to be resumed.
    """
    definitions = {name: _definition(policy) for name, policy in policies.items()}
    if not (folder / LEDGER_NAME).exists():
        if budget_seconds is None:
            raise RunError(
                f"{folder} has no contest to resume; begin one, with its budget"
            )
        return Ledger(definitions=definitions, budget_seconds=budget_seconds)
    if not resume:
        raise RunError(
            f"{folder / LEDGER_NAME} exists already: add --resume to continue it, or"
            " choose another --out"
        )
    ledger = Ledger.read(folder)
    if ledger.definitions != definitions:
        raise SettingsError(
            f"a resumed contest keeps its policies; {folder} has"
            f" {', '.join(ledger.definitions)}: give them again, or another folder"
        )
    if budget_seconds is None:
        return ledger
    if ledger.is_tested and budget_seconds > ledger.budget_seconds:
        raise SettingsError(
            f"the test of {folder} has ended, and more seeds would not be independent"
            " of its answer; run a contest with this budget in another folder"
        )
    return ledger.model_copy(update={"budget_seconds": budget_seconds})


class _Task(NamedTuple):
    """A training that is still to make."""

    policy: str
    schedule: Schedule
    seed: int
    effort: float

    @property
    def name(self) -> str:
        return f"the policy {self.policy}"

    @property
    def call(self) -> str:
        """The arguments of the user's function in words."""
        return f"policy {self.policy}, seed {self.seed}, effort {self.effort:.3g}"


def _train(
    task: _Task, shared: tuple[Train, float], on_step: OnStep
) -> tuple[list[float], float]:
    """Scores of a training, and its seconds. RunError if the user's function fails."""
    train, mask_fill = shared
    began = monotonic()
    transform = task.schedule.transform(mask_fill=mask_fill)
    function = getattr(train, "__name__", type(train).__name__)
    where = f"{function} with {task.call}"
    try:
        returned = train(transform, task.seed, task.effort)
    except HbaError:
        raise
    except Exception as error:
        raise RunError(
            f"{where} failed: {error_in_words(error)}{_place_of(error)}; mend it, and"
            " resume: trainings that have ended are kept"
        ) from error
    try:
        values = _as_floats(returned)
    except (TypeError, ValueError) as error:
        raise RunError(
            f"{where} must return a number, or one for each validation example, got"
            f" {type(returned).__name__} {returned!r:.40}"
        ) from error
    wrong = [place for place, value in enumerate(values) if not math.isfinite(value)]
    if wrong or not values:
        got = "none" if not values else f"{values[wrong[0]]} as number {wrong[0]}"
        raise RunError(f"{where} must return finite scores, got {got} of {len(values)}")
    return values, monotonic() - began


def _place_of(error: Exception) -> str:
    """` (my_training.py, line 12)`, the last line outside of installed packages."""
    installed = [PACKAGE, *map(Path, sysconfig.get_paths().values())]
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not any(Path(frame.filename).is_relative_to(place) for place in installed)
    ]
    if not frames:
        return ""
    return f" ({Path(frames[-1].filename).name}, line {frames[-1].lineno})"


def _as_floats(scores: Any) -> list[float]:
    """A number, or several in a list, an array or a tensor, as a list."""
    if isinstance(scores, Tensor):
        scores = scores.detach().flatten().tolist()
    numbers = scores if isinstance(scores, Sequence) else np.atleast_1d(scores)
    return [float(number) for number in numbers]


@dataclass
class _Run:
    """A contest in progress."""

    folder: Path
    ledger: Ledger
    policies: Mapping[str, Schedule]
    executor: Executor
    shared: Shared
    say: Callable[[str], None]

    def __post_init__(self) -> None:
        self._began = monotonic()
        self._spent_before = self.ledger.spent

    @property
    def seconds_left(self) -> float:
        spent = self._spent_before + monotonic() - self._began
        return PLANNED_SHARE * self.ledger.budget_seconds - spent

    @property
    def n_jobs(self) -> int:
        return self.executor.n_jobs

    def note(self, **changes: Any) -> None:
        """Change the ledger, and save it."""
        spent = self._spent_before + monotonic() - self._began
        self.ledger = self.ledger.model_copy(update={**changes, "spent": spent})
        self.ledger.save(self.folder)

    def choose(self) -> None:
        """The race: choose a policy, unless that is done."""
        if self.ledger.chosen is not None:
            return
        left = [*self.policies]
        # The references tell how many policies there is time for.
        self.train(left[: len(REFERENCES)], [0], race.EFFORTS[0])
        if self.ledger.n_policies is None:
            self.note(n_policies=self.n_policies_in_time())
        left = left[: self.ledger.n_policies]
        sizes = race.sizes_of_rounds(len(left))
        for effort, size in zip(race.EFFORTS, sizes, strict=True):
            left = left[:size]
            self.train(left, [0], effort)
            scores = {name: self.ledger.scores(name, [0], effort) for name in left}
            left = race.ranked(scores)
        seeds = [0]
        while len(seeds) < race.MOST_SEEDS_OF_RACE and (
            self.ledger.has_all(left, len(seeds)) or self.has_time_for(len(left))
        ):
            seeds.append(len(seeds))
            self.train(left, seeds[-1:], 1.0)
        scores = {name: self.ledger.scores(name, seeds, 1.0) for name in left}
        self.note(chosen=race.ranked(scores)[0])
        self.say(f"Chosen: {self.ledger.chosen}")

    def n_policies_in_time(self) -> int:
        """How many policies may take part.

        Raises:
            SettingsError: If the time is too short for the references.
        """
        seconds = self.ledger.seconds_of_training
        fewest = min(len(REFERENCES), len(self.policies))

        def needed(n_policies: int) -> float:
            n_trainings = race.LEAST_SEEDS * (1 + len(REFERENCES))
            done = race.EFFORTS[0] * math.ceil(len(REFERENCES) / self.n_jobs)
            return seconds * (
                race.cost_of_race(n_policies, self.n_jobs)
                + math.ceil(n_trainings / self.n_jobs)
                - done
            )

        fitting = [
            n
            for n in range(fewest, len(self.policies) + 1)
            if needed(n) <= self.seconds_left
        ]
        if not fitting:
            spent = PLANNED_SHARE * self.ledger.budget_seconds - self.seconds_left
            enough = duration(math.ceil((spent + needed(fewest)) / PLANNED_SHARE))
            raise SettingsError(
                f"a whole training takes about {duration(seconds)}, so the budget must"
                f" be at least {enough}, got {duration(self.ledger.budget_seconds)};"
                " resume with a longer one"
            )
        names = [*self.policies][: fitting[-1]]
        self.say(
            f"A whole training takes about {duration(seconds)}; there is time for"
            f" {counted(len(names), 'policy', 'policies')}: {', '.join(names)}"
        )
        return len(names)

    def has_time_for(self, n_policies: int) -> bool:
        """Whether there is time for a seed of whole trainings, and then for a test."""
        n_test = race.LEAST_SEEDS * (1 + len(REFERENCES))
        rounds = math.ceil(n_policies / self.n_jobs) + math.ceil(n_test / self.n_jobs)
        return rounds * self.ledger.seconds_of_training <= self.seconds_left

    def test(self) -> ContestResult:
        """Train with new seeds, and compare the chosen policy with the references."""
        chosen = self.ledger.chosen
        assert chosen is not None
        if not self.ledger.is_tested:
            self.train_for_test()
            self.note(is_tested=True)
        result = result_of(self.ledger, self.policies[chosen], self.folder)
        self.say(result.sentence)
        return result

    def train_for_test(self) -> None:
        """The trainings of the test: two seeds, and more while there is time."""
        names = self.ledger.tested
        n_rounds = math.ceil(len(names) / self.n_jobs)
        first = range(FIRST_TEST_SEED, FIRST_TEST_SEED + race.LEAST_SEEDS)
        self.train(names, first, 1.0)
        while (n_seeds := len(self.ledger.seeds_of_test)) < race.MOST_SEEDS:
            seconds = self.ledger.seconds_of_training * n_rounds
            if seconds > self.seconds_left:
                break
            self.train(names, [FIRST_TEST_SEED + n_seeds], 1.0)

    def train(self, names: Sequence[str], seeds: Sequence[int], effort: float) -> None:
        """Make the trainings that are missing, and store each."""
        tasks = [
            _Task(name, self.policies[name], seed, effort)
            for seed in seeds
            for name in names
            if self.ledger.find(name, seed, effort) is None
        ]
        if not tasks:
            return
        listed = ", ".join(dict.fromkeys(task.policy for task in tasks))
        numbers = ", ".join(map(str, dict.fromkeys(task.seed for task in tasks)))
        self.say(f"Effort {effort:.2g}, seed {numbers}: {listed}")
        ended = self.executor.run(_train, tasks, self.shared, lambda: None)
        with contextlib.closing(ended):
            for number, (scores, seconds) in ended:
                task = tasks[number]
                self.check_examples(task, len(scores))
                training = Training(
                    policy=task.policy,
                    seed=task.seed,
                    effort=task.effort,
                    scores=tuple(scores),
                    seconds=seconds,
                )
                self.note(trainings=(*self.ledger.trainings, training))

    def check_examples(self, task: _Task, n_examples: int) -> None:
        """Raise RunError if a training has scores of another number of examples."""
        for training in self.ledger.trainings[:1]:
            if len(training.scores) != n_examples:
                raise RunError(
                    "every training must return scores of the same validation examples,"
                    f" got {len(training.scores)}, and then {n_examples} with"
                    f" {task.call}"
                )
