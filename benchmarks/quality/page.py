"""Write docs/search-quality.md from the stored records."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import common.pages as pages
from common.records import Record, Run, newest, store_of
from common.tables import markdown, origin, sign_of

from hba.operations import OPERATIONS
from quality.beds import BEDS, DIGITS
from quality.candidates import CANDIDATES, DEFAULT, FORMER, PAPER
from quality.plan import judged_by
from quality.tables import (
    RECOVERED_WITHIN,
    planted_in,
    rate_table,
    summary_table,
    verdict_differences,
)
from quality.tasks import ROWS
from quality.views import Shift

SUMMARY_DATA = {
    "digits": "digits, 200 images",
    "digits-shifted": "the same, validation and test images shifted",
    "cifar": "1,000 images of CIFAR-10 at 16x16",
    "cifar-grey": "the same in grey levels, no flips and crops, 60 epochs",
}
"""Headings of the first table by dataset."""
Group = Sequence[Record]
Images = tuple[str, int, int, int]
"""Bed, epochs of the search, epochs of the training, and its number of images; 0 if
there is none.
"""


@dataclass(frozen=True)
class Section:
    """A table of one dataset and length, with the text above and below it."""

    data: str
    records: Group
    command: str
    table: str

    @property
    def origin(self) -> str:
        return origin(self.records)

    @property
    def planned(self) -> str:
        """The plan that was stated before the verdict, its commits, and which of its
        runs are missing.
        """
        plans = [record.made_by["plan"] for record in self.records]
        commits = ", ".join(sorted({f"`{plan['commit']}`" for plan in plans}))
        plan = plans[-1]
        n_runs = {
            row: sum(record.run.name == row for record in self.records)
            for row in plan["rows"]
        }
        missing = [
            f"`{row}` {n_done} of {plan['seeds']}"
            for row, n_done in n_runs.items()
            if n_done < plan["seeds"]
        ]
        last = plan["first_seed"] + plan["seeds"] - 1
        stated = (
            f"Stated before in commit {commits}: seeds {plan['first_seed']} to {last}"
            " of these rows."
        )
        return stated + (f" Incomplete: {', '.join(missing)}." if missing else "")


def write_page(results: Path, docs: Path) -> Path:
    planted = records_of(results, "planted")
    verdicts = verdicts_of(results)
    differences = {
        group[0].run.dataset: verdict_differences(group) for group in verdicts
    }
    by_dataset = {group[0].run.dataset: group for group in verdicts}
    return pages.write_page(
        "search-quality",
        docs,
        default=DEFAULT,
        former=FORMER,
        paper=PAPER,
        within=RECOVERED_WITHIN,
        operations=len(OPERATIONS),
        shift=Shift(),
        summary=summary_table(
            {
                title: by_dataset[name]
                for name, title in SUMMARY_DATA.items()
                if name in by_dataset
            }
        ),
        verdicts=[_verdict_section(group) for group in verdicts],
        beats=lambda dataset, *rows: all(
            sign_of(differences[dataset][row]) < 0 for row in rows
        ),
        no_difference=lambda dataset, *rows: all(
            sign_of(differences[dataset][row]) == 0 for row in rows
        ),
        planted=[
            _planted_section(group)
            for n_operations in (1, 2)
            for group in grouped(
                record for record in planted if len(planted_in(record)) == n_operations
            )
        ],
    )


def records_of(results: Path, question: str) -> list[Record]:
    """The newest records of each row, in the order of the rows of the table."""
    kept = store_of(results, question).records()
    rows = ROWS if question == "verdict" else CANDIDATES
    ordered = [record for name in rows for record in kept if record.run.name == name]
    return newest(
        ordered, lambda run: (run.name, *_images_of(run), run.further.get("problem"))
    )


def verdicts_of(results: Path) -> list[Group]:
    """The records of the verdict on the default search, by dataset."""
    records = records_of(results, "verdict")
    return grouped(
        record
        for record in records
        if judged_by(record.made_by["plan"]["rows"]) == DEFAULT
    )


def grouped(records: Iterable[Record]) -> list[Group]:
    """The records in groups, by bed and lengths."""
    groups: dict[Images, list[Record]] = {}
    for record in records:
        groups.setdefault(_images_of(record.run), []).append(record)
    order = list(BEDS)
    return [
        groups[key]
        for key in sorted(groups, key=lambda key: (order.index(key[0]), *key[1:]))
    ]


def _images_of(run: Run) -> Images:
    details = run.further
    return (
        run.dataset,
        run.settings["epochs"],
        details.get("training_epochs", 0),
        details.get("training_images", 0),
    )


def _verdict_section(group: Group) -> Section:
    run = group[0].run
    epochs = run.settings["epochs"]
    n_images = run.further["training_images"]
    data = (
        f"{run.dataset}, {n_images} training images, {epochs} epochs,"
        f" {run.settings['model']}"
    )
    return Section(data, group, _command("verdict", run.dataset), "")


def _planted_section(group: Group) -> Section:
    names = (record.run.name for record in group)
    problems = (record.run.further["problem"] for record in group)
    options = {
        "epochs": group[0].run.settings["epochs"],
        "seeds": 1 + max(record.run.seed for record in group),
    }
    listed = {
        name: ",".join(dict.fromkeys(values))
        for name, values in (("candidates", names), ("problems", problems))
    }
    command = _command("planted", group[0].run.dataset, **listed, **options)
    return Section(group[0].run.dataset, group, command, markdown(rate_table(group)))


def _command(command: str, dataset: str, **options: str | int | None) -> str:
    """Options that are None are omitted."""
    bed = {} if dataset == DIGITS else {"bed": dataset}
    data = {"data": "DIR"} if dataset not in BEDS or BEDS[dataset].data is None else {}
    set_options = {
        name.replace("_", "-"): value
        for name, value in {**bed, **data, **options}.items()
        if value is not None
    }
    words = "".join(f" --{name} {value}" for name, value in set_options.items())
    return f"`python benchmarks/search_quality.py {command}{words}`"
