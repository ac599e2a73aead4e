"""The benchmarks' folder, and its modules for tests with the fixture `benchmarks_can_be_imported`."""

import importlib
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


def module(name: str) -> Any:
    return importlib.import_module(name)
