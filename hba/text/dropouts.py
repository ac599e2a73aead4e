"""Dropout of language models: of a recurrent network's inputs, of whole words, and of recurrent weights.

Each may have a rate of its own for each column of a batch, but the last: weights are the same for all of it.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from hba.hypernet.dropout import RatedDropout, scaled_mask

WEIGHTS = ("weight", "weight_0", "weight_U")
"""Of a linear layer, and of the hyper-layer in its place: matrices (outputs, inputs)."""


class VariationalDropout(RatedDropout):
    """One mask for all words of a passage: x (B, T, H), drawn for B and H. Ref: Gal and Ghahramani 2016."""

    def dropped(self, x: Tensor, *further: Any, rate: Tensor) -> Tensor:
        return x * scaled_mask((len(x), 1, x.shape[2]), rate.to(x).view(-1, 1, 1))


class EmbeddingDropout(RatedDropout):
    """Whole words, wherever they stand in a passage: x (B, T, H) of tokens (B, T). Ref: Gal and Ghahramani 2016.

    Whether a word is dropped is decided by one number for the whole batch, against each column's rate.
    """

    def __init__(self, n_words: int, p: float = 0.0) -> None:
        super().__init__(p)
        self.n_words = n_words

    def dropped(self, x: Tensor, *further: Any, rate: Tensor) -> Tensor:
        (tokens,) = further
        rate = rate.to(x).view(-1, 1)
        kept = torch.rand(self.n_words, device=x.device, dtype=x.dtype)[tokens] >= rate
        return x * (kept / (1 - rate).clamp(min=torch.finfo(x.dtype).eps)).unsqueeze(2)


class WeightDropout(RatedDropout):
    """DropConnect on a linear layer, or the hyper-layer in its place: the layer as a function with weights dropped, the
    same for all words of a passage. Ref: Wan et al. 2013; Merity et al. 2018.
    """

    of_batch = True

    def dropped(self, x: nn.Module, *further: Any, rate: Tensor) -> Callable[[Tensor], Tensor]:
        weights = {name: one for name, one in x.named_parameters() if name in WEIGHTS}
        first = next(iter(weights.values()))
        mask = scaled_mask(first.shape, rate.flatten()[0].to(first))
        return partial(_with_weights, x, {name: one * mask for name, one in weights.items()})


def _with_weights(layer: nn.Module, weights: dict[str, Tensor], x: Tensor) -> Tensor:
    found: Tensor = functional_call(layer, weights, (x,))
    return found
