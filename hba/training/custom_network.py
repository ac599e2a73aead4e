"""A network of your own instead of a named model: what trainings start from, and how it
is recognized.
"""

import copy
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import nn
from torch.nn.parameter import is_lazy

from hba.data.images import Images
from hba.errors import SettingsError
from hba.tasks import task_of
from hba.utils.files import reason_of
from hba.utils.seeding import default_generators

Given = nn.Module | Callable[[int], nn.Module]
"""A network, of which every training has a copy, or a function from a training's seed
to a fresh one.
"""


@dataclass(frozen=True)
class CustomNetwork:
    """The network that trainings start from.

    Raises SettingsError unless it is a network or a function of the seed.
    """

    given: Given
    """A network or a function, see Given."""

    def __post_init__(self) -> None:
        if isinstance(self.given, type) or not callable(self.given):
            got = (
                f"the class {self.given.__name__}"
                if isinstance(self.given, type)
                else type(self.given).__name__
            )
            raise SettingsError(
                "network must be an nn.Module, or a function of the seed that makes"
                f" one, got {got}"
            )

    def fresh(self, seed: int, weights_seed: int) -> nn.Module:
        """A network for the training with this seed.

        Args:
            seed: Of the training.
            weights_seed: Seed of torch's default generator while a function makes the
                network, so a function that ignores its argument still makes the same
                network for the same seed.

        Raises:
            SettingsError: For lazy layers or nothing to train.
        """
        if isinstance(self.given, nn.Module):
            network: object = copy.deepcopy(self.given)
        else:
            # The function may make weights on the GPU, or be the first to use it.
            device = torch.device("cuda" if torch.cuda.is_initialized() else "cpu")
            with default_generators(device, weights_seed):
                if device.type == "cpu":
                    torch.cuda.manual_seed(weights_seed)
                network = self.given(seed)
        if not isinstance(network, nn.Module):
            raise SettingsError(
                "the function network must return an nn.Module, got"
                f" {type(network).__name__}"
            )
        if any(
            is_lazy(tensor) for tensor in (*network.parameters(), *network.buffers())
        ):
            raise SettingsError(
                "the network has lazy layers without weights; call it once on some"
                " images first"
            )
        if not any(parameter.requires_grad for parameter in network.parameters()):
            raise SettingsError(
                "the network must have parameters to train, but it has none, or all are"
                " frozen"
            )
        return network

    @property
    def name(self) -> str:
        return type(self.fresh(0, 0)).__name__

    @cached_property
    def definition(self) -> str:
        """A string that is equal for networks that start alike.

        It has a hash of classes, layers, weights and what is frozen. A function is
        represented by its network for seed 0. The code of forward functions is not
        compared.
        """
        origin = "copies" if isinstance(self.given, nn.Module) else "made by seed"
        return f"{self.name} {_digest(self.fresh(0, 0), origin, with_values=True)}"

    @property
    def structure(self) -> str:
        """The same without the values of the weights.

        It is equal for networks that can load each other's weights.
        """
        return _digest(self.fresh(0, 0), "structure", with_values=False)

    def check_takes(self, images: Images, image_size: int, n_classes: int) -> None:
        """Try two black images in eval mode.

        Raises:
            SettingsError: If that fails, or without one output per class (of each
                pixel, if labels are masks).
        """
        network = self.fresh(0, 0).cpu().eval()
        shape = (images.n_channels, image_size, image_size)
        try:
            with torch.no_grad(), default_generators(torch.device("cpu")):
                answer = network(torch.zeros(2, *shape))
            task = task_of(images.labels)
            expected = task.output_shape(2, n_classes, image_size)
            if answer.shape != expected:
                raise ValueError(
                    f"outputs must have the shape {expected}, got {tuple(answer.shape)}"
                )
        except Exception as error:
            data_in_words = f"images of shape {shape} in {n_classes} classes"
            raise SettingsError(
                f"the network {self.name} cannot be trained on {data_in_words}"
                f" ({reason_of(error)})"
            ) from None


def _digest(network: nn.Module, purpose: str, *, with_values: bool) -> str:
    """Hash of classes, layers, names and shapes of weights, and what is frozen."""
    digest = hashlib.sha256(purpose.encode())
    layers = re.sub("0x[0-9a-f]+", "", repr(network))
    digest.update(f"{type(network).__qualname__}\n{layers}".encode())
    for name, tensor in network.state_dict().items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        if with_values:
            digest.update(
                tensor.detach()
                .cpu()
                .contiguous()
                .flatten()
                .view(torch.uint8)
                .numpy()
                .tobytes()
            )
    digest.update(
        str(
            [
                name
                for name, weight in network.named_parameters()
                if weight.requires_grad
            ]
        ).encode()
    )
    return digest.hexdigest()[:16]
