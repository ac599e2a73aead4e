"""The networks of timm, an optional dependency: their pretrained weights, and freezing parts of them."""

import contextlib
import difflib
import hashlib
import io
import logging
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from hba.errors import RunError, SettingsError
from hba.utils.imports import import_extra
from hba.utils.text import counted, first_of

PREFIX = "timm:"


def timm_names() -> list[str]:
    """The names of timm's networks, none where timm is not installed."""
    try:
        import timm
    except ImportError:
        return []
    return list(timm.list_models())


def find_timm_network(name: str, *, may_have_tag: bool = False) -> Callable[..., nn.Module]:
    """The function that builds timm's network of that name, given without the prefix, from the number of classes.

    may_have_tag: `resnet18.a1_in1k` names a network and its weights, which are not loaded here. Raises SettingsError
    for an unknown name or tag, and where timm is not installed.
    """
    timm = import_extra("timm", "timm", f"model '{PREFIX}{name}'")
    architecture, _, tag = name.partition(".")
    known = timm.list_models()
    if architecture not in known:
        similar = difflib.get_close_matches(name, known, n=3)
        advice = f"similar: {', '.join(similar)}" if similar else "timm.list_models() lists the known ones"
        raise SettingsError(f"unknown timm model {name!r}; {advice}")
    if tag and not may_have_tag:
        raise SettingsError(
            f"weights are loaded only where pretrained is given: give it, or omit their tag: {PREFIX}{architecture}, "
            f"not {PREFIX + name!r}"
        )
    tagged = timm.list_pretrained(f"{architecture}.*")
    if tag and name not in tagged:
        raise SettingsError(f"unknown tag of weights in timm model {name!r}; known: {', '.join(tagged) or 'none'}")

    def build(n_classes: int, in_channels: int = 3) -> nn.Module:
        return timm.create_model(name, pretrained=False, num_classes=n_classes, in_chans=in_channels)

    return build


@dataclass(frozen=True)
class TimmFacts:
    """What timm knows of weights. mean, std: by channel, what images in [0, 1] are standardised with. image_size: side
    in pixels that they were trained with. heads: names of the layers whose size is the number of classes.
    has_weights: whether timm can download some.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    image_size: int
    heads: tuple[str, ...]
    has_weights: bool


def timm_facts(name: str) -> TimmFacts:
    """Of the network `timm:NAME`, or of the weights `timm:NAME.TAG`. SettingsError where timm does not know any."""
    found_name = name.removeprefix(PREFIX)
    find_timm_network(found_name, may_have_tag=True)
    import timm

    found = timm.models.get_pretrained_cfg(found_name)
    if found is None or not found.classifier:
        raise SettingsError(
            f"timm does not tell how weights of {name} were trained and which layer is their head; choose another "
            "network, or in Python give one with its weights as network="
        )
    heads = (found.classifier,) if isinstance(found.classifier, str) else tuple(found.classifier)
    return TimmFacts(tuple(found.mean), tuple(found.std), found.input_size[-1], heads, bool(found.has_weights))


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


NOTHING, ALL_BUT_HEAD = "none", "all-but-head"


def freeze(network: nn.Module, what: str, heads: Sequence[str]) -> None:
    """Freeze nothing, all but the head, or the first `what` groups of layers.

    heads: names of its layers. A frozen BatchNorm normalises by its running statistics and keeps them, also in
    training. SettingsError for a number of groups that there are not, or that leaves nothing to train.
    """
    if what == NOTHING:
        return
    if what == ALL_BUT_HEAD:
        starts = tuple(f"{head}." for head in heads)
        frozen = [name for name, _ in network.named_parameters() if not name.startswith(starts)]
    else:
        frozen = _first_groups(network, int(what))
    for name in frozen:
        network.get_parameter(name).requires_grad_(False)
    for name, layer in network.named_modules():
        if isinstance(layer, _BatchNorm) and _is_frozen(layer, network.get_submodule(name.rpartition(".")[0])):
            layer.register_forward_pre_hook(_keep_statistics)


def _first_groups(network: nn.Module, n_groups: int) -> list[str]:
    """Names of their parameters."""
    matcher: Any = getattr(network, "group_matcher", None)
    if matcher is None:
        raise SettingsError(
            f"freeze must be {NOTHING} or {ALL_BUT_HEAD} for this network, whose layers timm does not group, "
            f"got {n_groups}"
        )
    from timm.models import group_parameters

    groups = group_parameters(network, matcher(coarse=True))
    if n_groups >= len(groups):
        raise SettingsError(
            f"freeze must be {NOTHING}, {ALL_BUT_HEAD}, or a number of groups of layers from 1 to {len(groups) - 1} "
            f"for this network, got {n_groups}"
        )
    return [name for number in range(n_groups) for name in groups[number]]


def _is_frozen(layer: nn.Module, around: nn.Module) -> bool:
    """Whether nothing in a layer is trained, or where it has no parameters, nothing in the one around it."""
    parameters = list(layer.parameters()) or list(around.parameters())
    return bool(parameters) and not any(parameter.requires_grad for parameter in parameters)


def _keep_statistics(layer: nn.Module, inputs: Any) -> None:
    """Before each pass of a BatchNorm, whoever has set its mode; not once somebody thaws it."""
    if not any(parameter.requires_grad for parameter in layer.parameters()):
        layer.eval()


DIGITS = 12
"""Of a hash, for people."""


@dataclass(frozen=True)
class Start:
    """frozen: which part of the network, as freeze takes it."""

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
