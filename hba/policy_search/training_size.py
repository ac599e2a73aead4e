"""Chooses network, image size and epochs of a training that takes a given time on this
machine.

For random weights, it times steps on a ladder of networks and sizes, each of which
costs more, and is better with equally many epochs, than the one before. It chooses the
highest one for which enough epochs fit, or that is as fast as the lowest one. On a GPU,
steps of small images take equally long. For pretrained weights, it times steps at
several sizes, and returns those for which a few epochs fit; which one is best is
measured by trainings.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pydantic
import torch
from torch import nn

from hba.config.training import LEAST_EPOCHS, source_of_weights
from hba.data.look import Look
from hba.errors import SettingsError
from hba.models.timm_networks import (
    AND_STATISTICS,
    NOTHING,
    TIMM,
    frozen_in_words,
    layout_of,
    only_side,
    timm_config,
)
from hba.models.unet import UNET, encoder_of
from hba.policy_search.timing import Rung, StepTimer
from hba.utils.text import counted, duration

SMALL = ("wrn-10-1", "wrn-10-2", "wrn-16-2", "wrn-40-2", "wrn-28-10")
"""Networks for images of up to LARGEST_SMALL pixels, from the fastest to the slowest.
"""
LARGE = ("resnet-18", "resnet-50")
"""Networks for larger images, from the fastest to the slowest."""
SIDES = (16, 24, 32, 48, 64, 96, 128, 160, 224)
LARGEST_SMALL = 64
PRETRAINED_SIDES = (48, 64, 96, 128, 160, 192, 224)
"""Sides for pretrained networks."""
SIDES_WITH_MASKS = (*PRETRAINED_SIDES, 256, 320, 384, 512)
"""The same with masks, whose classes may be small parts of an image."""
ENLARGED = 2
"""How many times the side of the images the sides for pretrained networks may have.
Their layers expect large objects, so small images are better enlarged.
"""
FINE_TUNING_BATCH = 32
MASKS_BATCH = 8
"""Images of a step with masks, each of which has many pixels to learn from."""
FINE_TUNING_DECAY = 0.05
GENTLE_RATE = 0.0003
"""Learning rate of AdamW for images like those of the pretrained weights, with the
first layers and all statistics of BatchNorm frozen.
"""
STRONG_RATE = 0.003
"""Learning rate of AdamW for other images, with nothing frozen."""
WITHOUT_BATCH_NORM = 0.2
"""Factor of these rates for networks without BatchNorm, such as vision transformers."""
WARM_UP_EPOCHS = 1
"""Epochs of warm-up, without which gentle trainings may diverge."""
FEWEST_FINE_TUNING = (2, 5)
"""The fewest epochs of fine-tuning, at the smallest side and at all others."""
MOST_FINE_TUNING = 30
"""The most epochs of fine-tuning."""
MOST_WITH_MASKS = 100
"""The same with masks."""
EPOCHS_OF_FINE_PART = 6
"""Epochs of fine-tuning on a part of the images, at the smallest side."""
FROZEN_SHARE = 1 / 3
"""Share of the groups of layers, from the first, that a gentle training freezes."""
MOST_SIDES = 3
"""How many sides to time, at most."""
IMAGES_OF_TRAINING = 90_000
"""Images in a training, over all its epochs, that make a larger network worthwhile."""
ENOUGH_EPOCHS = 100
"""The most epochs that make a larger network worthwhile; LEAST_EPOCHS are the fewest.
"""
MOST_EPOCHS = 200
"""The most epochs of a training."""
FEWEST_EPOCHS = 5
"""If fewer epochs of all images fit, a part of the images is used."""
EPOCHS_OF_PART = 15
"""Epochs of a training on a part of the images."""
FEWEST_IMAGES = 500
"""Fewer images in a part are an error."""
STEPS_PER_EPOCH = 20
BATCH_SIZES = (32, 64, 128)
LEARNING_RATE = 0.1
"""Learning rate for batches of 128; it is proportional to the square root of the batch
size.
"""
WEIGHT_DECAY = 0.0005
AS_FAST = 1.1
"""How many times as long as the shortest a step may always take."""
TOO_LONG = 1.5
"""How many times the time of a training may be exceeded, in proportion to the pixels,
for the next size to be timed.
"""


class EpochBounds(NamedTuple):
    """How many epochs a training may have."""

    fewest: int
    most: int
    of_part: int
    """Epochs on a part of the images."""


@dataclass(frozen=True)
class TrainingRequest:
    """What a training is chosen for."""

    look: Look
    """The images."""
    seconds: float
    """Seconds of one training."""
    budget: float
    """Seconds of the run, which the user gives."""
    device: torch.device
    """The device."""
    n_threads: int
    """Threads of PyTorch for one training."""
    settings: Mapping[str, Any]
    """Given settings by name; only others are chosen."""
    network: nn.Module | None = None
    """The user's own network, whose settings model and image_size are given."""

    @property
    def n_images(self) -> int:
        """Number of images for training and validation."""
        if "train_size" not in self.settings:
            return self.look.n_train
        n_val = self.look.n_val or self.look.n_train // 5
        return min(
            self.look.n_train,
            self.settings["train_size"] + self.settings.get("val_size", n_val),
        )

    def timer(self, batch_size: int) -> StepTimer:
        """Times steps of such a training."""
        return StepTimer(
            len(self.look.class_names),
            batch_size,
            self.device,
            self.n_threads,
            self.settings,
            self.network,
            self.look.task,
            self.look.n_channels,
        )


class TrainingSize(pydantic.BaseModel, frozen=True):
    """A training that takes about a given time."""

    settings: dict[str, Any]
    """The chosen settings, by name."""
    n_images: int
    """Number of images for training and validation."""
    seconds: float
    """Seconds of one training."""
    reasons: tuple[str, ...]
    """One sentence for each choice, with the option that overrides it."""


def training_size(request: TrainingRequest) -> TrainingSize:
    """Choose settings of a training from random weights that takes about a given time.

    If FEWEST_EPOCHS of all images do not fit, it uses a part of them.

    Args:
        request: What the training is chosen for.

    Raises:
        SettingsError: If a part of the images would be smaller than FEWEST_IMAGES.
    """
    settings = request.settings
    n_images = request.n_images
    timer = request.timer(batch_size_for(n_images, settings))
    rungs = ladder(request.look, settings)
    enough = min(
        max(LEAST_EPOCHS, math.ceil(IMAGES_OF_TRAINING / n_images)), ENOUGH_EPOCHS
    )
    needed = settings.get("epochs", enough)
    chosen = rungs[0]
    cost = timer.seconds(rungs[0])
    reason = "the smallest choice"
    free = AS_FAST * cost
    for rung in rungs[1:]:
        try:
            longer = timer.seconds(rung)
        except torch.OutOfMemoryError:
            break
        fits = longer * n_images * needed <= request.seconds
        if not fits and longer > free:
            break
        chosen = rung
        cost = longer
        reason = (
            f"the largest choice for which {needed} epochs fit"
            if fits
            else "as fast as the smallest"
        )
    bounds = EpochBounds(FEWEST_EPOCHS, MOST_EPOCHS, EPOCHS_OF_PART)
    fitted = _fit(request, cost, bounds)
    if isinstance(fitted, float):
        raise too_short(request, fitted)
    return _size(request, timer, chosen, fitted, reason)


def fine_tuning_sizes(
    models: Sequence[str], request: TrainingRequest
) -> list[TrainingSize]:
    """Choose trainings from pretrained weights that take about a given time.

    For each of the models, the largest MOST_SIDES sides at which a few epochs or more
    fit, each as in ways_to_fine_tune. A network that takes only images of its weights'
    size gets these.

    Args:
        models: Names of the networks.
        request: What the trainings are chosen for.

    Raises:
        SettingsError: If none fits.
    """
    has_masks = request.look.task.has_masks
    batch_size = request.settings.get("batch_size") or min(
        MASKS_BATCH if has_masks else FINE_TUNING_BATCH, max(2, request.n_images // 3)
    )
    timer = request.timer(batch_size)
    sizes = list[TrainingSize]()
    attempts = list[_Attempt]()
    for model in models:
        of_model = _attempts(model, request, timer)
        fitting = [attempt.sizes for attempt in of_model if attempt.sizes]
        sizes += [size for of_side in fitting[-MOST_SIDES:] for size in of_side]
        attempts += of_model
    if sizes:
        return sizes
    times = min(attempt.times for attempt in attempts)
    problems = [attempt.problem for attempt in attempts if attempt.problem is not None]
    if times == math.inf:
        if isinstance(problems[-1], SettingsError):
            raise problems[-1]
        raise SettingsError(
            f"a training step needs more memory than {request.device} has; set a"
            " smaller image_size or batch_size"
        )
    raise too_short(request, times)


@dataclass
class _Attempt:
    """The trainings of a pretrained network at one side of images."""

    sizes: list[TrainingSize] = field(default_factory=list)
    """Those that fit."""
    seconds_of_pixel: float = 0.0
    """Seconds of a step per image and pixel; 0 if it was not timed."""
    times: float = math.inf
    """How many times as long the budget has to be for one that does not fit."""
    problem: SettingsError | torch.OutOfMemoryError | None = None
    """Why steps could not be timed."""


def _attempts(model: str, request: TrainingRequest, timer: StepTimer) -> list[_Attempt]:
    """Try the sides of images for a pretrained network, from the smallest on, until the
    trainings take too long.
    """
    settings = request.settings
    known_sides = sides_of(model)
    largest = max(known_sides[0], min(known_sides[-1], ENLARGED * request.look.side))
    sides = (
        [settings["image_size"]]
        if settings.get("image_size")
        else sides_to_try(model, largest)
    )
    attempts = list[_Attempt]()
    seconds_of_pixel = 0.0
    has_fitting = False
    is_refused = False
    for side in sides:
        fewest = FEWEST_FINE_TUNING[1 if has_fitting else 0]
        shortest = seconds_of_pixel * side**2 * request.n_images * fewest
        is_too_long = shortest > TOO_LONG * request.seconds
        if is_too_long and not settings.get("epochs"):
            break
        if has_fitting and side > largest:
            break
        most = most_epochs(model, is_pretrained=True)
        bounds = EpochBounds(fewest, most, EPOCHS_OF_FINE_PART)
        attempt = _attempt(
            Rung(model, side), request, timer, bounds, may_be_part=not has_fitting
        )
        attempts.append(attempt)
        seconds_of_pixel = attempt.seconds_of_pixel or seconds_of_pixel
        has_fitting = has_fitting or bool(attempt.sizes)
        # Some networks take images of one size only.
        is_refused = is_refused or isinstance(attempt.problem, SettingsError)
        if not attempt.sizes and not is_refused:
            break
    return attempts


def _attempt(
    at_side: Rung,
    request: TrainingRequest,
    timer: StepTimer,
    bounds: EpochBounds,
    *,
    may_be_part: bool,
) -> _Attempt:
    """Time the ways to fine-tune a network at one side of images.

    may_be_part: whether a training may use a part of the images.
    """
    settings = request.settings
    source = source_of_weights(settings.get("pretrained")) or TIMM
    attempt = _Attempt()
    for fine_tuning in ways_to_fine_tune(
        at_side.model, timer.batch_size, {**settings, "pretrained": source}
    ):
        rung = at_side._replace(further=fine_tuning)
        try:
            cost = timer.seconds(rung)
        except (torch.OutOfMemoryError, SettingsError) as error:
            attempt.problem = error
            break
        attempt.seconds_of_pixel = cost / rung.side**2
        fitted = _fit(request, cost, bounds)
        if isinstance(fitted, float):
            attempt.times = min(attempt.times, fitted)
        elif may_be_part or not fitted.part:
            attempt.sizes.append(_size(request, timer, rung, fitted, ""))
    return attempt


def most_epochs(model: str, *, is_pretrained: bool) -> int:
    """The most epochs of a training of a network."""
    if not is_pretrained:
        return MOST_EPOCHS
    return MOST_WITH_MASKS if model.startswith(UNET) else MOST_FINE_TUNING


def sides_of(model: str) -> tuple[int, ...]:
    """Sides of images for pretrained networks of this kind."""
    return SIDES_WITH_MASKS if model.startswith(UNET) else PRETRAINED_SIDES


def sides_to_try(model: str, largest: int) -> list[int]:
    """Sides of images for a pretrained network.

    They are sides_of(model) up to the largest, and last that of its weights, for a
    network that takes none of the others; only the latter for a network of one size.

    Args:
        model: Name of the network.
        largest: Largest side in pixels.
    """
    encoder = encoder_of(model)
    own_side = only_side(encoder)
    if own_side is not None:
        return [own_side]
    sides = [side for side in sides_of(model) if side <= largest]
    return [*dict.fromkeys([*sides, int(timm_config(encoder).input_size[-1])])]


def ways_to_fine_tune(
    model: str, batch_size: int, settings: Mapping[str, Any]
) -> list[tuple[tuple[str, Any], ...]]:
    """Settings of a gentle training and of a strong one.

    Given settings replace them, and equal ones are left out.

    Args:
        model: Name of the network.
        batch_size: Images of a step.
        settings: Given settings by name.
    """
    has_batch_norm, n_groups = layout_of(encoder_of(model))
    of_rate = math.sqrt(batch_size / FINE_TUNING_BATCH) * (
        1.0 if has_batch_norm else WITHOUT_BATCH_NORM
    )
    frozen = str(int(FROZEN_SHARE * n_groups) or NOTHING)
    if has_batch_norm:
        frozen += AND_STATISTICS
    choices = []
    for rate, frozen_part in ((GENTLE_RATE, frozen), (STRONG_RATE, NOTHING)):
        values = {
            "pretrained": settings["pretrained"],
            "freeze": frozen_part,
            "optimizer": "adamw",
        }
        if settings.get("optimizer", "adamw") == "adamw":
            values |= {
                "learning_rate": float(f"{rate * of_rate:.2g}"),
                "weight_decay": FINE_TUNING_DECAY,
            }
        replaced = {name: settings[name] for name in values if name in settings}
        choices.append(tuple({**values, **replaced}.items()))
    return [*dict.fromkeys(choices)]


def too_short(request: TrainingRequest, times: float) -> SettingsError:
    """The error for a budget that is too short.

    Args:
        request: What the training is chosen for.
        times: How many times as long the budget has to be.
    """
    enough = duration(math.ceil(times * request.budget))
    return SettingsError(
        f"a budget of {duration(request.budget)} is too short for one training, as fast"
        f" as this machine is now; give about {enough}"
    )


class _Fitted(NamedTuple):
    """Epochs and images of a training."""

    epochs: int
    n_images: int
    part: Mapping[str, int]
    """Settings that select a part of the images; empty for all."""


def _fit(request: TrainingRequest, cost: float, bounds: EpochBounds) -> _Fitted | float:
    """Epochs of all images, or of a part of them, that take the requested time.

    Args:
        request: What the training is chosen for.
        cost: Seconds per image.
        bounds: Fewest and most epochs, and those of a part.

    Returns:
        Epochs and images; or, if there are none, how many times the seconds must be.
    """
    settings = request.settings
    n_images = request.n_images
    part: dict[str, int] = {}
    if "epochs" not in settings and bounds.fewest * cost * n_images > request.seconds:
        most_images = n_images
        if "train_size" not in settings:
            most_images = int(request.seconds / (cost * bounds.of_part))
        if most_images == n_images or most_images < FEWEST_IMAGES:
            needed = cost * bounds.of_part * FEWEST_IMAGES
            if n_images <= FEWEST_IMAGES:
                needed = cost * bounds.fewest * n_images
            return math.ceil(10 * needed / max(request.seconds, 1e-9)) / 10
        n_val = min(most_images // 5, request.look.n_val or most_images)
        n_images = most_images
        part = {"train_size": most_images - n_val, "val_size": n_val}
    epochs = settings.get("epochs") or min(
        bounds.most, int(request.seconds / (cost * n_images))
    )
    return _Fitted(epochs, n_images, part)


def _size(
    request: TrainingRequest,
    timer: StepTimer,
    rung: Rung,
    fitted: _Fitted,
    reason: str,
) -> TrainingSize:
    return TrainingSize(
        settings={**_settings(request, timer, rung, fitted.epochs), **fitted.part},
        n_images=fitted.n_images,
        seconds=fitted.epochs * timer.seconds(rung) * fitted.n_images,
        reasons=tuple(_reasons(request, timer, rung, fitted, reason)),
    )


def _settings(
    request: TrainingRequest, timer: StepTimer, chosen: Rung, epochs: int
) -> dict[str, Any]:
    settings = request.settings
    is_sgd = settings.get("optimizer", "sgd") == "sgd"
    rate = float(f"{LEARNING_RATE * math.sqrt(timer.batch_size / BATCH_SIZES[-1]):.2g}")
    values = {
        "model": chosen.model,
        "image_size": chosen.side,
        "epochs": epochs,
        "batch_size": timer.batch_size,
        **({"learning_rate": rate, "weight_decay": WEIGHT_DECAY} if is_sgd else {}),
        **dict(chosen.further),
        **(
            {"learning_rate_warm_up_epochs": WARM_UP_EPOCHS}
            if chosen.further and epochs > WARM_UP_EPOCHS
            else {}
        ),
        "fast": timer.is_fast(chosen),
    }
    return {
        name: value
        for name, value in values.items()
        if name in dict(chosen.further) or name not in settings
    }


def _reasons(
    request: TrainingRequest,
    timer: StepTimer,
    chosen: Rung,
    fitted: _Fitted,
    reason: str,
) -> list[str]:
    reasons = []
    look = request.look
    settings = request.settings
    epochs = fitted.epochs
    is_pretrained = bool(chosen.further)
    if fitted.n_images < request.n_images:
        reasons.append(
            f"{fitted.n_images:,} of the {look.n_train:,} images for training and"
            " validation (--train-size)"
        )
    if not {"model", "image_size"} <= settings.keys():
        size = (
            f"images of {chosen.side}x{chosen.side} pixels (the images have about"
            f" {look.side})"
        )
        start_note = (
            f" with pretrained weights{frozen_in_words(dict(chosen.further))}"
            if is_pretrained
            else ""
        )
        reasons.append(
            f"{chosen.model}{start_note}, {size}{': ' if reason else ''}{reason}"
            " (--model, --image-size)"
        )
    if "epochs" not in settings:
        most = (
            ", the most"
            if epochs == most_epochs(chosen.model, is_pretrained=is_pretrained)
            else ""
        )
        few = (
            ": few, which favors little augmentation"
            if epochs < LEAST_EPOCHS and not is_pretrained
            else ""
        )
        reasons.append(f"{counted(epochs, 'epoch')} a training{most}{few} (--epochs)")
    if "fast" not in settings and timer.is_fast(chosen):
        reasons.append(
            f"bfloat16: {timer.gain(chosen):.1f} times as fast here (--no-fast)"
        )
    return reasons


def ladder(look: Look, settings: Mapping[str, Any]) -> list[Rung]:
    """Networks and sides from the cheapest to the most expensive.

    Args:
        look: The images.
        settings: Given settings by name. Networks and sides that a given model or side
            excludes are left out.
    """
    side = settings.get("image_size")
    model = settings.get("model")
    sides = (
        [side]
        if side
        else [pixels for pixels in SIDES if pixels <= look.side] or [SIDES[0]]
    )
    if model is not None:
        return [Rung(model, pixels) for pixels in sides]
    small, large = (
        [pixels for pixels in sides if (pixels > LARGEST_SMALL) == is_large]
        for is_large in (False, True)
    )
    rungs = [(SMALL[0], pixels) for pixels in small]
    rungs += [
        (network, pixels)
        for network in SMALL[1 : 3 if large else None]
        for pixels in small[-1:]
    ]
    rungs += [(LARGE[0], pixels) for pixels in large] + [
        (LARGE[1], pixels) for pixels in large[-1:]
    ]
    return [Rung(*pair) for pair in rungs]


def batch_size_for(n_images: int, settings: Mapping[str, Any]) -> int:
    """The size in BATCH_SIZES for about STEPS_PER_EPOCH; smaller for few images."""
    nearest = min(
        BATCH_SIZES, key=lambda size: abs(math.log(size * STEPS_PER_EPOCH / n_images))
    )
    return int(settings.get("batch_size") or min(nearest, max(2, n_images // 3)))
