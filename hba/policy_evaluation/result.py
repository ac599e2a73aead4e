"""What an evaluation found: one row of test errors per augmentation, in results.json."""

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from hba.config.evaluation import EvaluationConfig
from hba.policy_evaluation.paired import PairedDifference
from hba.policy_evaluation.resolution import Resolution
from hba.policy_evaluation.searched import Searched
from hba.policy_evaluation.verdict import Verdict, best_other, verdict, what_it_can_tell
from hba.training.metrics import Confusion
from hba.utils.files import write_text
from hba.utils.text import first_of


@dataclass(frozen=True)
class EvaluationRow:
    """One augmentation: test error in per cent of the last epoch, one value for each of `seeds`, which ascend.

    definition: equal for rows that train with the same. mean: None before the first. std: the sample standard deviation
    over seeds, None for fewer than two. confusion: of the test split, one for each seed; test_loss: mean loss on it in
    nats; both None where an older version did not keep it, and a loss that is not finite.
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
        """In nats, as far as it was kept."""
        return {seed: loss for seed, loss in zip(self.seeds, self.test_loss, strict=False) if loss is not None}

    @property
    def balanced_accuracy_percent(self) -> Mapping[int, float]:
        """The mean recall over classes on the test split, by seed, as far as it was kept."""
        found = zip(self.seeds, self.confusion, strict=False)
        return {seed: confusion.balanced_accuracy_percent for seed, confusion in found if confusion is not None}


@dataclass(frozen=True)
class EvaluationResult:
    """One row per augmentation, the schedule's first, and what the numbers depend on.

    fingerprints: a hash of each split's images, by its name. searched: one for each row that is a schedule.
    class_names: by label.
    own_network: the definition (see CustomNetwork) of a network that took the place of config.model; else None.
    pretrained: SHA-256 of the weights that config.model began with; None for fresh ones. error: what an error is where
    images have several labels; None for the share of wrong answers.
    wall_seconds: of all trainings, over all runs of a resumed evaluation. report: the page in the folder of a finished
    evaluation, None where there is none.
    """

    rows: tuple[EvaluationRow, ...]
    config: EvaluationConfig
    train_images: int
    test_images: int
    skipped_images: int
    fingerprints: Mapping[str, str]
    environment: Mapping[str, Any]
    searched: tuple[Searched, ...] = ()
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
        schedule, *others = self.rows
        return {row.name: PairedDifference.of(schedule.by_seed(), minus=row.by_seed()) for row in others}

    @property
    def balanced_accuracy_differences(self) -> Mapping[str, PairedDifference | None]:
        """As `differences`, of balanced accuracy, so above zero the schedule is better."""
        schedule, *others = self.rows
        mine = schedule.balanced_accuracy_percent
        return {row.name: PairedDifference.of(mine, minus=row.balanced_accuracy_percent) for row in others}

    @property
    def test_loss_differences(self) -> Mapping[str, PairedDifference | None]:
        """As `differences`, of the test loss in nats. The verdict is on the error."""
        schedule, *others = self.rows
        mine = schedule.test_loss_by_seed
        return {row.name: PairedDifference.of(mine, minus=row.test_loss_by_seed) for row in others}

    @property
    def is_unbalanced(self) -> bool:
        """Whether a class of the test split has so many more images than another that the error hides the small one.

        False where no confusion matrix was kept.
        """
        return any(one is not None and one.is_unbalanced for row in self.rows for one in row.confusion)

    @property
    def resolution(self) -> Resolution | None:
        """How small a difference to the best other row these numbers can show; None where there is none to compare."""
        best, mean = best_other(self.differences), self.rows[0].mean
        return None if best is None or mean is None else Resolution.of(best.difference, mean, self._n_answers)

    @property
    def _n_answers(self) -> int | None:
        """Number of test images whose answers are right or wrong; None where an error is no share of such."""
        return self.test_images if self.error is None else None

    @property
    def warnings(self) -> tuple[str, ...]:
        """Test images that were seen by a search, by row, for the caller allowed it."""
        return tuple(searched.warning for searched in self.searched if searched.seen)

    @property
    def verdict(self) -> Verdict | None:
        """The schedule against the best other row; None where there is nothing to compare.

        Its sentence also says which rows were seen by a search, and how far the verdict is to be trusted.
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
        """Write results.json whole or not at all."""
        found = self.verdict
        content = {
            "rows": self._rows_as_json(),
            "verdict": None if found is None else found.sentence,
            # Beside the text, which readers of earlier versions expect.
            "verdict_details": None if found is None else _without_sentence(found),
            "resolution": _as_json(self.resolution),
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
        differences, losses, balanced = self.differences, self.test_loss_differences, self.balanced_accuracy_differences
        return [
            {
                "name": row.name,
                "test_error_percent": row.test_error_percent,
                "seeds": row.seeds,
                "definition": row.definition,
                "mean": row.mean,
                "std": row.std,
                "schedule_minus_row": _as_json(differences.get(row.name)),
                "test_loss": _losses_as_json(row, losses.get(row.name)),
                "balanced_accuracy": _balanced_as_json(row, balanced.get(row.name)),
                "confusion": [None if one is None else one.counts() for one in row.confusion],
            }
            for row in self.rows
        ]


def mean_of(values: Sequence[float]) -> float | None:
    """None of no values."""
    return statistics.mean(values) if values else None


def std_of(values: Sequence[float]) -> float | None:
    """The sample standard deviation; None of fewer than two values."""
    return statistics.stdev(values) if len(values) > 1 else None


def _balanced_as_json(row: EvaluationRow, difference: PairedDifference | None) -> dict[str, Any]:
    found = row.balanced_accuracy_percent
    values = tuple(found.values())
    return {
        "percent": [found.get(seed) for seed in row.seeds],
        "mean": mean_of(values),
        "std": std_of(values),
        "schedule_minus_row": _as_json(difference),
    }


def _losses_as_json(row: EvaluationRow, difference: PairedDifference | None) -> dict[str, Any]:
    found = row.test_loss_by_seed
    values = tuple(found.values())
    return {
        "nats": [found.get(seed) for seed in row.seeds],
        "mean": mean_of(values),
        "std": std_of(values),
        "schedule_minus_row": _as_json(difference),
    }


def _without_sentence(found: Verdict) -> dict[str, Any]:
    return {name: value for name, value in asdict(found).items() if name != "sentence"}


def _rounded(row: EvaluationRow) -> str:
    """Mean and standard deviation, as far as there are any."""
    if row.mean is None:
        return "None"
    return f"{row.mean:.2f}" if row.std is None else f"{row.mean:.2f} +- {row.std:.2f}"


def _as_json(value: PairedDifference | Resolution | None) -> dict[str, Any] | None:
    return None if value is None else asdict(value)
