"""The results of an evaluation: one row of test errors per augmentation, kept in results.json."""

import json
import math
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from hba.config.evaluation import EvaluationConfig
from hba.data.images import EvaluationData, LazySplit
from hba.data.labels import error_of
from hba.errors import HbaError, RunError, SettingsError
from hba.policy_evaluation.baselines import RowConfig
from hba.policy_evaluation.jobs import Job
from hba.policy_evaluation.leakage import LeakageReport
from hba.policy_evaluation.statistics import PairedDifference, Resolution
from hba.policy_evaluation.verdict import Verdict, best_other, verdict, what_it_can_tell
from hba.report.results import RESULTS_NAME, Results
from hba.training.metrics import Confusion, Measured
from hba.utils.files import write_text
from hba.utils.text import first_of

FREE_SETTINGS = ("seeds", "data_root", "download", "workers", "pretrained")
"""Settings that may differ when an evaluation is resumed: they do not change what a training finds. Weights may have
moved; their hash identifies them."""


@dataclass(frozen=True)
class EvaluationRow:
    """One augmentation: the test error after the last epoch in per cent, one value for each of `seeds`, which ascend.

    definition: equal for rows that train with the same. mean: None before the first training. std: the sample standard
    deviation over seeds, None for fewer than two. confusion: on the test split, one for each seed. test_loss: the mean
    loss on it in nats. Both are None where an older version did not keep them; so is a loss that is not finite.
    """

    name: str
    test_error_percent: tuple[float, ...]
    seeds: tuple[int, ...]
    definition: str
    confusion: tuple[Confusion | None, ...] = ()
    test_loss: tuple[float | None, ...] = ()

    def __repr__(self) -> str:
        return f"EvaluationRow({self.name!r}, test_error_percent={_rounded(self)}, seeds={len(self.seeds)})"

    @property
    def mean(self) -> float | None:
        return mean_of(self.test_error_percent)

    @property
    def std(self) -> float | None:
        return std_of(self.test_error_percent)

    def by_seed(self) -> Mapping[int, float]:
        return dict(zip(self.seeds, self.test_error_percent, strict=True))

    @property
    def test_loss_by_seed(self) -> Mapping[int, float]:
        """In nats, for the seeds that have it."""
        return {seed: loss for seed, loss in zip(self.seeds, self.test_loss, strict=False) if loss is not None}

    @property
    def balanced_accuracy_percent(self) -> Mapping[int, float]:
        """The mean recall over classes on the test split, for the seeds that have it."""
        found = zip(self.seeds, self.confusion, strict=False)
        return {seed: confusion.balanced_accuracy_percent for seed, confusion in found if confusion is not None}


@dataclass(frozen=True)
class EvaluationResult:
    """One row per augmentation, the schedule's first, and what the numbers depend on.

    fingerprints: a hash of each split's images, by its name. searched: one report for each row that is a schedule.
    class_names: by label. own_network: the definition (see CustomNetwork) of the user's network in the place of
    config.model, else None. pretrained: SHA-256 of the weights that config.model started from; None for fresh ones.
    error: how the error is defined where images have several labels; None for the share of wrong answers.
    wall_seconds: of all trainings, over all runs of a resumed evaluation. report: the page of a finished evaluation,
    None without a folder.
    """

    rows: tuple[EvaluationRow, ...]
    config: EvaluationConfig
    train_images: int
    test_images: int
    skipped_images: int
    fingerprints: Mapping[str, str]
    environment: Mapping[str, Any]
    searched: tuple[LeakageReport, ...] = ()
    class_names: tuple[str, ...] = ()
    own_network: str | None = None
    pretrained: str | None = None
    error: str | None = None
    wall_seconds: float = field(default=0.0, compare=False)
    report: Path | None = field(default=None, compare=False)

    def __repr__(self) -> str:
        """One line: the first rows with their test errors in per cent."""
        rows = first_of([f"{row.name} {_rounded(row)}" for row in self.rows])
        return f"EvaluationResult({rows}; model={self.model!r}, test_images={self.test_images})"

    @property
    def model(self) -> str:
        """The network's name: the setting, or the class of the user's own."""
        return self.config.model if self.own_network is None else self.own_network.partition(" ")[0]

    @property
    def differences(self) -> Mapping[str, PairedDifference | None]:
        """By name of each row but the schedule's: the schedule's test error minus the row's, paired by seed; None where
        they share no seed yet.
        """
        return self._differences([row.by_seed() for row in self.rows])

    @property
    def balanced_accuracy_differences(self) -> Mapping[str, PairedDifference | None]:
        """As `differences`, of balanced accuracy; above zero, the schedule is better."""
        return self._differences([row.balanced_accuracy_percent for row in self.rows])

    @property
    def test_loss_differences(self) -> Mapping[str, PairedDifference | None]:
        """As `differences`, of the test loss in nats. The verdict is on the error."""
        return self._differences([row.test_loss_by_seed for row in self.rows])

    def _differences(self, by_seed: Sequence[Mapping[int, float]]) -> Mapping[str, PairedDifference | None]:
        schedule, *others = by_seed
        names = [row.name for row in self.rows[1:]]
        return {name: PairedDifference.of(schedule, minus=other) for name, other in zip(names, others, strict=True)}

    @property
    def is_unbalanced(self) -> bool:
        """Whether the classes of the test split differ so much in size that the error hides the small ones.

        False where no confusion matrix was kept.
        """
        return any(one is not None and one.is_unbalanced for row in self.rows for one in row.confusion)

    @property
    def resolution(self) -> Resolution | None:
        """How small a difference to the best other row these numbers can show; None where there is none to compare."""
        best, mean = best_other(self.differences), self.rows[0].mean
        # With several labels, an error is no share of test images.
        n_answers = self.test_images if self.error is None else None
        return None if best is None or mean is None else Resolution.of(best.difference, mean, n_answers)

    @property
    def warnings(self) -> tuple[str, ...]:
        """One for each row whose search has seen test images, which the caller has allowed."""
        return tuple(searched.warning for searched in self.searched if searched.seen)

    @property
    def verdict(self) -> Verdict | None:
        """The schedule against the best other row; None where there is nothing to compare.

        Its sentence also names the rows whose search has seen test images, and says how far to trust the verdict.
        """
        found, best, resolution = verdict(self.differences), best_other(self.differences), self.resolution
        if found is None or best is None or resolution is None:
            return None
        seen = [f"{warning}." for warning in self.warnings]
        fresh = 1 + max(seed for row in self.rows for seed in row.seeds)
        trust = what_it_can_tell(best, resolution, [row.name for row in self.rows], fresh)
        what = [] if self.error is None else [f"Test error: {self.error}."]
        return replace(found, sentence=" ".join([found.sentence, *what, *seen, trust]))

    def save(self, path: Path) -> None:
        """Write results.json completely or not at all."""
        found = self.verdict
        details = None if found is None else {name: one for name, one in asdict(found).items() if name != "sentence"}
        content = {
            "rows": self._rows_as_json(),
            "verdict": None if found is None else found.sentence,
            # Beside the text, which readers of earlier versions expect.
            "verdict_details": details,
            "resolution": None if self.resolution is None else asdict(self.resolution),
            "searched": [asdict(searched) for searched in self.searched],
            "settings": {**self.config.model_dump(), **({} if self.own_network is None else {"model": None})},
            "own_network": self.own_network,
            **({} if self.pretrained is None else {"pretrained": self.pretrained}),
            **({} if self.error is None else {"error": self.error}),
            "train_images": self.train_images,
            "test_images": self.test_images,
            # A file's name may have bytes that are no text.
            "class_names": [name.encode("utf-8", "backslashreplace").decode() for name in self.class_names],
            "skipped_images": self.skipped_images,
            "fingerprints": dict(self.fingerprints),
            "wall_seconds": self.wall_seconds,
            **self.environment,
        }
        write_text(path, json.dumps(content, indent=2) + "\n")

    def _rows_as_json(self) -> list[dict[str, Any]]:
        errors, losses, balanced = self.differences, self.test_loss_differences, self.balanced_accuracy_differences
        return [
            {
                "name": row.name,
                "test_error_percent": row.test_error_percent,
                "seeds": row.seeds,
                "definition": row.definition,
                **_summary(row.by_seed(), errors.get(row.name)),
                "test_loss": {
                    "nats": [row.test_loss_by_seed.get(seed) for seed in row.seeds],
                    **_summary(row.test_loss_by_seed, losses.get(row.name)),
                },
                "balanced_accuracy": {
                    "percent": [row.balanced_accuracy_percent.get(seed) for seed in row.seeds],
                    **_summary(row.balanced_accuracy_percent, balanced.get(row.name)),
                },
                "confusion": [None if one is None else one.counts() for one in row.confusion],
            }
            for row in self.rows
        ]


def _summary(by_seed: Mapping[int, float], difference: PairedDifference | None) -> dict[str, Any]:
    values = tuple(by_seed.values())
    minus = None if difference is None else asdict(difference)
    return {"mean": mean_of(values), "std": std_of(values), "schedule_minus_row": minus}


def mean_of(values: Sequence[float]) -> float | None:
    """None of no values."""
    return statistics.mean(values) if values else None


def std_of(values: Sequence[float]) -> float | None:
    """The sample standard deviation; None of fewer than two values."""
    return statistics.stdev(values) if len(values) > 1 else None


def _rounded(row: EvaluationRow) -> str:
    """Mean and standard deviation, as far as there are any."""
    if row.mean is None:
        return "None"
    return f"{row.mean:.2f}" if row.std is None else f"{row.mean:.2f} +- {row.std:.2f}"


class Record:
    """Collects the numbers of all rows, and writes results.json after every training.

    data: on the device of the trainings; its test split is looked at only after a training has measured it. folder:
    None writes nothing. stored: the evaluation that is resumed; SettingsError where its images have changed.
    """

    def __init__(
        self,
        rows: Sequence[RowConfig],
        config: EvaluationConfig,
        data: EvaluationData,
        environment: Mapping[str, Any],
        folder: Path | None,
        stored: Results | None,
        searched: tuple[LeakageReport, ...],
    ) -> None:
        self._rows, self._config, self._data, self._searched = rows, config, data, searched
        self._environment, self._folder, self._stored = environment, folder, stored
        self._began, self._seconds_before = time.monotonic(), 0.0 if stored is None else stored.wall_seconds or 0.0
        self._found: dict[str, dict[int, tuple[float, float | None, Confusion | None]]] = {row.name: {} for row in rows}
        self._fingerprints = {"training": data.train.fingerprint()}
        if stored is not None:
            if folder is not None:
                check_kept("training images", stored.fingerprints.get("training"), self.training_fingerprint, folder)
            for row in stored.rows:
                found = zip(row.test_error_percent, row.losses(), row.confusions(len(data.class_names)), strict=True)
                self._found[row.name] = dict(zip(row.seeds, found, strict=True))

    @property
    def training_fingerprint(self) -> str:
        return self._fingerprints["training"]

    def to_do(self) -> list[Job]:
        """Seed by seed over all rows, so that an interrupted evaluation has pairs."""
        seeds = self._config.training_seeds
        return [Job(row, seed) for seed in seeds for row in self._rows if seed not in self._found[row.name]]

    def add(self, job: Job, measured: Measured) -> None:
        """Keep the result of a training. SettingsError where the test images are not those of the stored evaluation."""
        if "test" not in self._fingerprints:
            test = self._data.test
            fingerprint = (test.opened() if isinstance(test, LazySplit) else test).fingerprint()
            if self._stored is not None and self._folder is not None:
                check_kept("test images", self._stored.fingerprints.get("test"), fingerprint, self._folder)
            self._fingerprints["test"] = fingerprint
        loss = measured.loss if math.isfinite(measured.loss) else None
        self._found[job.row.name][job.seed] = (measured.error_percent, loss, measured.confusion)
        if self._folder is not None:
            self.result().save(self._folder / RESULTS_NAME)

    def result(self) -> EvaluationResult:
        """Everything so far. The test split has been measured, now or in the stored evaluation."""
        if "test" in self._fingerprints:
            test_images, fingerprints = len(self._data.test), dict(self._fingerprints)
            test = self._data.test
            test = test.opened() if isinstance(test, LazySplit) else test
            skipped_images = len(self._data.train.left_out) + len(test.left_out)
        else:
            assert self._stored is not None
            test_images, fingerprints = self._stored.test_images, dict(self._stored.fingerprints)
            skipped_images = self._stored.skipped_images
        first = self._rows[0]
        return EvaluationResult(
            rows=tuple(self._row(row) for row in self._rows),
            config=self._config,
            train_images=len(self._data.train),
            test_images=test_images,
            skipped_images=skipped_images,
            fingerprints=fingerprints,
            environment=self._environment,
            searched=self._searched,
            own_network=first.network_definition,
            error=error_of(self._data.train.labels),
            pretrained=None if first.start is None else first.start.pretrained.sha256,
            class_names=self._data.class_names,
            wall_seconds=round(self._seconds_before + time.monotonic() - self._began, 1),
        )

    def _row(self, row: RowConfig) -> EvaluationRow:
        found = dict(sorted(self._found[row.name].items()))
        errors, losses, confusions = zip(*found.values(), strict=True) if found else ((), (), ())
        return EvaluationRow(row.name, errors, tuple(found), row.definition, confusions, losses)


def check_resumable(stored: Results, config: EvaluationConfig, rows: Sequence[RowConfig], folder: Path) -> None:
    """HbaError unless the evaluation in the folder has the same network, weights, settings and rows.

    There may be more seeds now, and more rows after the stored ones.
    """
    first, by_name = rows[0], "a model by name"
    weights = None if first.start is None else first.start.pretrained.sha256
    check_kept("network", stored.own_network or by_name, first.network_definition or by_name, folder)
    check_kept("pretrained weights", stored.pretrained or "none", weights or "none", folder)
    # Without a model where the network was the user's own.
    replaced = () if stored.own_network is None else ("model",)
    try:
        before = EvaluationConfig.make({name: value for name, value in stored.settings.items() if name not in replaced})
    except HbaError as error:
        raise RunError(f"{folder} cannot be resumed: its settings are refused ({error})") from None
    for name in EvaluationConfig.model_fields:
        if name not in (*FREE_SETTINGS, *replaced):
            check_kept(name, repr(getattr(before, name)), repr(getattr(config, name)), folder)
    if config.seeds < before.seeds:
        check_kept("seeds, or has more", str(before.seeds), str(config.seeds), folder)
    names, given = [row.name for row in stored.rows], [row.name for row in rows]
    if names != given[: len(names)]:
        check_kept("rows, and new ones come last", ", ".join(names), ", ".join(given), folder)
    for old, row in zip(stored.rows, rows, strict=False):
        check_kept(f"row {old.name}", old.definition, row.definition, folder)


def check_kept(what: str, before: str | None, now: str, folder: Path | None) -> None:
    """SettingsError where a resumed evaluation would change what decides its numbers."""
    if before != now:
        raise SettingsError(
            f"a resumed evaluation keeps its {what}; {folder} has {before} (now {now}): give the same again, or start "
            "anew with another --out"
        )
