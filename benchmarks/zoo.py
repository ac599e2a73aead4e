"""Make a schedule that ships with the package, and its card: search it, then evaluate it beside others.

    python benchmarks/zoo.py digits [--jobs 2]
    python benchmarks/zoo.py cifar10-copy --data DIR [--jobs 2]
    python benchmarks/zoo.py --list

DIR is a folder of the CIFAR-10 copy, as for benchmarks/search_quality.py. The search and the evaluation are kept in
--work and resumed there. Then policies/NAME.json and policies/cards/NAME.json are written.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

import hba
from hba.errors import HbaError, SettingsError
from hba.policy_evaluation import RESULTS_NAME
from hba.policy_search.progress import SearchProgress
from hba.report.card import Card
from hba.utils.files import write_text

POLICIES = Path(__file__).parents[1] / "policies"
AGAINST = ("none", "randaugment", "trivialaugment")
DIR = "DIR"
"""In the place of a folder in commands, and in what is kept of settings."""


@dataclass(frozen=True)
class Entry:
    """text: what a card says first. search, evaluation: settings over those of the data. in_folder: whether the images
    are in a folder of the user's.
    """

    text: str
    search: Mapping[str, Any]
    evaluation: Mapping[str, Any]
    in_folder: bool = False

    def commands(self, name: str) -> tuple[str, str]:
        """Of the search and of the evaluation, as a person would type them."""
        data = DIR if self.in_folder else name
        against = {"against": ",".join(AGAINST)}
        return (
            f"hba search {data}{_options(self.search)}",
            f"hba evaluate {name} {data}{_options({**against, **self.evaluation})}",
        )


def _options(settings: Mapping[str, Any]) -> str:
    return "".join(f" --{name.replace('_', '-')} {value}" for name, value in settings.items())


ZOO: Mapping[str, Entry] = MappingProxyType(
    {
        "digits": Entry(
            "Found on 200 of scikit-learn's handwritten digits, by look-ahead with whole batches of validation images.",
            {"val_batch_size": 100},
            {"train_size": 200, "seeds": 5},
        ),
        "cifar10-copy": Entry(
            "Found on 2,000 training and 1,000 validation images of a JPEG copy of CIFAR-10 at 32x32, with a small "
            "network: a start for small sets of small photographs, no match for a search on all images.",
            {"model": "wrn-10-1", "image_size": 32, "train_size": 2000, "val_size": 1000, "epochs": 60}
            | {"val_batch_size": 128},
            {"train_size": 2000, "seeds": 3},
            in_folder=True,
        ),
    }
)


@click.command(help=__doc__)
@click.argument("name", required=False, type=click.Choice(list(ZOO)))
@click.option("--data", help="Folder of the images, for an entry that needs one.")
@click.option("--jobs", type=click.IntRange(1), default=1, show_default=True, help="Trainings at a time.")
@click.option("--work", type=click.Path(path_type=Path), default=Path("runs/zoo"), show_default=True)
@click.option("--policies", type=click.Path(path_type=Path), default=POLICIES, help="[default: policies]")
@click.option("--list", "only_list", is_flag=True, help="Only say what there is.")
def main(name: str | None, data: str | None, jobs: int, work: Path, policies: Path, only_list: bool) -> None:
    if only_list or name is None:
        for one, entry in ZOO.items():
            click.echo(f"{one}: {entry.text}")
        return
    try:
        made = make(name, data, work / name, jobs)
    except HbaError as error:
        raise click.ClickException(str(error)) from None
    for path, text in zip((policies / f"{name}.json", policies / "cards" / f"{name}.json"), made, strict=True):
        write_text(path, text)
        click.echo(f"Written: {path}")


def make(name: str, data: str | None, work: Path, jobs: int) -> tuple[str, str]:
    """The texts of the schedule's file and of its card."""
    entry = ZOO[name]
    if entry.in_folder and data is None:
        raise SettingsError(f"{name} needs --data, the folder of its images")
    images = data if entry.in_folder else name
    with SearchProgress() as progress:
        found = hba.search(
            images, **entry.search, out=work / "search", resume=(work / "search").exists(), callback=progress
        )
    schedule = found.schedule
    if schedule is None or not found.finished:
        raise SettingsError(f"the search in {work} was stopped before its end; begin again to resume it")
    evaluated = work / "evaluation"
    hba.evaluate(
        schedule,
        images,
        against=AGAINST,
        jobs=jobs,
        out=evaluated,
        resume=(evaluated / RESULTS_NAME).exists(),
        **entry.evaluation,
    )
    search, evaluate = entry.commands(name)
    results = json.loads((evaluated / RESULTS_NAME).read_text("utf-8"))
    card = {"text": entry.text, "search": search, "evaluate": evaluate, "results": results}
    texts = schedule.text(), json.dumps(card, indent=2) + "\n"
    if entry.in_folder:
        texts = tuple(_without_place(text, Path(str(data))) for text in texts)  # type: ignore[assignment]
    Card.model_validate_json(texts[1])
    return texts


def _without_place(text: str, folder: Path) -> str:
    """The same with DIR in the place of the folder, which is nobody else's."""
    for place in sorted({str(folder), str(folder.absolute()), str(folder.resolve())}, key=len, reverse=True):
        text = text.replace(json.dumps(place), json.dumps(DIR))
    return text


if __name__ == "__main__":
    main()
