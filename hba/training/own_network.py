"""A network of the user's own in the place of one by name: where trainings start from, and what it is recognised by."""

import copy
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from hba.data.images import Images
from hba.errors import SettingsError
from hba.runtime.seeding import default_generators

Given = nn.Module | Callable[[int], nn.Module]
"""A network, of which every training has a copy, or a function from a training's seed to a fresh one."""


@dataclass(frozen=True)
class OwnNetwork:
    """Starts trainings. given: checked by `of`."""

    given: Given

    @staticmethod
    def of(given: Given) -> "OwnNetwork":
        """Raises SettingsError for what is neither a network nor a function that makes one."""
        if isinstance(given, type) or not (isinstance(given, nn.Module) or callable(given)):
            is_class = isinstance(given, type)
            kind = f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
            remedy = f"; give {kind.split()[-1]}(...), or lambda seed: {kind.split()[-1]}(...)" if is_class else ""
            raise SettingsError(
                f"network must be an nn.Module, or a function of the seed that makes one, got {kind}{remedy}"
            )
        return OwnNetwork(given)

    def fresh(self, seed: int, weights_seed: int) -> nn.Module:
        """A network to train, of the training with this seed. weights_seed: of torch's default generator while a
        function makes it, so that even one that ignores its argument makes the same for the same seed.

        Raises SettingsError for one that has nothing to train.
        """
        if isinstance(self.given, nn.Module):
            network: object = copy.deepcopy(self.given)
        else:
            # It may make its weights on the GPU, or be the first to use it.
            device = torch.device("cuda" if torch.cuda.is_initialized() else "cpu")
            with default_generators(device, weights_seed):
                if device.type == "cpu":
                    torch.cuda.manual_seed(weights_seed)
                network = self.given(seed)
        if not isinstance(network, nn.Module):
            raise SettingsError(f"the function network must return an nn.Module, got {type(network).__name__}")
        check_trainable(network)
        return network

    @property
    def name(self) -> str:
        """The class of the network."""
        return type(self._first).__name__

    @property
    def definition(self) -> str:
        """A text that is equal for networks that start alike: a hash of classes, layers, weights and what is frozen.

        Of a function, of what it makes for seed 0. What a forward function does besides is not looked at.
        """
        network = self._first
        digest = hashlib.sha256(("copies" if isinstance(self.given, nn.Module) else "made by seed").encode())
        digest.update(f"{type(network).__qualname__}\n{re.sub('0x[0-9a-f]+', '', repr(network))}".encode())
        for name, tensor in network.state_dict().items():
            digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
        digest.update(str([name for name, weight in network.named_parameters() if weight.requires_grad]).encode())
        return f"{self.name} {digest.hexdigest()[:16]}"

    def check_takes(self, images: Images, image_size: int, n_classes: int) -> None:
        """Try one black image. SettingsError for a network that cannot take it, or has not one output per class."""
        network = self._first.cpu().eval()
        shape = (1, images.n_channels, image_size, image_size)
        try:
            with default_generators(torch.device("cpu")), torch.no_grad():
                answer = network(torch.zeros(shape))
        except Exception as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise SettingsError(f"the network {self.name} cannot take images of shape {shape[1:]} ({reason})") from None
        if not isinstance(answer, torch.Tensor) or answer.shape != (1, n_classes):
            found = tuple(answer.shape) if isinstance(answer, torch.Tensor) else type(answer).__name__
            raise SettingsError(
                f"the network {self.name} must have one output for each of {n_classes} classes, so a tensor of shape "
                f"(1, {n_classes}) for one image, got {found}"
            )

    @property
    def _first(self) -> nn.Module:
        """A copy, or what the function makes for seed 0."""
        return self.fresh(0, weights_seed=0)


def check_trainable(network: nn.Module) -> None:
    """SettingsError for a network of the user's own that has nothing to train."""
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise SettingsError("the network must have parameters to train, and has none or all are frozen; unfreeze some")
