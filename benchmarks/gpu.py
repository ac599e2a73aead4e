"""What there is to measure on a GPU, in stages that end within ten minutes and go on where they were stopped.

    python benchmarks/gpu.py run [STAGE...] --data DIR [--minutes 9.5] [--device cuda] [--work runs/gpu]
    python benchmarks/gpu.py page

Without a STAGE, `run` does those that are not recorded for this GPU and commit, in the order of their worth, until its
time is over. DIR holds the images of CIFAR-10 as train/<class>/ and test/<class>/. A search, an evaluation or a table
that is stopped is resumed by the next call with the same --work. Results are kept in benchmarks/results/gpu.jsonl, and
those of steps and tables with their own programs; `page` writes the table of docs/gpu.md. --trial runs everything as
small as can be, on any machine, to see that it runs.
"""

import time
from collections.abc import Sequence
from pathlib import Path

import click
import pandas as pd
from common.pages import fill_page
from common.records import DOCS, Record, Run, Store, made_by, store_of
from common.tables import markdown
from on_gpu.limited import LAST_SECONDS, StageError
from on_gpu.stages import STAGES, Place
from quality.options import KEPT_IN

from hba.errors import HbaError
from hba.utils.devices import find_device

QUESTION, MARK = "gpu", "gpu"
TOO_LONG = ".too-long"
"""Of a file in the folder of work, behind a stage's name."""


@click.group(help=__doc__)
def main() -> None:
    """Commands."""


@main.command(help="Do stages.")
@click.argument("names", nargs=-1, metavar="[STAGE]...", type=click.Choice(list(STAGES)))
@click.option("--data", help="Folder of CIFAR-10's images.")
@click.option("--minutes", type=click.FloatRange(0.1), default=9.5, show_default=True, help="Of this call.")
@click.option("--device", default="cuda", show_default=True)
@click.option("--work", type=click.Path(path_type=Path), default=Path("runs/gpu"), show_default=True)
@click.option("--trial", is_flag=True, help="Everything as small as can be.")
@KEPT_IN
def run(
    names: Sequence[str], data: str | None, minutes: float, device: str, work: Path, trial: bool, results: Path
) -> None:
    if data is None and not trial:
        raise click.ClickException("--data must name the folder of CIFAR-10's images; give it, or --trial")
    end = time.monotonic() + 60 * minutes
    try:
        about = made_by(find_device(device))
    except HbaError as error:
        raise click.ClickException(f"{error}; --trial --device cpu tries the stages without a GPU") from None
    store = store_of(results, QUESTION)
    # What another commit has begun is not gone on with.
    own = work / str(about["commit"])
    for name in names or shorter_first(missing(store, about["device_name"], about["commit"]), own):
        left = end - time.monotonic()
        if left < 2 * LAST_SECONDS and not trial:
            click.echo(f"{name}: not begun, there are {left:.0f} s left; call again")
            return
        try:
            found = STAGES[name].do(Place(data or "digits", own, results, device, left, trial))
        except (StageError, HbaError) as error:
            click.echo(f"{name}: failed\n{error}", err=True)
            continue
        if found is None:
            click.echo(f"{name}: its time is over; {after_too_little_time(name, own)}")
            return
        click.echo(f"{name}: {STAGES[name].shown(found)}")
        settings = {"trial": trial, "device_name": about["device_name"]}
        store.add(Record(Run(name, "digits" if data is None else "cifar10", settings, 0), found, about))


def missing(store: Store, device_name: str, commit: str | None) -> list[str]:
    """Stages that this GPU has not done by this commit."""
    made = {
        record.run.name
        for record in store.by_key().values()
        if not record.run.settings["trial"]
        and (record.made_by["device_name"], record.made_by["commit"]) == (device_name, commit)
    }
    return [name for name in STAGES if name not in made]


def shorter_first(names: Sequence[str], work: Path) -> list[str]:
    """Behind all others, stages that a call was too short for and that begin anew each time."""
    return sorted(names, key=lambda name: (work / (name + TOO_LONG)).exists())


def after_too_little_time(name: str, work: Path) -> str:
    """What to do where a stage did not end."""
    if STAGES[name].goes_on:
        return "call again to go on"
    work.mkdir(parents=True, exist_ok=True)
    (work / (name + TOO_LONG)).touch()
    return "it begins anew each time, so give it more --minutes; the next call does all others first"


@main.command(help="Write the table of docs/gpu.md.")
@KEPT_IN
def page(results: Path) -> None:
    fill_page("gpu", MARK, DOCS, table_of(list(store_of(results, QUESTION).by_key().values())))


def table_of(records: Sequence[Record]) -> str:
    """Markdown: every stage, with what the last record of each GPU says."""
    lines = []
    for name, stage in STAGES.items():
        own = [record for record in records if record.run.name == name and not record.run.settings["trial"]]
        for record in own:
            by = f"{record.made_by['device_name']}, PyTorch {record.made_by['packages']['torch']}"
            lines.append(("`" + name + "`", stage.text, stage.shown(record.results), by))
        if not own:
            lines.append(("`" + name + "`", stage.text, "not run", "-"))
    return markdown(pd.DataFrame(lines, columns=["stage", "what", "result", "hardware"]))


if __name__ == "__main__":
    main()
