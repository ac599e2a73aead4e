"""Whether a schedule of regularisation helps a language model: trainings with it and with baselines, seed by seed."""

import json
import math
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pydantic
import torch
from torch import Tensor

from hba.distributed.process_info import check_single_process
from hba.errors import DivergedError, RunError, ScheduleError, SettingsError
from hba.regularization.groups import Regularization
from hba.regularization.in_training import DROPOUT
from hba.regularization.regularizer import Hyperparameter
from hba.report.results import TEXT_EVALUATION
from hba.report.statistics import PairedDifference
from hba.schedule.library import load_policy
from hba.schedule.schedule import Schedule
from hba.text.config import DROPOUTS, HIDDEN, TextEvaluationConfig, TextTrainingConfig, resolved, tunable
from hba.text.lstm import LstmLanguageModel, in_words, measured_loss, next_word_loss, perplexity
from hba.text.reader import FILES, Corpus, TokenStream
from hba.text.task import network_of, optimizer_of
from hba.utils.devices import explained_memory_errors, find_device
from hba.utils.files import read_text, reason_of, run_lock, write_text
from hba.utils.progress import ShowsBar, shows_progress
from hba.utils.provenance import environment
from hba.utils.seeding import default_generators, derived_seed
from hba.utils.settings import words
from hba.utils.text import unknown

SCHEDULE = "schedule"
RESULTS_NAME = "results.json"


def _none(schedule: Schedule) -> Schedule:
    return _row_of(schedule, [one.low for one in schedule.space.regularizers])


def _start(schedule: Schedule) -> Schedule:
    return _row_of(schedule, [one.initial for one in schedule.space.regularizers])


def _row_of(schedule: Schedule, row: Sequence[float]) -> Schedule:
    return Schedule(schedule.space, np.array([row]))


BASELINES: Mapping[str, Callable[[Schedule], Schedule]] = MappingProxyType(
    {
        "none": _none,
        "start": _start,
        "static": Schedule.averaged,
        "final": lambda schedule: schedule.only(schedule.epochs - 1),
    }
)
"""By name, a fixed regularisation made of a schedule: every value at the least of its range; where its search began;
the mean of all its epochs; its last row.
"""


@dataclass(frozen=True)
class Loss:
    """Mean losses in nats of a word after the last epoch."""

    val: float
    test: float


@dataclass(frozen=True)
class TextRow:
    """losses: by seed."""

    name: str
    losses: Mapping[int, Loss]

    @property
    def test_losses(self) -> Mapping[int, float]:
        return {seed: loss.test for seed, loss in self.losses.items()}

    def perplexities(self, part: str) -> list[float]:
        """Of `val` or `test`, a number for each seed."""
        return [perplexity(getattr(loss, part)) for loss in self.losses.values()]


@dataclass(frozen=True)
class TextEvaluation:
    """rows: the schedule first. Differences are of test losses in nats: perplexities are their exponentials."""

    rows: tuple[TextRow, ...]
    folder: Path | None

    def difference(self, baseline: str) -> PairedDifference | None:
        """Test loss with the schedule minus that with a baseline, seed by seed; None while no seed has both."""
        of = {row.name: row.test_losses for row in self.rows}
        return PairedDifference.of(of[SCHEDULE], of[baseline])

    def lines(self) -> list[str]:
        """What it found, for a terminal."""
        return [*self._rows(), *self._differences()]

    def _rows(self) -> Iterable[str]:
        for row in self.rows:
            val, test = (_mean_and_deviation(row.perplexities(part)) for part in ("val", "test"))
            yield f"{row.name:<10} perplexity {test} on the test text, {val} on the validation text"

    def _differences(self) -> Iterable[str]:
        for row in self.rows[1:]:
            if (found := self.difference(row.name)) is None:
                continue
            change = f"{SCHEDULE} - {row.name}: {found.mean:+.3f} nats a word"
            if found.interval is None:
                same = f"all {found.n_pairs} seeds have the same difference, so there is no interval"
                one = "one seed says nothing of how far that is to be trusted"
                yield f"{change}; {same if found.equal_pairs else one}"
                continue
            low, high = found.interval
            told = "lower loss" if high < 0 else "higher loss" if low > 0 else "no difference shown"
            yield f"{change} (95 %: {low:+.3f} to {high:+.3f}, {found.n_pairs} seeds): {told}"


def _mean_and_deviation(values: Sequence[float]) -> str:
    deviation = f" +- {in_words(statistics.stdev(values))}" if len(values) > 1 else ""
    return f"{in_words(statistics.fmean(values))}{deviation}"


class TextEvaluationObserver:
    """Override what you need; the defaults do nothing."""

    def started(self, n_trainings: int, steps_per_training: int, words_per_step: int) -> None:
        """The first training follows."""

    def step_done(self) -> None:
        """A training step is done."""

    def training_done(self, name: str, seed: int, loss: Loss) -> None:
        """A training has ended, and is kept."""


class TextEvaluationProgress(ShowsBar, TextEvaluationObserver):
    """Shows a bar, as a context, in a terminal or a notebook."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = 0

    def started(self, n_trainings: int, steps_per_training: int, words_per_step: int) -> None:
        self.bar.begin("first training", 0, n_trainings * steps_per_training, "words", per_step=words_per_step)

    def step_done(self) -> None:
        self.steps += 1
        self.bar.advance_to(self.steps)

    def training_done(self, name: str, seed: int, loss: Loss) -> None:
        self.bar.describe(f"{name}, seed {seed}: test perplexity {in_words(perplexity(loss.test))}")


@dataclass(frozen=True)
class TextTrained:
    """Mean losses in nats of a word after the last epoch: val_loss, test_loss. val_losses: of all epochs."""

    network: LstmLanguageModel
    val_loss: float
    test_loss: float
    val_losses: tuple[float, ...]


def train(
    config: TextTrainingConfig,
    tokens: Mapping[str, Tensor],
    n_words: int,
    schedule: Schedule,
    seed: int,
    on_step: Callable[[], None] = lambda: None,
) -> TextTrained:
    """Train a language model by a schedule's regularisation, and measure the test text once, after the last epoch.

    tokens: the three texts (N,), on their device. The learning rate follows the loss on tokens["valid"], as in a
    search. The seed decides weights and draws; no network begins as one of a search. Raises DivergedError for a loss
    that is not finite.
    """
    device = tokens["train"].device
    schedule = schedule.stretched(config.epochs)
    regularization = Regularization(schedule.space.regularizers, schedule.space.n_of_policy)
    network = network_of(config, n_words, derived_seed(seed, "an evaluation on text")).to(device)
    optimizer, learning_rate = optimizer_of(config, network.parameters())
    stream = TokenStream(tokens["train"], config.batch_size, config.sequence_length, network.zero_state, FILES["train"])
    val_losses = []
    with default_generators(device, derived_seed(seed, "default generators of an evaluation on text")):
        for epoch in range(config.epochs):
            regularization.give(network, optimizer, schedule.regularization(epoch))
            values = torch.tensor(schedule.values[epoch], dtype=torch.float32, device=device)
            _train_an_epoch(network, stream, optimizer, regularization, values, on_step)
            val_losses.append(measured_loss(network, tokens["valid"], config.sequence_length))
            if not math.isfinite(val_losses[-1]):
                raise DivergedError(
                    f"the loss of epoch {epoch + 1} is not finite; try a learning rate below {config.learning_rate:g}"
                )
            learning_rate.observe(val_losses[-1])
    test_loss = measured_loss(network, tokens["test"], config.sequence_length)
    return TextTrained(network, val_losses[-1], test_loss, tuple(val_losses))


def _train_an_epoch(
    network: LstmLanguageModel,
    stream: TokenStream,
    optimizer: torch.optim.Optimizer,
    regularization: Regularization,
    values: Tensor,
    on_step: Callable[[], None],
) -> None:
    """values (n,): the schedule's row."""
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


@shows_progress(TextEvaluationProgress)
@explained_memory_errors()
def evaluate(
    schedule: Schedule | str | Path,
    data: str | Path | None = None,
    *,
    against: str | Sequence[str] = ("none", "static", "final"),
    out: str | Path | None = None,
    resume: bool = False,
    callback: TextEvaluationObserver | None = None,
    progress: bool = False,
    **settings: Any,
) -> TextEvaluation:
    """Train language models with a schedule that hba.text.search has found and with baselines; measure the test text.

    schedule: what was found, or its file or folder. data: the folder of text; None for that of the search. against:
    names of BASELINES. out: a folder for results.json, which is written after each training. resume: go on with the
    evaluation in `out`; there may be more seeds and rows. settings: those of hba.text.TextEvaluationConfig; what is not
    given is as in the search. Raises HbaError for what cannot work, DivergedError for a loss that is not finite.
    """
    check_single_process("an evaluation")
    found = load_policy(schedule) if not isinstance(schedule, Schedule) else schedule
    check_of_text(found)
    names = _checked_baselines(against)
    if resume and out is None:
        raise SettingsError("resume needs out, the folder of the evaluation to resume")
    given = resolved(settings, data)
    taken = {**_of_search(found), **given}
    if "data" not in taken:
        raise SettingsError("data must be given for a schedule that does not name its search's folder of text")
    config = TextEvaluationConfig.make(taken)
    if f"{DROPOUT}.{HIDDEN}" in found.space.names and config.layers == 1:
        raise SettingsError(f"layers must be at least 2 for a schedule of {DROPOUT}.{HIDDEN}, got 1")
    rows = {SCHEDULE: found, **{name: BASELINES[name](found) for name in names}}
    corpus = Corpus.read(config.data, config.vocabulary_size)
    corpus.check_measured("valid", "test")
    folder = None if out is None else Path(out)
    with run_lock(folder):
        kept = _Kept.of(folder, config, corpus, found, resume=resume)
        return _train_all(config, corpus, rows, kept, callback or TextEvaluationObserver())


def check_of_text(schedule: Schedule) -> None:
    """ScheduleError for one that a language model cannot be trained by."""
    names = [one.name for one in schedule.space.operations]
    names += [one.name for one in schedule.space.regularizers if not _is_of_text(one)]
    if names:
        raise ScheduleError(
            f"a language model has no {names[0]}: give a schedule that hba search-text has found; for images there is "
            "hba evaluate"
        )


def _is_of_text(one: Hyperparameter) -> bool:
    return one.own_name in DROPOUTS if one.group == DROPOUT else one.group.replace("_", "-") in tunable()


def _checked_baselines(against: str | Sequence[str]) -> tuple[str, ...]:
    names = tuple(words(against))
    for name in names:
        if name not in BASELINES:
            raise SettingsError(f"against: {unknown('baseline', name, BASELINES)}")
    if len(set(names)) < len(names):
        raise SettingsError(f"against must name each baseline once, got {', '.join(names)}")
    return names


def _of_search(schedule: Schedule) -> dict[str, Any]:
    """The settings of the search that found it, as far as it tells."""
    stored = schedule.provenance.get("settings")
    if not isinstance(stored, Mapping) or "vocabulary_size" not in stored:
        # Batches and learning rates of images are no start for text.
        return {}
    return {name: stored[name] for name in TextTrainingConfig.model_fields if name in stored and name != "device"}


class _StoredLoss(pydantic.BaseModel):
    row: str
    seed: int
    val_loss: float
    test_loss: float


class _Stored(pydantic.BaseModel):
    format: str
    identity: dict[str, Any]
    trainings: list[_StoredLoss]


@dataclass
class _Kept:
    """What has ended, by row and seed, and the file that it is kept in. identity: what all of it was made by."""

    path: Path | None
    identity: Mapping[str, Any]
    losses: dict[tuple[str, int], Loss]

    @staticmethod
    def of(
        folder: Path | None, config: TextEvaluationConfig, corpus: Corpus, schedule: Schedule, *, resume: bool
    ) -> "_Kept":
        """RunError where the folder holds another evaluation, or one that is not to be resumed."""
        identity = {
            "settings": config.model_dump(mode="json", exclude={"seeds", "data", "device"}),
            "text": [text.sha256 for text in corpus.texts.values()],
            "regularizers": list(schedule.space.names),
            "values": schedule.values.tolist(),
        }
        path = None if folder is None else folder / RESULTS_NAME
        kept = _Kept(path, identity, {})
        if path is None or not path.exists():
            if resume:
                raise RunError(f"{folder} holds no evaluation to resume: there is no {RESULTS_NAME} in it")
            return kept
        if not resume:
            raise RunError(f"{folder} already holds an evaluation: add --resume to resume it, or choose another --out")
        try:
            stored = _Stored.model_validate_json(read_text(path))
        except (ValueError, OSError) as error:
            raise RunError(f"{path} cannot be read: {reason_of(error)}; start anew with another --out") from None
        if stored.format != TEXT_EVALUATION or stored.identity != identity:
            raise RunError(
                f"{path} is of another schedule, text or settings than are given now; resume with those, or choose "
                "another --out"
            )
        kept.losses.update({(one.row, one.seed): Loss(one.val_loss, one.test_loss) for one in stored.trainings})
        return kept

    def add(self, row: str, seed: int, loss: Loss, machine: Mapping[str, Any]) -> None:
        """Keep what a training came to."""
        self.losses[row, seed] = loss
        if self.path is None:
            return
        trainings = [
            {"row": row, "seed": seed, "val_loss": one.val, "test_loss": one.test}
            for (row, seed), one in self.losses.items()
        ]
        content = {"format": TEXT_EVALUATION, "identity": self.identity, "trainings": trainings, **machine}
        write_text(self.path, json.dumps(content, indent=2) + "\n")


def _train_all(
    config: TextEvaluationConfig,
    corpus: Corpus,
    rows: Mapping[str, Schedule],
    kept: _Kept,
    callback: TextEvaluationObserver,
) -> TextEvaluation:
    device = find_device(config.device)
    tokens = {name: corpus.texts[name].tokens.to(device) for name in FILES}
    left = [(name, seed) for seed in range(config.seeds) for name in rows if (name, seed) not in kept.losses]
    steps = (len(tokens["train"]) // config.batch_size - 1) // config.sequence_length * config.epochs
    callback.started(len(left), steps, config.batch_size * config.sequence_length)
    machine = environment(device)
    for name, seed in left:
        trained = train(config, tokens, len(corpus.vocabulary), rows[name], seed, callback.step_done)
        kept.add(name, seed, Loss(trained.val_loss, trained.test_loss), machine)
        callback.training_done(name, seed, kept.losses[name, seed])
    found = tuple(TextRow(name, {seed: kept.losses[name, seed] for seed in range(config.seeds)}) for name in rows)
    return TextEvaluation(found, None if kept.path is None else kept.path.parent)
