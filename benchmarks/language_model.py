"""Is a language model better with a schedule of regularization that STN or Delta-STN has found?

    python benchmarks/language_model.py run [--data DIR] [--jobs 2] [--dry-run]
    python benchmarks/language_model.py page

`run` does what benchmarks/language_model.toml plans: searches on parts of WikiText-2's held-out text, ordinary
trainings with what they found, and trainings with fixed rates. DIR has its valid.txt and test.txt. Each run is stored
in benchmarks/results/language-model.jsonl as soon as it has ended. `page` writes the table of docs/language-models.md.
"""

import math
import os
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
import torch
from common.options import DATA_FOLDER, DEVICE, DRY_RUN, JOBS, KEPT_IN, OneLineErrors, work
from common.pages import fill_page
from common.records import DOCS, Record, Results, Run, store_of
from common.running import carry_out
from common.tables import difference_text, markdown, spread_text
from filelock import FileLock

import hba
import hba.text
from hba.data.config import Seed, Size
from hba.errors import SettingsError
from hba.policy_evaluation.statistics import PairedDifference
from hba.policy_search.folder import RunFolder
from hba.schedule.schedule import Schedule
from hba.text.config import TextEvaluationConfig, TextSearchConfig
from hba.text.corpus import Corpus
from hba.text.measure import measured_loss
from hba.text.task import network_of, space_of
from hba.text.train import train
from hba.utils.files import write_text
from hba.utils.settings import Settings

PLAN = Path(__file__).with_name("language_model.toml")
QUESTION, MARK = "language-model", "language models"
DATASET = "wikitext-2-heldout"
ALGORITHMS = ("stn", "delta-stn")
REPLAY, FINAL, FIXED = "replay", "final", "fixed"
ROWS = {
    "stn": "STN's own network",
    f"stn-{REPLAY}": "its schedule, in an ordinary training",
    f"stn-{FINAL}": "its last row, fixed",
    "delta-stn": "Delta-STN's own network",
    f"delta-stn-{REPLAY}": "its schedule, in an ordinary training",
    f"delta-stn-{FINAL}": "its last row, fixed",
    FIXED: "all dropouts at the one of {rates} that is best on the validation text",
}


class Plan(Settings):
    """What is run, and on which text."""

    first_seed: Seed
    seeds: Size
    rates: tuple[float, ...]
    """Of all five dropouts alike, for the row `fixed`."""
    words: Mapping[str, int]
    settings: Mapping[str, Any]
    learning_rates: Mapping[str, float]
    """Of trainings, and of searches by algorithm."""

    def search(self, algorithm: str, seed: int, data: Path, device: str) -> TextSearchConfig:
        own = {"learning_rate": self.learning_rates[algorithm], "algorithm": algorithm, "seed": seed}
        return TextSearchConfig.make({**self.settings, "data": str(data), "device": device, **own})

    def training(self, data: Path, device: str) -> TextEvaluationConfig:
        own = {"learning_rate": self.learning_rates["training"], "seeds": 1}
        return TextEvaluationConfig.make({**self.settings, "data": str(data), "device": device, **own})


@dataclass(frozen=True)
class SearchOnText:
    """A search, and the test loss of its own network."""

    config: TextSearchConfig
    words: Mapping[str, int]
    work: Path

    @property
    def run(self) -> Run:
        kept = {name: value for name, value in self.config.flat().items() if name not in ("data", "device", "seed")}
        return Run(self.config.algorithm.name, DATASET, kept, self.config.seed, {"words": dict(self.words)})

    @property
    def folder(self) -> Path:
        return self.work / f"{self.run.name}-seed{self.config.seed}-{self.run.digest[:8]}"

    def found(self) -> hba.text.TextSearchResult:
        """Search now, resume an interrupted search, or return the result of one that has ended.

        Several processes may ask for it at the same time: the first searches, the others wait.
        """
        with FileLock(self.folder.with_suffix(".lock")):
            if RunFolder(self.folder).has_checkpoint():
                return hba.text.search(out=self.folder, resume=True)
            return hba.text.search(out=self.folder, **self.config.flat())

    def do(self) -> Results:
        result = self.found()
        assert result.schedule is not None
        test = Corpus.read(self.config.data, self.config.vocabulary_size).texts["test"].tokens.to(result.lam.device)
        return {
            "val_loss": result.metrics[-1]["val_loss"],
            "test_loss": measured_loss(result.network, test, self.config.sequence_length),
            "seconds": result.metrics[-1]["seconds"],
            "end": result.schedule.regularization(result.schedule.epochs - 1),
        }


@dataclass(frozen=True)
class TrainingOnText:
    """An ordinary training with a search's schedule, with its last row, or with one fixed rate of all dropouts."""

    name: str
    config: TextEvaluationConfig
    seed: int
    search: SearchOnText
    rate: float | None = None

    @property
    def run(self) -> Run:
        kept = self.config.model_dump(mode="json", exclude={"data", "device", "seeds"})
        of_row = {"search": self.search.run.digest} if self.rate is None else {"rate": self.rate}
        return Run(self.name, DATASET, kept, self.seed, {"words": dict(self.search.words), **of_row})

    def schedule(self) -> Schedule:
        if self.rate is not None:
            return fixed(self.search.config, self.rate)
        found = self.search.found().schedule
        assert found is not None
        return found if self.name.endswith(REPLAY) else found.only(found.epochs - 1)

    def do(self) -> Results:
        corpus = Corpus.read(self.config.data, self.config.vocabulary_size)
        device = torch.device(self.config.device)
        tokens = {name: text.tokens.to(device) for name, text in corpus.texts.items()}
        trained = train(self.config, tokens, len(corpus.vocabulary), self.schedule(), self.seed)
        return {"val_loss": trained.val_loss, "test_loss": trained.test_loss}


def fixed(config: TextSearchConfig, rate: float) -> Schedule:
    """All dropouts at one rate; everything else that is tuned stays where its search begins."""
    space = space_of(config, network_of(config, 3, 0))
    row = [rate if one.group == "dropout" else one.initial for one in space.regularizers]
    return Schedule(space, np.array([row]))


def tasks_of(plan: Plan, data: Path, device: str, folder: Path) -> list[SearchOnText | TrainingOnText]:
    """Seed by seed, so that an interrupted run has all rows for the same seeds."""
    found: list[SearchOnText | TrainingOnText] = []
    training = plan.training(data, device)
    for seed in range(plan.first_seed, plan.first_seed + plan.seeds):
        searches = [SearchOnText(plan.search(name, seed, data, device), plan.words, folder) for name in ALGORITHMS]
        for search in searches:
            rows = [TrainingOnText(f"{search.run.name}-{row}", training, seed, search) for row in (REPLAY, FINAL)]
            found += [search, *rows]
        found += [TrainingOnText(FIXED, training, seed, searches[0], rate) for rate in plan.rates]
    return found


def write_text_folder(source: Path, wanted: Mapping[str, int], into: Path) -> Path:
    """train.txt from valid.txt, and valid.txt and test.txt from test.txt, one after the other.

    wanted: the number of words of each part, counting the ends of lines, up to the end of a line.
    """
    if not (into / "test.txt").exists():
        into.mkdir(parents=True, exist_ok=True)
        end = wanted["valid"] + wanted["test"]
        write_text(into / "train.txt", "".join(_lines(source / "valid.txt", 0, wanted["train"])))
        write_text(into / "valid.txt", "".join(_lines(source / "test.txt", 0, wanted["valid"])))
        write_text(into / "test.txt", "".join(_lines(source / "test.txt", wanted["valid"], end)))
    return into


def _lines(path: Path, first: int, end: int) -> Iterator[str]:
    """The lines that begin at word `first` or later, and before word `end`."""
    place = 0
    for line in path.read_text(encoding="utf-8").splitlines(keepends=True):
        if first <= place < end:
            yield line
        place += len(line.split()) + 1


def table_of(records: Sequence[Record]) -> str:
    """Markdown: perplexities of each row, and its test loss minus that of the best fixed rate."""
    found: dict[str, dict[int, Results]] = {}
    for record in sorted(records, key=lambda one: -one.results["val_loss"]):
        # Of the fixed rates, the best on the validation text comes last and stays.
        found.setdefault(record.run.name, {})[record.run.seed] = record.results
    rates = ", ".join(map(str, sorted({one.run.further["rate"] for one in records if one.run.name == FIXED})))
    losses = {row: {seed: one["test_loss"] for seed, one in found[row].items()} for row in ROWS}
    lines = []
    for row, text in ROWS.items():
        perplexities = {
            heading: spread_text([math.exp(one[measure]) for one in found[row].values()], 1)
            for measure, heading in (("val_loss", "validation perplexity"), ("test_loss", "test perplexity"))
        }
        less = "" if row == FIXED else difference_text(PairedDifference.of(losses[row], losses[FIXED]), 3)
        cells = {"row": f"`{row}`: {text.format(rates=rates)}", "seeds": str(len(found[row])), **perplexities}
        lines.append({**cells, f"test loss minus that of `{FIXED}`, nats a word": less})
    return markdown(pd.DataFrame(lines))


@click.group(help=__doc__, cls=OneLineErrors)
def main() -> None:
    pass


@main.command()
@click.option("--data", help=f"Folder of {DATASET}. [default: that in the folder {DATA_FOLDER}]")
@JOBS
@DEVICE
@work("runs/language-model")
@KEPT_IN
@DRY_RUN
def run(data: str | None, jobs: int, device: str, work: Path, results: Path, dry_run: bool) -> None:
    """Run what is planned."""
    if data is None and DATA_FOLDER not in os.environ:
        raise SettingsError(f"--data must name the folder of {DATASET}, or {DATA_FOLDER} the folder that it is in")
    plan = Plan.make(tomllib.loads(PLAN.read_text(encoding="utf-8")))
    source = Path(data) if data is not None else Path(os.environ[DATA_FOLDER], DATASET)
    text = write_text_folder(source, plan.words, work / "text")
    carry_out(tasks_of(plan, text, device, work), store_of(results, QUESTION), device, jobs, dry_run)


@main.command()
@KEPT_IN
def page(results: Path) -> None:
    """Write the table of docs/language-models.md."""
    fill_page("language-models", MARK, DOCS, table_of(list(store_of(results, QUESTION).by_key().values())))


if __name__ == "__main__":
    main()
