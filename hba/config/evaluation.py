"""Settings of a policy evaluation."""

from collections.abc import Mapping
from typing import Annotated, Any, Self

import pydantic

from hba.config.fields import NotNegative
from hba.config.inheritance import OF_SEARCH, OF_SEARCHED_IMAGES, Sourced, layers_of, merged
from hba.config.training import PLATEAU, TrainingConfig
from hba.data.config import LAST_SEED, Seed, Size
from hba.errors import SettingsError
from hba.utils.settings import DefaultText


class EvaluationConfig(TrainingConfig):
    """A policy evaluation. It trains on all images that are not test, or on train_size of them."""

    seeds: Size = 3
    """Trainings per schedule, each with a seed of its own."""
    first_seed: Seed = 0
    """Seed of the first training; the others follow. An evaluation anew needs seeds whose errors nobody has seen."""
    spread: Annotated[NotNegative | None, DefaultText("each schedule's own")] = None
    """Standard deviation in logits by which images differ from a schedule's rows; 0 for the bare rows. Of magnitudes
    and probabilities, or of magnitudes alone where a schedule spreads only these."""

    @pydantic.model_validator(mode="after")
    def _check_schedule(self) -> Self:
        if self.learning_rate_schedule == PLATEAU:
            raise SettingsError(
                f"learning_rate_schedule {PLATEAU} goes by validation images, which an evaluation has not; give "
                "another, such as cosine, step or constant"
            )
        return self

    @pydantic.model_validator(mode="after")
    def _check_last_seed(self) -> Self:
        if (last := self.training_seeds[-1]) > LAST_SEED:
            raise SettingsError(
                f"the last seed must be at most {LAST_SEED}, got {last}; lower first_seed, or give fewer seeds"
            )
        return self

    @property
    def training_seeds(self) -> range:
        """One for each training of a row."""
        return range(self.first_seed, self.first_seed + self.seeds)

    @classmethod
    def like_search(
        cls,
        searched: Mapping[str, Any],
        settings: Mapping[str, Any],
        preset: str | None = None,
        *,
        has_own_network: bool = False,
    ) -> "EvaluationConfig":
        """The settings of the search that made a schedule, as far as they apply, under those given here.

        Between the two stands the preset, or without one, on a dataset of the paper, its Table 11. On other data than
        the search's, what belongs to the searched images (their size and split, the baseline) is left at its default.
        has_own_network: the evaluation is given a network, so the setting `model` is not needed.
        """
        sourced = cls.sourced(searched, settings, preset, has_own_network=has_own_network)
        return cls.make({name: setting.value for name, setting in sourced.items()})

    @classmethod
    def sourced(
        cls,
        searched: Mapping[str, Any],
        settings: Mapping[str, Any],
        preset: str | None = None,
        *,
        has_own_network: bool = False,
    ) -> Mapping[str, Sourced]:
        """Each setting of like_search, before it is checked, with the layer that it comes from."""
        defaults = {name: field.default for name, field in cls.model_fields.items()}
        return merged(layers_of(defaults, searched, settings, preset, has_own_network=has_own_network))

    @classmethod
    def inherited(cls, searched: Mapping[str, Any], sourced: Mapping[str, Sourced]) -> dict[str, Any]:
        """What comes from a search on other data: settings that are not at their default, and parts of the baseline
        that are not off.
        """
        if sourced["data"].value == searched.get("data"):
            return {}
        return {
            name: value
            for name, (value, layer) in sourced.items()
            if layer in (OF_SEARCH, OF_SEARCHED_IMAGES)
            and value != (default := cls.model_fields[name].default)
            and (value or default)
        }
