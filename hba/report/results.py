"""The results of an evaluation: one row of test errors per augmentation, as results.json stores them."""

import json
import statistics
from collections.abc import Mapping
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import pydantic

from hba.config.evaluation import EvaluationConfig
from hba.errors import RunError
from hba.report.statistics import PairedDifference, Resolution
from hba.report.verdict import Verdict, best_other, verdict, what_it_can_tell
from hba.training.metrics import Confusion, Counts
from hba.utils.files import read_text, reason_of, write_text
from hba.utils.settings import first_problem
from hba.utils.text import first_of

RESULTS_NAME = "results.json"
"""The file of an evaluation's results in its folder."""
TEXT_EVALUATION = "hba-text-evaluation"
"""The format of what hba evaluate-text writes, in a file of the same name."""
ENVIRONMENT = ("device", "device_name", "n_threads", "jobs", "n_processes", "machines", "python", "packages")
"""Keys of what made the numbers, beside the other ones of the file."""

STORED_COUNTS = pydantic.AliasChoices("confusion", "counts")
BySeed = Mapping[int, float]
Percent = Annotated[float, pydantic.Field(ge=0, le=100, allow_inf_nan=False)]
Nats = Annotated[float, pydantic.Field(allow_inf_nan=False)]
Measure = Literal["test_error", "test_loss", "balanced_accuracy"]


class EvaluationRow(pydantic.BaseModel):
    """One augmentation: the test error after the last epoch in per cent, one value for each of `seeds`, which ascend.

    definition: equal for rows that train with the same. counts: of each seed, images of the test split by label and
    answer; n_classes: of `confusion`. test_loss: the mean loss on it in nats. Values that an older version did not
    store are None or missing; so is a loss that is not finite.
    """

    model_config = pydantic.ConfigDict(frozen=True)

    name: str
    test_error_percent: tuple[Percent, ...]
    seeds: tuple[int, ...]
    definition: str
    test_loss: tuple[Nats | None, ...] = ()
    counts: Annotated[tuple[Counts | None, ...], pydantic.Field(validation_alias=STORED_COUNTS)] = ()
    n_classes: int = 0

    @pydantic.field_validator("test_loss", mode="before")
    @classmethod
    def _nats(cls, given: Any) -> Any:
        """In the file, the losses stand beside their mean and differences."""
        return given.get("nats") if isinstance(given, dict) else given

    @pydantic.model_validator(mode="after")
    def _check(self) -> "EvaluationRow":
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"row {self.name} must have each seed once")
        found = {"test error": self.test_error_percent, "test loss": self.test_loss, "confusion matrix": self.confusion}
        for name, values in found.items():
            if len(values) != len(self.seeds) and (values or name == "test error"):
                raise ValueError(f"row {self.name} must have one {name} for each seed")
        return self

    def __repr__(self) -> str:
        return f"EvaluationRow({self.name!r}, test_error_percent={self.rounded}, seeds={len(self.seeds)})"

    @property
    def mean(self) -> float | None:
        """Of the test errors; None before the first training."""
        return mean_of(self.by_seed())

    @property
    def std(self) -> float | None:
        """The sample standard deviation of the test errors over seeds; None for fewer than two."""
        return std_of(self.by_seed())

    @property
    def rounded(self) -> str:
        """`3.20 +- 0.14`, as far as mean and standard deviation exist."""
        return "None" if self.mean is None else f"{self.mean:.2f}" + ("" if self.std is None else f" +- {self.std:.2f}")

    @cached_property
    def confusion(self) -> tuple[Confusion | None, ...]:
        """On the test split, one for each seed."""
        return tuple(None if one is None else Confusion(self.n_classes, one) for one in self.counts)

    def by_seed(self) -> BySeed:
        """Test errors in per cent."""
        return dict(zip(self.seeds, self.test_error_percent, strict=True))

    @property
    def test_loss_by_seed(self) -> BySeed:
        """In nats, for the seeds that have it."""
        return {seed: loss for seed, loss in zip(self.seeds, self.test_loss, strict=False) if loss is not None}

    @property
    def balanced_accuracy_percent(self) -> BySeed:
        """The mean recall over classes on the test split, for the seeds that have it."""
        found = zip(self.seeds, self.confusion, strict=False)
        return {seed: confusion.balanced_accuracy_percent for seed, confusion in found if confusion is not None}

    def measured(self, measure: Measure) -> BySeed:
        """One of the three, by seed."""
        if measure == "test_error":
            return self.by_seed()
        return self.test_loss_by_seed if measure == "test_loss" else self.balanced_accuracy_percent


class LeakageReport(pydantic.BaseModel):
    """What the search of a row's schedule has seen of the test images of this evaluation.

    test_images_seen: how many of the test_images the search has trained or validated on; None where that is not known.
    seen_is_estimate: known from a sample of the search's images.
    """

    model_config = pydantic.ConfigDict(frozen=True)

    row: str = "the schedule"
    test_images_seen: int | None = None
    test_images: int | None = None
    seen_is_estimate: bool = False

    @property
    def seen(self) -> str | None:
        """`12 of the 16 test images`; None for none, and where it is not known."""
        if not self.test_images_seen:
            return None
        about = "about " if self.seen_is_estimate else ""
        return f"{about}{self.test_images_seen} of the {self.test_images} test images"

    @property
    def warning(self) -> str:
        """For a search that has seen test images."""
        return f"The search of {self.row} has seen {self.seen}: its error on them is too low"


class EvaluationResult(pydantic.BaseModel):
    """One row per augmentation, the schedule's first, and what the numbers depend on.

    settings: by name; model is None for a network of the user's own. own_network: its definition (see CustomNetwork),
    else None. fingerprints: a hash of each split's images, by its name. searched: one report for each row that is a
    schedule. class_names: by label. pretrained: SHA-256 of the weights that the model started from; None for fresh
    ones. error: how the error is defined where images have several labels; None for the share of wrong answers.
    environment: hardware and versions. wall_seconds: of all trainings, over all runs of a resumed evaluation. report:
    the page of a finished evaluation, None without a folder.
    """

    model_config = pydantic.ConfigDict(frozen=True)

    # Before rows, whose confusion matrices need their number.
    class_names: tuple[str, ...] | None = None
    rows: tuple[EvaluationRow, ...] = pydantic.Field(min_length=1)
    settings: Mapping[str, Any]
    train_images: int
    test_images: int
    skipped_images: int
    fingerprints: Mapping[str, str]
    environment: Mapping[str, Any]
    searched: tuple[LeakageReport, ...] = ()
    own_network: str | None = None
    pretrained: str | None = None
    error: str | None = None
    wall_seconds: float = 0.0
    report: Path | None = None

    @pydantic.model_validator(mode="before")
    @classmethod
    def _from_file(cls, content: Any) -> Any:
        """In the file, the keys of the environment stand beside the others."""
        if not isinstance(content, dict) or "environment" in content or "device" not in content:
            return content
        return {**content, "environment": {name: content[name] for name in ENVIRONMENT if name in content}}

    @pydantic.field_validator("rows", mode="before")
    @classmethod
    def _with_classes(cls, rows: Any, info: pydantic.ValidationInfo) -> Any:
        n_classes = len(info.data.get("class_names") or ())
        known = rows if isinstance(rows, list | tuple) else []
        return [{**row, "n_classes": n_classes} if isinstance(row, dict) else row for row in known]

    def __repr__(self) -> str:
        """One line: the first rows with their test errors in per cent."""
        rows = first_of([f"{row.name} {row.rounded}" for row in self.rows])
        return f"EvaluationResult({rows}; model={self.model!r}, test_images={self.test_images})"

    __str__ = __repr__

    @property
    def config(self) -> EvaluationConfig:
        """The settings, checked."""
        settings = dict(self.settings)
        if settings.get("model", "") is None:
            del settings["model"]
        return EvaluationConfig.make(settings)

    @property
    def model(self) -> str:
        """The network's name: the setting, or the class of the user's own."""
        return str(self.settings.get("model")) if self.own_network is None else self.own_network.partition(" ")[0]

    @property
    def n_trainings(self) -> int:
        return sum(len(row.seeds) for row in self.rows)

    def schedule_minus(self, measure: Measure) -> Mapping[str, PairedDifference | None]:
        """By name of each row but the schedule's: the schedule's number minus the row's, paired by seed; None where
        they share no seed yet.
        """
        first = self.rows[0].measured(measure)
        return {row.name: PairedDifference.of(first, minus=row.measured(measure)) for row in self.rows[1:]}

    @cached_property
    def differences(self) -> Mapping[str, PairedDifference | None]:
        """`schedule_minus` of test errors in percentage points; below zero, the schedule is better."""
        return self.schedule_minus("test_error")

    @property
    def balanced_accuracy_differences(self) -> Mapping[str, PairedDifference | None]:
        """As `differences`, of balanced accuracy; above zero, the schedule is better."""
        return self.schedule_minus("balanced_accuracy")

    @property
    def test_loss_differences(self) -> Mapping[str, PairedDifference | None]:
        """As `differences`, of the test loss in nats. The verdict is on the error."""
        return self.schedule_minus("test_loss")

    @property
    def is_unbalanced(self) -> bool:
        """Whether the classes of the test split differ so much in size that the error hides the small ones.

        False where no confusion matrix was stored.
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
        fresh = 1 + max(seed for row in self.rows for seed in row.seeds)
        trust = what_it_can_tell(best, resolution, fresh)
        what = [] if self.error is None else [f"Test error: {self.error}."]
        sentences = [found.sentence, *what, *(f"{warning}." for warning in self.warnings), trust]
        return replace(found, sentence=" ".join(sentences))

    def save(self, path: Path) -> None:
        """Write results.json completely or not at all, with means, differences and the verdict beside the numbers."""
        found = self.verdict
        content = {
            "rows": [self._row(row) for row in self.rows],
            "verdict": None if found is None else found.sentence,
            "verdict_details": found and {name: one for name, one in asdict(found).items() if name != "sentence"},
            "resolution": self.resolution and asdict(self.resolution),
            **self.model_dump(exclude={"rows", "environment", "report"}),
            # A file's name may have bytes that are no text.
            "class_names": [name.encode("utf-8", "backslashreplace").decode() for name in self.class_names or ()],
            **self.environment,
        }
        write_text(path, json.dumps(content, indent=2) + "\n")

    def _row(self, row: EvaluationRow) -> dict[str, Any]:
        def summary(measure: Measure) -> dict[str, Any]:
            first, by_seed = self.rows[0], row.measured(measure)
            minus = None if row is first else PairedDifference.of(first.measured(measure), minus=by_seed)
            return {"mean": mean_of(by_seed), "std": std_of(by_seed), "schedule_minus_row": minus and asdict(minus)}

        balanced = [row.balanced_accuracy_percent.get(seed) for seed in row.seeds]
        return {
            **row.model_dump(include={"name", "test_error_percent", "seeds", "definition"}),
            **summary("test_error"),
            "test_loss": {"nats": [row.test_loss_by_seed.get(seed) for seed in row.seeds], **summary("test_loss")},
            "balanced_accuracy": {"percent": balanced, **summary("balanced_accuracy")},
            "confusion": row.counts,
        }


def mean_of(by_seed: BySeed) -> float | None:
    """None before the first training."""
    return statistics.mean(by_seed.values()) if by_seed else None


def std_of(by_seed: BySeed) -> float | None:
    """The sample standard deviation over seeds; None for fewer than two."""
    return statistics.stdev(by_seed.values()) if len(by_seed) > 1 else None


def read_results(path: Path, must: str = "is not what an evaluation writes", remedy: str = "") -> EvaluationResult:
    """RunError for a file that cannot be read or breaks its format. must, remedy: what it says then."""
    try:
        content = json.loads(read_text(path))
        if isinstance(content, dict) and content.get("format") == TEXT_EVALUATION:
            raise RunError(
                f"{path} is of language models: hba evaluate-text POLICY --out {path.parent} --resume shows it{remedy}"
            )
        return EvaluationResult.model_validate(content)
    except pydantic.ValidationError as error:
        raise RunError(f"{path} {must}: {first_problem(error)}{remedy}") from None
    except (OSError, ValueError, RecursionError) as error:
        raise RunError(f"{path} cannot be read: {reason_of(error)}{remedy}") from None
