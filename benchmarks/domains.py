"""Measure which augmentation helps on images of different domains, and whether a search
finds it.

    python benchmarks/domains.py truth [--pretrained] [--sets pbc,omniglot] [--seeds 3]
        [--jobs 2] [--dry-run]
    python benchmarks/domains.py verdict [--sets pbc,omniglot] [--jobs 2] [--dry-run]
    python benchmarks/domains.py auto [--sets pbc,omniglot] [--budgets 5,20] [--dry-run]
    python benchmarks/domains.py page
    python benchmarks/domains.py overview

The archives of the sets are in the folder HBA_DATA. `truth` trains with each recipe on
the training images of a search and measures on its validation images; then it adds each
group of operations to the recipe with the lowest calibrated loss, and removes it. With
--pretrained, networks start from ImageNet weights, and searches from them are compared
with these trainings. `verdict` runs the plan in domains.toml, which has to be committed
before: searches on the same images, and trainings on all training images with the
schedules found and with the recipes, measured once on test images. `auto` runs `hba
auto` on each set with each planned budget, and trains recipes with the same settings
and seeds. Each run is stored as soon as it ends, and is not run again. `page` writes
docs/domains.md, and compares the operations that searches apply with the truth.
`overview` draws the picture of README.md.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from common.options import (
    DEVICE,
    DRY_RUN,
    JOBS,
    KEPT_IN,
    OneLineErrors,
    RunOptions,
    names_option,
    with_options,
    work,
)
from common.pages import write_page
from common.records import DOCS, Record, store_of
from common.running import carry_out
from common.tables import markdown, origin, rate_text
from common.tasks import SearchTask
from image_sets.auto import (
    AUTO,
    AUTO_COLUMN,
    AUTO_SETS,
    EARLIER,
    OF_UNEVEN,
    AutoPlan,
    auto_table,
    auto_tasks,
    choice_table,
    error_frames,
)
from image_sets.overview import draw_overview
from image_sets.runs import (
    FINE_TUNING,
    GROUPS,
    SEARCH,
    SETS,
    SETTINGS,
    DomainTask,
    changed,
    domain_task,
    recipe,
    searches,
)
from image_sets.tables import (
    APPLIED,
    best_recipe,
    frames_of,
    group_table,
    mean_over_sets,
    pairs_of,
    ratio,
    recipe_table,
    verdict_table,
)
from quality.plan import Planned, planned_for

from hba.policy_choice.rows import RANDAUGMENT
from hba.policy_evaluation.baselines import NONE
from hba.schedule.recipes import RECIPES
from hba.utils.settings import words

PLAN = Path(__file__).with_name("domains.toml")
TRUTH = "domains"
FINE_TUNED = "domains-pretrained"
VERDICT = "domains-verdict"
PLANNED = "domains"
TRAINING = 1.0
"""Minutes of a training on one idle core."""
SEARCHED = 2.5
"""Minutes of a search on one idle core. The row `search` of a verdict takes this and
the minutes of a training.
"""
PLACES = (DEVICE, work("runs/domains"), KEPT_IN, DRY_RUN)
with_options_of_runs = with_options(names_option("--sets", SETS), JOBS, *PLACES)


@click.group(help=__doc__, cls=OneLineErrors)
def main() -> None:
    pass


@dataclass(frozen=True)
class Where(RunOptions):
    """The options of runs."""

    sets: tuple[str, ...]

    def searches(
        self, seeds: Iterable[int], **settings: Any
    ) -> dict[str, list[SearchTask]]:
        """A search for each seed, by set."""
        return {
            name: searches(name, seeds, self.work, self.device, **settings)
            for name in self.sets
        }

    def carry_out(
        self, tasks: Sequence[DomainTask], question: str, plan: Planned | None = None
    ) -> list[Record]:
        """Run the missing trainings and searches, and return all stored records."""
        names = dict.fromkeys(task.label for task in tasks)
        stored = store_of(self.results, question).by_key()
        missing = [task for task in tasks if task.run.key not in stored]
        minutes = sum(TRAINING + SEARCHED * (task.name == SEARCH) for task in missing)
        click.echo(f"{', '.join(names)}: about {minutes:.0f} minutes of one core")
        done = carry_out(tasks, question, self, plan, PLAN)
        return done or [
            stored[task.run.key] for task in tasks if task.run.key in stored
        ]


@main.command()
@click.option(
    "--seeds",
    type=click.IntRange(1),
    default=3,
    show_default=True,
    help="Of each, from 0.",
)
@click.option(
    "--pretrained", is_flag=True, help="Start from ImageNet weights, also in searches."
)
@with_options_of_runs
def truth(seeds: int, pretrained: bool, **options: Any) -> None:
    """Train with each recipe, then with and without each group of operations, and
    measure on validation images.
    """
    where = Where(**options)
    question = FINE_TUNED if pretrained else TRUTH
    rows = (*RECIPES, SEARCH) if pretrained else RECIPES
    settings = FINE_TUNING if pretrained else {}
    for name, searches_of_set in where.searches(range(seeds), **settings).items():
        tasks = [
            domain_task(row, recipe(row), search)
            for search in searches_of_set
            for row in rows
        ]
        kept = where.carry_out(tasks, question)
        if len(kept) < len(tasks):
            click.echo(
                f"{name}: then each of {len(GROUPS)} groups, one training or two for a"
                " seed"
            )
            continue
        best = str(best_recipe(frames_of(kept, "val")[name]))
        beside = dict(
            changed(best, group, is_on) for group in GROUPS for is_on in (True, False)
        )
        other_tasks = [
            domain_task(*row, search)
            for search in searches_of_set
            for row in beside.items()
            if row[0] not in RECIPES
        ]
        where.carry_out(other_tasks, question)


@main.command()
@with_options_of_runs
def verdict(**options: Any) -> None:
    """Search, train with the schedules found and with the recipes, as planned, and
    measure on test images.
    """
    where = Where(**options)
    plan = planned_for(PLANNED, PLAN)
    searches_by_set = where.searches(
        range(plan.first_seed, plan.first_seed + plan.seeds), epochs=plan.epochs
    )
    by_seed = [
        search
        for searches_of_seed in zip(*searches_by_set.values(), strict=True)
        for search in searches_of_seed
    ]
    tasks = [
        domain_task(row, recipe(row), search, tested=True)
        for search in by_seed
        for row in plan.rows
    ]
    where.carry_out(tasks, VERDICT, plan)
    click.echo(verdict_tables(where.results)["verdict"])


@main.command()
@click.option(
    "--budgets", default="", help="Minutes, by commas. [default: all that are planned]"
)
@with_options(names_option("--sets", AUTO_SETS), *PLACES)
def auto(budgets: str, **options: Any) -> None:
    """Run hba auto as a user would, with nothing else on the machine."""
    where = Where(**options, jobs=1)
    plan = planned_for(AUTO, PLAN, AutoPlan)
    tasks = auto_tasks(
        plan, where.sets, map(int, words(budgets) or plan.budgets), where.work
    )
    carry_out(tasks, AUTO, where, plan, PLAN)


def auto_tables(results: Path) -> dict[str, Any]:
    """Values for the page: runs of `hba auto`, those of an earlier version, and the
    ratios of errors.
    """
    plan = planned_for(AUTO, PLAN, AutoPlan)
    frames = error_frames(store_of(results, AUTO).records(), max(plan.budgets))
    rows = dict.fromkeys([NONE, RANDAUGMENT, *plan.rows])
    return {
        "auto": tables_of_runs(results, AUTO),
        "earlier": tables_of_runs(results, EARLIER),
        "ratios": {row: ratio(frames, row, AUTO_COLUMN) for row in rows},
        "means": {row: mean_over_sets(frames, row) for row in (AUTO_COLUMN, *rows)},
        "uneven": OF_UNEVEN,
    }


def tables_of_runs(results: Path, question: str) -> dict[str, Any]:
    """The table of each budget, that of the differences to no augmentation, the origin
    of the records and the commits of their plan, and the sets without a run, by budget.
    """
    plan = planned_for(question, PLAN, AutoPlan)
    records = store_of(results, question).records()
    sets_by_budget = {
        minutes: {
            record.run.dataset
            for record in records
            if record.run.further["minutes"] == minutes
        }
        for minutes in plan.budgets
    }
    return {
        "tables": {
            minutes: markdown(auto_table(records, minutes))
            for minutes, names in sets_by_budget.items()
            if names
        },
        "choices": markdown(choice_table(records, plan)),
        "origin": origin(records),
        "commits": sorted(
            {str(record.made_by["plan"]["commit"]) for record in records}
        ),
        "missing": {
            minutes: [name for name in AUTO_SETS if name not in names]
            for minutes, names in sets_by_budget.items()
        },
    }


def truth_tables(results: Path) -> dict[str, Any]:
    """Values for the page: tables, the pairs in which searches agree, the origin of the
    records, and missing sets.
    """
    records, tuned = (
        store_of(results, question).records() for question in (TRUTH, FINE_TUNED)
    )
    frames = frames_of(records, "val")
    tuned_frames = frames_of(tuned, "val")
    pairs = pairs_of(frames, frames_of(store_of(results, VERDICT).records(), "test"))
    tuned_pairs = pairs_of(tuned_frames, tuned_frames)
    return {
        "groups": markdown(group_table(pairs)) if pairs else "",
        "agreement": rate_text(
            pair.agrees for pair in pairs if pair.agrees is not None
        ),
        "truth_origin": origin(records),
        "tuned_recipes": markdown(recipe_table(tuned_frames)) if tuned else "",
        "tuned_groups": markdown(group_table(tuned_pairs)) if tuned_pairs else "",
        "tuned_agreement": rate_text(
            pair.agrees for pair in tuned_pairs if pair.agrees is not None
        ),
        "tuned_origin": origin(tuned),
    }


def verdict_tables(results: Path) -> dict[str, Any]:
    """Values for the page: the table, the plan and its commits, the origin of the
    records, and missing runs.
    """
    plan = planned_for(PLANNED, PLAN)
    records = store_of(results, VERDICT).records()
    runs = {
        name: sum(record.run.dataset == name for record in records) for name in SETS
    }
    planned = plan.seeds * len(plan.rows)
    return {
        "plan": plan,
        "verdict": (
            markdown(verdict_table(frames_of(records, "test"), plan.rows))
            if records
            else ""
        ),
        "verdict_origin": origin(records),
        "commits": sorted(
            {str(record.made_by["plan"]["commit"]) for record in records}
        ),
        "unjudged": [
            f"{name} ({n_runs} of {planned} runs)"
            for name, n_runs in runs.items()
            if n_runs < planned
        ],
    }


@main.command()
@KEPT_IN
def page(results: Path) -> None:
    """Write docs/domains.md."""
    run_tables = {
        "groups_tried": GROUPS,
        "applied": APPLIED,
        "settings": SETTINGS,
        "fine_tuning": FINE_TUNING,
    }
    run_tables |= truth_tables(results)
    path = write_page(
        "domains", DOCS, **run_tables, **verdict_tables(results), **auto_tables(results)
    )
    click.echo(f"Page: {path}")


@main.command()
@with_options(work("runs/domains"), KEPT_IN)
def overview(work: Path, results: Path) -> None:
    """Draw docs/overview.png, the picture of README.md."""
    draw_overview(store_of(results, AUTO).records(), work, DOCS / "overview.png")


if __name__ == "__main__":
    main()
