"""The third phase of a run: the contest of whole trainings (contest.py), within the
time of the run.

    train with each row and the first seed
        leave out the other recipes if the time is too short for one more and a test
    while the contest has next rows, and the time suffices
        train with some of them likewise
    for each later seed
        end if one row remains, or if the time is too short for the remaining ones and a
            test
        train with each remaining row
    if the trainings of the first rows are too slow: begin again with fewer epochs
"""

import contextlib
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType

from hba.config.evaluation import EvaluationConfig
from hba.executors.executor import SerialExecutor
from hba.executors.ray_executor import connected, executor_for
from hba.policy_choice.contest import (
    CONTEST_FOLDER,
    CONTEST_NAME,
    MOST_LEFT,
    Contest,
    steps_of_training,
    train_seed,
)
from hba.policy_choice.evaluation_phase import ROWS_OF_TEST
from hba.policy_choice.extent import Extent
from hba.policy_choice.images import ContestImages
from hba.policy_choice.rows import (
    ALWAYS,
    RANDAUGMENT,
    changes_of_row,
    policy_of_row,
    rows_of_contest,
)
from hba.policy_choice.run import AutoRun
from hba.policy_choice.settings import (
    read_search_config,
    search_config,
    training_config,
)
from hba.policy_evaluation.baselines import RowConfig, row_configs
from hba.policy_search.timing import TooSlow, rounds
from hba.results.answer import WITH
from hba.schedule.recipes import RECIPES
from hba.schedule.schedule import Schedule
from hba.training.checkpoint import TRAININGS_NAME
from hba.training.custom_network import CustomNetwork

NAME = "contest"
CHANGES_AT_A_TIME = 2
"""Changes of the best row before it is determined again, unless more trainings run at a
time.
"""
SHORTEST_TEST = 0.5
"""Share of the epochs in the contest below which a test is not shortened so that the
contest may try all its rows.
"""


def trainings_of_contest(extent: Extent, n_jobs: int) -> float:
    """The time of the phase, in trainings."""
    # The training of the chosen network is in the contest.
    n_first = extent.rows - (extent.networks > 1)
    first = rounds(n_first, n_jobs) + rounds(extent.changed, n_jobs)
    later = rounds(MOST_LEFT[0], n_jobs) * (extent.seeds - 1)
    return extent.contest_share * (first + later)


def hold_contest(run: AutoRun) -> None:
    """Train with each row until the best is clear, or the time is over."""
    policy = run.read_found()
    rows = _first_rows(run, policy)
    contest = Contest.begun(rows, run.folder / CONTEST_NAME)
    n_missing = len({*rows} & {*contest.missing(0)})
    share = run.record.extent.contest_share
    whole = share * rounds(len(rows), run.record.n_jobs)
    following = run.trainings_after(NAME)
    n_trainings = share * rounds(n_missing, run.record.n_jobs)
    while True:
        if n_missing and run.is_late(n_trainings + following):
            run.shorten(whole + following)
            _drop_trainings(run)
        try:
            return _train_rows(run, policy)
        except TooSlow as slow:
            run.note(training_seconds=slow.seconds / share)
            n_trainings = whole


def _first_rows(
    run: AutoRun, found: Schedule | None, most: int | None = None
) -> tuple[str, ...]:
    """The rows with which the contest begins, at most those of the extent."""
    most = run.record.extent.rows if most is None else most
    return rows_of_contest(found, most, can_mix=run.record.task.can_mix)


def _drop_trainings(run: AutoRun) -> None:
    """Remove the trainings so far, which had more epochs than those that follow."""
    (run.folder / CONTEST_NAME).unlink(missing_ok=True)
    shutil.rmtree(run.folder / CONTEST_FOLDER, ignore_errors=True)
    run.note(rows=(), chosen=None)


@dataclass(frozen=True)
class _Trainings:
    """What the trainings of the contest have in common."""

    config: EvaluationConfig
    images: ContestImages
    found: Schedule | None
    """The policy of the search, if there is one."""
    network: CustomNetwork | None
    """The user's own network, if any."""

    @staticmethod
    def of(run: AutoRun, found: Schedule | None) -> "_Trainings":
        record = run.record
        config = training_config(
            run, read_search_config(run), record.settings, record.n_images
        )
        images = run.images.of_contest(
            search_config(record, record.settings),
            trains_on_val=record.settings.get("train_size") is None,
        )
        return _Trainings(config, images, found, run.custom_network)

    def rows(self, names: Iterable[str]) -> dict[str, RowConfig]:
        """The trainings of these rows, by name."""
        rows = row_configs(
            {name: policy_of_row(name, self.found) for name in names},
            RECIPES[RANDAUGMENT].make(),
            self.config,
            self.network,
            self.config.network_start(),
        )
        return {row.name: row for row in rows}


def _train_rows(run: AutoRun, found: Schedule | None) -> None:
    """Train with each row at the current number of epochs.

    Raises TooSlow if fewer are needed.
    """
    n_seeds = run.record.extent.seeds
    folder = run.folder / CONTEST_FOLDER
    folder.mkdir(exist_ok=True)
    trainings = _Trainings.of(run, found)
    _, held_out = trainings.images
    contest = Contest.begun(
        _first_rows(run, found),
        run.folder / CONTEST_NAME,
        has_same_images=held_out == [None],
    )
    with connected(run.cluster) as machines:
        if contest.missing(0):
            is_first = not contest.n_seeds
            _train_seed(run, contest, 0, trainings, machines, can_be_slow=is_first)
        while rows := _next_rows(run, contest, found):
            contest.enter(rows)
            _train_seed(run, contest, 0, trainings, machines)
        for seed in range(contest.n_seeds, n_seeds):
            n_left = len(contest.left(seed))
            if n_left == 1 or not _has_time_for(run, n_left):
                break
            _train_seed(run, contest, seed, trainings, machines)
    run.note(rows=tuple(contest.table()), chosen=contest.best)
    run.callback.said(
        f"Contest: {contest.best} is chosen by validation images ({run.clock()})"
    )
    shutil.rmtree(folder, ignore_errors=True)


def _next_rows(run: AutoRun, contest: Contest, found: Schedule | None) -> list[str]:
    """The next rows of the first seed; none if the extent is over, or if there is no
    time for them and then for a test.
    """
    n_changed = sum(WITH in row for row in contest.rows)
    at_a_time = max(CHANGES_AT_A_TIME, run.record.n_jobs)
    most = min(at_a_time, run.record.extent.changed - n_changed)
    if most <= 0 or not _has_time_for(run, most):
        return []
    can_mix = run.record.task.can_mix
    rows = contest.next_rows(
        lambda row: changes_of_row(row, found, contest.rows, can_mix=can_mix)
    )
    return rows[:most]


def _has_time_for(run: AutoRun, n_rows: int) -> bool:
    """Whether there is time for a seed of so many rows, and then for a test."""
    of_seed = run.record.extent.contest_share * rounds(n_rows, run.record.n_jobs)
    return run.has_time_for(of_seed + run.trainings_after(NAME))


def _has_time_for_row(run: AutoRun) -> bool:
    """Whether there is time for another row, and then for a test, if with fewer
    epochs.
    """
    share_of_epochs = 1.0 if run.record.has_given_epochs else SHORTEST_TEST
    of_test = share_of_epochs * rounds(ROWS_OF_TEST, run.record.n_jobs)
    return run.has_time_for(run.record.extent.contest_share + of_test)


def _train_seed(
    run: AutoRun,
    contest: Contest,
    seed: int,
    trainings: _Trainings,
    machines: ModuleType | None,
    *,
    can_be_slow: bool = False,
) -> None:
    """Train the missing rows with this seed. In the first seed, rows for which the time
    is too short are left out.

    Args:
        run: The run.
        contest: The contest so far.
        seed: Number of the seed, from 0.
        trainings: The trainings of the contest.
        machines: Ray, connected to a cluster, if any.
        can_be_slow: Whether the trainings can begin again with fewer epochs.

    Raises:
        TooSlow: If they have to.
    """
    n_jobs = run.record.n_jobs
    extent = run.record.extent
    n_planned = extent.rows + extent.changed + MOST_LEFT[0] * (extent.seeds - 1)
    share = extent.contest_share
    config = trainings.config
    data, held_out = trainings.images
    missing = contest.missing(seed)
    began = run.seconds_spent()
    part = f"seed {seed}"
    if seed == 0 and all(WITH in row for row in missing):
        part += ", changes of the best"
    run.callback.said(f"Contest on validation images, {part}: {', '.join(missing)}")
    # A resumed seed has as many threads for a training, and so the same bits.
    n_rows = len(contest.left(seed))
    executor = executor_for(config.device, min(n_jobs, n_rows), machines)
    if isinstance(executor, SerialExecutor):
        data = data.to(executor.device)
    n_steps = len(missing) * steps_of_training(
        config, data, held_out[seed % len(held_out)]
    )
    pace = None
    if can_be_slow:
        following = run.trainings_after(NAME) / share
        pace = run.pace(len(missing), n_steps, config.epochs, following)
    n_done = sum(map(len, contest.outcomes.values()))
    on_step = run.progress.stepper(
        NAME, n_steps, n_done / n_planned, (n_done + len(missing)) / n_planned, pace
    )
    ended = train_seed(
        contest,
        seed,
        trainings.rows(missing),
        data,
        held_out,
        executor,
        on_step,
        run.folder / CONTEST_FOLDER / TRAININGS_NAME,
    )
    with contextlib.closing(ended):
        for n_ended, _ in enumerate(ended, start=1):
            seconds = (run.seconds_spent() - began) * min(n_jobs, n_ended) / n_ended
            run.note(
                training_seconds=seconds / share,
                rows=tuple(contest.table()),
                chosen=contest.best,
            )
            has_always = {*ALWAYS}.isdisjoint(contest.missing(0))
            if seed == 0 and has_always and not _has_time_for_row(run):
                break
    if seed == 0 and contest.missing(0):
        _leave_out_missing(run, contest, trainings.found)


def _leave_out_missing(run: AutoRun, contest: Contest, found: Schedule | None) -> None:
    """Leave out the rows that have not been trained with the first seed."""
    missing = contest.missing(0)
    left_out = f"The contest had no time for {', '.join(missing)}"
    run.callback.said(left_out)
    contest.leave_out(missing)
    # A resumed run begins with rows that have all been trained.
    n_rows = next(
        n
        for n in range(len(contest.rows), 0, -1)
        if {*_first_rows(run, found, n)} <= {*contest.rows}
    )
    run.note(
        extent=run.record.extent._replace(rows=n_rows),
        notes=(*run.record.notes, left_out),
    )
