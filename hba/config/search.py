"""Settings that every policy search reads, whatever its algorithm."""

import dataclasses
from typing import Annotated, Literal, Self

import pydantic
from pydantic import BeforeValidator, Field

from hba.config.fields import Color
from hba.config.training import TrainingConfig
from hba.data.config import Seed, Size
from hba.policy.space import SearchSpace
from hba.policy.spaces import search_space
from hba.runtime.default_text import DefaultText
from hba.runtime.validation import words


class CommonSearchConfig(TrainingConfig):
    """A policy search without its algorithm, which has settings of its own (hba/algorithms)."""

    space: str = "hba"
    """Search space: hba (ranges of the paper's Table 9) or pba (those of Population Based Augmentation)."""
    operations: Annotated[
        Annotated[tuple[str, ...], BeforeValidator(words), Field(min_length=1)] | None, DefaultText("all")
    ] = None
    """Operations to search over, separated by commas, where `all` stands for all of the space."""
    interpolation: Literal["nearest", "bilinear"] = "nearest"
    """How shears, translations and rotations find pixels between pixels: nearest or bilinear."""
    fill: Annotated[Color | None, DefaultText("the mean of the training images")] = None
    """Colour of what shears, translations, rotations and Cutout uncover: a number in [0, 1] for all channels, or
    one for each, separated by commas."""
    validate_every: Size = 10
    """Epochs between two measurements on the whole validation set."""
    seed: Seed = 0
    """Decides weights, batches and draws."""

    @pydantic.model_validator(mode="after")
    def _check_space(self) -> Self:
        self.search_space()
        return self

    def search_space(self) -> SearchSpace:
        """The space that these settings name."""
        return search_space(self.space, self.operations, self.interpolation)

    def resolved(self) -> Self:
        """The same settings with the image size, standardisation and baseline that they stand for written out."""
        baseline = self.baseline_augmentation()
        by = "network" if self.colors_of_network() is not None else self.standardize_by
        return self.model_copy(update={"image_size": self.side, "standardize_by": by, **dataclasses.asdict(baseline)})
