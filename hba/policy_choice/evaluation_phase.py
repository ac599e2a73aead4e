"""The last phase of a run: measures the chosen row on the test images, next to rows to
compare it with.
"""

import math
import shutil
from collections.abc import Sequence
from typing import Any

from hba.config.evaluation import OF_WEIGHTS
from hba.data.config import DataConfig
from hba.data.load import READ_SETTINGS, load_evaluation_data
from hba.policy_choice.callbacks import EvaluationSteps, TimeOver
from hba.policy_choice.extent import Extent
from hba.policy_choice.linear import FrozenFeatures, tested
from hba.policy_choice.rows import RANDAUGMENT, row_without_contest, source_of_row
from hba.policy_choice.run import AutoRun
from hba.policy_choice.settings import (
    read_search_config,
    search_config,
    training_config,
)
from hba.policy_evaluation.baselines import NONE
from hba.policy_evaluation.evaluation import evaluate
from hba.policy_search.timing import Pace, TooSlow, rounds
from hba.results.evaluation import RESULTS_NAME
from hba.results.run import TEST_FOLDER
from hba.utils.settings import words

NAME = "test"
ROWS_OF_TEST = 3
"""Rows of a test: the chosen one, none and RandAugment."""
LEAST_SEEDS = 2
MOST_SEEDS = 10


def trainings_of_test(extent: Extent, n_jobs: int) -> float:
    """The time of the phase, in trainings."""
    return rounds(ROWS_OF_TEST * extent.test_seeds, n_jobs)


def evaluate_chosen_row(run: AutoRun) -> None:
    """Train with the chosen row and with those to compare it with, and measure the test
    images.
    """
    folder = run.folder / TEST_FOLDER
    record = run.record
    chosen = record.chosen or row_without_contest(run.read_found())
    against = [
        name
        for name in words(record.of_test.get("against", (NONE, RANDAUGMENT)))
        if name != chosen
    ]
    n_rows = 1 + len(against)
    n_trainings = n_rows * (record.of_test.get("seeds") or LEAST_SEEDS)
    n_in_parallel = rounds(n_trainings, record.n_jobs)
    is_over = False
    while not is_over:
        if not (folder / RESULTS_NAME).exists() and run.is_late(n_in_parallel):
            run.shorten(n_in_parallel)
            run.note(test_seeds=None)
            shutil.rmtree(folder, ignore_errors=True)
        run.note(test_seeds=_seeds_of_test(run, n_rows), chosen=chosen)
        try:
            _evaluate(run, chosen, against, n_trainings)
            is_over = True
        except TimeOver:
            is_over = True
        except TooSlow as slow:
            run.note(training_seconds=slow.seconds)
    _test_linear_layer(run)


def _seeds_of_test(run: AutoRun, n_rows: int) -> int:
    """The number of seeds, which is decided once."""
    record = run.record
    if decided := record.of_test.get("seeds") or record.test_seeds:
        return int(decided)
    n_trainings = record.n_jobs * math.floor(
        run.seconds_for_trainings / max(record.training_seconds, 1e-3)
    )
    return min(MOST_SEEDS, max(LEAST_SEEDS, n_trainings // n_rows))


def _evaluate(
    run: AutoRun, chosen: str, against: Sequence[str], fewest_trainings: int
) -> None:
    """Run the evaluation.

    fewest_trainings: those for which there must be time. Raises TimeOver and TooSlow,
    as EvaluationSteps does.
    """
    record = run.record
    folder = run.folder / TEST_FOLDER
    config = training_config(
        run, read_search_config(run), record.settings, record.n_images
    )
    n_rows = 1 + len(against)
    n_seeds = _seeds_of_test(run, n_rows)
    run.progress.plan(NAME, n_seeds * n_rows * record.training_seconds / record.n_jobs)

    def pace_of(steps_per_training: int) -> Pace | None:
        return run.pace(
            fewest_trainings,
            fewest_trainings * steps_per_training,
            config.epochs,
            following=0.0,
        )

    evaluate(
        source_of_row(chosen, run.read_found(), run.folder),
        record.data if run.datasets is None else run.datasets,
        against=against,
        network=run.network,
        out=folder,
        resume=(folder / RESULTS_NAME).exists(),
        jobs=None if run.cluster else record.n_jobs,
        cluster=run.cluster,
        keep_network=True,
        # If a search has seen test images, the answer says so.
        allow_seen=True,
        callback=EvaluationSteps(
            run.progress, NAME, lambda: run.seconds_left < 0, pace_of
        ),
        seeds=n_seeds,
        **config.model_dump(exclude=_idle_settings(run)),
    )


def _idle_settings(run: AutoRun) -> set[str]:
    """Settings that the evaluation does not take, or takes as arguments."""
    idle = {"data", "seeds", "val_size"}
    if run.network is not None:
        idle |= {"model", *OF_WEIGHTS}
    if run.datasets is not None:
        idle |= {*DataConfig.model_fields} - {*READ_SETTINGS}
    return idle


def _test_linear_layer(run: AutoRun) -> None:
    """Measure the best linear layer on the test images, fitted to all images that the
    test trains on.
    """
    record = run.record
    best = record.best_linear
    if best is None or best.test_percent is not None:
        return
    settings = {**record.settings, "image_size": best.side}
    config = training_config(
        run, search_config(record, settings), settings, record.n_images
    )
    data = load_evaluation_data(
        config, run.callback.images_read, run.datasets, with_val=config.with_val
    )
    data = data.in_color()
    features = FrozenFeatures(
        best.model, best.source, best.side, data.train.device, data.train.n_channels
    )
    measured: dict[str, Any] = tested(features, data)
    run.note(
        linear=tuple(
            layer.model_copy(update=measured) if layer == best else layer
            for layer in record.linear
        )
    )
    run.callback.said(f"Test, {best.name}: {measured['test_percent']:.2f} % test error")
