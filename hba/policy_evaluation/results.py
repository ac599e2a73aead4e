"""Results of an evaluation while it runs, and the stored results that it resumes."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from hba.config.evaluation import EvaluationConfig
from hba.data.images import EvaluationData
from hba.errors import RunError, SettingsError
from hba.policy_evaluation.baselines import RowConfig
from hba.results.evaluation import (
    GRAPHS,
    RESULTS_NAME,
    EvaluationResult,
    EvaluationRow,
    LeakageReport,
    read_results,
)
from hba.tasks import task_of
from hba.training.checkpoint import TRAININGS_NAME
from hba.training.metrics import Measured
from hba.training.trained_network import NETWORK_NAME
from hba.utils.files import resumes
from hba.utils.graphs import StepCounts

FREE_SETTINGS = (
    "seeds",
    "data",
    "data_root",
    "download",
    "workers",
    "pretrained",
    "graph",
)
"""Settings that may differ when an evaluation is resumed: they change no training.
Hashes identify images, weights.
"""


@dataclass
class Evaluation:
    """An evaluation between its checks and its end. It writes results.json after each
    training, and has all results so far in `result`.

    Raises:
        SettingsError: If the images are not those of the stored results.
    """

    config: EvaluationConfig
    rows: tuple[RowConfig, ...]
    data: EvaluationData
    """On the device of the trainings; its test split is read only after a training has
    measured it.
    """
    searched: tuple[LeakageReport, ...]
    """Reports on what searches have seen."""
    folder: Path | None
    """Folder of results.json; None writes nothing."""
    stored: EvaluationResult | None
    """Results to resume, if any."""

    def __post_init__(self) -> None:
        self._began = time.monotonic()
        train = self.data.train
        stored = self.stored
        rows = {
            row.name: EvaluationRow(name=row.name, definition=row.definition)
            for row in self.rows
        }
        prints = {"training": train.fingerprint()}
        kept: Any = {
            "test_images": 0,
            "skipped_images": 0,
            "fingerprints": prints,
            "environment": {},
            "test_std": None,
        }
        if stored:
            check_same(
                "training images",
                stored.fingerprints.get("training"),
                prints["training"],
                self.folder,
            )
            kept = {name: getattr(stored, name) for name in (*kept, "wall_seconds")}
            rows |= {row.name: row for row in stored.rows}
        own_network = self.rows[0].own_network
        start = self.rows[0].start
        task = task_of(train.labels)
        self.result = EvaluationResult(
            class_names=self.data.class_names,
            rows=tuple(rows.values()),
            settings={
                **self.config.model_dump(),
                **({"model": None} if own_network else {}),
            },
            train_images=len(train),
            searched=self.searched,
            own_network=None if own_network is None else own_network.definition,
            pretrained=None if start is None else start.sha256,
            error=task.error,
            scale=self.data.scale if task.has_numbers else None,
            **kept,
        )

    def missing(self) -> list[tuple[RowConfig, int]]:
        """Rows and seeds to train, seed by seed, so that an interrupted evaluation has
        complete pairs.
        """
        rows = [*zip(self.rows, self.result.rows, strict=True)]
        return [
            (row, seed)
            for seed in self.config.training_seeds
            for row, so_far in rows
            if seed not in so_far.seeds
        ]

    def add(
        self, row: RowConfig, seed: int, measured: Measured, steps: StepCounts | None
    ) -> None:
        """Store the result of a training. Raises SettingsError if the stored evaluation
        has other test images.
        """
        environment = self.result.environment
        if steps is not None:
            environment = {
                **environment,
                GRAPHS: [*StepCounts(*environment.get(GRAPHS, ())).plus(steps)],
            }
        seconds = (
            (self.stored.wall_seconds if self.stored else 0.0)
            + time.monotonic()
            - self._began
        )
        rows = tuple(
            other.with_training(seed, measured) if other.name == row.name else other
            for other in self.result.rows
        )
        self.result = self.result.model_copy(
            update={
                **self._test,
                "rows": rows,
                "environment": environment,
                "wall_seconds": round(seconds, 1),
            }
        )
        if self.folder is not None:
            self.result.save(self.folder / RESULTS_NAME)

    @cached_property
    def _test(self) -> dict[str, Any]:
        """The entries of the result on the test split, which a training has just
        measured.
        """
        test = self.data.test.opened()
        fingerprint = test.fingerprint()
        if self.stored:
            check_same(
                "test images",
                self.stored.fingerprints.get("test"),
                fingerprint,
                self.folder,
            )
        n_skipped = len(self.data.train.left_out) + len(test.left_out)
        has_numbers = task_of(test.labels).has_numbers
        return {
            "test_std": test.labels.std(correction=0).item() if has_numbers else None,
            "test_images": len(test),
            "skipped_images": n_skipped,
            "fingerprints": {**self.result.fingerprints, "test": fingerprint},
        }


def stored_results(
    folder: Path | None,
    resume: bool,
    config: EvaluationConfig,
    rows: Sequence[RowConfig],
) -> EvaluationResult | None:
    """The evaluation to resume, if any. Raises HbaError if it differs from this one."""
    if folder is None:
        return None
    path = folder / RESULTS_NAME
    if not resume and path.exists():
        raise RunError(
            f"{path} exists already: add --resume to continue it, or choose another"
            " --out"
        )
    # A resumed evaluation may have stopped in its first trainings, or after saving the
    # network of the first one.
    is_begun = (folder / TRAININGS_NAME).is_dir() or (folder / NETWORK_NAME).exists()
    if (is_begun and not path.exists()) or not resumes(resume, path):
        return None
    stored = read_results(path)
    before = stored.config
    names = [row.name for row in stored.rows]
    own_network = rows[0].own_network
    start = rows[0].start
    check_same("pretrained weights", stored.pretrained, start and start.sha256, folder)
    for name in EvaluationConfig.model_fields:
        # The hash of the images covers the effect of skip_broken.
        if name not in (*FREE_SETTINGS, "model", "skip_broken"):
            check_same(name, getattr(before, name), getattr(config, name), folder)
    network = config.model if own_network is None else own_network.definition
    check_same("network", stored.own_network or before.model, network, folder)
    check_same(
        "seeds, or has more", before.seeds, min(before.seeds, config.seeds), folder
    )
    check_same(
        "rows, and new ones come last",
        names,
        [row.name for row in rows[: len(names)]],
        folder,
    )
    for old, row in zip(stored.rows, rows, strict=False):
        check_same(f"row {old.name}", old.definition, row.definition, folder)
    return stored


def check_same(what: str, before: object, now: object, folder: Path | None) -> None:
    """Raise SettingsError if a resumed evaluation would change something that
    determines its numbers.
    """
    if before != now:
        raise SettingsError(
            f"a resumed evaluation keeps its {what}; {folder} has {before} (now {now}):"
            " give it again, or another --out"
        )
