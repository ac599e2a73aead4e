"""hba show, hba report and hba compare: what was found, as tables, a picture and a page."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

import hba
from hba.algorithms.update_schedule import advice_in, overfitting_note_in
from hba.errors import SettingsError
from hba.report.findings import (
    change_lines,
    error_definition,
    network_line,
    network_measured,
    numbers_line,
    reach_line,
    regularizer_table,
    share,
    spread_line,
)
from hba.report.over_seeds import OperationOverSeeds, Over, OverSeeds
from hba.schedule.library import POLICY_NAME, policy_file, seed_folders
from hba.schedule.pictures import draw_schedule
from hba.schedule.schedule import Schedule
from hba.schedule.summary import key_epochs, reach, summarize, summarize_regularizers
from hba.utils.text import counted, percent

from .completion import SCHEDULE
from .options import Picture
from .terminal import console, json_option, operations_file_option, print_json, say, table


@click.command()
@click.argument("schedule", shell_complete=SCHEDULE)
@operations_file_option
@click.option("--out", type=Picture(), help="The picture. [default: beside the file, ending .png]")
@json_option
def show(schedule: str, out: Path | None, as_json: bool) -> None:
    """Print probability and magnitude of each operation of SCHEDULE, and plot them over epochs as a PNG file.

    Tuned regularizers are printed with their values. For a folder of `hba search --seeds`, what its searches agree on,
    and how far they differ. With --json, a picture is drawn only with --out.
    """
    path = Path(schedule)
    if path.is_dir() and not (path / POLICY_NAME).exists() and seed_folders(path):
        if out is not None:
            raise SettingsError("--out is for the picture of one schedule; name the folder of one search")
        found = OverSeeds.read(path)
        if as_json:
            print_json(_described_over_seeds(found))
        else:
            print_over_seeds(schedule, found, console())
    else:
        _show(hba.load_policy(schedule), schedule, out, as_json=as_json)


def _show(loaded: Schedule, name: str, out: Path | None, *, as_json: bool) -> None:
    if as_json:
        print_json(described(loaded))
        if out is not None:
            draw_schedule(loaded, out)
        return
    # A shipped schedule has no path here: its picture is named after it.
    path, printer = policy_file(name) or Path(name), console()
    out = out or (path.with_suffix(".png") if path.exists() else Path(f"{name}.png"))
    if loaded.space.operations:
        printer.print(schedule_table(name, loaded))
        for line in legend(loaded):
            printer.print(line)
    if loaded.space.regularizers:
        printer.print(regularizers_table(name, loaded))
    provenance = loaded.provenance
    for line in change_lines(loaded):
        printer.print(line)
    if measured := network_measured(provenance):
        printer.print(network_line(measured, error_definition(provenance)))
    for note in filter(None, (advice_in(provenance), overfitting_note_in(provenance))):
        printer.print(note)
    draw_schedule(loaded, out)
    printer.print(f"Picture: {out}")


def described(schedule: Schedule) -> dict[str, Any]:
    """The content of the tables, for programs. Epochs count from 1; lists are over `at_epochs`."""
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
        "provenance": dict(schedule.provenance),
    }


def schedule_table(name: str, schedule: Schedule) -> Table:
    """Each operation at the first, middle and last epoch, in at most 80 columns."""
    epochs = key_epochs(schedule)
    headings = [
        *(f"prob.\nepoch\n{epoch + 1}" for epoch in epochs),
        f"images\nepoch\n{epochs[-1] + 1}",
        *(f"magn.\nepoch\n{epoch + 1}" for epoch in epochs),
    ]
    shares, rows = reach(schedule, epochs[-1]).shares, []
    for summary in summarize(schedule, epochs):
        operation, shown = summary.operation.name, summary.shown_magnitudes or ()
        magnitudes = ["\n".join(f"{copy:.3g}" for copy in copies) for copies in shown] or ["-"] * len(epochs)
        rows.append(
            [operation, *(f"{value:.2f}" for value in summary.probability), share(shares[operation]), *magnitudes]
        )
    title = f"{name}: {counted(schedule.epochs, 'epoch')}, strongest last epoch first"
    return table(("operation", *headings), rows, title, numbers=True)


def regularizers_table(name: str, schedule: Schedule) -> Table:
    """Each regularizer where the search began, and at the first, middle and last epoch."""
    title = f"{name}: {counted(schedule.epochs, 'epoch')}, regularizers"
    return table(*regularizer_table(schedule), "Regularizers" if schedule.space.operations else title, numbers=True)


def legend(schedule: Schedule) -> list[str]:
    """What the columns mean: probability, share of images, and magnitudes with their units."""
    space = schedule.space
    names_by_unit: dict[str, list[str]] = {}
    for operation in space.operations:
        if operation.magnitude_range is not None:
            names_by_unit.setdefault(operation.unit or "no unit", []).append(operation.name)
    units = "; ".join(f"{unit}: {', '.join(names)}" for unit, names in names_by_unit.items())
    copies = (
        f" Numbers are means over the {space.copies} copies of each operation; magnitudes on both sides of the "
        "identity are listed copy by copy."
    )
    return [
        "prob.: how often an operation is applied when its turn comes. images: the share of images that it is applied "
        f"to, which is mostly less, because an image gets at most {space.max_count}."
        + (copies if space.copies > 1 else ""),
        reach_line(schedule, schedule.epochs - 1),
        *([numbers_line(schedule)] if space.searches_count else []),
        *([f"Magnitudes are in {units}."] if units else []),
        *([spread_line(schedule)] if schedule.spread.any() else []),
    ]


def print_over_seeds(name: str, found: OverSeeds, printer: Console) -> None:
    """Operations and regularizers in the last epoch of searches that differ by their seed, and what to conclude."""
    if found.operations:
        title = f"{name}: {counted(len(found.schedules), 'search', 'searches')}, last epoch, mean +- standard deviation"
        headings = ("operation", "images", "prob.", "moved by, 95 % interval", "magn.")
        printer.print(table(headings, map(_operation_row, found.operations), title))
    if found.regularizers:
        rows = (
            (name, _around(over), "  ".join(f"{one:.3g}" for one in over.each))
            for name, over in found.regularizers.items()
        )
        title = "Regularizers, mean +- standard deviation"
        printer.print(table(("regularizer", "last epoch", "each seed"), rows, title))
    for sentence in found.sentences:
        printer.print(sentence)
    if (error := found.val_error_percent) is not None:
        printer.print(
            f"Validation error of the search networks: {percent(error.mean)}, standard deviation {percent(error.std)}. "
            "It is not that of trainings with the schedules."
        )


def _operation_row(one: OperationOverSeeds) -> tuple[str, ...]:
    low, high = one.probability_moved.interval
    moved = f"{one.probability_moved.mean:+.3f} ({low:+.3f} to {high:+.3f})"
    images = f"{share(one.share.mean)} +- {100 * one.share.std:.1f}"
    return one.name, images, _around(one.probability), moved, "-" if one.magnitude is None else _around(one.magnitude)


def _around(over: Over) -> str:
    return f"{over.mean:.3g} +- {over.std:.2g}"


def _described_over_seeds(found: OverSeeds) -> dict[str, Any]:
    def described(values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value._asdict() if isinstance(value, Over) else value for name, value in values.items()}

    error = found.val_error_percent
    return {
        "seeds": sorted(found.schedules),
        "operations": [
            described({"share_of_images" if name == "share" else name: value for name, value in vars(one).items()})
            for one in found.operations
        ],
        "epochs": next(iter(found.schedules.values())).epochs,
        "left_out": found.left_out,
        "regularizers": described(found.regularizers),
        "val_error_percent": None if error is None else error._asdict(),
        "agreement": found.agreement,
        "sentences": found.sentences,
    }


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@operations_file_option
def report(run: Path) -> None:
    """Write the report of RUN, the folder of a search or an evaluation, again.

    A search and an evaluation write it when they end. It is one file, report.html, for any browser.
    """
    say(f"Report: {hba.write_report(run)}")


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@operations_file_option
def compare(runs: tuple[Path, ...]) -> None:
    """Compare the settings and the results of RUNS, folders of searches and evaluations, in tables."""
    for title, content in hba.compare(*runs).tables().items():
        console().print(table(content.headings, content.rows, title))
