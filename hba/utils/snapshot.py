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
    """The fields by name: tensors, numbers, texts, lists, mappings.

    Raises:
        TypeError: For others; names the place.
    """
    return {
        field.name: _snapshot_value(getattr(record, field.name), field.name)
        for field in dataclasses.fields(record)
    }


@torch.no_grad()
def restore(record: Any, saved: Mapping[str, Any]) -> None:
    """Fill a record with saved values, tensors and modules in place.

    Raises:
        ValueError: For a mapping with other entries.
    """
    for field in dataclasses.fields(record):
        value = getattr(record, field.name)
        stored = saved[field.name]
        if _is_plain(value):
            setattr(record, field.name, stored)
        else:
            _fill(value, stored)


def tensors_in(value: Any) -> list[Tensor]:
    """The tensors of a value, in the same memory and without gradients.

    These are all in the fields of a record, in lists, tuples and mappings, all
    parameters and buffers of modules, and of other objects those of their state_dict.
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
            isinstance(key, str) and _is_plain(item) for key, item in value.items()
        )
    return (
        all(map(_is_plain, value))
        if isinstance(value, list)
        else isinstance(value, PLAIN)
    )


def _snapshot_value(value: Any, name: str) -> Any:
    if _is_plain(value):
        return value
    if isinstance(value, Tensor):
        return value.detach()
    if isinstance(value, torch.Generator):
        return value.get_state()
    if isinstance(value, dict):
        return {
            key: _snapshot_value(item, f"{name}[{key!r}]")
            for key, item in value.items()
        }
    if hasattr(value, "state_dict"):
        return value.state_dict()
    if dataclasses.is_dataclass(value):
        return snapshot(value)
    raise TypeError(f"{name} is of a type that cannot be saved: {type(value).__name__}")


def _fill(value: Any, stored: Any) -> None:
    if isinstance(value, Tensor):
        value.copy_(stored)
    elif isinstance(value, torch.Generator):
        value.set_state(stored.cpu())
    elif isinstance(value, dict):
        if value.keys() != stored.keys():
            raise ValueError(
                f"a mapping must have the entries {list(stored)}, got {list(value)}"
            )
        for key, item in value.items():
            _fill(item, stored[key])
    elif hasattr(value, "state_dict"):
        value.load_state_dict(stored)
    else:
        restore(value, stored)
