"""Measure whether it pays to tune dropout and weight decay together with augmentation.

    python benchmarks/joint.py verdict [--bed digits] [--data DIR] [--jobs 2] [--rows
        joint,none] [--dry-run]
    python benchmarks/joint.py page

`verdict` runs the plan for a bed in benchmarks/joint.toml, which has to be committed
before: searches of operations alone and of everything together, and trainings of fresh
networks with the results of each, measured once on test images. The row `drawn` has the
operations of the default search, and the best of 20 random draws of dropout and weight
decay by validation loss. Runs of the same seed have the same weights and batches. Each
run is stored in benchmarks/results/joint.jsonl as soon as it ends. `page` writes the
table of docs/regularization.md.
"""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from common.options import KEPT_IN, OneLineErrors, RunOptions, names_option
from common.pages import fill_page
from common.records import DOCS, Record, Results, newest, store_of
from common.running import carry_out
from common.settings import kept_settings
from common.tables import difference, difference_text, frame_of, markdown, spread_text
from common.tasks import TrainingTask
from quality.beds import BEDS, Bed, find_bed, with_options_of_beds
from quality.plan import Planned, planned_for
from quality.views import View

from hba.config.evaluation import EvaluationConfig
from hba.data import EvaluationData
from hba.data.config import Size
from hba.errors import DivergedError
from hba.models import build_model
from hba.preprocessing import network_input_size
from hba.regularization.groups import hyperparameters_of
from hba.schedule.schedule import Schedule
from hba.training.augmentation import Augmentation, ScheduleAugmentation
from hba.utils.seeding import derived_seed

PLAN = Path(__file__).with_name("joint.toml")
QUESTION = "joint"
MARK = "joint"
NONE = "none"
AUGMENTATION = "augmentation"
JOINT = "joint"
HALF = "joint-augmentation"
DRAWN = "drawn"
ROWS = (JOINT, AUGMENTATION, HALF, DRAWN, NONE)
"""The joint search; operations of the default search; operations of the joint search
without its regularizers; operations of the default search with the best of random draws
of the regularizers; no schedule.
"""
SEARCHES: Mapping[str, Mapping[str, Any]] = {
    AUGMENTATION: {"algorithm": "lookahead", "space": "hba", "val_batch_size": None},
    JOINT: {
        "algorithm": "joint",
        "space": "hba",
        "tune": "augmentation,dropout,weight-decay",
    },
}
"""Settings of the two searches. Both use whole batches of validation images."""
MEASURES = {"test_error_percent": ("test error, %", 2), "test_loss": ("test loss", 3)}
NOISY = Bed(
    "digits-noisy",
    "digits",
    {
        "model": "mlp-128",
        "image_size": 8,
        "train_size": 350,
        "val_size": 350,
        "batch_size": 50,
        "learning_rate": 0.05,
        "weight_decay": 0.0001,
    },
    View(label_noise=0.3),
    "digits",
)
"""A bed on which regularization is known to matter."""
JOINT_BEDS: Mapping[str, Bed] = {
    "digits": BEDS["digits"],
    NOISY.name: NOISY,
    "cifar": BEDS["cifar"],
}
TEXTS = {
    "digits": (
        "200 training and 500 validation images at 16x16, no baseline augmentation"
    ),
    NOISY.name: (
        "digits at 8x8, 350 training images of which three in ten have a random label,"
        " 350 validation images, mlp-128"
    ),
    "cifar": (
        "CIFAR-10 (JPEG copy) at 16x16, 1,000 training and 2,000 validation images,"
        " baseline of flip and crop; of the test images a fixed 5,000"
    ),
}


class JointPlan(Planned):
    """The plan for one bed."""

    rows: tuple[str, ...] = ROWS
    draws: Size
    """The number of draws of dropout and weight decay."""


@dataclass(frozen=True)
class RowTask(TrainingTask):
    """A training on the bed's training images, measured on its test images."""

    draws: int = 0
    """Number of draws for `drawn`."""

    @property
    def settings(self) -> dict[str, Any]:
        return kept_settings(self.config if self.search is None else self.search.config)

    def augmented(self) -> tuple[EvaluationConfig, Augmentation]:
        if self.search is None:
            return self.config, ScheduleAugmentation(None)
        schedule = self.search.schedule()
        return self.config, ScheduleAugmentation(
            schedule.without_regularizers() if self.name == HALF else schedule
        )

    def do(self) -> Results:
        return self._best_of_draws() if self.name == DRAWN else super().do()

    def _best_of_draws(self) -> Results:
        """Train with each draw on the search's training images, and test the one with
        the lowest validation loss.
        """
        assert self.search is not None
        searched = self.search.data
        schedule = self.search.schedule()
        data = EvaluationData(
            searched.name, searched.class_names, searched.train, searched.val
        )
        candidates = draw_schedules(schedule, self.config, data, self.seed, self.draws)
        losses = [self._val_loss(data, candidate) for candidate in candidates]
        best = int(np.argmin(losses))
        test = self.trained(
            self.config, self.data, ScheduleAugmentation(candidates[best])
        ).test
        values = [candidate.regularization(0) for candidate in candidates]
        drawn_values = [
            {**row, "val_loss": loss if math.isfinite(loss) else None}
            for row, loss in zip(values, losses, strict=True)
        ]
        return {
            "test_error_percent": test.error_percent,
            "test_loss": test.loss,
            "draws": drawn_values,
            "best": best,
        }

    def _val_loss(self, data: EvaluationData, schedule: Schedule) -> float:
        """Validation loss of a training with the schedule; infinite if it diverges."""
        try:
            return float(
                self.trained(
                    self.config, data, ScheduleAugmentation(schedule)
                ).test.loss
            )
        except DivergedError:
            return math.inf


def draw_schedules(
    schedule: Schedule,
    config: EvaluationConfig,
    data: EvaluationData,
    seed: int,
    n_draws: int,
) -> list[Schedule]:
    """The schedule with n_draws draws of constant dropout and weight decay, each from
    its whole range.

    Rates are drawn uniformly, and weight decay log-uniformly.
    """
    size = network_input_size(data.train, config.baseline_augmentation())
    network = build_model(
        config.model, len(data.class_names), 0, size, None, data.train.n_channels
    )
    regularizers = hyperparameters_of(
        ["dropout", "weight-decay"], lambda: network, config.weight_decay
    )
    random = np.random.default_rng(
        derived_seed(seed, "draws of dropout and weight decay")
    )
    policy = schedule.without_regularizers()
    candidates = []
    space = dataclasses.replace(policy.space, regularizers=tuple(regularizers))
    for _ in range(n_draws):
        places = random.random(len(regularizers))
        values = [
            (
                hyperparameter.low * (hyperparameter.high / hyperparameter.low) ** place
                if hyperparameter.scale == "log"
                else hyperparameter.low
                + (hyperparameter.high - hyperparameter.low) * place
            )
            for hyperparameter, place in zip(regularizers, places, strict=True)
        ]
        rows = np.concatenate(
            [policy.values, np.tile(values, (policy.epochs, 1))], axis=1
        )
        spread = np.pad(policy.spread, ((0, 0), (0, len(values))))
        candidates.append(
            dataclasses.replace(policy, space=space, values=rows, spread=spread)
        )
    return candidates


def row_task(
    row: str, bed: Bed, seed: int, planned: JointPlan, options: RunOptions
) -> RowTask:
    name = JOINT if row in (JOINT, HALF) else AUGMENTATION
    search = bed.search_with(
        name,
        seed,
        options.work / "joint",
        **SEARCHES[name],
        epochs=planned.epochs,
        device=options.device,
    )
    config = search.config
    same = {name: getattr(config, name) for name in ("data", "device", "train_size")}
    training = EvaluationConfig.like_search(
        config.model_dump(), {**same, "epochs": config.epochs}
    )
    draws = planned.draws if row == DRAWN else 0
    details = {**search.further, "training_images": config.train_size}
    if draws:
        details["draws"] = draws
    used = None if row == NONE else search
    return RowTask(
        row, search.label, training, seed, used, details, view=search.view, draws=draws
    )


def joint_table(records: Sequence[Record]) -> str:
    """A Markdown table per bed: errors and losses of each row, and their differences to
    the joint search.
    """
    parts = []
    kept = newest(records, lambda run: (run.dataset, run.name))
    for name in JOINT_BEDS:
        planned = planned_for(name, PLAN, JointPlan)
        last = planned.first_seed + planned.seeds - 1
        frame = frame_of(record for record in kept if record.run.dataset == name)
        frame = frame[frame["seed"].between(planned.first_seed, last)]
        title = (
            f"**{name}**: {TEXTS[name]}; {planned.epochs} epochs, seeds"
            f" {planned.first_seed} to {last}."
        )
        parts.append(
            f"{title}\n\n{markdown(pd.DataFrame(_cells(frame, row) for row in ROWS))}"
        )
    return "\n\n".join(parts)


def _cells(frame: pd.DataFrame, row: str) -> dict[str, str]:
    runs = frame[frame["name"] == row]
    cells = {"row": f"`{row}`", "seeds": str(len(runs))}
    for measure, (heading, digits) in MEASURES.items():
        cells[heading] = spread_text(runs[measure], digits)
        less = (
            ""
            if row == JOINT
            else difference_text(difference(frame, JOINT, row, measure), digits)
        )
        cells[f"joint minus row, {heading}"] = less
    return cells


@click.group(help=__doc__, cls=OneLineErrors)
def main() -> None:
    pass


@main.command()
@click.option(
    "--bed", default="digits", show_default=True, type=click.Choice([*JOINT_BEDS])
)
@names_option("--rows", ROWS)
@with_options_of_beds
def verdict(
    bed: str, rows: Sequence[str], data: str | None, **more_options: Any
) -> None:
    """Run the plan for a bed."""
    options = RunOptions(**more_options)
    planned = planned_for(bed, PLAN, JointPlan)
    place = NOISY if bed == NOISY.name else find_bed(bed, data)
    seeds = range(planned.first_seed, planned.first_seed + planned.seeds)
    tasks = [
        row_task(row, place, seed, planned, options) for seed in seeds for row in rows
    ]
    carry_out(tasks, QUESTION, options, planned, PLAN)


@main.command()
@KEPT_IN
def page(results: Path) -> None:
    """Write the table of docs/regularization.md."""
    fill_page(
        "regularization",
        MARK,
        DOCS,
        joint_table(store_of(results, QUESTION).records()),
    )


if __name__ == "__main__":
    main()
