"""The parts of a table: searches, trainings and timings, each with the name under which
its results are stored.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hba.config.presets import EVALUATION_PRESETS, SEARCH_PRESETS


@dataclass(frozen=True)
class Search:
    """A policy search with one of hba's presets and some changed settings."""

    preset: str
    changes: tuple[tuple[str, Any], ...] = ()
    ablation: bool = False
    """Use the split of the paper's ablation study (4.1) instead of the preset's split.
    """

    @property
    def preset_settings(self) -> Mapping[str, Any]:
        return SEARCH_PRESETS[self.preset]

    @property
    def name(self) -> str:
        return _join(
            "search",
            "ablation" if self.ablation else "",
            self.preset,
            *_words(self.changes),
        )

    @property
    def needs(self) -> tuple["Search", ...]:
        return ()


@dataclass(frozen=True)
class Training:
    """An ordinary training with one of hba's evaluation presets."""

    preset: str
    schedule: Search | None = None
    """The search whose schedule is used; None for no schedule."""
    changes: tuple[tuple[str, Any], ...] = ()
    ablation: bool = False

    @property
    def preset_settings(self) -> Mapping[str, Any]:
        return EVALUATION_PRESETS[self.preset]

    @property
    def name(self) -> str:
        schedule = "none" if self.schedule is None else self.schedule.name
        label = "ablation" if self.ablation else ""
        return _join(
            "train", label, self.preset, *_words(self.changes), "with", schedule
        )

    @property
    def needs(self) -> tuple[Search, ...]:
        """The search whose schedule it uses."""
        return () if self.schedule is None else (self.schedule,)


@dataclass(frozen=True)
class Timing:
    """Seconds per training step of several searches, measured in turns."""

    searches: tuple[Search, ...]
    floor: bool = False
    """Also measure the floor of a search."""

    @property
    def name(self) -> str:
        first, *other_searches = (search.name for search in self.searches)
        return _join(
            "timing",
            first,
            f"and-{len(other_searches)}-others" if other_searches else "",
            "floor" if self.floor else "",
        )

    @property
    def needs(self) -> tuple[Search, ...]:
        """None, because it times steps instead of whole searches."""
        return ()


Asked = Search | Training | Timing


@dataclass(frozen=True)
class Cell:
    """One number of the paper and the run that gives ours."""

    row: str
    column: str
    paper: str
    """The number of the paper, as printed there."""
    asked: Asked
    """The run that gives our number."""
    quantity: str
    """The name of our number in the run's results."""
    digits: int = 2
    """Decimal places of our number."""


@dataclass(frozen=True)
class Table:
    """Cells in the order of the paper's rows."""

    title: str
    cells: tuple[Cell, ...]


def _join(*words: str) -> str:
    return "-".join(word for word in words if word)


def _words(changes: tuple[tuple[str, Any], ...]) -> list[str]:
    return [f"{name}={value}".replace("_", "-") for name, value in changes]
