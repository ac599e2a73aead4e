"""What docs/search-quality.md is filled with: tables, each with its origin and command, and figures for sentences."""

import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import common.pages as pages
import pandas as pd
from closed_form.tables import closed_form_table
from common.records import Record, store_of
from common.tables import NOTHING, markdown, origin
from common.tasks import FLOOR

from hba.operations import OPERATIONS
from hba.policy_evaluation.paired import PairedDifference
from quality.agreement import agreement_table
from quality.aims import aim_table, finds_planted, is_shown_to_be_better, is_shown_to_be_worse, lengths, recoveries
from quality.bed_table import bed_table, of_range
from quality.candidates import DEFAULT, DRAWS, FORMER, PAPER, STRENGTH
from quality.commands import command_of_beds, command_of_cost, command_of_suite, command_of_verdict
from quality.cost import cost_table
from quality.credit_table import of_credit, policy_table, variant_table
from quality.error_tables import (
    candidate_table,
    error_table,
    left_out_table,
    readme_table,
    verdict_differences,
    verdict_sentence,
    verdict_table,
)
from quality.kept import grouped, images_of, planned_for, records_of, searches_of_verdicts
from quality.parts import are_the_worse_parts
from quality.plan import BLOCK, block_of
from quality.planted_tables import RECOVERED_WITHIN, planted_in, rate_table
from quality.problems import HELD_OUT
from quality.shift import Shift
from quality.tasks import LEFT_OUT, NONE, RANDAUGMENT, RANDOM

SIX_STEPS = f"{FORMER}-six-steps"
"""A cheaper search that had a verdict."""
README_DATA = {
    "digits": "digits, 200 images",
    "digits-shifted": "the same, validation and test images shifted",
    "cifar": "1,000 images of CIFAR-10 at 16x16",
    "cifar-grey": "the same in grey levels, no flips and crops, 60 epochs",
    "cifar-shifted": "the same, shifted",
}
"""Headings of the README's table by dataset."""


@dataclass(frozen=True)
class Section:
    """A table of one dataset and length, and what is said above it."""

    data: str
    records: Sequence[Record]
    command: str
    table: str

    @property
    def origin(self) -> str:
        return origin(self.records)


@dataclass(frozen=True)
class Credit(Section):
    """table: of policies."""

    @property
    def variants(self) -> str:
        return markdown(variant_table(self.records))


@dataclass(frozen=True)
class Verdict(Section):
    """records: of all rows, in the order of the table. of: what the verdict is on."""

    of: str = DEFAULT

    @property
    def planned(self) -> str:
        """What was stated before it was run, and in which commit; what of it is missing. Empty without a plan."""
        plans = [record.made_by["plan"] for record in self.records if "plan" in record.made_by]
        if not plans:
            return ""
        plan = plans[-1]
        commits = sorted({f"commit `{one['commit']}`" if one["commit"] else "no commit" for one in plans})
        first, n_seeds = plan["first_seed"], plan["seeds"]
        n_runs = {row: sum(one.run.name == row for one in self.records) for row in plan["rows"]}
        missing = [f"`{row}` {n} of {n_seeds}" for row, n in n_runs.items() if n < n_seeds]
        stated = f"Stated before in {', '.join(commits)}: seeds {first} to {first + n_seeds - 1} of these rows."
        return stated + (f" Incomplete: {', '.join(missing)}." if missing else "")

    @property
    def model(self) -> str:
        return str(self.records[0].run.settings["model"])

    @property
    def sentence(self) -> str:
        return verdict_sentence(self.records, self.of)


def write_page(results: Path, docs: Path) -> Path:
    """docs/search-quality.md; results: the folder of the records."""
    planted, searches, trainings = (records_of(results, name) for name in ("planted", "searches", "trainings"))
    verdicts, earlier = verdicts_of(results), verdicts_on_others(results)
    every = [*verdicts, *earlier]
    costs = {record.run.dataset: record for record in store_of(results, "cost").by_key().values()}
    closed_forms = store_of(results, "closed-forms").by_key().values()
    single = [one for one in planted if len(planted_in(one)) < 2]
    return pages.write_page(
        "search-quality",
        docs,
        default=DEFAULT,
        former=FORMER,
        strength=STRENGTH,
        draws=DRAWS,
        six_steps=SIX_STEPS,
        kinds={SIX_STEPS: "Not the default"},
        beside_former=_beside_former(verdicts),
        paper=PAPER,
        floor=FLOOR,
        within=RECOVERED_WITHIN,
        operations=len(OPERATIONS),
        without=LEFT_OUT,
        aims=markdown(aim_table(planted, {one.data: verdict_differences(one.records) for one in verdicts}, costs)),
        verdicts=verdicts,
        earlier=earlier,
        recovers=lambda name: _recovers(planted, name),
        beats=lambda dataset, *rows, of=DEFAULT: _beats(every, of, dataset, rows),
        no_difference=lambda dataset, *rows, of=DEFAULT: _no_difference(every, of, dataset, rows),
        has_lower_means=lambda row, *datasets: _has_lower_means(verdicts, row, datasets),
        trails=lambda dataset, *rows, of=DEFAULT: _trails(every, of, dataset, rows),
        worse_parts=lambda dataset, *names: are_the_worse_parts(trainings, dataset, names),
        finds_planted=lambda n_operations, epochs: finds_planted(planted, n_operations, epochs),
        agreement=_agreement(searches_of_verdicts(results)),
        candidates=markdown(candidate_table()),
        planted=_sections([one for one in single if not _is_held_out(one)], "planted.py", rate_table),
        held_out=_sections([one for one in single if _is_held_out(one)], "planted.py", rate_table),
        pairs=_sections([one for one in planted if len(planted_in(one)) > 1], "planted.py", rate_table),
        searches=_sections(searches, "search_quality.py candidates", error_table),
        beds=_beds(trainings),
        shift=Shift(),
        trainings=_sections(_of_candidates(trainings), "search_quality.py retrain", error_table),
        left_out=_left_out(trainings, searches),
        credits=_credits(records_of(results, "credit")),
        costs=[
            Section(dataset, [record], command_of_cost(record), markdown(cost_table(record)))
            for dataset, record in sorted(costs.items())
        ],
        closed_forms=markdown(closed_form_table(closed_forms)) if closed_forms else "",
    )


def readme_results(results: Path) -> str:
    """The table of README.md: the longest verdict of each dataset that it shows."""
    longest = {verdict.records[0].run.dataset: verdict.records for verdict in verdicts_of(results)}
    return readme_table({heading: longest[dataset] for dataset, heading in README_DATA.items() if dataset in longest})


def verdicts_of(results: Path) -> list[Verdict]:
    """On the default, by dataset, epochs and number of training images."""
    verdicts = []
    for records in grouped(one for one in records_of(results, "verdict") if planned_for(one) == DEFAULT):
        rows = {record.run.name for record in records}
        if DEFAULT not in rows and not rows.isdisjoint((FORMER, STRENGTH, DRAWS)):
            continue
        dataset, epochs, _, n_images = images_of(records[0].run)
        block = block_of(records[0].run.seed)
        seeds = f", seeds from {block * BLOCK}" if block else ""
        data = f"{dataset}, {n_images} training images, {epochs} epochs{seeds}"
        verdicts.append(Verdict(data, records, command_of_verdict(records), markdown(verdict_table(records))))
    return verdicts


def _beside_former(verdicts: Sequence[Verdict]) -> str:
    """The mean over the beds of the default's differences to the one before, in points."""
    found = [verdict_differences(one.records).get(FORMER) for one in verdicts]
    means = [one.mean for one in found if one is not None]
    return f"{statistics.fmean(means):+.2f}" if means else NOTHING


def verdicts_on_others(results: Path) -> list[Verdict]:
    """Of what is the default no more, or did not become it."""
    kept = store_of(results, "verdict").by_key().values()
    return [
        Verdict(dataset, records, command_of_verdict(records), markdown(verdict_table(records, of)), of)
        for (of, dataset), records in grouped_by_other_default(kept).items()
    ]


def grouped_by_other_default(verdicts: Iterable[Record]) -> dict[tuple[str, str], list[Record]]:
    """By what they were planned on, and dataset; without those on the default of now."""
    groups: dict[tuple[str, str], list[Record]] = {}
    for record in verdicts:
        of = planned_for(record)
        if of != DEFAULT:
            groups.setdefault((of, record.run.dataset), []).append(record)
    for records in groups.values():
        records.sort(key=_place_in_plan)
    return groups


def _place_in_plan(record: Record) -> int:
    rows = record.made_by["plan"]["rows"]
    return rows.index(record.run.name) if record.run.name in rows else -1


def _agreement(groups: Sequence[Sequence[Record]]) -> str:
    table = agreement_table(groups)
    return "" if table.empty else markdown(table)


def _sections(
    records: Iterable[Record], script: str, table: Callable[[Sequence[Record]], pd.DataFrame]
) -> list[Section]:
    """One for each choice of images and epochs."""
    return [
        Section(group[0].run.dataset, group, command_of_suite(script, group), markdown(table(group)))
        for group in grouped(records)
    ]


def _beds(trainings: Iterable[Record]) -> list[Section]:
    """One table of all beds, none without trainings of them."""
    groups = of_range(trainings)
    table, both = bed_table(groups), [record for group in groups for record in group]
    names = ", ".join(table["bed"]) if groups else ""
    return [Section(names, both, command_of_beds(groups), markdown(table))] if groups else []


def _of_candidates(trainings: Iterable[Record]) -> list[Record]:
    """Without RandAugment, and without lengths and beds where no schedule was tried."""
    groups = grouped(one for one in trainings if one.run.name != RANDAUGMENT)
    return [one for group in groups if {one.run.name for one in group} != {NONE} for one in group]


def _left_out(trainings: Iterable[Record], searches: Sequence[Record]) -> list[Section]:
    """One for each choice of images, and epochs of search and training."""
    sections = []
    for trained in grouped(one for one in trainings if one.run.name in (DRAWS, RANDOM, *LEFT_OUT)):
        dataset, epochs, training_epochs, _ = images_of(trained[0].run)
        place = (DRAWS, dataset, epochs)
        found = [one for one in searches if (one.run.name, *images_of(one.run)[:2]) == place]
        table, both = left_out_table(trained, found), [*trained, *found]
        if not table.empty:
            command = command_of_suite("search_quality.py retrain", both)
            sections.append(Section(f"{dataset}, {training_epochs} epochs", both, command, markdown(table)))
    return sections


def _credits(records: Iterable[Record]) -> list[Credit]:
    """One for each bed and length."""
    return [
        Credit(
            group[0].run.dataset,
            group,
            command_of_suite("search_quality.py credit", group),
            markdown(policy_table(group)),
        )
        for group in of_credit(records)
    ]


def _is_held_out(record: Record) -> bool:
    return record.run.further["problem"] in HELD_OUT


def _recovers(planted: Sequence[Record], candidate: str) -> bool | None:
    """Whether a candidate recovers a single planted operation in more than half of its shortest searches; None without
    any.
    """
    found = [recoveries(planted, candidate, 1, epochs) for epochs in lengths(planted, candidate, 1)]
    return sum(found[0]) > len(found[0]) / 2 if found else None


def _beats(verdicts: Sequence[Verdict], of: str, dataset: str, rows: Sequence[str]) -> bool | None:
    """Whether a verdict that was stated before shows the difference of what it is on to each of the rows to be below
    zero; None without all of them.
    """
    found = _stated_before(verdicts, of, dataset, rows)
    return all(map(is_shown_to_be_better, found)) if found else None


def _no_difference(verdicts: Sequence[Verdict], of: str, dataset: str, rows: Sequence[str]) -> bool | None:
    """Whether no difference to any of them is shown; None without all of them."""
    found = _stated_before(verdicts, of, dataset, rows)
    return not any(is_shown_to_be_better(one) or is_shown_to_be_worse(one) for one in found) if found else None


def _trails(verdicts: Sequence[Verdict], of: str, dataset: str, rows: Sequence[str]) -> bool | None:
    """The same, above zero."""
    found = _stated_before(verdicts, of, dataset, rows)
    return all(map(is_shown_to_be_worse, found)) if found else None


def _has_lower_means(verdicts: Sequence[Verdict], row: str, datasets: Sequence[str]) -> bool | None:
    """Whether just on these datasets the default's mean difference to a row is below zero; None without any."""
    found = {one.records[0].run.dataset: verdict_differences(one.records).get(row) for one in verdicts if one.planned}
    lower = {dataset for dataset, one in found.items() if one is not None and one.mean < 0}
    return lower == set(datasets) if any(found.values()) else None


def _stated_before(verdicts: Sequence[Verdict], of: str, dataset: str, rows: Sequence[str]) -> list[PairedDifference]:
    """Differences to the rows by a verdict that was stated before; none without all of them."""
    for verdict in verdicts:
        if verdict.planned and (verdict.of, verdict.records[0].run.dataset) == (of, dataset):
            differences = verdict_differences(verdict.records, of)
            found = [one for row in rows if (one := differences.get(row)) is not None and one.interval is not None]
            return found if len(found) == len(rows) else []
    return []
