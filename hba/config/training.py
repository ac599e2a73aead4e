"""Settings of trainings: those that searches and evaluations share, and those of every
search.
"""

import dataclasses
import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import pydantic
from pydantic import AfterValidator, BeforeValidator, Field

from hba.data.arrays import DATASET_NAMES, NATIVE_IMAGE_SIZES
from hba.data.config import DataConfig, Seed, Size
from hba.data.images import Colors
from hba.errors import SettingsError
from hba.hypernet.sharing import SHARING
from hba.models import Start, find_model
from hba.models.timm_networks import (
    ALL_BUT_HEAD,
    AND_STATISTICS,
    LITE,
    NOTHING,
    PREFIX,
    TIMM,
    timm_config,
)
from hba.models.unet import UNET, encoder_of
from hba.preprocessing import (
    BASELINES,
    PHOTOGRAPHS,
    PHOTOGRAPHS_SIDE,
    STORED_PER_SIDE,
    Baseline,
)
from hba.regularization.groups import AUGMENTATION, check_tune
from hba.tasks import ImageTask
from hba.utils.devices import check_device_name
from hba.utils.settings import DefaultText, color, pairs, words
from hba.utils.text import unknown

SGD: Literal["sgd"] = "sgd"
SGDS = (SGD, "sgd-classical")
"""Optimizers that share learning rate and weight decay."""
PLATEAU: Literal["plateau"] = "plateau"
"""The learning rate schedule that needs the validation loss of every epoch."""
LEAST_EPOCHS = 30
"""Trainings from random weights with fewer epochs favor little augmentation."""
_WITH_ADAMW: Mapping[str, float] = {"learning_rate": 0.001, "weight_decay": 0.05}
OF_OPTIMIZER = tuple(_WITH_ADAMW)
"""Settings whose values suit one kind of optimizer only."""
OFF = DefaultText("by dataset, off for a folder")
ZERO = DefaultText("by dataset, 0 (off) for a folder")


def source_of_weights(source: Any) -> Any:
    """Normalize the setting `pretrained`: True means timm, False means none; files
    become absolute paths.
    """
    if isinstance(source, bool):
        source = TIMM if source else None
    if source in (None, "none", TIMM):
        return None if source == "none" else source
    return str(Path(source).resolve()) if isinstance(source, str | Path) else source


def _one_of(category: str, names: Collection[str]) -> AfterValidator:
    def check(name: str) -> str:
        if name not in names:
            raise SettingsError(unknown(category, name, names))
        return name

    return AfterValidator(check)


Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
NotNegative = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, le=1)]
Decay = Annotated[float, Field(ge=0, lt=1)]
Pixels = Annotated[int, Field(ge=0)]
Words = Annotated[tuple[str, ...], BeforeValidator(words)]
Color = Annotated[tuple[float, ...], BeforeValidator(color)]
DeviceName = Annotated[str, AfterValidator(check_device_name)]
_PART = f"({NOTHING}|{ALL_BUT_HEAD}|[1-9][0-9]*)({re.escape(AND_STATISTICS)})?"
FrozenPart = Annotated[str, BeforeValidator(str), Field(pattern=f"^{_PART}$")]
Sharing = Annotated[str, _one_of("sharing", SHARING)]
DatasetName = Annotated[str, _one_of("dataset", DATASET_NAMES)]
Finite = Annotated[float, Field(allow_inf_nan=False)]
Starts = Annotated[dict[str, Finite], BeforeValidator(pairs)]
Ranges = Annotated[
    dict[str, tuple[Finite, Finite]],
    BeforeValidator(lambda ranges: pairs(ranges, "NAME=FIRST:LAST")),
]


class TrainingConfig(DataConfig):
    """Settings that searches and evaluations share."""

    model: str = "wrn-16-2"
    """Network, as `hba models` lists them: wrn-<depth>-<width>, efficientnet-lite0,
    ..., timm:<name>; for masks unet:efficientnet-lite0 or unet:timm:<name>.
    """
    pretrained: Annotated[
        str | None,
        BeforeValidator(source_of_weights),
        DefaultText("none, random weights"),
    ] = None
    """Initial weights of efficientnet-lite0 or a timm network: a FILE with a state
    dict, timm (or no value) for the installed weights of the former and those that timm
    downloads, none for random ones. A head for another number of classes is replaced.
    """
    freeze: FrozenPart = NOTHING
    """Pretrained layers that are not trained, with their BatchNorm statistics: none,
    all-but-head, or a number N for timm's first N groups of layers (of a ResNet: the
    stem, layer1, ...); +statistics, as in 3+statistics, also keeps the statistics of
    all others.
    """
    standardize_by: Annotated[
        Literal["images", "network"] | None,
        DefaultText("network with pretrained weights, else images"),
    ] = None
    """Mean and standard deviation for standardizing images: those of the training
    images, or those that timm lists for the network's pretrained weights.
    """
    epochs: Size = 200
    """Passes over the training images."""
    batch_size: Annotated[int, Field(ge=2)] = 128
    """Images per step. BatchNorm needs at least 2."""
    optimizer: Literal["sgd", "sgd-classical", "adamw"] = SGD
    """sgd with Nesterov momentum 0.9, sgd-classical with momentum 0.9 as in STN, or
    adamw.
    """
    learning_rate: Positive = 0.05
    """Initial learning rate of the weights, after the warm-up; 0.001 by default with
    adamw.
    """
    learning_rate_schedule: Literal[
        "cosine", "step", "step-fifth", "constant", "plateau"
    ] = "cosine"
    """cosine decays to 0. step multiplies by 0.1 after 1/3, 2/3 and 8/9 of the
    training, step-fifth by 0.2 after 3/10, 6/10 and 9/10. plateau, for searches only,
    multiplies by 0.1 when the validation loss no longer falls. constant never changes.
    """
    learning_rate_warm_up_epochs: Annotated[int, Field(ge=0)] = 0
    """Epochs of linear warm-up of the learning rate, before its schedule."""
    weight_decay: NotNegative = 0.005
    """Weight decay of all weights; 0.05 by default with adamw."""
    baseline: Annotated[
        Literal["auto", "none"] | None, DefaultText("the dataset's, none for a folder")
    ] = None
    """Baseline augmentation: auto (the dataset's; flip and crop for a folder of
    photographs) or none. The settings flip, crop_padding, ... override its parts.
    """
    baseline_like: Annotated[DatasetName | None, DefaultText("the data's own")] = None
    """Dataset whose baseline augmentation is used, for a folder of similar images."""
    flip: Annotated[bool | None, OFF] = None
    """Flip images horizontally at random."""
    crop_padding: Annotated[Pixels | None, ZERO] = None
    """Pixels of padding before a random crop."""
    cutout_size: Annotated[Pixels | None, ZERO] = None
    """Side in pixels of the baseline's Cutout."""
    random_resized_crop: Annotated[bool | None, OFF] = None
    """Crop boxes of random size and aspect ratio, from images that are stored 8/7 as
    large as the network's input.
    """
    color_jitter: Annotated[Annotated[float, Field(ge=0, le=1)] | None, ZERO] = None
    """Largest random change of brightness, contrast and saturation."""
    pca_jitter: Annotated[NotNegative | None, ZERO] = None
    """Standard deviation of random noise along the principal components of color."""
    fast: bool = False
    """Train in bfloat16 with channels last and a fused optimizer: faster on hardware
    with bfloat16 instructions, with different results. Rewards and measurements stay in
    single precision.
    """
    graph: Annotated[
        bool | None, DefaultText("from PyTorch 2.13 on, without code of your own")
    ] = None
    """On a GPU, run steps as CUDA graphs, which the host launches at once, after a
    check that they do the same.
    """
    device: DeviceName = "auto"
    """cpu, cuda, cuda:1, ..., mps (experimental), or auto: a CUDA GPU if there is one.
    """

    def baseline_augmentation(self) -> Baseline:
        """The dataset's baseline augmentation, overridden by the settings here."""
        dataset = self.baseline_like or self.data
        if self.baseline == "none":
            baseline = Baseline()
        elif self.baseline == "auto" and dataset not in DATASET_NAMES:
            baseline = PHOTOGRAPHS.scaled(self.side / PHOTOGRAPHS_SIDE)
        else:
            baseline = BASELINES.get(dataset, Baseline()).scaled(
                self.side / NATIVE_IMAGE_SIZES.get(dataset, self.side)
            )
        set_here = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(Baseline)
        }
        return dataclasses.replace(
            baseline,
            **{name: value for name, value in set_here.items() if value is not None},
        )

    def baseline_note(self) -> str | None:
        """A note if your own data have no baseline augmentation, unless baseline is
        none; else None.
        """
        if (
            self.data in DATASET_NAMES
            or self.baseline == "none"
            or self.baseline_augmentation() != Baseline()
        ):
            return None
        return (
            "Baseline augmentation: none, which is easy to beat; for photographs,"
            " --baseline auto adds flip and crop"
        )

    def check_task(self, task: ImageTask, *, has_own_network: bool) -> None:
        """Check that network and baseline augmentation suit the labels.

        Args:
            task: The task of the labels.
            has_own_network: Whether the user's own network replaces `model`.

        Raises:
            SettingsError: If they do not.
        """
        is_unet = self.model.startswith(UNET)
        if is_unet != task.has_masks and not has_own_network:
            kind = "of its own for each pixel" if is_unet else "for a whole image"
            remedy = f"{UNET}NAME is for masks, any other for classes of images"
            raise SettingsError(
                f"the model {self.model} has an answer {kind}, and the labels are those"
                f" of {task.name}; choose another model: {remedy}"
            )
        baseline = self.baseline_augmentation()
        moves = baseline.flip, baseline.crop_padding, baseline.random_resized_crop
        if task.has_masks and any(moves):
            raise SettingsError(
                "a baseline augmentation with flips or crops does not move masks; give"
                " baseline none, and let the policy flip and crop"
            )

    def network_start(self) -> Start | None:
        """The pretrained weights, read now, because a file may change; None for random
        weights.
        """
        return (
            None
            if self.pretrained is None
            else Start.of(encoder_of(self.model), self.pretrained, self.freeze)
        )

    def colors_of_network(self) -> tuple[Colors, Colors] | None:
        """Mean and standard deviation for standardization; None for those of the
        training images.
        """
        if self.pretrained is None or self.standardize_by == "images":
            return None
        network_config = timm_config(encoder_of(self.model))
        return tuple(network_config.mean), tuple(network_config.std)

    @pydantic.model_validator(mode="before")
    @classmethod
    def _go_with_optimizer(cls, settings: Any) -> Any:
        """Set the defaults of AdamW. The defaults of the fields are those of SGD."""
        return (
            {**_WITH_ADAMW, **settings}
            if isinstance(settings, dict) and settings.get("optimizer") == "adamw"
            else settings
        )

    @pydantic.model_validator(mode="after")
    def _check_training(self) -> Self:
        find_model(self.model, may_have_tag=self.pretrained is not None)
        if self.pretrained is None:
            if self.freeze != NOTHING or self.standardize_by == "network":
                idle = "freeze" if self.freeze != NOTHING else "standardize_by network"
                raise SettingsError(
                    f"{idle} has no effect without pretrained weights; give pretrained,"
                    " or omit it"
                )
        elif not encoder_of(self.model).startswith((PREFIX, LITE)):
            raise SettingsError(
                f"pretrained needs the model {LITE}, or {PREFIX}NAME, got"
                f" {self.model!r}"
            )
        if self.learning_rate_warm_up_epochs >= self.epochs:
            got = f"got {self.learning_rate_warm_up_epochs} of {self.epochs}"
            raise SettingsError(
                f"learning_rate_warm_up_epochs must be fewer than all epochs, {got}"
            )
        if self.baseline == "none" and self.baseline_like is not None:
            raise SettingsError(
                f"baseline none and baseline_like {self.baseline_like} exclude each"
                " other; omit one"
            )
        return self

    @property
    def side(self) -> int:
        """Side in pixels of the images: image_size, else that of the pretrained
        weights, else that of the data.
        """
        if self.image_size is None and self.pretrained is not None:
            return timm_config(encoder_of(self.model)).input_size[-1]
        return super().side

    @property
    def stored_size(self) -> int:
        """Side of stored images in pixels: `side`, or more for random resized crops."""
        return (
            round(self.side * STORED_PER_SIDE)
            if self.baseline_augmentation().random_resized_crop
            else self.side
        )


class CommonSearchConfig(TrainingConfig):
    """Settings of a policy search, except those of its algorithm, which are in
    hba/algorithms.
    """

    tune: Annotated[Words, AfterValidator(check_tune)] = (AUGMENTATION,)
    """What is tuned, separated by commas: augmentation (the operations of the space)
    and regularizers: dropout (of all nn.Dropout layers), weight-decay, label-smoothing,
    input-dropout.
    """
    space: Annotated[
        str, DefaultText("recipe for the algorithm race, hba for others")
    ] = "hba"
    """Search space: hba (ranges of the paper's Table 9), pba (those of Population Based
    Augmentation), recipe (hba with flips, turns, crops, color, blur, noise, erasing and
    mixing), stn (affine maps, color jitter and erasing of every image, as Self-Tuning
    Networks tune them) or full (all operations).
    """
    operations: Annotated[
        Annotated[Words, Field(min_length=1)] | None, DefaultText("all")
    ] = None
    """Operations to search over, separated by commas; `all` means all of the space,
    -NAME leaves one out.
    """
    ranges: Annotated[Ranges | None, DefaultText("the space's")] = None
    """First and last magnitude of the range in which an operation is searched:
    Rotate=0:15, separated by commas.
    """
    start: Annotated[Starts | None, DefaultText("set by init")] = None
    """Initial probability or magnitude of operations, instead of the one set by init:
    HorizontalFlip=0.5 or Rotate.magnitude=10, separated by commas.
    """
    interpolation: Literal["nearest", "bilinear"] = "nearest"
    """Interpolation of shears, translations and rotations: nearest or bilinear."""
    fill: Annotated[Color | None, DefaultText("the mean of the training images")] = None
    """Color of areas that shears, translations, rotations and Cutout uncover: a number
    in [0, 1] for all channels, or one for each, separated by commas.
    """
    plateau_epochs: Size = 60
    """Epochs without a lower validation loss after which the learning rate schedule
    plateau multiplies by 0.1.
    """
    validate_every: Size = 10
    """Epochs between two measurements on the whole validation set; 1 with the learning
    rate schedule plateau.
    """
    seed: Seed = 0
    """Seed of weights, batches and draws."""

    @pydantic.model_validator(mode="after")
    def _check_search(self) -> Self:
        if not self.tunes_operations and (self.start or self.ranges):
            idle = "start" if self.start else "ranges"
            raise SettingsError(
                f"{idle} has no effect if no operations are tuned; omit it"
            )
        has_default = (
            self.plateau_epochs == type(self).model_fields["plateau_epochs"].default
        )
        if self.learning_rate_schedule != PLATEAU and not has_default:
            raise SettingsError(
                f"plateau_epochs needs learning_rate_schedule {PLATEAU}; set both, or"
                " neither"
            )
        return self

    @property
    def measured_every(self) -> int:
        """Epochs between two measurements on the whole validation set; plateau needs
        one in every epoch.
        """
        return 1 if self.learning_rate_schedule == PLATEAU else self.validate_every

    @property
    def tunes_operations(self) -> bool:
        return AUGMENTATION in self.tune

    def resolved(self) -> Self:
        """The same settings with explicit image size, standardization and baseline."""
        baseline = self.baseline_augmentation()
        by = "network" if self.colors_of_network() is not None else self.standardize_by
        return self.model_copy(
            update={
                "image_size": self.side,
                "standardize_by": by,
                **dataclasses.asdict(baseline),
            }
        )
