"""hba show, hba report and hba compare: results as tables, a picture and a page."""

import dataclasses
from pathlib import Path
from typing import Any

import click

import hba
from hba.errors import SettingsError
from hba.operations.operation import STAGES
from hba.report.findings import (
    of_walk,
    policy_table,
    regularizer_table,
    schedule_lines,
)
from hba.results.over_seeds import Over, OverSeeds
from hba.results.provenance import network_measured
from hba.results.tables import share
from hba.schedule.library import POLICY_NAME, policy_file, seed_folders
from hba.schedule.pictures import draw_schedule
from hba.schedule.schedule import Schedule
from hba.schedule.summary import (
    key_epochs,
    reach,
    summarize,
    summarize_regularizers,
    used_operations,
)
from hba.utils.text import counted, percent

from .options import file_option, picture, schedule_argument
from .terminal import (
    by_stage,
    console,
    json_option,
    operations_file_option,
    print_json,
    print_table,
    say,
)


@click.command()
@schedule_argument
@operations_file_option
@file_option(
    "--out",
    callback=picture,
    help="The picture. [default: beside the file, ending in .png]",
)
@json_option
def show(schedule: str, out: Path | None, as_json: bool) -> None:
    """Print the probability and magnitude of each operation of SCHEDULE, and plot them
    over epochs as a PNG file.

    Tuned regularizers are printed with their values. For a folder of `hba search
    --seeds`, the command prints what the searches agree on and how far they differ.
    With --json, a picture is drawn only with --out.
    """
    path = Path(schedule)
    if path.is_dir() and not (path / POLICY_NAME).exists() and seed_folders(path):
        if out is not None:
            raise SettingsError(
                "--out is for the picture of one schedule; name the folder of one"
                " search"
            )
        over_seeds = OverSeeds.read(path)
        if as_json:
            print_json(_described_over_seeds(over_seeds))
        else:
            print_over_seeds(schedule, over_seeds)
        return
    loaded = hba.load_policy(schedule)
    if as_json:
        print_json(described(loaded))
    else:
        # A shipped schedule has no path here: its picture is named after it.
        path = policy_file(schedule) or path
        out = out or (
            path.with_suffix(".png") if path.exists() else Path(f"{schedule}.png")
        )
        if used_operations(loaded):
            _print_operations(schedule, loaded)
        print_findings(loaded, policy=False)
    if out is not None:
        draw_schedule(loaded, out)
        say(f"Picture: {out}", err=as_json)


def described(schedule: Schedule) -> dict[str, Any]:
    """The content of the tables, for programs. Epochs count from 1; lists have one
    value for each of `at_epochs`.
    """
    epochs = key_epochs(schedule)
    reached = [reach(schedule, epoch) for epoch in epochs]
    operations = [
        {
            "name": summary.operation.name,
            "stage": summary.operation.stage,
            "unit": summary.operation.unit,
            "probability": summary.probability,
            "magnitude": summary.magnitude,
            "strength": summary.strength,
            "share_of_images": [
                epoch_reach.shares[summary.operation.name] for epoch_reach in reached
            ],
        }
        for summary in summarize(schedule, epochs)
    ]
    return {
        "epochs": schedule.epochs,
        "at_epochs": [epoch + 1 for epoch in epochs],
        "operations": operations,
        "regularizers": [
            {
                **dataclasses.asdict(regularizer.hyperparameter),
                "began": regularizer.began,
                "value": [regularizer.values[n] for n in epochs],
            }
            for regularizer in summarize_regularizers(schedule)
        ],
        "images_by_number_of_operations": [
            epoch_reach.numbers for epoch_reach in reached
        ],
        "val_error_percent_by_epoch": network_measured(schedule.provenance),
        "provenance": schedule.provenance,
    }


def _print_operations(name: str, schedule: Schedule) -> None:
    """Print each operation at the first, middle and last epoch, in at most 80 columns,
    and what the columns mean.
    """
    epochs = key_epochs(schedule)
    printer = console()
    space = schedule.space
    headings = [
        f"{quantity}\nepoch\n{epoch + 1}"
        for quantity in ("prob.", "magn.")
        for epoch in epochs
    ]
    headings.insert(len(epochs), f"images\nepoch\n{epochs[-1] + 1}")
    shares = reach(schedule, epochs[-1]).shares
    rows = []
    used = used_operations(schedule)
    summaries = [
        summary for summary in summarize(schedule, epochs) if summary.operation in used
    ]
    for summary in sorted(
        summaries, key=lambda summary: STAGES.index(summary.operation.stage)
    ):
        operation = summary.operation
        shown = summary.shown_magnitudes or ()
        magnitudes = [
            "\n".join(f"{copy:.3g}" for copy in copies) for copies in shown
        ] or ["-"] * len(epochs)
        probabilities = [f"{value:.2f}" for value in summary.probability]
        cells = (
            operation.name,
            *probabilities,
            share(shares[operation.name]),
            *magnitudes,
        )
        rows.append((operation.stage, cells))
    title = (
        f"{name}: {counted(schedule.epochs, 'epoch')}, the strongest in the last epoch"
        " first"
    )
    print_table(("operation", *headings), by_stage(rows), title, numbers=True)
    printer.print(
        "Strength is the probability times the distance of the magnitude from having no"
        " effect."
    )
    if n_unused := len(space.operations) - len(used):
        printer.print(f"Never applied: {counted(n_unused, 'other operation')}.")
    less = (
        ", which is mostly less, because an image gets at most"
        f" {space.max_count}{of_walk(space)}"
    )
    printer.print(
        "prob.: how often an operation is"
        f" applied{' when its turn comes' if space.walk else ''}. images: the share of "
        f"images that it is applied to{less if space.walk else ''}"
        f"{'; of mixing, the share of batches' if space.mixing else ''}."
    )
    if space.copies > 1 and space.walk:
        printer.print(
            f"Numbers are means over the {space.copies} copies of each"
            f" operation{of_walk(space)}; magnitudes on both sides of the identity are"
            " listed copy by copy."
        )
    names_by_unit: dict[str, list[str]] = {}
    for used_operation in used:
        if used_operation.magnitude_range is not None:
            names_by_unit.setdefault(used_operation.unit or "no unit", []).append(
                used_operation.name
            )
    if names_by_unit:
        units = "; ".join(
            f"{unit}: {', '.join(names)}" for unit, names in names_by_unit.items()
        )
        printer.print(f"Magnitudes are in {units}.")


def print_findings(schedule: Schedule, *, policy: bool = True) -> None:
    """Print what a search found.

    Args:
        schedule: The schedule of the search.
        policy: Whether to print a table of the operations that are applied.
    """
    printer = console()
    applied = policy_table(schedule)
    if schedule.space.regularizers:
        print_table(*regularizer_table(schedule), "Regularizers", numbers=True)
    if applied.rows and policy:
        print_table(*applied, "The policy")
    for line in schedule_lines(schedule):
        printer.print(line)


def print_over_seeds(name: str, over_seeds: OverSeeds) -> None:
    """Print operations and regularizers in the last epoch of searches that differ in
    their seed, and a conclusion.
    """
    printer = console()
    rows = []
    for operation in sorted(
        over_seeds.operations, key=lambda operation: STAGES.index(operation.stage)
    ):
        low, high = operation.probability_moved.interval
        moved = (
            f"{operation.probability_moved.mean:+.3f} ({low:+.3f} to {high:+.3f})"
            if low or high
            else "-"
        )
        images = f"{share(operation.share.mean)} +- {100 * operation.share.std:.1f}"
        rows.append(
            (
                operation.stage,
                (
                    operation.name,
                    images,
                    _around(operation.probability),
                    moved,
                    _around(operation.magnitude),
                ),
            )
        )
    if rows:
        title = (
            f"{name}: {counted(len(over_seeds.schedules), 'search', 'searches')}, last"
            " epoch, mean +- standard deviation"
        )
        headings = ("operation", "images", "prob.", "moved by, 95 % interval", "magn.")
        print_table(headings, by_stage(rows), title)
    values = [
        (name, _around(over), "  ".join(f"{value:.3g}" for value in over.each))
        for name, over in over_seeds.regularizers.items()
    ]
    if values:
        title = "Regularizers, mean +- standard deviation"
        print_table(("regularizer", "last epoch", "each seed"), values, title)
    for sentence in over_seeds.sentences:
        printer.print(sentence)
    if (error := over_seeds.val_error_percent) is not None:
        printer.print(
            f"Validation error of the search networks: {percent(error.mean)}, standard"
            f" deviation {percent(error.std)}. Trainings with the schedules have other"
            " errors."
        )


def _around(over: Over | None) -> str:
    return "-" if over is None else f"{over.mean:.3g} +- {over.std:.2g}"


def _described_over_seeds(over_seeds: OverSeeds) -> dict[str, Any]:
    operations = [
        {
            "share_of_images" if name == "share" else name: value
            for name, value in vars(operation).items()
        }
        for operation in over_seeds.operations
    ]
    names = (
        "left_out",
        "regularizers",
        "val_error_percent",
        "agreement",
        "sentences",
    )
    return {
        "seeds": sorted(over_seeds.schedules),
        "operations": operations,
        "epochs": next(iter(over_seeds.schedules.values())).epochs,
        **{name: getattr(over_seeds, name) for name in names},
    }


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@operations_file_option
def report(run: Path) -> None:
    """Rewrite the report of RUN, the folder of a search or an evaluation.

    Searches and evaluations write it when they end. It is one file, report.html, for
    any browser.
    """
    say(f"Report: {hba.write_report(run)}")


@click.command()
@click.argument("runs", nargs=-1, required=True, type=click.Path(path_type=Path))
@operations_file_option
def compare(runs: tuple[Path, ...]) -> None:
    """Compare the settings and the results of RUNS, folders of searches and
    evaluations, in tables.
    """
    for title, content in hba.compare(*runs).tables().items():
        print_table(*content, title)
