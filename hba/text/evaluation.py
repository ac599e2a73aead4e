"""Whether a schedule of regularization helps a language model: trainings with it and
with baselines, seed by seed.
"""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from torch import Tensor

from hba.errors import DivergedError, RunError, ScheduleError, SettingsError
from hba.policy_evaluation.callbacks import TrainingsBar
from hba.policy_evaluation.leakage import settings_of
from hba.regularization.groups import DROPOUT
from hba.regularization.regularizer import Hyperparameter
from hba.results.evaluation import RESULTS_NAME, mean_of, std_of
from hba.results.statistics import PairedDifference
from hba.schedule.library import load_policy
from hba.schedule.schedule import Schedule
from hba.tasks import Language
from hba.text.config import (
    DROPOUTS,
    HIDDEN,
    TextEvaluationConfig,
    TextTrainingConfig,
    tunable,
)
from hba.text.lstm import in_words, measured_loss, perplexity
from hba.text.problem import network_of, optimizer_of
from hba.text.reader import FILES, Corpus, TokenStream
from hba.training.augmentation import ScheduleAugmentation
from hba.utils.devices import (
    environment,
    explained_memory_errors,
    find_device,
    own_state,
)
from hba.utils.files import read_text, reason_of, resumes, run_lock, write_text
from hba.utils.progress import shows_progress
from hba.utils.seeding import default_generators, derived_seed
from hba.utils.settings import words
from hba.utils.text import counted, points, unknown

SCHEDULE = "schedule"


def _constant(
    schedule: Schedule, values: Callable[[Hyperparameter], float]
) -> Schedule:
    return Schedule(
        schedule.space,
        np.array(
            [[values(regularizer) for regularizer in schedule.space.regularizers]]
        ),
    )


BASELINES: Mapping[str, Callable[[Schedule], Schedule]] = {
    "none": lambda schedule: _constant(schedule, lambda regularizer: regularizer.low),
    "start": lambda schedule: _constant(
        schedule, lambda regularizer: regularizer.initial
    ),
    "static": Schedule.averaged,
    "final": lambda schedule: schedule.only(schedule.epochs - 1),
}
"""Fixed regularization from a schedule: lowest values, initial values of the search,
mean over epochs, last epoch.
"""


class TextTraining(NamedTuple):
    """Mean losses in nats per word after the last epoch of one training."""

    row: str
    seed: int
    val_loss: float
    test_loss: float


@dataclass(frozen=True)
class TextEvaluation:
    """The results. Perplexities are the exponentials of losses."""

    trainings: tuple[TextTraining, ...]
    """Trainings, seed by seed, with the schedule's first."""

    def losses(
        self, row: str, of: Literal["test_loss", "val_loss"] = "test_loss"
    ) -> dict[int, float]:
        """Losses by seed."""
        return {
            training.seed: getattr(training, of)
            for training in self.trainings
            if training.row == row
        }

    def lines(self) -> Iterator[str]:
        """The results for a terminal: the perplexities of each row, then its difference
        to the schedule.
        """
        rows = [*dict.fromkeys(training.row for training in self.trainings)]
        for row in rows:
            test, val = (
                _mean_and_deviation(self.losses(row, of))
                for of in ("test_loss", "val_loss")
            )
            yield (
                f"{row:<10} perplexity {test} on the test text, {val} on the validation"
                " text"
            )
        for row in rows[1:]:
            difference = PairedDifference.of(
                self.losses(SCHEDULE), minus=self.losses(row)
            )
            assert difference is not None, "all rows have the same seeds"
            low, high = difference.interval or (-math.inf, math.inf)
            verdict = "no difference shown"
            if high < 0:
                verdict = "lower loss"
            elif low > 0:
                verdict = "higher loss"
            change = (
                f"{points(difference.mean, difference.interval, digits=3)} nats a word"
            )
            yield (
                f"{SCHEDULE} - {row}: {change}, 95 % interval,"
                f" {counted(difference.n_pairs, 'seed')}: {verdict}"
            )


def _mean_and_deviation(losses: Mapping[int, float]) -> str:
    values = {seed: perplexity(loss) for seed, loss in losses.items()}
    mean = mean_of(values)
    deviation = std_of(values)
    return " +- ".join(
        in_words(value) for value in (mean, deviation) if value is not None
    )


def train(
    config: TextTrainingConfig,
    tokens: Mapping[str, Tensor],
    n_words: int,
    schedule: Schedule,
    seed: int,
    on_step: Callable[[], None] = lambda: None,
) -> tuple[list[float], float]:
    """Train a language model with a schedule's regularization.

    The test text is measured once, after the last epoch. The learning rate follows the
    loss on tokens["valid"], as in a search.

    Args:
        config: The settings.
        tokens: The three texts (N,), on their device.
        n_words: Size of the vocabulary.
        schedule: The schedule.
        seed: Decides weights and draws; no network starts like one of a search.
        on_step: Called after each step.

    Returns:
        Mean losses in nats per word: Of the validation text after each epoch, and of
        the test text.

    Raises:
        DivergedError: For a loss that is not finite.
    """
    task = Language()
    device = tokens["train"].device
    length = config.sequence_length
    by_epoch = ScheduleAugmentation(schedule).regularization_by_epoch(
        config.epochs, device
    )
    network = network_of(
        config, n_words, derived_seed(seed, "an evaluation on text")
    ).to(device)
    optimizer, learning_rate = optimizer_of(config, network.parameters())
    stream = TokenStream(
        tokens["train"], config.batch_size, length, network.zero_state, FILES["train"]
    )
    val_losses: list[float] = []
    with default_generators(
        device, derived_seed(seed, "default generators of an evaluation on text")
    ):
        for regularization, row, values in by_epoch:
            regularization.give(network, optimizer, row)
            network.train()
            for _ in range(stream.batches_per_pass):
                passage, following = stream.next()
                prediction = network(passage)
                loss = task.loss(prediction, following) + regularization.penalty(
                    prediction, following, values
                )
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                on_step()
            val_losses.append(measured_loss(network, tokens["valid"], length))
            if not math.isfinite(val_losses[-1]):
                raise DivergedError(
                    f"the loss of epoch {len(val_losses)} is not finite; lower the"
                    " learning rate"
                )
            learning_rate.observe(val_losses[-1])
    return val_losses, measured_loss(network, tokens["test"], length)


@shows_progress(TrainingsBar)
@explained_memory_errors()
@own_state()
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
    """Compare a schedule of hba.text.search with baselines on the test text.

    It trains language models with the schedule and with each baseline.

    Args:
        schedule: A schedule, or its file or folder.
        data: The folder of text; None for that of the search.
        against: Names of BASELINES.
        out: A folder for results.json, which is written after each training.
        resume: Continue the evaluation in `out`; you can add seeds and baselines.
        callback: Called during the trainings.
        progress: Show a bar in a terminal or a notebook.
        settings: Fields of hba.text.TextEvaluationConfig, by default as in the search.

    Raises:
        HbaError: For arguments that cannot work.
        DivergedError: For a loss that is not finite.
    """
    if resume and out is None:
        raise SettingsError("resume needs out, the folder of the evaluation to resume")
    callback = callback or TrainingsBar()
    folder = None if out is None else Path(out)
    policy = schedule if isinstance(schedule, Schedule) else load_policy(schedule)
    rows = {SCHEDULE: policy, **_baselines(policy, tuple(words(against)))}
    searched = settings_of(policy)
    names = TextTrainingConfig.model_fields.keys() - {"device"}
    # Batch sizes and learning rates of a search on images do not suit text.
    inherited = (
        {name: searched[name] for name in names & searched.keys()}
        if "vocabulary_size" in searched
        else {}
    )
    config = TextEvaluationConfig.make(
        {**inherited, **settings, **({} if data is None else {"data": data})}
    )
    if f"{DROPOUT}.{HIDDEN}" in policy.space.names and config.layers == 1:
        raise SettingsError(
            f"layers must be at least 2 for a schedule of {DROPOUT}.{HIDDEN}, got 1"
        )
    corpus = Corpus.read(config.data, config.vocabulary_size)
    identity = {
        "settings": config.model_dump(mode="json", exclude={"seeds", "data", "device"}),
        "text": [*corpus.sha256.values()],
        "regularizers": list(policy.space.names),
        "values": policy.values.tolist(),
    }
    with run_lock(folder):
        done = (
            {} if folder is None else _stored(folder / RESULTS_NAME, identity, resume)
        )
        device = find_device(config.device)
        planned = [(row, seed) for seed in range(config.seeds) for row in rows]
        tokens = {name: words.to(device) for name, words in corpus.tokens.items()}
        missing = [key for key in planned if key not in done]
        steps = (
            (len(tokens["train"]) // config.batch_size - 1)
            // config.sequence_length
            * config.epochs
        )
        callback.begin(
            len(missing), steps, "words", config.batch_size * config.sequence_length
        )
        for row, seed in missing:
            val_losses, test_loss = train(
                config,
                tokens,
                len(corpus.vocabulary),
                rows[row],
                seed,
                callback.step_done,
            )
            done[row, seed] = TextTraining(row, seed, val_losses[-1], test_loss)
            if folder is not None:
                trainings = [training._asdict() for training in done.values()]
                content = {
                    "format": "hba-text-evaluation",
                    "identity": identity,
                    "trainings": trainings,
                }
                write_text(
                    folder / RESULTS_NAME,
                    json.dumps({**content, **environment(device)}, indent=2) + "\n",
                )
            callback.ended(
                f"{row}, seed {seed}: test perplexity {in_words(perplexity(test_loss))}"
            )
    return TextEvaluation(tuple(done[key] for key in planned))


def _baselines(schedule: Schedule, names: Sequence[str]) -> dict[str, Schedule]:
    """The baselines by name. ScheduleError for a schedule that cannot train a language
    model.
    """
    text_names = {*tunable(), *(f"{DROPOUT}.{name}" for name in DROPOUTS)} - {DROPOUT}
    tuned = {
        regularizer.name: {regularizer.name, regularizer.group.replace("_", "-")}
        for regularizer in schedule.space.regularizers
    }
    of_images = [name for name, aliases in tuned.items() if not aliases & text_names]
    if names_of_images := [
        *(operation.name for operation in schedule.space.operations),
        *of_images,
    ]:
        raise ScheduleError(
            f"a language model has no {names_of_images[0]}; for images, use hba"
            " evaluate"
        )
    for name in names:
        if name not in BASELINES:
            raise SettingsError(f"against: {unknown('baseline', name, BASELINES)}")
    return {name: BASELINES[name](schedule) for name in names}


def _stored(
    path: Path, identity: Mapping[str, Any], resume: bool
) -> dict[tuple[str, int], TextTraining]:
    """Trainings by row and seed. RunError for a file of another evaluation, or one that
    is not to be resumed.
    """
    if path.exists() and not resume:
        raise RunError(f"{path} exists already: add --resume")
    if not resumes(resume, path):
        return {}
    try:
        content = json.loads(read_text(path))
        if content["identity"] != identity:
            raise ValueError("it is of another schedule, text or settings")
        return {
            (record["row"], record["seed"]): TextTraining(**record)
            for record in content["trainings"]
        }
    except (ValueError, LookupError, TypeError, OSError) as error:
        raise RunError(
            f"{path} cannot be resumed: {reason_of(error)}; choose another --out"
        ) from None
