"""Run `hba auto` on images with masks and with numbers, and compare its choice with
other policies that are trained like its network.

    python benchmarks/labels.py run [--sets nuclei,camvid] [--dry-run]
    python benchmarks/labels.py table

The archives of the sets are in the folder HBA_DATA. `run` runs the plan in labels.toml,
which has to be committed before, with nothing else on the machine. `table` prints the
results.
"""

from pathlib import Path
from typing import Any

import click
import pandas as pd
from common.options import (
    DEVICE,
    DRY_RUN,
    KEPT_IN,
    OneLineErrors,
    RunOptions,
    names_option,
    with_options,
    work,
)
from common.records import store_of
from common.running import carry_out
from common.tables import markdown, origin, spread_text
from image_sets.auto import AutoPlan, AutoTask
from image_sets.labels import LABEL_SETS, MASKS, NUMBERS, POLICIES
from quality.plan import planned_for

PLAN = Path(__file__).with_name("labels.toml")


@click.group(help=__doc__, cls=OneLineErrors)
def main() -> None:
    pass


@main.command()
@with_options(
    names_option("--sets", LABEL_SETS), DEVICE, work("runs/labels"), KEPT_IN, DRY_RUN
)
def run(sets: tuple[str, ...], **options: Any) -> None:
    """Run hba auto as a user would, with nothing else on the machine."""
    where = RunOptions(**options, jobs=1)
    for question in (MASKS, NUMBERS):
        plan = planned_for(question, PLAN, AutoPlan)
        tasks = [
            AutoTask(
                question,
                name,
                minutes,
                plan.rows,
                plan.seeds,
                where.work,
                LABEL_SETS[name].make,
                LABEL_SETS[name].options,
                POLICIES,
            )
            for minutes in plan.budgets
            for name in sets
            if LABEL_SETS[name].question == question
        ]
        carry_out(tasks, question, where, plan, PLAN)


@main.command()
@KEPT_IN
def table(results: Path) -> None:
    """Print the test error of each row, a mean over seeds with its deviation."""
    for question in (MASKS, NUMBERS):
        records = store_of(results, question).records()
        lines = []
        for record in records:
            errors = record.results["errors"]
            settings = record.results["settings"]
            lines.append(
                {
                    "set": record.run.dataset,
                    "network": f"{settings['model']}, {settings['image_size']} pixels",
                    "chosen": record.results["chosen"],
                    **{row: spread_text(errors[row], 1) for row in errors},
                }
            )
        if records:
            click.echo(f"{markdown(pd.DataFrame(lines))}\n\n{origin(records)}\n")


if __name__ == "__main__":
    main()
