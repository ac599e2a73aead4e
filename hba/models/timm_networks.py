"""The networks of timm, an optional dependency: building them, loading pretrained weights, and freezing parts."""

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
from hba.utils.files import reason_of
from hba.utils.imports import import_extra
from hba.utils.text import counted, first_of

PREFIX = "timm:"
TIMM = "timm"
"""Given instead of a file: the weights that timm downloads."""
NOTHING, ALL_BUT_HEAD = "none", "all-but-head"
"""Values of the setting `freeze`, besides numbers."""
INSIDE = ("state_dict", "model")
"""Keys under which training programs put a state dict into a checkpoint."""
N_NAMED = 3
"""Number of weights that do not fit which a message names."""
DIGITS = 12
"""Number of digits of a hash in a message."""

Weights = Mapping[str, Tensor]


def find_timm_network(name: str, *, may_have_tag: bool = False) -> Callable[..., nn.Module]:
    """The function that builds timm's network of that name (without prefix) from the number of classes.

    may_have_tag: allows names like `resnet18.a1_in1k`, whose tag names weights; they are not loaded here. Raises
    SettingsError for an unknown name or tag, and if timm is not installed.
    """
    timm = import_extra("timm", "timm", f"model '{PREFIX}{name}'")
    architecture, _, tag = name.partition(".")
    known = timm.list_models()
    if tag and may_have_tag:
        known = timm.list_pretrained(f"{architecture}.*")
    if name not in known:
        similar = difflib.get_close_matches(name, known, n=3)
        note = "a tag of weights needs pretrained" if tag and not may_have_tag else "timm.list_models() lists all"
        raise SettingsError(f"unknown timm model {name!r}; similar: {', '.join(similar) or 'none'}; {note}")

    def build(n_classes: int, in_channels: int = 3) -> nn.Module:
        return timm.create_model(name, pretrained=False, num_classes=n_classes, in_chans=in_channels)

    return build


@dataclass(frozen=True)
class TimmFacts:
    """timm's configuration of pretrained weights.

    mean, std: by channel, for images in [0, 1]. image_size: side in pixels that they were trained with. heads: names of
    the layers whose size is the number of classes. has_weights: whether timm can download some.
    """

    mean: tuple[float, ...]
    std: tuple[float, ...]
    image_size: int
    heads: tuple[str, ...]
    has_weights: bool


def timm_facts(name: str) -> TimmFacts:
    """Facts of the network `timm:NAME`, or of the weights `timm:NAME.TAG`; SettingsError if timm has none."""
    found_name = name.removeprefix(PREFIX)
    find_timm_network(found_name, may_have_tag=True)
    import timm

    found = timm.models.get_pretrained_cfg(found_name)
    if found is None or not found.classifier:
        raise SettingsError(f"timm has no configuration of weights of {name}; choose another network")
    heads = (found.classifier,) if isinstance(found.classifier, str) else tuple(found.classifier)
    return TimmFacts(tuple(found.mean), tuple(found.std), found.input_size[-1], heads, bool(found.has_weights))


@dataclass(frozen=True)
class Pretrained:
    """Pretrained weights of a model, whose name has timm's prefix.

    source: TIMM, or the path of a file. sha256: of the file, or of the names and values of timm's weights.
    """

    model: str
    source: str
    sha256: str

    @staticmethod
    def of(model: str, source: str) -> "Pretrained":
        """The weights as they are now. SettingsError if they cannot be read or downloaded."""
        return Pretrained(model, source, _read(model, source)[1])

    def read(self) -> Weights:
        """Weights by name, on the CPU. RunError if they have changed."""
        weights, sha256 = _read(self.model, self.source)
        if sha256 != self.sha256:
            raise RunError(f"the pretrained weights in {self.source} have changed since this run began; start anew")
        return weights


def _read(model: str, source: str) -> tuple[Weights, str]:
    """Weights by name, and their hash."""
    try:
        if source != TIMM:
            content = Path(source).read_bytes()
            return _parsed(source, content), hashlib.sha256(content).hexdigest()
        if not timm_facts(model).has_weights:
            raise ValueError("timm has none")
        import timm

        with _quiet("huggingface_hub"), _quiet("timm"):
            weights = timm.create_model(model.removeprefix(PREFIX), pretrained=True).state_dict()
    except MemoryError:
        raise
    except Exception as error:
        raise SettingsError(
            f"the pretrained weights of {model} from {source} cannot be read ({reason_of(error)}); pretrained needs "
            f"`{TIMM}`, a file .safetensors, or a state dict as `torch.save(network.state_dict(), FILE)` writes it, by "
            f"itself or as {' or '.join(map(repr, INSIDE))} in a checkpoint"
        ) from None
    digest = hashlib.sha256()
    for name, tensor in weights.items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return weights, digest.hexdigest()


def _parsed(source: str, content: bytes) -> Weights:
    """The state dict in a file, none of whose code is run. Raises any exception for other content."""
    if source.endswith(".safetensors"):
        from safetensors.torch import load

        found = load(content)
    else:
        try:
            found = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        except pickle.UnpicklingError:
            # PyTorch's message advises to run the code in the file.
            raise ValueError("it holds other things than tensors") from None
    inside = [name for name in INSIDE if isinstance(found, dict) and isinstance(found.get(name), dict)]
    weights = found[inside[0]] if inside else found
    if not isinstance(weights, dict) or not weights or not all(isinstance(one, Tensor) for one in weights.values()):
        raise ValueError("it holds no state dict")
    from timm.models import clean_state_dict

    return dict(clean_state_dict(weights))


@contextlib.contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Hide what a library logs of its retries."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(before)


def has_its_head(network: nn.Module, weights: Weights, heads: Sequence[str]) -> bool:
    """Whether all weights of the head fit the network. heads: names of its layers."""
    own, theirs = (
        {name: one.shape for name, one in some.items() if name.startswith(_within(heads))}
        for some in (network.state_dict(), weights)
    )
    return bool(own) and own == theirs


def _within(layers: Sequence[str]) -> tuple[str, ...]:
    """How the names of their weights begin."""
    return tuple(f"{layer}." for layer in layers)


def load_weights(network: nn.Module, weights: Weights, heads: Sequence[str], source: str) -> None:
    """Load all weights, except those of a head that does not fit as a whole.

    heads: names of its layers. SettingsError for any other weight that is missing, unknown or of another shape.
    """
    own, of_head = network.state_dict(), () if has_its_head(network, weights, heads) else _within(heads)
    given = {name: one for name, one in weights.items() if not name.startswith(of_head)}
    fitting = {name: one for name, one in given.items() if name in own and one.shape == own[name].shape}
    # PyTorch itself knows which weights may be missing.
    found = network.load_state_dict(fitting, strict=False)
    missing = [name for name in found.missing_keys if not name.startswith(of_head)]
    if wrong := sorted({*missing, *given} - {*fitting}):
        raise SettingsError(
            f"the pretrained weights in {source} do not fit the model: {len(wrong)} are missing, unknown or of another "
            f"shape ({first_of(wrong, N_NAMED)}); choose the model that they belong to"
        )


def freeze(network: nn.Module, what: str, heads: Sequence[str]) -> None:
    """Freeze nothing, all but the head, or the first `what` groups of layers.

    heads: names of its layers. A frozen BatchNorm normalizes by its running statistics and keeps them, in training too.
    SettingsError for a number of groups that the network does not have, or that leaves nothing to train.
    """
    if what == NOTHING:
        return
    if what == ALL_BUT_HEAD:
        frozen = [name for name, _ in network.named_parameters() if not name.startswith(_within(heads))]
    else:
        frozen = _first_groups(network, int(what))
    for name in frozen:
        network.get_parameter(name).requires_grad_(False)
    for name, layer in network.named_modules():
        if isinstance(layer, _BatchNorm) and _is_frozen(layer, network.get_submodule(name.rpartition(".")[0])):
            layer.register_forward_pre_hook(_keep_statistics)


def _first_groups(network: nn.Module, n_groups: int) -> list[str]:
    """Names of the parameters of the first groups."""
    from timm.models import group_parameters

    matcher: Any = getattr(network, "group_matcher", None)
    groups = {} if matcher is None else group_parameters(network, matcher(coarse=True))
    if n_groups >= len(groups):
        raise SettingsError(
            f"freeze must be {NOTHING}, {ALL_BUT_HEAD}, or below {len(groups)}, the number of timm's groups of layers "
            f"of this network, got {n_groups}"
        )
    return [name for number in range(n_groups) for name in groups[number]]


def _is_frozen(layer: nn.Module, around: nn.Module) -> bool:
    """Whether all parameters of a layer are frozen, or, if it has none, all of the module around it."""
    parameters = list(layer.parameters()) or list(around.parameters())
    return bool(parameters) and not any(parameter.requires_grad for parameter in parameters)


def _keep_statistics(layer: nn.Module, inputs: Any) -> None:
    """Forward pre-hook of a frozen BatchNorm: eval mode, unless it is no longer frozen."""
    if not any(parameter.requires_grad for parameter in layer.parameters()):
        layer.eval()


@dataclass(frozen=True)
class Start:
    """Pretrained weights and the part of the network that is frozen, as `freeze` takes it."""

    pretrained: Pretrained
    frozen: str

    def give(self, network: nn.Module) -> None:
        """Load the weights, except for a head that does not fit, and freeze. SettingsError for what does not fit."""
        heads = timm_facts(self.pretrained.model).heads
        load_weights(network, self.pretrained.read(), heads, self.pretrained.source)
        freeze(network, self.frozen, heads)

    def note(self, network: nn.Module, n_classes: int) -> str:
        """One sentence on a network that was started so: its weights, its head, and what is frozen."""
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
