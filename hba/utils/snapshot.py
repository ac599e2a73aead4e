"""Save and restore all fields of a dataclass. Fields are not listed by name, so none
can be forgotten.

Modules are saved by their state_dict, without the buffers that are registered with
persistent=False.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

PLAIN = (bool, int, float, str, type(None))
"""Types that are saved as they are, also in lists and mappings."""


def snapshot(record: Any) -> dict[str, Any]:
    """The fields by name: tensors, numbers, texts, lists, mappings. TypeError, which
    names the place, for others.
    """
    return {
        field.name: _saved(getattr(record, field.name), field.name)
        for field in dataclasses.fields(record)
    }


@torch.no_grad()
def restore(record: Any, saved: Mapping[str, Any]) -> None:
    """Fill a record with saved values, tensors and modules in place. ValueError for a
    mapping with other entries.
    """
    for field in dataclasses.fields(record):
        value, found = getattr(record, field.name), saved[field.name]
        if _is_plain(value):
            setattr(record, field.name, found)
        else:
            _fill(value, found)


def tensors_in(value: Any) -> list[Tensor]:
    """The tensors of a record, in the same memory and without gradients: all in its
    fields, lists, tuples and mappings, of modules all parameters and buffers, and of
    other objects those of their state_dict.
    """
    if isinstance(value, Tensor):
        return [value.detach()]
    if isinstance(value, nn.Module):
        members = [*value.parameters(), *value.buffers()]
    elif dataclasses.is_dataclass(value):
        members = [getattr(value, field.name) for field in dataclasses.fields(value)]
    elif isinstance(value, Mapping):
        members = [*value.values()]
    elif isinstance(value, list | tuple):
        members = [*value]
    else:
        members = [*value.state_dict().values()] if hasattr(value, "state_dict") else []
    return [tensor for member in members for tensor in tensors_in(member)]


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(
            isinstance(key, str) and _is_plain(one) for key, one in value.items()
        )
    return (
        all(map(_is_plain, value))
        if isinstance(value, list)
        else isinstance(value, PLAIN)
    )


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
        return value.state_dict()
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
            raise ValueError(
                f"a mapping must have the entries {list(found)}, got {list(value)}"
            )
        for key, one in value.items():
            _fill(one, found[key])
    elif hasattr(value, "state_dict"):
        value.load_state_dict(found)
    else:
        restore(value, found)
