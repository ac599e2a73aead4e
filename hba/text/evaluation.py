"""Whether a schedule of regularization helps a language model: trainings with it and with baselines, seed by seed."""

import json
import math
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from hba.distributed.process_info import check_single_process
from hba.errors import DivergedError, RunError, ScheduleError, SettingsError
from hba.policy_evaluation.callbacks import TrainingsBar
from hba.policy_evaluation.leakage import settings_of
from hba.regularization.groups import DROPOUT, Regularization
from hba.regularization.regularizer import Hyperparameter
from hba.report.results import RESULTS_NAME
from hba.report.statistics import PairedDifference
from hba.schedule.library import load_policy
from hba.schedule.schedule import Schedule
from hba.text.config import HIDDEN, TextEvaluationConfig, TextTrainingConfig, tunable
from hba.text.lstm import in_words, measured_loss, next_word_loss, perplexity
from hba.text.reader import FILES, Corpus, TokenStream
from hba.text.task import network_of, optimizer_of
from hba.utils.devices import environment, explained_memory_errors, find_device
from hba.utils.files import read_text, reason_of, run_lock, write_text
from hba.utils.progress import shows_progress
from hba.utils.seeding import default_generators, derived_seed
from hba.utils.settings import words
from hba.utils.text import counted, unknown

SCHEDULE = "schedule"
FORMAT = "hba-text-evaluation"
"""Of results.json."""


def _constant(schedule: Schedule, value: Callable[[Hyperparameter], float]) -> Schedule:
    return Schedule(schedule.space, np.array([[value(one) for one in schedule.space.regularizers]]))


BASELINES: Mapping[str, Callable[[Schedule], Schedule]] = MappingProxyType(
    {
        "none": lambda schedule: _constant(schedule, lambda one: one.low),
        "start": lambda schedule: _constant(schedule, lambda one: one.initial),
        "static": Schedule.averaged,
        "final": lambda schedule: schedule.only(schedule.epochs - 1),
    }
)
"""By name, a fixed regularization made of a schedule: every value at the least of its range; where its search began;
the mean of all its epochs; its last row.
"""


class Loss(NamedTuple):
    """Mean losses in nats of a word after the last epoch."""

    val: float
    test: float


@dataclass(frozen=True)
class TextEvaluation:
    """losses: by row, the schedule's first, and by seed. Differences are of test losses in nats: perplexities are their
    exponentials.
    """

    losses: Mapping[str, Mapping[int, Loss]]
    folder: Path | None

    def difference(self, baseline: str) -> PairedDifference:
        """Test loss with the schedule minus that with a baseline, seed by seed."""
        first, other = ({seed: one.test for seed, one in self.losses[name].items()} for name in (SCHEDULE, baseline))
        found = PairedDifference.of(first, minus=other)
        assert found is not None, "all rows have the same seeds"
        return found

    def lines(self) -> Iterator[str]:
        """The results for a terminal: perplexities of each row, then differences to the schedule."""
        for name, losses in self.losses.items():
            test, val = (_mean_and_deviation([one[i] for one in losses.values()]) for i in (1, 0))
            yield f"{name:<10} perplexity {test} on the test text, {val} on the validation text"
        for name in list(self.losses)[1:]:
            found = self.difference(name)
            low, high = found.interval or (-math.inf, math.inf)
            interval = f"95 %: {low:+.3f} to {high:+.3f}" if found.interval else "no interval"
            verdict = "lower loss" if high < 0 else "higher loss" if low > 0 else "no difference shown"
            change = f"{SCHEDULE} - {name}: {found.mean:+.3f} nats a word"
            yield f"{change} ({interval}, {counted(found.n_pairs, 'seed')}): {verdict}"


def _mean_and_deviation(losses: Sequence[float]) -> str:
    values = list(map(perplexity, losses))
    return in_words(statistics.fmean(values)) + (f" +- {in_words(statistics.stdev(values))}" if values[1:] else "")


class TextTrained(NamedTuple):
    """Mean losses in nats of a word: of the validation text after each epoch, of the test text after the last one."""

    val_losses: tuple[float, ...]
    test_loss: float


def train(
    config: TextTrainingConfig,
    tokens: Mapping[str, Tensor],
    n_words: int,
    schedule: Schedule,
    seed: int,
    on_step: Callable[[], None] = lambda: None,
) -> TextTrained:
    """Train a language model by a schedule's regularization, and measure the test text once, after the last epoch.

    tokens: the three texts (N,), on their device. The learning rate follows the loss on tokens["valid"], as in a
    search. The seed decides weights and draws; no network begins as one of a search. Raises DivergedError for a loss
    that is not finite.
    """
    device, length = tokens["train"].device, config.sequence_length
    schedule = schedule.stretched(config.epochs)
    regularization = Regularization(schedule.space.regularizers, schedule.space.n_of_policy)
    network = network_of(config, n_words, derived_seed(seed, "an evaluation on text")).to(device)
    optimizer, learning_rate = optimizer_of(config, network.parameters())
    stream = TokenStream(tokens["train"], config.batch_size, length, network.zero_state, FILES["train"])
    val_losses: list[float] = []
    with default_generators(device, derived_seed(seed, "default generators of an evaluation on text")):
        for epoch in range(config.epochs):
            regularization.give(network, optimizer, schedule.regularization(epoch))
            values = torch.tensor(schedule.values[epoch], dtype=torch.float32, device=device)
            network.train()
            for _ in range(stream.batches_per_pass):
                passage, following = stream.next()
                prediction = network(passage)
                stream.carry(prediction.state)
                loss = next_word_loss(prediction, following) + regularization.penalty(prediction, following, values)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                on_step()
            val_losses.append(measured_loss(network, tokens["valid"], length))
            if not math.isfinite(val_losses[-1]):
                raise DivergedError(f"the loss of epoch {epoch + 1} is not finite; lower the learning rate")
            learning_rate.observe(val_losses[-1])
    return TextTrained(tuple(val_losses), measured_loss(network, tokens["test"], length))


@shows_progress(TrainingsBar)
@explained_memory_errors()
def evaluate(
    schedule: Schedule | str | Path,
    data: str | Path | None = None,
    *,
    against: str | Sequence[str] = ("none", "static", "final"),
    out: str | Path | None = None,
    resume: bool = False,
    callback: TrainingsBar | None = None,
    progress: bool = False,
    **settings: Any,
) -> TextEvaluation:
    """Train language models with a schedule that hba.text.search has found and with baselines; measure the test text.

    schedule: what was found, or its file or folder. data: the folder of text; None for that of the search. against:
    names of BASELINES. out: a folder for results.json, which is written after each training. resume: continue the
    evaluation in `out`; there may be more seeds and rows. settings: those of hba.text.TextEvaluationConfig; what is not
    given is as in the search. Raises HbaError for what cannot work, DivergedError for a loss that is not finite.
    """
    check_single_process("an evaluation")
    if resume and out is None:
        raise SettingsError("resume needs out, the folder of the evaluation to resume")
    callback, folder = callback or TrainingsBar(), None if out is None else Path(out)
    found = schedule if isinstance(schedule, Schedule) else load_policy(schedule)
    rows = {SCHEDULE: found, **_baselines(found, tuple(words(against)))}
    config = _config(found, settings if data is None else {**settings, "data": data})
    corpus = Corpus.read(config.data, config.vocabulary_size)
    identity = {
        "settings": config.model_dump(mode="json", exclude={"seeds", "data", "device"}),
        "text": [text.sha256 for text in corpus.texts.values()],
        "regularizers": list(found.space.names),
        "values": found.values.tolist(),
    }
    with run_lock(folder):
        losses = {} if folder is None else _stored(folder / RESULTS_NAME, identity, resume)
        device = find_device(config.device)
        tokens = {name: corpus.texts[name].tokens.to(device) for name in FILES}
        missing = [(name, seed) for seed in range(config.seeds) for name in rows if (name, seed) not in losses]
        steps = (len(tokens["train"]) // config.batch_size - 1) // config.sequence_length * config.epochs
        callback.begin(len(missing), steps, "words", config.batch_size * config.sequence_length)
        for name, seed in missing:
            trained = train(config, tokens, len(corpus.vocabulary), rows[name], seed, callback.step_done)
            losses[name, seed] = Loss(trained.val_losses[-1], trained.test_loss)
            if folder is not None:
                keys = ("row", "seed", "val_loss", "test_loss")
                trainings = [dict(zip(keys, (*key, *loss), strict=True)) for key, loss in losses.items()]
                content = {"format": FORMAT, "identity": identity, "trainings": trainings}
                write_text(folder / RESULTS_NAME, json.dumps({**content, **environment(device)}, indent=2) + "\n")
            callback.ended(f"{name}, seed {seed}: test perplexity {in_words(perplexity(trained.test_loss))}")
    return TextEvaluation({name: {seed: losses[name, seed] for seed in range(config.seeds)} for name in rows}, folder)


def _baselines(schedule: Schedule, names: Sequence[str]) -> dict[str, Schedule]:
    """By name. ScheduleError for a schedule that a language model cannot be trained by."""
    known = {*tunable()} - {DROPOUT}
    regularizers = schedule.space.regularizers
    of_images = [one.name for one in regularizers if not {one.name, one.group.replace("_", "-")} & known]
    if names_of_images := [*(one.name for one in schedule.space.operations), *of_images]:
        raise ScheduleError(f"a language model has no {names_of_images[0]}; for images there is hba evaluate")
    for name in names:
        if name not in BASELINES:
            raise SettingsError(f"against: {unknown('baseline', name, BASELINES)}")
    return {name: BASELINES[name](schedule) for name in names}


def _config(schedule: Schedule, given: Mapping[str, Any]) -> TextEvaluationConfig:
    """The given settings, and those of the search of a text that are not given."""
    stored, names = settings_of(schedule), TextTrainingConfig.model_fields.keys() - {"device"}
    # Batches and learning rates of images are no start for text.
    searched = {name: stored[name] for name in names & stored.keys()} if "vocabulary_size" in stored else {}
    config = TextEvaluationConfig.make({**searched, **given})
    if f"{DROPOUT}.{HIDDEN}" in schedule.space.names and config.layers == 1:
        raise SettingsError(f"layers must be at least 2 for a schedule of {DROPOUT}.{HIDDEN}, got 1")
    return config


def _stored(path: Path, identity: Mapping[str, Any], resume: bool) -> dict[tuple[str, int], Loss]:
    """By row and seed. RunError where the folder holds another evaluation, or one that is not to be resumed."""
    if path.exists() != resume:
        raise RunError(f"{path} exists already: add --resume" if not resume else f"there is no {path} to resume")
    if not resume:
        return {}
    try:
        content = json.loads(read_text(path))
        if (content["format"], content["identity"]) != (FORMAT, identity):
            raise ValueError("it is of another schedule, text or settings")
        return {(one["row"], one["seed"]): Loss(one["val_loss"], one["test_loss"]) for one in content["trainings"]}
    except (ValueError, LookupError, TypeError, OSError) as error:
        raise RunError(f"{path} cannot be resumed: {reason_of(error)}; choose another --out") from None
