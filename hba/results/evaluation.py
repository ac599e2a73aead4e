"""The results of an evaluation: a row of test errors for each augmentation, as stored
in results.json.
"""

import base64
import json
import math
import statistics
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np
import pydantic

from hba.config.evaluation import EvaluationConfig
from hba.data.images import Scale
from hba.errors import RunError
from hba.results.answer import Answer, answer
from hba.results.statistics import PairedDifference
from hba.training.metrics import Confusion, Measured
from hba.utils.files import read_text, reason_of, write_text
from hba.utils.graphs import StepCounts
from hba.utils.settings import first_problem
from hba.utils.text import first_of, percent

RESULTS_NAME = "results.json"
"""The file of an evaluation's results in its folder."""
GRAPHS = "graphs"
ENVIRONMENT = (
    "device",
    "device_name",
    "n_threads",
    "jobs",
    "machines",
    "python",
    "packages",
    GRAPHS,
)
"""Keys of the hardware and software, next to the other keys of the file. GRAPHS: the
fields of StepCounts, on a GPU.
"""

BySeed = Mapping[int, float]
Percent = Annotated[float, pydantic.Field(ge=0, allow_inf_nan=False)]
Nats = Annotated[float, pydantic.Field(allow_inf_nan=False)]
Measure = Literal["test_error", "test_loss", "balanced_accuracy"]
MEASURES: Mapping[Measure, tuple[str, str, int]] = {
    "test_error": ("test_error_percent", "test error, %", 2),
    "test_loss": ("nats", "test loss", 3),
    "balanced_accuracy": ("percent", "balanced accuracy, %", 2),
}
"""Key of the values in the file, heading and decimals. The balanced accuracy is the
mean recall over classes.
"""


OF_SEEDS = (
    "seeds",
    "test_error_percent",
    "test_loss",
    "confusion",
    "wrong",
    "class_error_percents",
)
"""Fields of a row with a value for each seed."""


class EvaluationRow(pydantic.BaseModel):
    """An augmentation, and what was measured on the test split after the last epoch of
    each training.
    """

    model_config = pydantic.ConfigDict(frozen=True)

    name: str
    test_error_percent: tuple[Percent, ...] = ()
    """Test error of each seed in per cent."""
    seeds: tuple[int, ...] = ()
    """Seeds of the trainings, ascending."""
    definition: str
    """Equal for rows with the same augmentation."""
    test_loss: tuple[Nats | None, ...] = ()
    """Mean loss of each seed in nats; None if it is not finite."""
    confusion: tuple[Confusion | None, ...] = ()
    """Confusion matrix of each seed; None if images have several labels."""
    wrong: tuple[str | None, ...] = pydantic.Field(default=(), repr=False)
    """For each seed, the part of each test image in the error, as `image_errors` reads
    it; None if images have several labels.
    """
    class_error_percents: tuple[tuple[Percent | None, ...] | None, ...] = ()
    """For each seed, the error of each class, if the error is a mean over classes."""

    @pydantic.model_validator(mode="after")
    def _check(self) -> Self:
        columns = [getattr(self, name) for name in OF_SEEDS if name != "seeds"]
        if any(len(column) != len(self.seeds) for column in columns):
            raise ValueError(
                f"row {self.name} must have one value of each measure for each seed"
            )
        return self

    @property
    def mean(self) -> float | None:
        """Mean of the test errors; None before the first training."""
        return mean_of(self.by_seed())

    def by_seed(self, measure: Measure = "test_error") -> BySeed:
        """Test errors or balanced accuracies in per cent, or losses in nats, for the
        seeds that have them.
        """
        values: tuple[float | None, ...] = (
            self.test_error_percent if measure == "test_error" else self.test_loss
        )
        if measure == "balanced_accuracy":
            values = tuple(
                None if confusion is None else confusion.balanced_accuracy_percent
                for confusion in self.confusion
            )
        return {
            seed: value
            for seed, value in zip(self.seeds, values, strict=True)
            if value is not None
        }

    @property
    def answers(self) -> np.ndarray | None:
        """int64 (classes, classes): test images by class and answer, over all seeds;
        None if images have several labels.
        """
        matrices = [
            confusion.matrix() for confusion in self.confusion if confusion is not None
        ]
        return np.sum(matrices, axis=0) if matrices else None

    @property
    def is_uneven(self) -> bool:
        """Whether the largest class has twice the test images of the smallest, so that
        the balanced error matters.
        """
        images = next(
            (
                confusion.matrix().sum(1)
                for confusion in self.confusion
                if confusion is not None
            ),
            np.ones(1),
        )
        return bool(images.max() >= 2 * images[images > 0].min())

    def image_errors(self, n_images: int) -> Mapping[int, np.ndarray]:
        """The part of each test image (n_images,) in the error, whose mean is the
        error as a share, by seed; empty if images have several labels.

        `wrong` has them as base64: of numpy.packbits if images are answered rightly or
        wrongly, else of numbers of 32 bits, the lowest byte first.

        Args:
            n_images: Number of test images.

        Raises:
            ValueError: If they are of another number of images.
        """
        image_errors = {}
        for seed, text in zip(self.seeds, self.wrong, strict=True):
            if text is None:
                continue
            content = base64.b64decode(text, validate=True)
            if len(content) == math.ceil(n_images / 8):
                bits = np.unpackbits(np.frombuffer(content, np.uint8), count=n_images)
                image_errors[seed] = bits.astype(np.float64)
            elif len(content) == 4 * n_images:
                image_errors[seed] = np.frombuffer(content, "<f4").astype(np.float64)
            else:
                raise ValueError(
                    f"row {self.name} must have an entry in wrong for each of"
                    f" {n_images} test images"
                )
        return image_errors

    def with_training(self, seed: int, test: Measured) -> "EvaluationRow":
        """The row with another training, in the order of seeds."""
        trainings = zip(*(getattr(self, name) for name in OF_SEEDS), strict=True)
        loss = test.loss if math.isfinite(test.loss) else None
        wrong = None
        if test.image_errors is not None:
            parts = test.image_errors.numpy()
            is_bits = parts.dtype == bool
            stored = np.packbits(parts) if is_bits else parts.astype("<f4")
            wrong = base64.b64encode(stored.tobytes()).decode()
        new = (
            seed,
            test.error_percent,
            loss,
            test.confusion,
            wrong,
            test.class_error_percents,
        )
        in_order = sorted([*trainings, new], key=lambda training: training[0])
        columns = zip(*in_order, strict=True)
        return self.model_copy(update=dict(zip(OF_SEEDS, columns, strict=True)))


class LeakageReport(pydantic.BaseModel):
    """Test images of this evaluation that the search of a row's schedule has seen."""

    model_config = pydantic.ConfigDict(frozen=True)

    row: str
    """Name of the row."""
    test_images_seen: int | None = None
    """Number of the test images that the search has trained or validated on; None if
    unknown.
    """
    test_images: int | None = None
    """Number of test images; None if it is unknown before they are read."""
    seen_is_estimate: bool = False
    """Whether test_images_seen is estimated from a sample of the search's images."""

    @property
    def warning(self) -> str | None:
        """A warning if the search has seen test images; None if it has seen none, or if
        that is unknown.
        """
        if not self.test_images_seen:
            return None
        seen = (
            f"{'about ' if self.seen_is_estimate else ''}{self.test_images_seen} of the"
            f" {self.test_images}"
        )
        return (
            f"The search of {self.row} has seen {seen} test images: its error on them"
            " is too low"
        )


class EvaluationResult(pydantic.BaseModel):
    """The result of an evaluation: a row for each augmentation, the schedule's first,
    and how they were measured.
    """

    model_config = pydantic.ConfigDict(frozen=True)

    class_names: tuple[str, ...]
    """Names of the classes, by label."""
    rows: tuple[EvaluationRow, ...] = pydantic.Field(min_length=1)
    settings: Mapping[str, Any]
    """Settings by name; model is None for the user's own network."""
    train_images: int
    test_images: int
    skipped_images: int
    """Number of files that were not used."""
    fingerprints: Mapping[str, str]
    """A hash of each split's images, by the name of the split."""
    environment: Mapping[str, Any]
    """Hardware and versions."""
    searched: tuple[LeakageReport, ...] = ()
    """One report for each row that is a schedule."""
    own_network: str | None = None
    """Definition of the user's own network (see CustomNetwork), if any."""
    pretrained: str | None = None
    """SHA-256 of the weights that the model started from; None for fresh ones."""
    error: str | None = None
    """Definition of the error; None for the share of wrong answers."""
    scale: Scale | None = None
    """The scale of numbers as labels; None for other labels."""
    test_std: float | None = None
    """The standard deviation of the test labels, if they are numbers; None before the
    first training.
    """
    wall_seconds: float = 0.0
    """Seconds of all trainings, over all runs of a resumed evaluation."""
    report: Path | None = None
    """The page of a finished evaluation; None without a folder."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _from_file(cls, content: Any) -> Any:
        """Convert the layout of the file: it has the keys of the environment next to
        the others, losses next to their mean, and counts of answers without the number
        of classes.
        """
        if (
            not isinstance(content, dict)
            or "environment" in content
            or "device" not in content
        ):
            return content
        n_classes = len(content["class_names"])
        rows = [
            {
                "class_error_percents": [None] * len(row["seeds"]),
                **row,
                "test_loss": row["test_loss"]["nats"],
                "confusion": [
                    counts and {"n_classes": n_classes, "counts": counts}
                    for counts in row["confusion"]
                ],
            }
            for row in content["rows"]
        ]
        environment = {name: content[name] for name in ENVIRONMENT if name in content}
        return {**content, "rows": rows, "environment": environment}

    @pydantic.model_validator(mode="after")
    def _check_parts(self) -> Self:
        n_classes = len(self.class_names)
        for row in self.rows:
            row.image_errors(self.test_images)
            if any(
                len(errors or ()) not in (0, n_classes)
                for errors in row.class_error_percents
            ):
                raise ValueError(f"row {row.name} must have an error for each class")
        return self

    def __repr__(self) -> str:
        rows = first_of([f"{row.name} {percent(row.mean)}" for row in self.rows])
        return (
            f"EvaluationResult({rows}; model={self.model!r},"
            f" test_images={self.test_images})"
        )

    __str__ = __repr__

    @property
    def config(self) -> EvaluationConfig:
        """The settings, checked."""
        settings = dict(self.settings)
        if self.own_network is not None:
            settings.pop("model", None)
        return EvaluationConfig.make(settings)

    @property
    def model(self) -> str:
        """The network's name: the setting, or the class of the user's own network."""
        if self.own_network is None:
            return str(self.settings.get("model"))
        return self.own_network.partition(" ")[0]

    def schedule_minus(self, measure: Measure) -> Mapping[str, PairedDifference | None]:
        """For each other row, the schedule's number minus the row's, paired by seed;
        None if they share no seed yet.
        """
        first = self.rows[0].by_seed(measure)
        return {
            row.name: PairedDifference.of(first, minus=row.by_seed(measure))
            for row in self.rows[1:]
        }

    @property
    def differences(self) -> Mapping[str, PairedDifference | None]:
        """`schedule_minus` of test errors, in percentage points. Below zero, the
        schedule is better.
        """
        return self.schedule_minus("test_error")

    @property
    def compared(self) -> Mapping[str, PairedDifference]:
        """The `differences` of the rows that share most seeds with the first one."""
        paired = {
            name: difference
            for name, difference in self.differences.items()
            if difference is not None
        }
        most = max((difference.n_pairs for difference in paired.values()), default=0)
        return {
            name: difference
            for name, difference in paired.items()
            if difference.n_pairs == most
        }

    @property
    def best_other(self) -> str | None:
        """The row of the lowest mean error in `compared`; None before the first."""
        compared = self.compared
        return max(compared, key=lambda name: compared[name].mean, default=None)

    @property
    def steps(self) -> StepCounts | None:
        """How the steps of all trainings ran, on a GPU."""
        if GRAPHS not in self.environment:
            return None
        return StepCounts(*self.environment[GRAPHS])

    @property
    def warnings(self) -> tuple[str, ...]:
        """One for each row whose search has seen test images, if the caller has allowed
        that.
        """
        return tuple(searched.warning for searched in self.searched if searched.warning)

    @property
    def notes(self) -> tuple[str, ...]:
        """The definition of the error, if it is no share of wrong answers, and the
        warnings, as sentences.
        """
        defined = [] if self.error is None else [f"Test error: {self.error}."]
        if rows := [row.name for row in self.rows if row.mean is not None]:
            errors = [self.absolute_error(name) for name in rows]
            texts = [
                f"{error[0]:.4g} (R² {error[1]:.3f}) with {name}"
                for name, error in zip(rows, errors, strict=True)
                if error is not None
            ]
            if texts:
                unit = self.class_names[0]
                defined.append(
                    f"Mean absolute error in the unit of {unit}: {', '.join(texts)}."
                )
        return (*defined, *(f"{warning}." for warning in self.warnings))

    def absolute_error(self, row_name: str) -> tuple[float, float] | None:
        """The mean absolute error of numbers in their own unit, and the coefficient of
        determination R², of the test images, as means over seeds; None for other
        labels.
        """
        row = next(row for row in self.rows if row.name == row_name)
        losses = row.by_seed("test_loss")
        if self.scale is None or self.test_std is None or row.mean is None:
            return None
        explained = math.nan
        if losses and self.test_std > 0:
            explained = 1 - statistics.mean(losses.values()) / self.test_std**2
        return row.mean / 100 * self.scale.std, explained

    @property
    def answer(self) -> Answer | None:
        """What to use, and how sure that is (see hba.results.answer); None before
        the first training.
        """
        return answer(self)

    def save(self, path: Path) -> None:
        """Write results.json atomically, including means, differences and answer."""
        answered = self.answer
        measures = {measure: self._summaries(measure) for measure in MEASURES}
        rows = [
            {
                "name": row.name,
                "seeds": row.seeds,
                "definition": row.definition,
                **measures["test_error"][row.name],
                "test_loss": measures["test_loss"][row.name],
                "balanced_accuracy": measures["balanced_accuracy"][row.name],
                "confusion": [
                    confusion and confusion.counts for confusion in row.confusion
                ],
                "wrong": row.wrong,
                "class_error_percents": row.class_error_percents,
            }
            for row in self.rows
        ]
        content = {
            "answer": answered and asdict(answered),
            "rows": rows,
            **self.model_dump(exclude={"rows", "environment", "report"}),
            # File names may contain bytes that are no text.
            "class_names": [
                name.encode("utf-8", "backslashreplace").decode()
                for name in self.class_names
            ],
            **self.environment,
        }
        write_text(path, json.dumps(content, indent=2) + "\n")

    def _summaries(self, measure: Measure) -> dict[str, dict[str, Any]]:
        """The entries of a measure in the file, by row."""
        differences = self.schedule_minus(measure)
        summaries = {}
        for row in self.rows:
            by_seed = row.by_seed(measure)
            minus = differences.get(row.name)
            summaries[row.name] = {
                MEASURES[measure][0]: [by_seed.get(seed) for seed in row.seeds],
                "mean": mean_of(by_seed),
                "std": std_of(by_seed),
                "schedule_minus_row": minus and asdict(minus),
            }
        return summaries


def mean_of(by_seed: BySeed) -> float | None:
    """The mean over seeds; None before the first training."""
    return statistics.mean(by_seed.values()) if by_seed else None


def std_of(by_seed: BySeed) -> float | None:
    """The sample standard deviation over seeds; None for fewer than two."""
    return statistics.stdev(by_seed.values()) if len(by_seed) > 1 else None


def read_results(path: Path) -> EvaluationResult:
    """Read the results of an evaluation of images. Raises RunError if the file contains
    something else.
    """
    try:
        return EvaluationResult.model_validate(json.loads(read_text(path)))
    except (
        OSError,
        ValueError,
        RecursionError,
        LookupError,
        TypeError,
        AttributeError,
    ) as error:
        why = reason_of(error)
        if isinstance(error, pydantic.ValidationError):
            why = first_problem(error)
        raise RunError(
            f"{path} is not the {RESULTS_NAME} of an evaluation of images: {why}"
        ) from None
