"""hba show: what a schedule does, as a table and a picture."""

import dataclasses
from pathlib import Path
from typing import Any

import click
from rich.table import Table
from rich.text import Text

import hba
from hba.algorithms.update_schedule import advice_in, overfitting_note_in
from hba.report.findings import (
    change_lines,
    error_told,
    network_line,
    network_measured,
    numbers_line,
    reach_line,
    regularizer_table,
    share,
    spread_line,
    whole_line,
)
from hba.report.over_seeds import OverSeeds
from hba.report.run import POLICY_NAME
from hba.schedule.library import policy_file, seed_folders
from hba.schedule.pictures import draw_schedule
from hba.schedule.schedule import Schedule
from hba.schedule.summary import OperationSummary, key_epochs, reach, summarize, summarize_regularizers
from hba.utils.text import counted

from . import over_seeds_text
from .completion import SCHEDULE
from .operations_files import operations_file_option
from .options import Picture
from .terminal import console, json_option, print_json


@click.command()
@click.argument("schedule", shell_complete=SCHEDULE)
@operations_file_option
@click.option(
    "--out",
    type=Picture(),
    help="The picture. [default: beside the file, ending .png]",
)
@json_option
def show(schedule: str, out: Path | None, as_json: bool) -> None:
    """Print probability and magnitude of each operation of SCHEDULE, and draw them over epochs to a PNG file.

    So too the value of each regularizer that was tuned. Of a folder that `hba search --seeds` has made, what its
    searches have in common, and how far they are apart. With --json, a picture is drawn only where --out says so.
    """
    path = Path(schedule)
    if path.is_dir() and not (path / POLICY_NAME).exists() and seed_folders(path):
        _show_over_seeds(path, out, as_json=as_json)
        return
    _show(hba.load_policy(schedule), schedule, out, as_json=as_json)


def _show(loaded: Schedule, schedule: str, out: Path | None, *, as_json: bool) -> None:
    """schedule: as it was given."""
    # For a shipped schedule its name, though a folder may be called so.
    path = policy_file(schedule) or Path(schedule)
    if as_json:
        print_json(described(loaded))
        if out is not None:
            draw_schedule(loaded, out)
        return
    if out is None:
        out = path.with_suffix(".png") if path.exists() else Path(f"{schedule}.png")
    if loaded.space.operations:
        console().print(schedule_table(schedule, loaded))
        for line in legend(loaded):
            console().print(line)
    if loaded.space.regularizers:
        console().print(regularizers_table(schedule, loaded))
    for line in (*filter(None, [whole_line(loaded)]), *change_lines(loaded)):
        console().print(line)
    if measured := network_measured(loaded.provenance):
        console().print(network_line(measured, error_told(loaded.provenance)))
    for note in filter(None, (advice_in(loaded.provenance), overfitting_note_in(loaded.provenance))):
        console().print(note)
    draw_schedule(loaded, out)
    console().print(f"Picture: {out}")


def _show_over_seeds(folder: Path, out: Path | None, *, as_json: bool) -> None:
    """Of searches that differ by their seed."""
    found = OverSeeds.read(folder)
    if as_json:
        print_json(over_seeds_text.described(found))
    else:
        over_seeds_text.print_over_seeds(str(folder), found, console())
    if found.operations and (out is not None or not as_json):
        picture = folder / "over_seeds.png" if out is None else out
        found.draw(picture)
        if not as_json:
            console().print(f"Picture: {picture}")


def described(schedule: Schedule) -> dict[str, Any]:
    """What the table and the lines below it say, epochs counted from 1; lists are over these epochs."""
    epochs = key_epochs(schedule)
    reached = [reach(schedule, epoch) for epoch in epochs]
    operations = [
        {
            "name": summary.operation.name,
            "unit": summary.operation.unit,
            "probability": summary.probability,
            "magnitude": summary.magnitude,
            "strength": summary.strength,
            "share_of_images": [one.shares[summary.operation.name] for one in reached],
        }
        for summary in summarize(schedule, epochs)
    ]
    return {
        "epochs": schedule.epochs,
        "at_epochs": [epoch + 1 for epoch in epochs],
        "operations": operations,
        "regularizers": [
            {**dataclasses.asdict(one.hyperparameter), "began": one.began, "value": [one.values[n] for n in epochs]}
            for one in summarize_regularizers(schedule)
        ],
        "images_with_0_1_2_operations": [one.numbers for one in reached],
        "val_error_percent_by_epoch": network_measured(schedule.provenance),
        "advice": advice_in(schedule.provenance),
        "overfitting_note": overfitting_note_in(schedule.provenance),
        "provenance": schedule.provenance,
    }


def schedule_table(name: str, schedule: Schedule) -> Table:
    """Each operation at the first, middle and last epoch; narrow enough for 80 columns."""
    epochs = key_epochs(schedule)
    table = Table(title=Text(f"{name}: {counted(schedule.epochs, 'epoch')}, strongest last epoch first"))
    table.add_column("operation", min_width=max(len(operation.name) for operation in schedule.space.operations))
    for quantity in ("prob.", "magn."):
        for epoch in epochs:
            table.add_column(f"{quantity}\nepoch\n{epoch + 1}", justify="right", no_wrap=True)
        if quantity == "prob.":
            table.add_column(f"images\nepoch\n{epochs[-1] + 1}", justify="right", no_wrap=True)
    shares = reach(schedule, epochs[-1]).shares
    for summary in summarize(schedule, epochs):
        table.add_row(*_cells(summary, len(epochs), shares[summary.operation.name]))
    return table


def regularizers_table(name: str, schedule: Schedule) -> Table:
    """Each regularizer where the search began, and at the first, middle and last epoch."""
    headings, rows = regularizer_table(schedule)
    title = (
        "Regularizers" if schedule.space.operations else f"{name}: {counted(schedule.epochs, 'epoch')}, regularizers"
    )
    table = Table(title=Text(title))
    for heading in headings:
        is_text = heading in (headings[0], "unit")
        # Names of a network's modules may be long, and numbers must not be broken.
        table.add_column(heading, justify="left" if is_text else "right", overflow="fold", no_wrap=not is_text)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def _cells(summary: OperationSummary, n_epochs: int, reached: float) -> list[str]:
    shown = summary.shown_magnitudes or ()
    magnitudes = ["\n".join(f"{copy:.3g}" for copy in copies) for copies in shown] or ["-"] * n_epochs
    probabilities = [f"{value:.2f}" for value in summary.probability]
    return [summary.operation.name, *probabilities, share(reached), *magnitudes]


def legend(schedule: Schedule) -> list[str]:
    """What the columns mean: probability, images reached, and magnitudes with their units."""
    names_by_unit: dict[str, list[str]] = {}
    for operation in schedule.space.operations:
        if operation.magnitude_range is not None:
            names_by_unit.setdefault(operation.unit or "no unit", []).append(operation.name)
    units = "; ".join(f"{unit}: {', '.join(names)}" for unit, names in names_by_unit.items())
    copies = (
        f" Numbers are means over the {schedule.space.copies} copies that each operation has, but magnitudes on both "
        "sides of what does nothing: there is one for each copy."
    )
    return [
        "prob.: how often an operation fires when its turn comes. images: the share of images that it is applied to, "
        f"which is mostly less, because an image gets at most {schedule.space.max_count}."
        + (copies if schedule.space.copies > 1 else ""),
        reach_line(schedule, schedule.epochs - 1),
        *([numbers_line(schedule)] if schedule.space.searches_count else []),
        *([f"Magnitudes are in {units}."] if units else []),
        *([spread_line(schedule)] if schedule.spread.any() else []),
    ]
