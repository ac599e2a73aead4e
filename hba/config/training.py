"""Settings of any training, which search and evaluation share."""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

import pydantic
from pydantic import BeforeValidator, Field

from hba.config.fields import (
    DatasetName,
    DeviceName,
    ModelName,
    NotNegative,
    Positive,
    frozen_part,
    source_of_weights,
)
from hba.data.builtin import DATASET_NAMES, NATIVE_IMAGE_SIZES
from hba.data.config import DataConfig, Size
from hba.data.images import Colors
from hba.errors import SettingsError
from hba.models import Pretrained, Start, find_model
from hba.models.freezing import NOTHING
from hba.models.timm_networks import PREFIX, timm_facts
from hba.preprocessing.baseline import BASELINES, PHOTOGRAPHS, PHOTOGRAPHS_SIDE, Baseline
from hba.preprocessing.resized_crop import stored_side
from hba.utils.settings import DefaultText

Pixels = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
OFF, ZERO = DefaultText("by dataset, off for a folder"), DefaultText("by dataset, 0 (off) for a folder")


SGD: Literal["sgd"] = "sgd"
SGD_CLASSICAL: Literal["sgd-classical"] = "sgd-classical"
SGDS = (SGD, SGD_CLASSICAL)
"""What steps along plain gradients: learning rate and weight decay of one suit the other."""
PLATEAU: Literal["plateau"] = "plateau"
"""The learning rate schedule that needs the validation loss of every epoch."""
_WITH_ADAMW: Mapping[str, float] = MappingProxyType({"learning_rate": 0.001, "weight_decay": 0.05})
OF_OPTIMIZER = tuple(_WITH_ADAMW)
"""Settings whose values suit one optimizer and spoil a training by the other."""


def defaults_with(optimizer: object) -> Mapping[str, float]:
    """Other defaults than the fields', which are SGD's."""
    return _WITH_ADAMW if optimizer == "adamw" else {}


class TrainingConfig(DataConfig):
    """What search and evaluation share."""

    model: ModelName = "wrn-16-2"
    """Network, as `hba models` lists them: wrn-<depth>-<width>, resnet-18, ..., timm:<name>."""
    pretrained: Annotated[str | None, BeforeValidator(source_of_weights), DefaultText("none, fresh weights")] = None
    """Weights to start from, of a network of timm: a FILE with a state dict, timm for those that timm downloads (also
    where FILE is omitted), none for fresh ones. A head for another number of classes is replaced."""
    freeze: Annotated[str, BeforeValidator(frozen_part)] = NOTHING
    """Pretrained layers that training leaves as they are, with their BatchNorm statistics: none, all-but-head, or a
    number N for timm's first N groups of layers (of a ResNet: the stem, layer1, ...)."""
    standardize_by: Annotated[
        Literal["images", "network"] | None, DefaultText("network with pretrained weights, else images")
    ] = None
    """What images are standardised by: mean and deviation of the training images, or those of the network's pretrained
    weights, which timm knows."""
    epochs: Size = 200
    """Passes over the training images."""
    batch_size: Annotated[int, Field(ge=2)] = 128
    """Images per step. BatchNorm needs 2."""
    optimizer: Literal["sgd", "sgd-classical", "adamw"] = SGD
    """sgd with Nesterov momentum 0.9, sgd-classical with momentum 0.9 as in STN, or adamw."""
    learning_rate: Positive = 0.05
    """Initial learning rate of the weights, behind the warm-up; with adamw, 0.001 unless it is given."""
    learning_rate_schedule: Literal["cosine", "step", "step-fifth", "constant", "plateau"] = "cosine"
    """cosine decays to 0 by a cosine. step takes a tenth after 1/3, 2/3 and 8/9 of the training, step-fifth a fifth
    after 3/10, 6/10 and 9/10. constant stays. plateau, for searches alone, takes a tenth when the validation loss no
    longer falls."""
    learning_rate_warm_up_epochs: Annotated[int, Field(ge=0)] = 0
    """Epochs in which the learning rate first rises, step by step; its schedule takes the others."""
    weight_decay: NotNegative = 0.005
    """Weight decay of all weights; with adamw, 0.05 unless it is given."""
    baseline: Annotated[Literal["auto", "none"] | None, DefaultText("the dataset's, none for a folder")] = None
    """Baseline augmentation: auto (the dataset's; flip and crop for a folder, as suits photographs) or none at all. The
    settings below replace its parts."""
    baseline_like: Annotated[DatasetName | None, DefaultText("the data's own")] = None
    """Dataset whose baseline augmentation is used, for a folder of images of its kind."""
    flip: Annotated[bool | None, OFF] = None
    """Flip images horizontally at random."""
    crop_padding: Annotated[Pixels | None, ZERO] = None
    """Pixels of padding before a random crop."""
    cutout_size: Annotated[Pixels | None, ZERO] = None
    """Side in pixels of the baseline's Cutout."""
    random_resized_crop: Annotated[bool | None, OFF] = None
    """Cut out boxes of random size and shape, of images that are stored 8/7 as large as the network takes them."""
    color_jitter: Annotated[Share | None, ZERO] = None
    """Largest random change of brightness, contrast and saturation."""
    pca_jitter: Annotated[NotNegative | None, ZERO] = None
    """Standard deviation of random noise along the principal components of colour."""
    fast: bool = False
    """Train the network in bfloat16 with channels last, which is faster where the hardware has instructions for it, and
    step through all weights at once; finds other numbers. Rewards, and what is measured, stay in single precision."""
    device: DeviceName = "auto"
    """cpu, cuda, cuda:1, ..., or auto, which takes a GPU where there is one."""

    def baseline_augmentation(self) -> Baseline:
        """The dataset's baseline augmentation, with what is set here in its place."""
        dataset = self.baseline_like or self.data
        if self.baseline == "none":
            own = Baseline()
        elif self.baseline == "auto" and dataset not in DATASET_NAMES:
            own = PHOTOGRAPHS.scaled(self.side / PHOTOGRAPHS_SIDE)
        else:
            own = BASELINES.get(dataset, Baseline()).scaled(self.side / NATIVE_IMAGE_SIZES.get(dataset, self.side))
        set_here = {field.name: getattr(self, field.name) for field in dataclasses.fields(Baseline)}
        return dataclasses.replace(own, **{name: value for name, value in set_here.items() if value is not None})

    def baseline_note(self) -> str | None:
        """What to know of data of one's own that train without even a flip, unless this was asked for; else None."""
        if self.data in DATASET_NAMES or self.baseline == "none" or self.baseline_augmentation() != Baseline():
            return None
        return (
            "Baseline augmentation: none, as for any data of your own, so a training without a policy has not even a "
            "flip, which is easy to beat; for photographs, --baseline auto adds flip and crop (--baseline none omits "
            "this line)"
        )

    def network_start(self) -> Start | None:
        """What the model begins with, as it is now; None for fresh weights. It is read here: a file may change."""
        return None if self.pretrained is None else Start(Pretrained.of(self.model, self.pretrained), self.freeze)

    def colors_of_network(self) -> tuple[Colors, Colors] | None:
        """Mean and standard deviation to standardise by; None for those of the training images."""
        if self.pretrained is None or self.standardize_by == "images":
            return None
        facts = timm_facts(self.model)
        return facts.mean, facts.std

    @pydantic.model_validator(mode="before")
    @classmethod
    def _go_with_optimizer(cls, given: Any) -> Any:
        return {**defaults_with(given.get("optimizer")), **given} if isinstance(given, dict) else given

    @pydantic.model_validator(mode="after")
    def _check_pretrained(self) -> Self:
        if self.pretrained is None:
            find_model(self.model)
            if self.freeze != NOTHING or self.standardize_by == "network":
                idle = "freeze" if self.freeze != NOTHING else "standardize_by network"
                raise SettingsError(f"{idle} has no effect on fresh weights; give pretrained ones, or omit it")
        elif not self.model.startswith(PREFIX):
            raise SettingsError(
                f"pretrained has no effect on the model {self.model!r}, only on timm's, as in {PREFIX}resnet18; in "
                "Python, a network of your own may bring its weights"
            )
        if self.learning_rate_warm_up_epochs >= self.epochs:
            raise SettingsError(
                "learning_rate_warm_up_epochs must be fewer than all epochs, "
                f"got {self.learning_rate_warm_up_epochs} of {self.epochs} epochs"
            )
        return self

    @pydantic.model_validator(mode="after")
    def _check_baseline(self) -> Self:
        if self.baseline == "none" and self.baseline_like is not None:
            raise SettingsError(
                f"baseline none and baseline_like {self.baseline_like} contradict each other; omit one of them"
            )
        return self

    @property
    def side(self) -> int:
        """As for any data, but where nothing is given, pretrained weights have the size that they were trained with."""
        if self.image_size is None and self.pretrained is not None:
            return timm_facts(self.model).image_size
        return super().side

    @property
    def stored_size(self) -> int:
        """As large as the network takes images, but larger where a random resized crop cuts out parts of them."""
        return stored_side(self.side) if self.baseline_augmentation().random_resized_crop else self.side
