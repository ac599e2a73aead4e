"""Weights that a network of timm starts from: those in a file of one's own, or timm's."""

import contextlib
import hashlib
import io
import logging
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from hba.errors import RunError, SettingsError
from hba.models.timm_networks import PREFIX, timm_facts
from hba.utils.text import first_of

TIMM = "timm"
"""In the place of a file: the weights that timm downloads."""
INSIDE = ("state_dict", "model")
"""Where training programs put a state dict into a checkpoint."""
N_NAMED = 3

Weights = Mapping[str, Tensor]


@dataclass(frozen=True)
class Pretrained:
    """model: with timm's prefix. source: TIMM, or the path of a file. sha256: of the file; of timm's weights, of their
    names and numbers.
    """

    model: str
    source: str
    sha256: str

    @staticmethod
    def of(model: str, source: str) -> "Pretrained":
        """As the weights are now. SettingsError for what cannot be read, and where timm cannot download them."""
        return Pretrained(model, source, _read(model, source)[1])

    def read(self) -> Weights:
        """By name, on the CPU. RunError where they are no longer what they were."""
        weights, sha256 = _read(self.model, self.source)
        if sha256 != self.sha256:
            raise RunError(f"the pretrained weights in {self.source} have changed since this run began; start anew")
        return weights


def _read(model: str, source: str) -> tuple[Weights, str]:
    """Weights by name, and their hash."""
    if source != TIMM:
        content = _content(Path(source))
        return _parsed(source, content), hashlib.sha256(content).hexdigest()
    weights, digest = _of_timm(model), hashlib.sha256()
    for name, tensor in weights.items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return weights, digest.hexdigest()


def _content(path: Path) -> bytes:
    if path.is_dir():
        raise SettingsError(
            f"pretrained must be a file of weights, and {path} is a folder; for timm's weights, write `{TIMM}`, or put "
            "the images first"
        )
    try:
        return path.read_bytes()
    except OSError as error:
        raise SettingsError(
            f"the pretrained weights in {path} cannot be read: {error.strerror}; name the file where it is now"
        ) from None


def _parsed(source: str, content: bytes) -> Weights:
    """Nothing in the file is run."""
    try:
        if source.endswith(".safetensors"):
            from safetensors.torch import load

            found = load(content)
        else:
            found = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except MemoryError:
        raise
    except pickle.UnpicklingError:
        # PyTorch's words advise to run what is in the file.
        raise SettingsError(f"{source} holds other things than tensors; {_WANTED}") from None
    except Exception as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise SettingsError(f"{source} holds no weights that can be read ({reason}); {_WANTED}") from None
    inside = [name for name in INSIDE if isinstance(found, dict) and isinstance(found.get(name), dict)]
    weights = found[inside[0]] if inside else found
    if not isinstance(weights, dict) or not weights or not all(map(_is_weight, weights.items())):
        raise SettingsError(f"{source} holds no state dict; {_WANTED}")
    from timm.models import clean_state_dict

    return dict(clean_state_dict(weights))


def _is_weight(item: tuple[object, object]) -> bool:
    return isinstance(item[0], str) and isinstance(item[1], Tensor)


_WANTED = (
    f"pretrained needs a state dict as `torch.save(network.state_dict(), FILE)` writes it, by itself or as "
    f"{' or '.join(map(repr, INSIDE))} in a checkpoint without other classes, or a file .safetensors"
)


def _of_timm(model: str) -> Weights:
    """What timm downloads, or has kept since it did."""
    name = model.removeprefix(PREFIX)
    if not timm_facts(model).has_weights:
        raise SettingsError(
            f"timm has no pretrained weights of {model}; give --pretrained FILE (in Python pretrained=FILE)"
        )
    import timm

    try:
        with _quiet("huggingface_hub"), _quiet("timm"):
            network = timm.create_model(name, pretrained=True)
    except MemoryError:
        raise
    except Exception as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise SettingsError(
            f"timm cannot get its weights of {model} ({reason}); connect to the internet, or give --pretrained FILE "
            "(in Python pretrained=FILE)"
        ) from None
    return network.state_dict()


@contextlib.contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Without what a library logs of its retries."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def has_its_head(network: nn.Module, weights: Weights, heads: Sequence[str]) -> bool:
    """Whether the weights of the head fit the network, as a whole. heads: names of its layers."""
    own, theirs = (
        {name: one.shape for name, one in some.items() if name.startswith(_within(heads))}
        for some in (network.state_dict(), weights)
    )
    return bool(own) and own == theirs


def _within(layers: Sequence[str]) -> tuple[str, ...]:
    """How the names of their weights begin."""
    return tuple(f"{layer}." for layer in layers)


def load_weights(network: nn.Module, weights: Weights, heads: Sequence[str], source: str) -> None:
    """Give a network all weights, but its head where that does not fit as a whole.

    heads: names of its layers. SettingsError for any other weight that is missing, unknown or of another shape.
    """
    own, of_head = network.state_dict(), () if has_its_head(network, weights, heads) else _within(heads)
    given = {name: one for name, one in weights.items() if not name.startswith(of_head)}
    shapes = [
        f"{name} is {tuple(one.shape)} there and {tuple(own[name].shape)} in the network"
        for name, one in given.items()
        if name in own and one.shape != own[name].shape
    ]
    # PyTorch says itself which names it can do without.
    fitting = {name: one for name, one in given.items() if name not in own or one.shape == own[name].shape}
    found = network.load_state_dict(fitting, strict=False)
    missing = [name for name in found.missing_keys if name not in given and not name.startswith(of_head)]
    unknown = [name for name in given if name not in own]
    kinds = (("missing", missing), ("unknown", unknown), ("of another shape", shapes))
    wrong = [f"{len(names)} {kind} ({first_of(names, N_NAMED)})" for kind, names in kinds if names]
    if wrong:
        raise SettingsError(
            f"the pretrained weights in {source} do not fit the model, its head aside: {'; '.join(wrong)}; choose "
            "the model that they are of"
        )
