"""A network of the user's own in the place of one by name: where trainings start from, and what it is recognised by."""

import copy
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parameter import is_lazy

from hba.data.images import Images
from hba.errors import SettingsError
from hba.utils.files import reason_of
from hba.utils.seeding import default_generators

Given = nn.Module | Callable[[int], nn.Module]
"""A network, of which every training has a copy, or a function from a training's seed to a fresh one."""


@dataclass(frozen=True)
class CustomNetwork:
    """Starts trainings. given: checked by `of`."""

    given: Given

    @staticmethod
    def of(given: Given) -> "CustomNetwork":
        """Raises SettingsError for what is neither a network nor a function that makes one."""
        if isinstance(given, type) or not (isinstance(given, nn.Module) or callable(given)):
            is_class = isinstance(given, type)
            kind = f"the class {given.__name__}" if isinstance(given, type) else type(given).__name__
            remedy = f"; give {kind.split()[-1]}(...), or lambda seed: {kind.split()[-1]}(...)" if is_class else ""
            raise SettingsError(
                f"network must be an nn.Module, or a function of the seed that makes one, got {kind}{remedy}"
            )
        return CustomNetwork(given)

    def fresh(self, seed: int, weights_seed: int) -> nn.Module:
        """A network to train, of the training with this seed. weights_seed: of torch's default generator while a
        function makes it, so that even one that ignores its argument makes the same for the same seed.

        Raises SettingsError for one that has nothing to train.
        """
        if isinstance(self.given, nn.Module):
            network: object = _copy(self.given)
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
        kind = "copies" if isinstance(self.given, nn.Module) else "made by seed"
        return f"{self.name} {_digest(self._first, kind, with_values=True)}"

    @property
    def structure(self) -> str:
        """As `definition`, but for the values of the weights: what can go on with the weights of another one."""
        return _digest(self._first, "structure", with_values=False)

    def check_takes(self, images: Images, image_size: int, n_classes: int, *, is_copied: bool = False) -> None:
        """Try two black images, as in a measurement and as in a training. SettingsError for a network that cannot take
        them, has not one output per class, or, where it is_copied after passes, cannot be.
        """
        network = _without_processes(self._first.cpu())
        shape = (images.n_channels, image_size, image_size)
        for is_training in (False, True):
            network.train(is_training)
            try:
                with default_generators(torch.device("cpu")):
                    answer = network(torch.zeros(2, *shape))
            except Exception as error:
                raise SettingsError(
                    f"the network {self.name} cannot take images of shape {shape} ({reason_of(error)})"
                ) from None
            if not isinstance(answer, torch.Tensor) or answer.shape != (2, n_classes):
                found = tuple(answer.shape) if isinstance(answer, torch.Tensor) else type(answer).__name__
                raise SettingsError(
                    f"the network {self.name} must have one output for each of {n_classes} classes, so a tensor of "
                    f"shape (2, {n_classes}) for two images, got {found}"
                    + (" in train mode; omit what it gives besides (aux_logits=False)" if is_training else "")
                )
        if is_copied:
            _copy(network)

    @property
    def _first(self) -> nn.Module:
        """A copy, or what the function makes for seed 0."""
        return self.fresh(0, weights_seed=0)


def check_trainable(network: nn.Module) -> None:
    """SettingsError for a network of the user's own that has nothing to train."""
    if any(is_lazy(tensor) for tensor in (*network.parameters(), *network.buffers())):
        raise SettingsError(
            "the network must have all its weights, and has layers that wait for their first images; call it once on "
            "images of their size before"
        )
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise SettingsError("the network must have parameters to train, and has none or all are frozen; unfreeze some")


class _AloneBatchNorm(_BatchNorm):
    """SyncBatchNorm in one process: it takes images on a CPU."""

    def _check_input_dim(self, input: torch.Tensor) -> None:
        """Whatever the other takes."""


def _without_processes(network: nn.Module) -> nn.Module:
    """The network, to be tried by each process for itself. Its weights stay."""
    for module in network.modules():
        if isinstance(module, nn.SyncBatchNorm):
            module.__class__ = _AloneBatchNorm  # type: ignore[assignment]
    return network


def _copy(network: nn.Module) -> nn.Module:
    """SettingsError for one that holds tensors of its last pass, as the older torch.nn.utils.spectral_norm leaves."""
    try:
        return copy.deepcopy(network)
    except RuntimeError as error:
        if "graph leaves" not in str(error):
            raise
        raise SettingsError(
            f"the network {type(network).__name__} cannot be copied after a pass, of which it keeps tensors; of "
            "torch.nn.utils, use parametrizations.spectral_norm and parametrizations.weight_norm, which keep none"
        ) from None


def _digest(network: nn.Module, kind: str, *, with_values: bool) -> str:
    """Of classes, layers, names and shapes of weights, and what is frozen."""
    digest = hashlib.sha256(kind.encode())
    digest.update(f"{type(network).__qualname__}\n{re.sub('0x[0-9a-f]+', '', repr(network))}".encode())
    for name, tensor in network.state_dict().items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        if with_values:
            digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())
    digest.update(str([name for name, weight in network.named_parameters() if weight.requires_grad]).encode())
    return digest.hexdigest()[:16]
