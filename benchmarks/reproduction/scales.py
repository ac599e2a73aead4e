"""Scales at which the tables can be run: the paper's, and those for two CPU cores."""

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from reproduction.runs import Search, Training

ABLATION_SIZES = (30_000, 10_000, 10_000)
"""Training, validation and held-out images of the paper's ablation study (4.1)."""


@dataclass(frozen=True)
class Scale:
    """The differences from the paper, which docs/reproduction.md explains.

    A value of None is no difference.
    """

    name: str
    seeds: int
    models: Mapping[str, str] | None = None
    """The network that replaces each network; other networks are not run."""
    search_sizes: Mapping[str, Sequence[int]] | None = None
    """Training and validation images by preset."""
    ablation_sizes: Sequence[int] = ABLATION_SIZES
    whole_size: int | None = None
    """Images that replace the whole training set."""
    batch_size: int | None = None
    search_epochs: Mapping[str, int] = field(default_factory=dict)
    """Epochs of searches by preset; `by_algorithm` overrides them."""
    training_epochs: int | None = None
    """Epochs of trainings."""
    by_algorithm: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Settings that override the epochs of searches, because an epoch does not cost the
    same in all algorithms.
    """
    ablation: Mapping[str, float] = field(default_factory=dict)
    """Further settings for searches of the ablation."""
    target: Mapping[str, float] = field(default_factory=dict)
    """Further settings for searches of target tasks. In the paper, lambda moves about
    as far in searches on target tasks (lambda steps times alpha' is 94) as in the
    reduced one (93), and has to at any other scale.
    """
    common: Mapping[str, Any] = field(default_factory=dict)

    def settings(self, run: Search | Training) -> dict[str, Any] | None:
        """Settings that override the run's preset, without sizes on the ablation's
        split; None if it is not run.
        """
        preset = run.preset_settings
        changes = dict(run.changes)
        model = changes.get("model", preset["model"])
        if self.models is not None and model not in self.models:
            return None
        epochs = preset["epochs"]
        if isinstance(run, Search):
            algorithm_settings = self.by_algorithm.get(changes.get("algorithm", ""), {})
            if self.search_sizes is not None and run.preset not in self.search_sizes:
                return None
            sizes = {} if run.ablation else self._sizes(run.preset)
            split_settings = (
                self.ablation
                if run.ablation
                else {}
                if run.preset.startswith("reduced")
                else self.target
            )
            run_sizes = {
                "epochs": self.search_epochs.get(run.preset, epochs),
                **sizes,
                **algorithm_settings,
                **split_settings,
            }
        else:
            run_sizes = {"epochs": self.training_epochs or epochs}
            if self.whole_size is not None and not run.ablation:
                run_sizes["train_size"] = self.whole_size
        if self.batch_size is not None:
            run_sizes.setdefault("batch_size", self.batch_size)
        model = model if self.models is None else self.models[model]
        return {**run_sizes, **self.common, **changes, "model": model}

    def _sizes(self, preset: str) -> dict[str, int]:
        if self.search_sizes is None:
            return {}
        train_size, val_size = self.search_sizes[preset]
        return {"train_size": train_size, "val_size": val_size}


SCALES: Mapping[str, Scale] = MappingProxyType(
    {
        name: Scale(name, **values)
        for name, values in tomllib.loads(
            Path(__file__).with_name("scales.toml").read_text(encoding="utf-8")
        ).items()
    }
)
