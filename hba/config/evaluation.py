"""Settings of a policy evaluation."""

from collections.abc import Mapping
from typing import Any

from hba.config.inheritance import Layers
from hba.config.training import TrainingConfig
from hba.data.config import Size


class EvaluationConfig(TrainingConfig):
    """A policy evaluation. It trains on all images that are not test, or on train_size of them."""

    seeds: Size = 3
    """Trainings per schedule, with seeds from 0."""

    @classmethod
    def like_search(
        cls, searched: Mapping[str, Any], settings: Mapping[str, Any], preset: str | None = None
    ) -> "EvaluationConfig":
        """The settings of the search that made a schedule, as far as they apply, under those given here.

        Between the two stands the preset, or without one, on a dataset of the paper, its Table 11. On other data than
        the search's, what belongs to the searched images (their size and split, the baseline) is left at its default.
        """
        layers = Layers.of(searched, settings, preset)
        return cls.make({**layers.inherited, **layers.preset, "data": layers.data, **layers.given})

    @classmethod
    def inherited(
        cls, searched: Mapping[str, Any], settings: Mapping[str, Any], preset: str | None = None
    ) -> dict[str, Any]:
        """What like_search takes from a search on other data: settings that are not at their default, and parts of the
        baseline that are not off.
        """
        layers = Layers.of(searched, settings, preset)
        if layers.data == searched.get("data"):
            return {}
        replaced = {**layers.preset, **layers.given}
        return {
            name: value
            for name, value in layers.inherited.items()
            if name not in replaced and value != (default := cls.model_fields[name].default) and (value or default)
        }
