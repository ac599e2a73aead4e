"""The results of an evaluation while it runs, and the stored ones that it resumes."""

import itertools
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hba.config.evaluation import EvaluationConfig
from hba.data.images import EvaluationData
from hba.data.labels import error_of
from hba.errors import RunError, SettingsError
from hba.policy_evaluation.baselines import RowConfig
from hba.report.results import RESULTS_NAME, EvaluationResult, EvaluationRow, LeakageReport, read_results
from hba.schedule.schedule import Schedule
from hba.training.checkpoint import TRAININGS_NAME
from hba.training.metrics import Confusion, Measured

FREE_SETTINGS = ("seeds", "data_root", "download", "workers", "pretrained")
"""Settings that may differ when an evaluation is resumed: they do not change what a training finds. Weights may have
moved; their hash identifies them."""


@dataclass
class Evaluation:
    """An evaluation between its checks and its result, which writes results.json after each training.

    data: on the device of the trainings; its test split is looked at only after a training has measured it. folder:
    None writes nothing. stored: the evaluation that is resumed; SettingsError where its images have changed.
    """

    schedule: Schedule
    config: EvaluationConfig
    rows: tuple[RowConfig, ...]
    data: EvaluationData
    searched: tuple[LeakageReport, ...]
    folder: Path | None
    stored: EvaluationResult | None
    environment: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._began = time.monotonic()
        self._found: dict[str, dict[int, tuple[float, float | None, Confusion | None]]] = {
            row.name: {} for row in self.rows
        }
        self.fingerprints = {"training": self.data.train.fingerprint()}
        if self.stored is not None:
            self._check_images("training")
            for row in self.stored.rows:
                found = itertools.zip_longest(row.seeds, row.test_error_percent, row.test_loss, row.confusion)
                self._found[row.name] = {seed: (error, loss, confusion) for seed, error, loss, confusion in found}

    def missing(self) -> Iterator[tuple[RowConfig, int]]:
        """Rows and seeds to train, seed by seed."""
        for seed in self.config.training_seeds:
            yield from ((row, seed) for row in self.rows if seed not in self._found[row.name])

    def add(self, row: RowConfig, seed: int, measured: Measured) -> None:
        """Store the result of a training. SettingsError where the stored evaluation has other test images."""
        if "test" not in self.fingerprints:
            self.fingerprints["test"] = self.data.test.opened().fingerprint()
            self._check_images("test")
        loss = measured.loss if math.isfinite(measured.loss) else None
        self._found[row.name][seed] = (measured.error_percent, loss, measured.confusion)
        if self.folder is not None:
            self.result().save(self.folder / RESULTS_NAME)

    def _check_images(self, split: str) -> None:
        if self.stored is not None and self.folder is not None:
            check_same(f"{split} images", self.stored.fingerprints.get(split), self.fingerprints[split], self.folder)

    def result(self) -> EvaluationResult:
        """Everything so far. The test split has been measured, now or in the stored evaluation."""
        data, first = self.data, self.rows[0]
        settings = {**self.config.model_dump(), **({} if first.own_network is None else {"model": None})}
        if "test" in self.fingerprints:
            n_test, n_skipped = len(data.test.opened()), len(data.train.left_out) + len(data.test.opened().left_out)
            fingerprints = dict(self.fingerprints)
        else:
            assert self.stored is not None
            n_test, n_skipped = self.stored.test_images, self.stored.skipped_images
            fingerprints = dict(self.stored.fingerprints)
        return EvaluationResult(
            class_names=data.class_names,
            rows=tuple(map(self._row, self.rows)),
            settings=settings,
            train_images=len(data.train),
            test_images=n_test,
            skipped_images=n_skipped,
            fingerprints=fingerprints,
            environment=self.environment,
            searched=self.searched,
            own_network=first.network_definition,
            pretrained=first.weights,
            error=error_of(data.train.labels),
            wall_seconds=round((self.stored.wall_seconds if self.stored else 0.0) + time.monotonic() - self._began, 1),
        )

    def _row(self, row: RowConfig) -> EvaluationRow:
        found = dict(sorted(self._found[row.name].items()))
        errors, losses, confusions = zip(*found.values(), strict=True) if found else ((), (), ())
        return EvaluationRow(
            name=row.name,
            test_error_percent=errors,
            seeds=tuple(found),
            definition=row.definition,
            test_loss=losses,
            counts=tuple(confusion and confusion.counts for confusion in confusions),
            n_classes=len(self.data.class_names),
        )


def stored_results(
    folder: Path | None, resume: bool, config: EvaluationConfig, rows: Sequence[RowConfig]
) -> EvaluationResult | None:
    """The evaluation to resume, if any; HbaError where it is another one."""
    if folder is None:
        return None
    path = folder / RESULTS_NAME
    if not resume:
        if path.exists():
            raise RunError(f"{path} exists already: add --resume to continue it, or choose another --out")
        return None
    # It may have been stopped in its first trainings.
    if not path.exists() and (folder / TRAININGS_NAME).is_dir():
        return None
    stored = read_results(path, "cannot be resumed", "; choose another --out")
    before = stored.config
    names, given = [row.name for row in stored.rows], [row.name for row in rows]
    free, by_name = (*FREE_SETTINGS, "model" if stored.own_network else ""), "a model by name"
    check_same("network", stored.own_network or by_name, rows[0].network_definition or by_name, folder)
    check_same("pretrained weights", stored.pretrained, rows[0].weights, folder)
    for name in EvaluationConfig.model_fields:
        if name not in free:
            check_same(name, getattr(before, name), getattr(config, name), folder)
    check_same("seeds, or has more", before.seeds, min(before.seeds, config.seeds), folder)
    check_same("rows, and new ones come last", names, given[: len(names)], folder)
    for old, row in zip(stored.rows, rows, strict=False):
        check_same(f"row {old.name}", old.definition, row.definition, folder)
    return stored


def check_same(what: str, before: object, now: object, folder: Path | None) -> None:
    """SettingsError where a resumed evaluation would change what decides its numbers."""
    if before != now:
        raise SettingsError(
            f"a resumed evaluation keeps its {what}; {folder} has {before} (now {now}): give the same again, or start "
            "anew with another --out"
        )
