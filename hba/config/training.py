"""Settings of any training, which search and evaluation share."""

import dataclasses
from typing import Annotated, Literal, Self

import pydantic
from pydantic import Field

from hba.config.fields import DatasetName, DeviceName, ModelName, NotNegative, Positive
from hba.data.config import DataConfig, Size
from hba.data.named import DATASET_NAMES, NATIVE_IMAGE_SIZES
from hba.errors import SettingsError
from hba.preprocessing.baseline import BASELINES, PHOTOGRAPHS, PHOTOGRAPHS_SIDE, Baseline
from hba.preprocessing.resized_crop import stored_side
from hba.runtime.default_text import DefaultText

Pixels = Annotated[int, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
OFF, ZERO = DefaultText("by dataset, off for a folder"), DefaultText("by dataset, 0 (off) for a folder")


class TrainingConfig(DataConfig):
    """What search and evaluation share."""

    model: ModelName = "wrn-16-2"
    """Network, as `hba models` lists them: wrn-<depth>-<width>, resnet-18, ..., timm:<name>."""
    epochs: Size = 200
    """Passes over the training images."""
    batch_size: Annotated[int, Field(ge=2)] = 128
    """Images per step. BatchNorm needs 2."""
    learning_rate: Positive = 0.05
    """Initial learning rate of the weights."""
    learning_rate_schedule: Literal["cosine", "step"] = "cosine"
    """cosine decays to 0 by a cosine. step takes a tenth after 1/3, 2/3 and 8/9 of the training."""
    weight_decay: NotNegative = 0.005
    """Weight decay of all weights."""
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

    @pydantic.model_validator(mode="after")
    def _check_baseline(self) -> Self:
        if self.baseline == "none" and self.baseline_like is not None:
            raise SettingsError(
                f"baseline none and baseline_like {self.baseline_like} contradict each other; omit one of them"
            )
        return self

    @property
    def stored_size(self) -> int:
        """As large as the network takes images, but larger where a random resized crop cuts out parts of them."""
        return stored_side(self.side) if self.baseline_augmentation().random_resized_crop else self.side
