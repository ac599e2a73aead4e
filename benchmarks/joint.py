"""Does it pay to tune dropout and weight decay together with augmentation?

    python benchmarks/joint.py verdict [--bed digits] [--data DIR] [--jobs 2] [--rows joint,none] [--estimate]
    python benchmarks/joint.py page

`verdict` runs what benchmarks/joint_tuning/plan.toml says of a bed, which has to be committed before: searches of
operations alone and of everything together, and trainings of fresh networks with what each found, measured on test
images once. The row `drawn` has the operations of the default search, and of 20 random draws of dropout and weight
decay the one of least validation loss. Runs of the same seed have the same weights and batches. Each run's results are
kept as soon as it ended, in benchmarks/results/joint.jsonl. `page` writes the table of docs/regularization.md.
"""

import tomllib
from pathlib import Path
from typing import Any

import click
from common.pages import fill_page
from common.records import DIRTY, DOCS, Record, Store, last_change, store_of
from common.running import carry_out
from joint_tuning.beds import JOINT_BEDS, Place, joint_bed
from joint_tuning.page import MARK, joint_table
from joint_tuning.tasks import ROWS, row_task
from quality.options import KEPT_IN, with_options_of_runs

from hba.data.config import Seed, Size
from hba.errors import HbaError, SettingsError
from hba.utils.settings import Settings, words

PLAN = Path(__file__).parent / "joint_tuning" / "plan.toml"
QUESTION = "joint"


class Planned(Settings):
    """A verdict on one bed."""

    first_seed: Seed
    """Of searches, and of the trainings with what they found."""
    seeds: Size
    """How many there are from the first one on."""
    epochs: Size
    """Of searches and of trainings."""
    draws: Size
    """Of dropout and weight decay."""


@click.group(help=__doc__)
def main() -> None:
    """Commands."""


@main.command(help="Run what the plan says of a bed.")
@click.option("--bed", default="digits", show_default=True, help=f"{', '.join(JOINT_BEDS)}.")
@click.option("--rows", default=",".join(ROWS), help="Names, by commas. [default: all]")
@with_options_of_runs
def verdict(
    bed: str, rows: str, data: str | None, jobs: int, device: str, work: Path, results: Path, estimate: bool
) -> None:
    try:
        planned = planned_for(bed)
        unknown = [row for row in words(rows) if row not in ROWS]
        if unknown:
            raise SettingsError(f"rows must be of {', '.join(ROWS)}, got {unknown[0]}")
        place = Place(joint_bed(bed, data), planned.epochs, device, work)
        tasks = [
            row_task(row, place, planned.first_seed + seed, planned.draws)
            for seed in range(planned.seeds)
            for row in words(rows)
        ]
        carry_out(tasks, store_of(results, QUESTION), device, jobs, estimate, _noted(planned))
    except HbaError as error:
        raise click.ClickException(str(error)) from None


def planned_for(bed: str) -> Planned:
    """What the plan says of a bed; SettingsError where it says nothing."""
    tables = tomllib.loads(PLAN.read_text(encoding="utf-8"))
    if bed not in tables:
        raise SettingsError(f"no verdict is planned on the bed {bed!r}, only on: {', '.join(tables)}")
    return Planned.make(tables[bed])


def _noted(planned: Planned) -> dict[str, Any]:
    """What records keep of the plan, with the commit of its last change; SettingsError where that is not committed."""
    commit = last_change(PLAN)
    if commit is not None and commit.endswith(DIRTY):
        raise SettingsError(f"{PLAN} has changes that are not committed; commit them before the verdict is run")
    return {"plan": {**planned.model_dump(mode="json"), "commit": commit}}


@main.command(help="Write the table of docs/regularization.md.")
@KEPT_IN
def page(results: Path) -> None:
    fill_page("regularization", MARK, DOCS, joint_table(planned_records(store_of(results, QUESTION))))


def planned_records(store: Store) -> list[Record]:
    """Those of the seeds that the plan has now."""
    plans = {bed: planned_for(bed) for bed in JOINT_BEDS}
    seeds = {bed: range(plan.first_seed, plan.first_seed + plan.seeds) for bed, plan in plans.items()}
    return [record for record in store.by_key().values() if record.run.seed in seeds[record.run.dataset]]


if __name__ == "__main__":
    main()
