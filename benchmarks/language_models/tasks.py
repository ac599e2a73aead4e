"""Searches on text, and trainings with what they found or with fixed regularisation."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common.records import Results, Run
from filelock import FileLock

import hba
import hba.text
from hba.data.config import Seed, Size
from hba.policy_search.folder import RunFolder
from hba.schedule.schedule import Schedule
from hba.text.config import TextEvaluationConfig, TextSearchConfig
from hba.text.corpus import Corpus
from hba.text.measure import measured_loss
from hba.text.task import network_of, space_of
from hba.text.train import train
from hba.utils.settings import Settings

DATASET = "wikitext-2-heldout"
ALGORITHMS = ("stn", "delta-stn")
REPLAY, FINAL, FIXED = "replay", "final", "fixed"
OF_TEXT = ("data", "device", "seed")
"""Settings that say where, or stand elsewhere in a record."""


class Plan(Settings):
    """What is run, on which text."""

    first_seed: Seed
    seeds: Size
    rates: tuple[float, ...]
    """Of all five dropouts alike, for the row `fixed`."""
    words: Mapping[str, int]
    settings: Mapping[str, Any]
    learning_rates: Mapping[str, float]
    """Of trainings, and of searches by algorithm."""

    def search(self, algorithm: str, seed: int, data: Path, device: str) -> TextSearchConfig:
        rate = self.learning_rates[algorithm]
        where = {"data": str(data), "device": device}
        return TextSearchConfig.make(
            {**self.settings, **where, "learning_rate": rate, "algorithm": algorithm, "seed": seed}
        )

    def training(self, data: Path, device: str) -> TextEvaluationConfig:
        rate = self.learning_rates["training"]
        return TextEvaluationConfig.make(
            {**self.settings, "data": str(data), "device": device, "learning_rate": rate, "seeds": 1}
        )


def losses(val: float, test: float, **further: Any) -> Results:
    return {"val_loss": val, "test_loss": test, **further}


@dataclass(frozen=True)
class SearchOnText:
    """A search, and its own network on the test text."""

    config: TextSearchConfig
    words: Mapping[str, int]
    work: Path

    @property
    def run(self) -> Run:
        kept = {name: value for name, value in self.config.flat().items() if name not in OF_TEXT}
        return Run(self.config.algorithm.name, DATASET, kept, self.config.seed, {"words": dict(self.words)})

    @property
    def folder(self) -> Path:
        return self.work / f"{self.run.name}-seed{self.config.seed}-{self.run.digest[:8]}"

    def found(self) -> hba.text.TextSearchResult:
        """It is searched now, or resumed where it was interrupted; one that had ended only gives its result.

        Several processes may ask for it at a time: the first searches, the others wait.
        """
        with FileLock(self.folder.with_suffix(".lock")):
            if RunFolder(self.folder).has_checkpoint():
                return hba.text.search(out=self.folder, resume=True)
            return hba.text.search(out=self.folder, **self.config.flat())

    def do(self) -> Results:
        result = self.found()
        test = Corpus.read(self.config.data, self.config.vocabulary_size).texts["test"].tokens.to(result.lam.device)
        assert result.schedule is not None
        last = result.metrics[-1]
        assert last["val_loss"] is not None
        return losses(
            last["val_loss"],
            measured_loss(result.network, test, self.config.sequence_length),
            seconds=last["seconds"],
            end=result.schedule.regularization(result.schedule.epochs - 1),
        )

    def estimated_seconds(self) -> float:
        return 0.3 * self.config.epochs * self.words["train"] / self.config.batch_size / self.config.sequence_length


@dataclass(frozen=True)
class TrainingOnText:
    """An ordinary training by a search's schedule, by its last row, or by one fixed rate of all dropouts."""

    name: str
    config: TextEvaluationConfig
    seed: int
    search: SearchOnText
    rate: float | None = None

    @property
    def run(self) -> Run:
        kept = self.config.model_dump(mode="json", exclude={"data", "device", "seeds"})
        further: dict[str, Any] = {"words": dict(self.search.words)}
        if self.rate is None:
            further["search"] = self.search.run.digest
        else:
            further["rate"] = self.rate
        return Run(self.name, DATASET, kept, self.seed, further)

    def schedule(self) -> Schedule:
        if self.rate is not None:
            return fixed(self.search.config, self.rate)
        found = self.search.found().schedule
        assert found is not None
        return found if self.name.endswith(REPLAY) else found.only(found.epochs - 1)

    def do(self) -> Results:
        config = self.config
        corpus = Corpus.read(config.data, config.vocabulary_size)
        device = torch.device(config.device)
        tokens = {name: text.tokens.to(device) for name, text in corpus.texts.items()}
        trained = train(config, tokens, len(corpus.vocabulary), self.schedule(), self.seed)
        return losses(trained.val_loss, trained.test_loss)

    def estimated_seconds(self) -> float:
        return self.search.estimated_seconds() / 4


def fixed(config: TextSearchConfig, rate: float) -> Schedule:
    """All dropouts at one rate; what else is tuned where its search begins."""
    space = space_of(config, network_of(config, 3, 0))
    row = [rate if one.group == "dropout" else one.initial for one in space.regularizers]
    return Schedule(space, np.array([row]))


def tasks_of(plan: Plan, data: Path, device: str, work: Path) -> list[SearchOnText | TrainingOnText]:
    """Seed by seed, so that an interrupted run has all rows on the same ones."""
    found: list[SearchOnText | TrainingOnText] = []
    training = plan.training(data, device)
    for seed in range(plan.first_seed, plan.first_seed + plan.seeds):
        searches = [SearchOnText(plan.search(name, seed, data, device), plan.words, work) for name in ALGORITHMS]
        for search in searches:
            replays = [TrainingOnText(f"{search.run.name}-{row}", training, seed, search) for row in (REPLAY, FINAL)]
            found += [search, *replays]
        found += [TrainingOnText(FIXED, training, seed, searches[0], rate) for rate in plan.rates]
    return found
