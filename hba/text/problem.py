"""A search on text: its problem, its metrics, and the public function `search`."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.optim import SGD, Optimizer
from torch.optim.lr_scheduler import LRScheduler

from hba.algorithms import SearchState
from hba.algorithms.problem import SearchProblem
from hba.algorithms.responses import APART
from hba.errors import SettingsError
from hba.policy.space import SearchSpace
from hba.policy_search.callbacks import (
    Plan,
    SearchCallback,
    SearchProgress,
    SearchResult,
)
from hba.policy_search.checkpoint import RunFolder
from hba.policy_search.config import from_config
from hba.policy_search.context import Metrics, SearchContext, identity_of_space
from hba.policy_search.trainer import SearchTrainer
from hba.regularization.groups import hyperparameters_of
from hba.tasks import Language
from hba.text.config import TextSearchConfig, TextTrainingConfig
from hba.text.lstm import (
    LstmLanguageModel,
    in_words,
    measured_loss,
    perplexity,
)
from hba.text.reader import FILES, Corpus, TokenStream
from hba.training.optim import Parameters, Plateau
from hba.utils.devices import explained_memory_errors, find_device, own_state
from hba.utils.files import resumes, run_lock
from hba.utils.progress import shows_progress
from hba.utils.seeding import default_generators, derived_seed, generator_for

QUARTER = 0.25
"""Factor of the learning rate after a plateau (STN, section 4.2)."""
SEARCHED = ("train", "valid")
"""Texts that a search reads. The test text is not opened."""


class ClippedSGD(SGD):
    """SGD without momentum.

    The gradient is clipped after the weight decay is added, as in a search that tunes
    the weight decay in the loss.

    Args:
        parameters: Parameters, or groups of them.
        learning_rate: Learning rate.
        weight_decay: Weight decay.
        clip_norm: Largest norm of the gradient.
        together: Clip all groups of parameters as one, or separately.
    """

    def __init__(
        self,
        parameters: Parameters,
        learning_rate: float,
        weight_decay: float,
        clip_norm: float,
        together: bool = True,
    ) -> None:
        super().__init__(parameters, lr=learning_rate, weight_decay=weight_decay)
        self.clip_norm = clip_norm
        self.together = together

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        groups = [
            (
                group,
                [
                    parameter
                    for parameter in group["params"]
                    if parameter.grad is not None
                ],
            )
            for group in self.param_groups
        ]
        for group, parameters in groups:
            for parameter in parameters if group["weight_decay"] else ():
                parameter.grad.add_(parameter, alpha=group["weight_decay"])
        learned = [parameters for _, parameters in groups]
        for clipped in [list(chain(*learned))] if self.together else learned:
            torch.nn.utils.clip_grad_norm_(clipped, self.clip_norm)
        for group, parameters in groups:
            for parameter in parameters:
                parameter.add_(parameter.grad, alpha=-group["lr"])


def optimizer_of(
    config: TextTrainingConfig, parameters: Parameters, together: bool = True
) -> tuple[Optimizer, Plateau]:
    """The optimizer of the weights, and the schedule of its learning rate, which
    follows the validation loss.
    """
    optimizer = ClippedSGD(
        parameters,
        config.learning_rate,
        config.weight_decay,
        config.clip_norm,
        together,
    )
    return optimizer, Plateau(optimizer, config.patience_epochs, factor=QUARTER)


def network_of(
    config: TextTrainingConfig, n_words: int, seed: int
) -> LstmLanguageModel:
    with default_generators(
        torch.device("cpu"), derived_seed(seed, "weights of a language model")
    ):
        return LstmLanguageModel(n_words, config.width, config.layers)


@dataclass(frozen=True)
class TextProblem(SearchProblem):
    """A search on text."""

    config: TextSearchConfig
    space: SearchSpace
    tokens: Mapping[str, Tensor]
    """Words (N,) by the names of the texts, on the device."""
    network: LstmLanguageModel
    """The network before its first step."""

    @staticmethod
    def of(
        config: TextSearchConfig, corpus: Corpus, device: torch.device
    ) -> "TextProblem":
        network = network_of(config, len(corpus.vocabulary), config.seed).to(device)
        tuned = hyperparameters_of(config.tune, lambda: network, config.weight_decay)
        space = SearchSpace((), count_probabilities=(1.0,), regularizers=tuned)
        tokens = {name: words.to(device) for name, words in corpus.tokens.items()}
        return TextProblem(config, space, tokens, network)

    @cached_property
    def task(self) -> Language:
        return Language()

    @property
    def device(self) -> torch.device:
        return self.tokens["train"].device

    def noise(self, n_rows: int, generator: torch.Generator) -> Tensor:
        """epsilon (B, n): as in SearchProblem, with equal rows for dropouts with one
        rate per batch (STN, appendix D).
        """
        drawn = torch.randn(
            n_rows, self.space.n, generator=generator, device=self.device
        )
        for name, column in self.regularization.dropout_columns.items():
            if getattr(self.network.get_submodule(name), "of_batch", False):
                drawn[:, column] = drawn[0, column]
        return drawn

    def optimizer_of(self, parameters: Parameters) -> tuple[Optimizer, LRScheduler]:
        """The response is clipped together with the current weights if both learn from
        one loss.
        """
        return optimizer_of(
            self.config, parameters, self.config.algorithm.response not in APART
        )

    def train_stream(self) -> TokenStream:
        return self.val_stream(self.config.batch_size, "train")

    def val_stream(self, batch_size: int, split: str = "valid") -> TokenStream:
        length = self.config.sequence_length
        state_of = self.network.zero_state
        return TokenStream(
            self.tokens[split], batch_size, length, state_of, FILES[split]
        )

    def generator(self) -> torch.Generator:
        return generator_for(
            self.config.seed, "perturbations of a search on text", self.device
        )


@dataclass(frozen=True, kw_only=True)
class TextSearchContext(SearchContext):
    config: TextSearchConfig
    problem: TextProblem
    corpus: Corpus

    @staticmethod
    def of(
        config: TextSearchConfig, corpus: Corpus, device: torch.device
    ) -> "TextSearchContext":
        problem = TextProblem.of(config, corpus, device)
        identity = {
            "text": ", ".join(corpus.sha256.values()),
            "kind of device": device.type,
            "search space": identity_of_space(problem.space),
        }
        model = f"lstm-{config.layers}x{config.width}"
        return TextSearchContext(
            config=config,
            problem=problem,
            networks=lambda _: problem.network,
            identity=identity,
            model=model,
            corpus=corpus,
        )

    def measure(
        self,
        state: SearchState,
        epoch: int,
        train_loss: float,
        train_error_percent: float,
    ) -> Metrics:
        """learning_rate: of the epoch that ended."""
        network = state.to_module()
        assert isinstance(network, LstmLanguageModel)
        val_loss = measured_loss(
            network, self.problem.tokens["valid"], self.config.sequence_length
        )
        return {
            "train_perplexity": perplexity(train_loss),
            "val_loss": val_loss,
            "val_perplexity": perplexity(val_loss),
            "learning_rate": state.learner.learning_rate,
        }

    def plan(self, **common: Any) -> Plan:
        """The first note gives the length of the texts, and the share of their words
        that the model does not know.
        """
        texts = ", ".join(
            f"{len(words):,} words in {FILES[name]} ({(words == 0).double().mean():.1%}"
            " unknown)"
            for name, words in self.problem.tokens.items()
        )
        words = self.config.batch_size * self.config.sequence_length
        notes = (
            f"Text: {texts}; the model knows {len(self.corpus.vocabulary):,} words",
            *common.pop("notes"),
        )
        return Plan(batch_size=words, notes=notes, **common)

    def provenance(self) -> dict[str, Any]:
        return {
            "dataset": self.corpus.path.name,
            "train_words": len(self.problem.tokens["train"]),
            "val_words": len(self.problem.tokens["valid"]),
            "vocabulary_size": len(self.corpus.vocabulary),
            "data_fingerprint": self.identity["text"],
            "model": self.model,
            "settings": self.config.flat(),
        }


class TextProgress(SearchProgress):
    unit = "words"

    def measured(self, metrics: Mapping[str, float | None]) -> str:
        train, val = (
            in_words(metrics[f"{split}_perplexity"] or math.nan)
            for split in ("train", "val")
        )
        return f"perplexity {train} in training, {val} in validation"


@shows_progress(TextProgress)
@explained_memory_errors()
@own_state()
def search(
    data: str | Path | None = None,
    *,
    out: str | Path | None = None,
    resume: bool = False,
    callback: SearchCallback | None = None,
    progress: bool = False,
    **settings: Any,
) -> SearchResult:
    """Find a schedule of regularization for a language model, in one training.

    Args:
        data: The folder of text, with train.txt and valid.txt.
        out: A folder for policy.json, config.json, metrics.csv and the checkpoint.
        resume: Resume the run in `out`; data may have moved.
        callback: Called during the search.
        progress: Show a bar in a terminal or a notebook.
        settings: Fields of hba.text.TextSearchConfig and of its algorithm.

    Raises:
        HbaError: For arguments that cannot work.
        DivergedError: For a loss that is not finite; `out` has the results so far.
    """
    if resume and out is None:
        raise SettingsError("resume needs out, the folder of the run to resume")
    all_settings = settings if data is None else {**settings, "data": data}
    folder = None if out is None else RunFolder(Path(out))
    with run_lock(None if folder is None else folder.path):
        if folder is not None and (
            resumes(resume, folder.config) if data is not None else resume
        ):
            config = from_config(
                TextSearchConfig, folder.path, all_settings, resume=True
            )
        else:
            config = TextSearchConfig.make(all_settings)
            if folder is not None:
                folder.check_free()
        device = find_device(config.device)
        corpus = Corpus.read(config.data, config.vocabulary_size, SEARCHED)
        with default_generators(
            device, derived_seed(config.seed, "default generators")
        ):
            trainer = SearchTrainer(
                TextSearchContext.of(config, corpus, device), folder
            )
            if folder is not None:
                folder.write_config(config.flat())
            return trainer.run(callback or SearchCallback())
