"""Save and restore a record of any dataclass whole: its fields are walked, none is listed, so none can be forgotten."""

import copy
import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

PLAIN = (bool, int, float, str, type(None))
"""What a file holds as it is; so are lists and mappings of it."""
FURTHER = "buffers that state_dict leaves out"
"""Of a module, where there are any: a training that goes on needs these too. No tensor of a module is called so."""


def snapshot(record: Any) -> dict[str, Any]:
    """Tensors, numbers, texts, lists and mappings only, by the names of the record's fields.

    Raises TypeError, with its place, for what cannot be saved.
    """
    return {field.name: _saved(getattr(record, field.name), field.name) for field in dataclasses.fields(record)}


@torch.no_grad()
def restore(record: Any, saved: Mapping[str, Any]) -> None:
    """Give a record of the same kind what was saved. Tensors, modules and streams are filled, not replaced.

    Raises ValueError where a mapping of tensors had other entries when it was saved.
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
    raise TypeError(f"{name} is of a kind that cannot be saved: {type(value).__name__}")


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
        # A copy of the same kind: PyTorch's own has the versions of the layers with it.
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
            # One that the first passes make, or that changes its shape.
            device = next((parameter.device for parameter in value.parameters()), saved.device)
            setattr(module, own_name, saved.to(device))
