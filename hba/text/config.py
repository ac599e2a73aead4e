"""Settings of a search and of an evaluation on text. Their defaults are those of STN's
experiment on Penn Treebank.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, BeforeValidator, Field, SerializeAsAny

from hba.algorithms import (
    Algorithm,
    DeltaSelfTuning,
    Hypergradient,
    SelfTuning,
    by_name,
)
from hba.algorithms.hypergradient import Entropy
from hba.algorithms.lambda_steps import AtLeastZero
from hba.config.training import PLATEAU, DeviceName, NotNegative, Positive, Words
from hba.data.config import Seed, Size
from hba.policy_search.config import AlgorithmConfig
from hba.regularization.groups import DROPOUT, check_tune, tunable_in
from hba.tasks import Language
from hba.utils.settings import Settings

AtLeastTwo = Annotated[int, Field(ge=2)]
HIDDEN = "hidden"
DROPOUTS = ("words", "input", HIDDEN, "output", "weights")
"""Dropouts of the language model, by name. HIDDEN is between two layers."""


def tunable() -> tuple[str, ...]:
    """What `tune` may name in a search on text."""
    return tunable_in((Language.name,))


class TextStn(SelfTuning):
    """STN with the settings of its Penn Treebank experiment: noise of a fixed scale,
    which did best there (4.2).
    """

    name: ClassVar[str] = "stn"
    tasks: ClassVar[tuple[str, ...]] = (Language.name,)
    sigma: NotNegative = 1.0
    sigma_entropy: Entropy | None = None
    warm_up_epochs: AtLeastZero = 1
    lambda_learning_rate: Positive = 0.01


class TextDeltaStn(DeltaSelfTuning):
    """Delta-STN. Its settings for text are not published; it has those for images, and
    STN's warm-up of one epoch.
    """

    name: ClassVar[str] = "delta-stn"
    tasks: ClassVar[tuple[str, ...]] = (Language.name,)
    warm_up_epochs: AtLeastZero = 1


TEXT_ALGORITHMS = by_name(TextStn, TextDeltaStn)


class TextTrainingConfig(Settings):
    """Settings that a search and an evaluation on text share."""

    data: Annotated[
        str,
        BeforeValidator(
            lambda path: (
                str(Path(path).resolve()) if isinstance(path, Path | str) else path
            )
        ),
    ]
    """Folder with train.txt, valid.txt and test.txt, whose words are separated by
    spaces.
    """
    vocabulary_size: Annotated[int, Field(ge=3)] = 10_000
    """Size of the vocabulary: the most frequent words of the training text. <unk>
    stands for all others.
    """
    width: Size = 650
    """Size of the word vectors and of each LSTM layer."""
    layers: Size = 2
    """LSTM layers."""
    sequence_length: AtLeastTwo = 70
    """Words of each column in a training step, through which gradients are
    backpropagated.
    """
    batch_size: Size = 40
    """Columns of the training text that are read in parallel."""
    epochs: Size = 40
    """Passes over the training text."""
    learning_rate: Positive = 30.0
    """Initial learning rate of SGD without momentum."""
    patience_epochs: Size = 5
    """Epochs without a lower validation loss after which the learning rate is divided
    by 4.
    """
    clip_norm: Positive = 0.25
    """Largest Euclidean norm of the gradient of all weights."""
    weight_decay: NotNegative = 0.0
    """Weight decay of all weights."""
    device: DeviceName = "auto"
    """cpu, cuda, cuda:1, ..., mps (experimental), or auto: a CUDA GPU if there is one.
    """


class TextSearchConfig(TextTrainingConfig, AlgorithmConfig):
    """All settings of a search on text."""

    algorithms: ClassVar[Mapping[str, type[Algorithm]]] = TEXT_ALGORITHMS
    idle: ClassVar[tuple[str, ...]] = Hypergradient.of_operations
    learning_rate_schedule: ClassVar[str] = PLATEAU

    tune: Annotated[
        Words, AfterValidator(lambda names: check_tune(names, allowed=tunable()))
    ] = (DROPOUT, "activation")
    """What is tuned, separated by commas: dropout (of words, input, hidden states,
    output and recurrent weights), activation (activation regularization and its
    temporal kind), weight-decay.
    """
    seed: Seed = 0
    """Seed of weights and draws."""
    algorithm: SerializeAsAny[Hypergradient] = Field(default_factory=TextStn)
    """stn or delta-stn."""

    @classmethod
    def default_algorithm(cls, settings: Mapping[str, Any]) -> type[Algorithm]:
        return TextStn


class TextEvaluationConfig(TextTrainingConfig):
    """All settings of an evaluation on text."""

    seeds: Size = 3
    """Trainings of the schedule and of each baseline, with the seeds 0, 1, ..."""
