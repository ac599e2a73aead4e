"""Save and restore all fields of a dataclass. None is listed by name, so none can be forgotten."""

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

PLAIN = (bool, int, float, str, type(None))
"""Types that are saved as they are, also in lists and mappings."""
FURTHER = "buffers that state_dict leaves out"
"""Key, beside those of a state_dict, of the non-persistent buffers of a module, which a resumed training needs too."""


def snapshot(record: Any) -> dict[str, Any]:
    """Tensors, numbers, texts, lists and mappings, by the names of the record's fields.

    Raises TypeError, which names the place, for anything else.
    """
    return {field.name: _saved(getattr(record, field.name), field.name) for field in dataclasses.fields(record)}


@torch.no_grad()
def restore(record: Any, saved: Mapping[str, Any]) -> None:
    """Fill a record of the same class with what was saved. Tensors, modules and generators are changed in place.

    Raises ValueError where a mapping of tensors has other entries than the saved one.
    """
    for field in dataclasses.fields(record):
        value, found = getattr(record, field.name), saved[field.name]
        if _is_plain(value):
            setattr(record, field.name, found)
        else:
            _fill(value, found)


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(one) for key, one in value.items())
    return all(map(_is_plain, value)) if isinstance(value, list) else isinstance(value, PLAIN)


def _saved(value: Any, name: str) -> Any:
    if _is_plain(value):
        return value
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, torch.Generator):
        return value.get_state()
    if isinstance(value, dict):
        return {key: _saved(one, f"{name}[{key!r}]") for key, one in value.items()}
    if hasattr(value, "state_dict"):
        state = value.state_dict()
        if further := _further(value, state):
            state[FURTHER] = further
        return state
    if dataclasses.is_dataclass(value):
        return snapshot(value)
    raise TypeError(f"{name} is of a type that cannot be saved: {type(value).__name__}")


def _fill(value: Any, found: Any) -> None:
    if isinstance(value, Tensor):
        value.copy_(found)
    elif isinstance(value, torch.Generator):
        value.set_state(found.cpu())
    elif isinstance(value, dict):
        if value.keys() != found.keys():
            raise ValueError(f"a mapping must have the entries {list(found)}, got {list(value)}")
        for key, one in value.items():
            _fill(one, found[key])
    elif hasattr(value, "state_dict"):
        # copy.copy keeps the metadata of PyTorch's state_dict, such as the versions of layers.
        state = copy.copy(found)
        _fill_further(value, state.pop(FURTHER, {}))
        value.load_state_dict(state)
    else:
        restore(value, found)


def _further(value: Any, state: Mapping[str, Any]) -> dict[str, Tensor]:
    """Buffers of a module that were registered with persistent=False, by name."""
    buffers = value.named_buffers() if isinstance(value, nn.Module) else ()
    return {name: buffer for name, buffer in buffers if name not in state}


def _fill_further(value: Any, found: Mapping[str, Tensor]) -> None:
    for name, saved in found.items():
        owner, _, own_name = name.rpartition(".")
        module = value.get_submodule(owner)
        buffer = getattr(module, own_name, None)
        if isinstance(buffer, Tensor) and buffer.shape == saved.shape:
            buffer.copy_(saved)
        else:
            # A buffer that the first forward passes make, or that changes its shape.
            device = next((parameter.device for parameter in value.parameters()), saved.device)
            setattr(module, own_name, saved.to(device))
