"""The reference of Python names has all that users import, and nothing that is not there."""

import importlib
import re
from typing import Any

import pytest
from documents import text_of

import hba

LISTING = (
    "hba",
    "hba.algorithms",
    "hba.data",
    "hba.exports",
    "hba.importers",
    "hba.policy_evaluation",
    "hba.policy_search",
)
"""Modules whose `__all__` is for users."""
OPEN = ("hba.errors", "hba.training.criterion")
"""Modules for users whose own public functions and classes all are."""


def stated() -> list[str]:
    return re.findall(r"^::: (\S+)$", text_of("docs/reference-python.md"), re.MULTILINE)


def public(module: str) -> dict[str, Any]:
    found = importlib.import_module(module)
    if module in LISTING:
        return {f"{module}.{name}": getattr(found, name) for name in found.__all__ if name != "__version__"}
    return {
        f"{module}.{name}": value
        for name, value in vars(found).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module
    }


def value_of(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(importlib.import_module(module), attribute)


@pytest.mark.parametrize("module", [*LISTING, *OPEN])
def test_it_has_every_public_name(module: str) -> None:
    """By that name, or by the one that the same thing has elsewhere."""
    there = [value_of(name) for name in stated()]
    names = public(module)
    assert names
    assert [name for name, value in names.items() if not any(value is one for one in there)] == []


def test_it_has_each_name_once() -> None:
    names = stated()
    assert sorted(set(names)) == sorted(names)
    assert all(f"hba.{name}" in names for name in hba.__all__ if name != "__version__")
