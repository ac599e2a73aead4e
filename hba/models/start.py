"""What a network of timm begins with in the place of fresh weights."""

from dataclasses import dataclass

from torch import nn

from hba.models.freezing import freeze
from hba.models.pretrained import TIMM, Pretrained, has_its_head, load_weights
from hba.models.timm_networks import timm_facts
from hba.utils.text import counted

DIGITS = 12
"""Of a hash, for people."""


@dataclass(frozen=True)
class Start:
    """frozen: which part of the network, as freezing.freeze takes it."""

    pretrained: Pretrained
    frozen: str

    def give(self, network: nn.Module) -> None:
        """Load the weights, but the head where that does not fit, and freeze. SettingsError for what does not fit."""
        heads = timm_facts(self.pretrained.model).heads
        load_weights(network, self.pretrained.read(), heads, self.pretrained.source)
        freeze(network, self.frozen, heads)

    def note(self, network: nn.Module, n_classes: int) -> str:
        """One sentence on a network that was given this: its weights, its head, and what is frozen."""
        source, heads = self.pretrained.source, timm_facts(self.pretrained.model).heads
        its_head = has_its_head(network, self.pretrained.read(), heads)
        head = f"{'their own' if its_head else 'a new'} head for {counted(n_classes, 'class', 'classes')}"
        parameters = list(network.parameters())
        frozen = sum(one.numel() for one in parameters if not one.requires_grad)
        total = sum(one.numel() for one in parameters)
        return (
            f"Pretrained weights: {'those of timm' if source == TIMM else source} (SHA-256 "
            f"{self.pretrained.sha256[:DIGITS]}...), with {head}{'' if its_head else ', which the seed decides'}; "
            f"{frozen:,} of {total:,} parameters are frozen."
        )
