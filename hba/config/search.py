"""Settings that every policy search reads, whatever its algorithm."""

import dataclasses
from typing import Annotated, Literal, Self

import pydantic
from pydantic import AfterValidator, BeforeValidator, Field

from hba.config.fields import Color
from hba.config.training import PLATEAU, TrainingConfig
from hba.data.config import Seed, Size
from hba.errors import SettingsError
from hba.policy.space import SearchSpace
from hba.policy.spaces import search_space
from hba.regularization.groups import AUGMENTATION, check_tune
from hba.regularization.hyperparameter import Hyperparameter
from hba.utils.settings import DefaultText, words


class CommonSearchConfig(TrainingConfig):
    """A policy search without its algorithm, which has settings of its own (hba/algorithms)."""

    tune: Annotated[tuple[str, ...], BeforeValidator(words), AfterValidator(check_tune)] = (AUGMENTATION,)
    """What the search moves, separated by commas: augmentation, which is the operations of the space, and regularizers:
    dropout (of every nn.Dropout of the network), weight-decay, label-smoothing, input-dropout, input-noise, cutout,
    jitter, affine."""
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
    plateau_epochs: Size = 60
    """Epochs without a lower validation loss after which the learning rate schedule plateau takes a tenth."""
    validate_every: Size = 10
    """Epochs between two measurements on the whole validation set; 1 with the learning rate schedule plateau."""
    seed: Seed = 0
    """Decides weights, batches and draws."""

    @pydantic.model_validator(mode="after")
    def _check_space(self) -> Self:
        self.search_space()
        return self

    @pydantic.model_validator(mode="after")
    def _check_plateau(self) -> Self:
        has_default = self.plateau_epochs == type(self).model_fields["plateau_epochs"].default
        if self.learning_rate_schedule != PLATEAU and not has_default:
            raise SettingsError(
                f"plateau_epochs has no effect where learning_rate_schedule is {self.learning_rate_schedule}; set it "
                f"to {PLATEAU}, or omit plateau_epochs"
            )
        return self

    @property
    def measured_every(self) -> int:
        """Epochs between two measurements on the whole validation set, as they come: plateau needs each of them."""
        return 1 if self.learning_rate_schedule == PLATEAU else self.validate_every

    @property
    def tunes_operations(self) -> bool:
        return AUGMENTATION in self.tune

    def search_space(self, regularizers: tuple[Hyperparameter, ...] = ()) -> SearchSpace:
        """The space that these settings name. regularizers: what is tuned beside the operations."""
        return search_space(self.space, self.operations, self.interpolation, regularizers=regularizers)

    def resolved(self) -> Self:
        """The same settings with the image size, standardisation and baseline that they stand for written out."""
        baseline = self.baseline_augmentation()
        by = "network" if self.colors_of_network() is not None else self.standardize_by
        return self.model_copy(update={"image_size": self.side, "standardize_by": by, **dataclasses.asdict(baseline)})
