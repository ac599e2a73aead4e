"""Reads a state dict from a file of PyTorch or safetensors, without running code in the
file.
"""

import argparse
import contextlib
import io
import pathlib
import re
import types
import warnings
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.torch_version import TorchVersion

from hba.utils.text import first_of

AVERAGED = ("state_dict_ema", "model_ema")
"""Keys of averaged weights in a checkpoint, in the order in which timm looks for them.
"""
EMA = "ema"
"""A word in other keys and prefixes of averaged weights, an exponential moving average.
"""
USUAL = ("state_dict", "model")
"""Keys of the weights of the last step, in the same order."""
COMPILED = "_orig_mod."
"""What torch.compile puts into names."""

Weights = Mapping[str, Tensor]


def _allowed_globals() -> list[Any]:
    """Classes and functions whose objects only hold values, beside those that
    torch.load allows.

    Pairs have the name of the class in files of other versions of Python and numpy.
    """
    # The functions that make scalars and arrays again.
    numpy_functions: Any = np.float64(0).__reduce__()[0], np.zeros(1).__reduce__()[0]
    dtypes = [value for value in vars(np.dtypes).values() if isinstance(value, type)]
    paths = {"PosixPath": pathlib.PurePosixPath, "WindowsPath": pathlib.PureWindowsPath}
    return [
        argparse.Namespace,
        types.SimpleNamespace,
        np.ndarray,
        np.dtype,
        *dtypes,
        *numpy_functions,
        *(
            (function, f"numpy.core.multiarray.{function.__name__}")
            for function in numpy_functions
        ),
        *((path, f"pathlib.{name}") for name, path in paths.items()),
        *((path, f"pathlib._local.{name}") for name, path in paths.items()),
    ]


def _load(source: str, content: bytes) -> Any:
    """What is in the file. Raises exceptions of any kind for content that cannot be
    read safely.
    """
    if source.endswith(".safetensors"):
        from safetensors.torch import load

        return load(content)
    # Pairs are known to PyTorch 2.6, and the context to 2.5.
    knows_pairs = TorchVersion(torch.__version__) >= "2.6"
    allowed = [
        entry
        for entry in _allowed_globals()
        if knows_pairs or not isinstance(entry, tuple)
    ]
    context: Any = getattr(torch.serialization, "safe_globals", contextlib.nullcontext)
    try:
        with context(allowed), warnings.catch_warnings():
            # PyTorch warns of TorchScript, which it then refuses.
            warnings.simplefilter("ignore")
            return torch.load(
                io.BytesIO(content), map_location="cpu", weights_only=True
            )
    except Exception as error:
        # PyTorch's messages suggest running the code in the file.
        unsafe = re.search(r"GLOBAL (\S+)", str(error))
        if unsafe is None:
            raise ValueError(
                "it is incomplete, or holds other things than tensors and plain values"
            ) from None
        raise ValueError(
            f"it holds other things than tensors and plain values: {unsafe[1]}"
        ) from None


def read_state_dict(source: str, content: bytes) -> tuple[Weights, str]:
    """The state dict in a file, and its key in the checkpoint.

    The key is empty if the file is a state dict. Raises exceptions of any kind for
    other content.

    Args:
        source: The name of the file.
        content: Of the file.
    """
    loaded = _load(source, content)
    if _is_state_dict(loaded):
        return _strip_wrappers(loaded), ""
    keys = (
        [key for key, value in loaded.items() if _is_state_dict(value)]
        if isinstance(loaded, Mapping)
        else []
    )
    if not keys:
        raise ValueError("it holds no state dict")
    key = preferred(keys)
    return _strip_wrappers(loaded[key]), key


def _is_state_dict(value: Any) -> bool:
    if not isinstance(value, Mapping) or not value:
        return False
    return all(
        isinstance(name, str) and isinstance(tensor, Tensor)
        for name, tensor in value.items()
    )


def _strip_wrappers(weights: Weights) -> Weights:
    """The weights without what torch.compile and parallel training put before their
    names.
    """
    from timm.models import clean_state_dict

    return dict(
        clean_state_dict(
            {name.replace(COMPILED, ""): tensor for name, tensor in weights.items()}
        )
    )


def is_averaged(place: str) -> bool:
    """Whether a key or prefix says that the weights are averaged."""
    return EMA in re.split(r"[._]", place)


def preferred(places: Sequence[str]) -> str:
    """Choose among the keys or prefixes of several state dicts.

    Averaged weights come first, then the usual names.

    Raises:
        ValueError: For several without such a name.
    """
    averaged = [place for place in places if is_averaged(place)]
    for place in (*AVERAGED, *averaged, *USUAL, ""):
        if place in places:
            return place
    if len(places) > 1:
        raise ValueError(
            f"it holds several networks ({first_of(places)}); save the state dict of"
            " one of them"
        )
    return places[0]


class NamedWeights(NamedTuple):
    """Weights with the names of a network."""

    weights: Weights
    """By name."""
    prefix: str
    """What the file has before these names."""
    left_out: Sequence[str]
    """First parts of the names of other weights."""


def find_names(
    weights: Weights, needed: Sequence[str], first_parts: Collection[str]
) -> NamedWeights:
    """Find a network in the weights of a program that puts other layers beside it, such
    as a decoder or a teacher.

    If the needed names are not in the file after any prefix, the weights stay as they
    are.

    Args:
        weights: By name, as read_state_dict returns them.
        needed: Names of weights that the network must have.
        first_parts: First parts of the names of all of its weights.

    Raises:
        ValueError: For several networks.
    """
    first, *_ = needed
    starts = (
        name.removesuffix(first) for name in weights if f".{name}".endswith(f".{first}")
    )
    prefixes = [
        start for start in starts if all(start + name in weights for name in needed)
    ]
    if not prefixes:
        return NamedWeights(weights, "", ())
    chosen = preferred([prefix.removesuffix(".") for prefix in prefixes])
    prefix = f"{chosen}." if chosen else ""
    network_names = {
        name: name.removeprefix(prefix) for name in weights if name.startswith(prefix)
    }
    kept = {
        name: network_name
        for name, network_name in network_names.items()
        if network_name.partition(".")[0] in first_parts
    }
    left_out = (
        name.removeprefix(prefix).partition(".")[0]
        for name in weights
        if name not in kept
    )
    return NamedWeights(
        {network_name: weights[name] for name, network_name in kept.items()},
        chosen,
        tuple(dict.fromkeys(left_out)),
    )
