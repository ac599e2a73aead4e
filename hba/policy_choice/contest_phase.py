"""The third phase of a run: the contest of whole trainings (contest.py), within the
time of the run.

    for each seed
        before a later seed: end if one row remains, or if the time is too short for the
            remaining ones and a test
        train with each remaining row
            in the first seed: leave out the other recipes if the time is too short for
                one more and a test
    if the trainings of the first seed are too slow: begin again with fewer epochs
"""

import contextlib
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from types import ModuleType

from hba.config.evaluation import EvaluationConfig
from hba.executors.executor import SerialExecutor
from hba.executors.ray_executor import connected, executor_for
from hba.policy_choice.contest import (
    CONTEST_FOLDER,
    CONTEST_NAME,
    CONTEST_SHARE,
    MOST_LEFT,
    Contest,
    steps_of_training,
    train_seed,
)
from hba.policy_choice.evaluation_phase import LEAST_TRAININGS_OF_TEST, ROWS_OF_TEST
from hba.policy_choice.extent import Extent
from hba.policy_choice.images import ContestImages
from hba.policy_choice.rows import (
    ALWAYS,
    RANDAUGMENT,
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
from hba.schedule.recipes import RECIPES
from hba.schedule.schedule import Schedule
from hba.training.checkpoint import TRAININGS_NAME

NAME = "contest"
SHORTEST_TEST = 0.5
"""Share of the epochs in the contest below which a test is not shortened so that the
contest may try all its rows.
"""


def trainings_of_contest(extent: Extent, n_jobs: int) -> float:
    """The time of the phase, in trainings."""
    # The training of the chosen network is in the contest.
    n_first = extent.rows - (extent.networks > 1)
    first = rounds(n_first, n_jobs)
    later = rounds(MOST_LEFT[0], n_jobs) * (extent.seeds - 1)
    return CONTEST_SHARE * (first + later)


def hold_contest(run: AutoRun) -> None:
    """Train with each row until the best is clear, or the time is over."""
    policy = run.read_found()
    rows = rows_of_contest(policy, run.record.extent.rows)
    missing = Contest.begun(rows, run.folder / CONTEST_NAME).missing(0)
    whole = CONTEST_SHARE * rounds(len(rows), run.record.n_jobs)
    following = run.trainings_after(NAME)
    n_trainings = CONTEST_SHARE * rounds(len(missing), run.record.n_jobs)
    while True:
        if run.is_late(n_trainings + following):
            run.shorten(whole + following)
            _drop_trainings(run)
        try:
            return _train_rows(run, policy)
        except TooSlow as slow:
            run.note(training_seconds=slow.seconds / CONTEST_SHARE)
            n_trainings = whole


def _drop_trainings(run: AutoRun) -> None:
    """Remove the trainings so far, which had more epochs than those that follow."""
    (run.folder / CONTEST_NAME).unlink(missing_ok=True)
    shutil.rmtree(run.folder / CONTEST_FOLDER, ignore_errors=True)
    run.note(rows=(), chosen=None)


@dataclass(frozen=True)
class _Trainings:
    """What the trainings of the contest have in common, and the rows by name."""

    config: EvaluationConfig
    rows: Mapping[str, RowConfig]
    images: ContestImages

    @staticmethod
    def of(run: AutoRun, found: Schedule | None) -> "_Trainings":
        record = run.record
        config = training_config(
            run, read_search_config(run), record.settings, record.n_images
        )
        policies = {
            row: policy_of_row(row, found)
            for row in rows_of_contest(found, record.extent.rows)
        }
        rows = row_configs(
            policies,
            RECIPES[RANDAUGMENT].make(),
            config,
            run.custom_network,
            config.network_start(),
        )
        images = run.images.of_contest(
            search_config(record, record.settings),
            trains_on_val=record.settings.get("train_size") is None,
        )
        return _Trainings(config, {row.name: row for row in rows}, images)


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
        rows_of_contest(found, run.record.extent.rows),
        run.folder / CONTEST_NAME,
        has_same_images=held_out == [None],
    )
    with connected(run.cluster) as machines:
        for seed in range(contest.n_seeds, n_seeds):
            if seed and not _has_time_for_seed(run, len(contest.left(seed))):
                break
            _train_seed(run, contest, seed, trainings, machines)
            if seed == 0 and contest.missing(0):
                contest = _without_missing(run, contest, found)
    run.note(rows=tuple(contest.table()), chosen=contest.best)
    run.callback.said(
        f"Contest: {contest.best} is chosen by validation images ({run.clock()})"
    )
    shutil.rmtree(folder, ignore_errors=True)


def _has_time_for_seed(run: AutoRun, n_rows: int) -> bool:
    """Whether several rows remain, and there is time for another seed of them and then
    for a test.
    """
    n_trainings = CONTEST_SHARE * n_rows + LEAST_TRAININGS_OF_TEST
    return n_rows > 1 and run.has_time_for(n_trainings / run.record.n_jobs)


def _has_time_for_row(run: AutoRun) -> bool:
    """Whether there is time for another row, and then for a test, if with fewer
    epochs.
    """
    share = 1.0 if run.record.has_given_epochs else SHORTEST_TEST
    n_trainings = CONTEST_SHARE + ROWS_OF_TEST * share
    return run.has_time_for(n_trainings / run.record.n_jobs)


def _train_seed(
    run: AutoRun,
    contest: Contest,
    seed: int,
    trainings: _Trainings,
    machines: ModuleType | None,
) -> None:
    """Train the missing rows with this seed, or only some if the time is too short.

    machines: Ray, connected to a cluster, if any. Raises TooSlow in the first seed.
    """
    n_jobs = run.record.n_jobs
    n_seeds = run.record.extent.seeds
    config = trainings.config
    data, held_out = trainings.images
    left = contest.left(seed)
    missing = contest.missing(seed)
    began = run.seconds_spent()
    run.callback.said(f"Contest on validation images, seed {seed}: {', '.join(left)}")
    executor = executor_for(config.device, min(n_jobs, len(left)), machines)
    if isinstance(executor, SerialExecutor):
        data = data.to(executor.device)
    n_steps = len(missing) * steps_of_training(config, data)
    pace = None
    if seed == 0:
        following = run.trainings_after(NAME) / CONTEST_SHARE
        pace = run.pace(len(missing), n_steps, config.epochs, following)
    on_step = run.progress.stepper(
        NAME, n_steps, seed / n_seeds, (seed + 1) / n_seeds, pace
    )
    ended = train_seed(
        contest,
        seed,
        trainings.rows,
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
                training_seconds=seconds / CONTEST_SHARE,
                rows=tuple(contest.table()),
                chosen=contest.best,
            )
            has_always = {*ALWAYS}.isdisjoint(contest.missing(0))
            if seed == 0 and has_always and not _has_time_for_row(run):
                break


def _without_missing(run: AutoRun, contest: Contest, found: Schedule | None) -> Contest:
    """The contest of fewer rows, all of which have been trained with the first seed."""
    missing = contest.missing(0)
    trained = {*contest.rows} - {*missing}
    n_rows = next(
        n for n in range(len(trained), 0, -1) if {*rows_of_contest(found, n)} <= trained
    )
    left_out = f"The contest had no time for {', '.join(missing)}"
    run.callback.said(left_out)
    run.note(
        extent=run.record.extent._replace(rows=n_rows),
        notes=(*run.record.notes, left_out),
    )
    return Contest.begun(
        rows_of_contest(found, n_rows),
        contest.file,
        has_same_images=contest.has_same_images,
    )
