"""What stays the same during a search on text."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, Optimizer
from torch.optim.lr_scheduler import LRScheduler

from hba.algorithms.responses import RESPONSES
from hba.algorithms.task import Task
from hba.errors import SettingsError
from hba.hypernet.dropout import RatedDropout
from hba.policy.space import SearchSpace
from hba.policy.spaces import without_operations
from hba.regularization.groups import hyperparameters_of
from hba.regularization.in_training import DROPOUT
from hba.text.config import HIDDEN, TextSearchConfig, TextTrainingConfig, is_tuned
from hba.text.corpus import FILES, Corpus
from hba.text.lstm import LstmLanguageModel
from hba.text.measure import next_word_error, next_word_loss
from hba.text.passages import Prediction, TokenStream
from hba.training.optim import Parameters, Plateau
from hba.utils.seeding import default_generators, derived_seed, generator_for

QUARTER = 0.25
"""What a plateau leaves of the learning rate (STN, section 4.2)."""


class ClippedSGD(SGD):
    """SGD without momentum along a gradient that is first made no longer than clip_norm, weight decay with it.

    So a weight decay that is tuned, which is in the loss of a search, trains as it does here. The groups of parameters
    are clipped together, or each by itself, where one is learned as if the other were not there.
    """

    def __init__(
        self, parameters: Parameters, learning_rate: float, weight_decay: float, clip_norm: float, together: bool = True
    ) -> None:
        super().__init__(parameters, lr=learning_rate, weight_decay=weight_decay)
        self.clip_norm, self.together = clip_norm, together

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        groups, decays = self.param_groups, [group["weight_decay"] for group in self.param_groups]
        for group, decay in zip(groups, decays, strict=True):
            for one in group["params"] if decay else ():
                if one.grad is not None:
                    one.grad.add_(one, alpha=decay)
        apart = [group["params"] for group in groups]
        for part in [[one for group in apart for one in group]] if self.together else apart:
            torch.nn.utils.clip_grad_norm_(part, self.clip_norm)
        for group in groups:
            group["weight_decay"] = 0.0
        try:
            return super().step(closure)
        finally:
            for group, decay in zip(groups, decays, strict=True):
                group["weight_decay"] = decay


def optimizer_of(
    config: TextTrainingConfig, parameters: Parameters, together: bool = True
) -> tuple[Optimizer, Plateau]:
    """Of the weights, and the schedule of its learning rate, which waits for the validation loss."""
    optimizer = ClippedSGD(parameters, config.learning_rate, config.weight_decay, config.clip_norm, together)
    return optimizer, Plateau(optimizer, config.patience_epochs, factor=QUARTER)


def network_of(config: TextTrainingConfig, n_words: int, seed: int) -> LstmLanguageModel:
    """With weights by that seed; torch's default generator is left alone."""
    with default_generators(torch.device("cpu"), derived_seed(seed, "weights of a language model")):
        return LstmLanguageModel(n_words, config.width, config.layers)


def space_of(config: TextSearchConfig, network: LstmLanguageModel) -> SearchSpace:
    """What the settings tune. SettingsError for a dropout that this network has not."""
    if f"{DROPOUT}.{HIDDEN}" in config.tune and config.layers == 1:
        raise SettingsError(
            f"{DROPOUT}.{HIDDEN} drops what one layer hands to the next: layers must be at least 2, got 1"
        )
    groups = list(dict.fromkeys(name.partition(".")[0] for name in config.tune))
    found = hyperparameters_of(groups, lambda: network, config.weight_decay)
    return without_operations(tuple(one for one in found if is_tuned(one, config.tune)))


@dataclass(frozen=True)
class TextTask(Task):
    """A search on text, for the algorithms of hba.text.config.

    tokens (N,): by the names of the texts, on the device. network: as it begins.
    """

    config: TextSearchConfig
    space: SearchSpace
    tokens: Mapping[str, Tensor]
    network: LstmLanguageModel

    @staticmethod
    def of(config: TextSearchConfig, corpus: Corpus, device: torch.device) -> "TextTask":
        network = network_of(config, len(corpus.vocabulary), config.seed).to(device)
        tokens = {name: text.tokens.to(device) for name, text in corpus.texts.items()}
        return TextTask(config, space_of(config, network), tokens, network)

    @property
    def device(self) -> torch.device:
        return self.tokens["train"].device

    @cached_property
    def of_batch(self) -> tuple[int, ...]:
        """Columns of what has one rate for a batch."""
        modules = {
            f"{DROPOUT}.{name}": one for name, one in self.network.named_modules() if isinstance(one, RatedDropout)
        }
        return tuple(
            column for column, name in enumerate(self.space.names) if name in modules and modules[name].of_batch
        )

    def noise(self, n_rows: int, generator: torch.Generator) -> Tensor:
        """epsilon: standard normal numbers (B, n), a row for each column of text; of what has one rate for a batch, the
        same in all rows (STN, appendix D).
        """
        drawn = torch.randn(n_rows, self.space.n, generator=generator, device=self.device)
        for column in self.of_batch:
            drawn[:, column] = drawn[0, column]
        return drawn

    def loss_of(self, prediction: Prediction, following: Tensor) -> Tensor:
        return next_word_loss(prediction, following)

    def error_share(self, prediction: Prediction, following: Tensor) -> Tensor:
        return next_word_error(prediction, following)

    def carry(self, stream: TokenStream, prediction: Prediction) -> None:
        """The hidden state, to the passage that follows."""
        stream.carry(prediction.state)

    def initial_lambda(self, *_: object) -> Tensor:
        """Logits (n,): every regularizer begins where it says."""
        return self.space.initial().to(self.device)

    def optimizer_of(self, parameters: Parameters) -> tuple[Optimizer, LRScheduler]:
        """The response is clipped with the current weights where both learn from one loss."""
        return optimizer_of(self.config, parameters, not RESPONSES[self.config.algorithm.response].apart)

    def train_stream(self) -> TokenStream:
        return self._stream("train", self.config.batch_size)

    def val_stream(self, batch_size: int) -> TokenStream:
        return self._stream("valid", batch_size)

    def _stream(self, part: str, batch_size: int) -> TokenStream:
        length, state_of = self.config.sequence_length, self.network.zero_state
        return TokenStream(self.tokens[part], batch_size, length, state_of, FILES[part])

    def generator(self) -> torch.Generator:
        """For all that a search draws itself, on the device."""
        return generator_for(self.config.seed, "perturbations of a search on text", self.device)
