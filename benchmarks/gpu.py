"""Run all measurements on a GPU, in stages that end within ten minutes and resume where
they stopped.

    python benchmarks/gpu.py run [STAGE...] --data DIR [--minutes 9.5] [--device cuda]
        [--work runs/gpu]
    python benchmarks/gpu.py page

Without a STAGE, `run` does the stages that are not recorded for this GPU and commit,
most valuable first, until its time is over. DIR holds the images of CIFAR-10 as
train/<class>/ and test/<class>/. A search, an evaluation or a table that stopped is
resumed by the next call with the same --work; the other stages start again, so give
them more --minutes if they do not end. Results are stored in
benchmarks/results/gpu.jsonl; the programs of steps and tables store theirs. `page`
writes the table of docs/speed.md. --trial runs everything as small as possible, on any
machine, to check that it runs.
"""

import time
from collections.abc import Sequence
from pathlib import Path

import click
import pandas as pd
from common.options import KEPT_IN, OneLineErrors, work
from common.pages import fill_page
from common.records import DOCS, Record, Run, Store, made_by, store_of
from common.tables import markdown
from on_gpu.stages import LAST_SECONDS, STAGES, Place, StageError, in_words

from hba.errors import SettingsError
from hba.utils.devices import find_device

QUESTION = "gpu"
MARK = "gpu"


@click.group(help=__doc__, cls=OneLineErrors)
def main() -> None:
    pass


@main.command()
@click.argument(
    "names", nargs=-1, metavar="[STAGE]...", type=click.Choice(list(STAGES))
)
@click.option("--data", help="Folder of CIFAR-10's images.")
@click.option(
    "--minutes",
    type=click.FloatRange(0.1),
    default=9.5,
    show_default=True,
    help="Of this call.",
)
@click.option("--device", default="cuda", show_default=True)
@work("runs/gpu")
@click.option("--trial", is_flag=True, help="Everything as small as possible.")
@KEPT_IN
def run(
    names: Sequence[str],
    data: str | None,
    minutes: float,
    device: str,
    work: Path,
    trial: bool,
    results: Path,
) -> None:
    """Run stages."""
    if data is None and not trial:
        raise SettingsError(
            "--data must name the folder of CIFAR-10's images; give it, or --trial"
        )
    end = time.monotonic() + 60 * minutes
    about = made_by(find_device(device))
    store = store_of(results, QUESTION)
    # Work that another commit began is not resumed.
    folder = work / str(about["commit"])
    place = Place(data or "digits", folder, results, device, end, trial)
    for name in names or missing_stages(store, about["device_name"], about["commit"]):
        left = end - time.monotonic()
        if left < 2 * LAST_SECONDS and not trial:
            click.echo(f"{name}: not begun, there are {left:.0f} s left; call again")
            return
        try:
            outcome = place.do(name)
        except StageError as error:
            click.echo(f"{name}: failed\n{error}", err=True)
            continue
        if outcome is None:
            click.echo(f"{name}: its time is over; call again")
            return
        click.echo(f"{name}: {in_words(name, outcome)}")
        settings = {"trial": trial, "device_name": about["device_name"]}
        store.add(
            Record(
                Run(name, "cifar10" if data else "digits", settings, 0), outcome, about
            )
        )


def missing_stages(store: Store, device_name: str, commit: str | None) -> list[str]:
    """Stages that this GPU has not finished with this commit."""
    recorded = {
        record.run.name
        for record in store.records()
        if not record.run.settings["trial"]
        and (record.made_by["device_name"], record.made_by["commit"])
        == (device_name, commit)
    }
    return [name for name in STAGES if name not in recorded]


@main.command()
@KEPT_IN
def page(results: Path) -> None:
    """Write the table of docs/speed.md."""
    fill_page(
        "speed",
        MARK,
        DOCS,
        table_of(store_of(results, QUESTION).records()),
    )


def table_of(records: Sequence[Record]) -> str:
    """A Markdown table of every stage, with the last record of each GPU."""
    lines = []
    for name, stage in STAGES.items():
        shown = [
            (
                in_words(name, record.results),
                (
                    f"{record.made_by['device_name']}, PyTorch"
                    f" {record.made_by['packages']['torch']}"
                ),
            )
            for record in records
            if record.run.name == name and not record.run.settings["trial"]
        ]
        lines += [
            (f"`{name}`", stage.text, *cells) for cells in shown or [("not run", "-")]
        ]
    return markdown(
        pd.DataFrame(lines, columns=["stage", "what", "result", "hardware"])
    )


if __name__ == "__main__":
    main()
