"""Chooses network, image size and epochs of a training that takes a given time on this
machine.

For random weights, it times steps on a ladder of networks and sizes, each of which
costs more, and is better with equally many epochs, than the one before. It chooses the
highest one for which enough epochs fit, or that is as fast as the lowest one. On a GPU,
steps of small images take equally long. For pretrained weights, it times steps at
several sizes, and returns those for which a few epochs fit; which one is best is
measured by trainings.
"""

import copy
import math
import time
from collections.abc import Mapping, Sequence
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import pydantic
import torch
from torch import Tensor, nn

from hba.config.training import LEAST_EPOCHS, source_of_weights
from hba.data.look import Look
from hba.errors import SettingsError
from hba.models import Start, build_model
from hba.models.timm_networks import (
    AND_STATISTICS,
    NOTHING,
    TIMM,
    frozen_in_words,
    layout_of,
    only_side,
    timm_config,
)
from hba.schedule.recipes import RECIPES
from hba.training.amp import amp_forward, enable_amp
from hba.training.augmentation import ScheduleAugmentation
from hba.utils.devices import exact_device
from hba.utils.graphs import EAGER_RUNS, StepGraphs
from hba.utils.seeding import default_generators
from hba.utils.text import counted

SMALL = ("wrn-10-1", "wrn-10-2", "wrn-16-2", "wrn-40-2", "wrn-28-10")
"""Networks for images of up to LARGEST_SMALL pixels, from the fastest to the slowest.
"""
LARGE = ("resnet-18", "resnet-50")
"""Networks for larger images, from the fastest to the slowest."""
SIDES = (16, 24, 32, 48, 64, 96, 128, 160, 224)
LARGEST_SMALL = 64
PRETRAINED_SIDES = (48, 64, 96, 128, 160, 192, 224)
"""Sides for pretrained networks."""
ENLARGED = 2
"""How many times the side of the images the sides for pretrained networks may have.
Their layers expect large objects, so small images are better enlarged.
"""
FINE_TUNING_BATCH = 32
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
WORTH_IT = 1.25
"""How many times as fast bfloat16 must be to be used."""
MUCH_SLOWER = 1.5
"""If bfloat16 is this many times as slow, it is not tried again."""
AS_FAST = 1.1
"""How many times as long as the shortest a step may always take."""
BESIDE = 1.3
"""How many times as long a step takes while other trainings run."""
MOST_STEPS = 20
"""How many steps to time, at most."""
MOST_SECONDS = 1.0
"""How long to time steps, at most."""
TOO_LONG = 1.5
"""How many times the time of a training may be exceeded, in proportion to the pixels,
for the next size to be timed.
"""


class Rung(NamedTuple):
    """Network and side of images."""

    model: str
    """Name of the network."""
    side: int
    """Side in pixels."""
    further: tuple[tuple[str, Any], ...] = ()
    """Settings of fine-tuning, if any."""

    @property
    def key(self) -> tuple[Any, ...]:
        """What the time of a step depends on."""
        return (
            self.model,
            self.side,
            dict(self.further).get("freeze", "").removesuffix(AND_STATISTICS),
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


def training_size(
    look: Look,
    seconds: float,
    device: torch.device,
    n_threads: int,
    settings: Mapping[str, Any],
) -> TrainingSize:
    """Choose settings of a training from random weights that takes about a given time.

    If FEWEST_EPOCHS of all images do not fit, it uses a part of them.

    Args:
        look: The images.
        seconds: Seconds of one training.
        device: The device.
        n_threads: Threads of PyTorch for one training.
        settings: Given settings by name; only others are chosen.

    Raises:
        SettingsError: If a part of the images would be smaller than FEWEST_IMAGES.
    """
    n_images = images_of(look, settings)
    timer = StepTimer(
        look, batch_size_for(n_images, settings), device, n_threads, settings
    )
    rungs = ladder(look, settings)
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
        fits = longer * n_images * needed <= seconds
        if not fits and longer > free:
            break
        chosen = rung
        cost = longer
        reason = (
            f"the largest choice for which {needed} epochs fit"
            if fits
            else "as fast as the smallest"
        )
    fitted = _fitted(
        look, cost, seconds, settings, (FEWEST_EPOCHS, MOST_EPOCHS, EPOCHS_OF_PART)
    )
    if isinstance(fitted, float):
        raise too_short(fitted)
    return _size(chosen, fitted, cost, reason, look, timer, settings)


def fine_tuning_sizes(
    models: Sequence[str],
    look: Look,
    seconds: float,
    device: torch.device,
    n_threads: int,
    settings: Mapping[str, Any],
) -> list[TrainingSize]:
    """Choose trainings from pretrained weights that take about a given time.

    For each of the models, the largest MOST_SIDES sides at which a few epochs or more
    fit, each as in ways_to_fine_tune. A network that takes only images of its weights'
    size gets these.

    Args:
        models: Names of the networks.
        look: The images.
        seconds: Seconds of one training.
        device: The device.
        n_threads: Threads of PyTorch for one training.
        settings: Given settings by name; only others are chosen.

    Raises:
        SettingsError: If none fits.
    """
    batch_size = settings.get("batch_size") or min(
        FINE_TUNING_BATCH, max(2, images_of(look, settings) // 3)
    )
    timer = StepTimer(look, batch_size, device, n_threads, settings)
    source = source_of_weights(settings.get("pretrained"))
    largest = max(PRETRAINED_SIDES[0], min(PRETRAINED_SIDES[-1], ENLARGED * look.side))
    choices = list[TrainingSize]()
    times = math.inf
    problem = None
    for model in models:
        of_model = list[list[TrainingSize]]()
        of_pixel = 0.0
        sides = (
            [settings["image_size"]]
            if settings.get("image_size")
            else sides_to_try(model, largest)
        )
        for side in sides:
            fewest = FEWEST_FINE_TUNING[1 if of_model else 0]
            bounds = (fewest, MOST_FINE_TUNING, EPOCHS_OF_FINE_PART)
            shortest = of_pixel * side**2 * images_of(look, settings) * fewest
            is_too_long = shortest > TOO_LONG * seconds and not settings.get("epochs")
            if is_too_long or (of_model and side > largest):
                break
            of_side = list[TrainingSize]()
            for fine_tuning in ways_to_fine_tune(
                model, batch_size, {**settings, "pretrained": source or TIMM}
            ):
                rung = Rung(model, side, fine_tuning)
                try:
                    cost = timer.seconds(rung)
                except (torch.OutOfMemoryError, SettingsError) as error:
                    problem = error
                    break
                of_pixel = cost / side**2
                fitted = _fitted(look, cost, seconds, settings, bounds)
                if isinstance(fitted, float):
                    times = min(times, fitted)
                # A part of the images is used at the smallest side only.
                elif not (of_model and fitted.sizes):
                    of_side.append(_size(rung, fitted, cost, "", look, timer, settings))
            # Some networks take images of one size only.
            if not of_side and not isinstance(problem, SettingsError):
                break
            of_model += [of_side] if of_side else []
        choices += [size for of_side in of_model[-MOST_SIDES:] for size in of_side]
    if not choices:
        raise (
            problem
            if isinstance(problem, SettingsError) and times == math.inf
            else too_short(times)
        )
    return choices


def sides_to_try(model: str, largest: int) -> list[int]:
    """Sides of images for a pretrained network.

    They are PRETRAINED_SIDES up to the largest, and last that of its weights, for a
    network that takes none of the others; only the latter for a network of one size.

    Args:
        model: Name of the network.
        largest: Largest side in pixels.
    """
    own_side = only_side(model)
    if own_side is not None:
        return [own_side]
    sides = [side for side in PRETRAINED_SIDES if side <= largest]
    return [*dict.fromkeys([*sides, int(timm_config(model).input_size[-1])])]


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
    has_batch_norm, n_groups = layout_of(model)
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


def too_short(times: float) -> SettingsError:
    """The error for a budget that is too short.

    Args:
        times: How many times as long the budget has to be.
    """
    return SettingsError(
        f"the budget is too short for one training; give one {times:.1f} times as long"
    )


class _Fitted(NamedTuple):
    """Epochs and images of a training."""

    epochs: int
    n_images: int
    sizes: Mapping[str, int]
    """Settings that select a part of the images."""


def _fitted(
    look: Look,
    cost: float,
    seconds: float,
    settings: Mapping[str, Any],
    bounds: tuple[int, int, int],
) -> _Fitted | float:
    """Epochs of all images, or of a part of them, that take a given time.

    Args:
        look: The images.
        cost: Seconds per image.
        seconds: Seconds of one training.
        settings: Given settings by name.
        bounds: Fewest and most epochs, and those of a part.

    Returns:
        Epochs and images; or, if there are none, how many times the seconds must be.
    """
    n_images = images_of(look, settings)
    fewest, most, of_part = bounds
    sizes: dict[str, int] = {}
    if "epochs" not in settings and fewest * cost * n_images > seconds:
        most_images = (
            n_images if "train_size" in settings else int(seconds / (cost * of_part))
        )
        if most_images == n_images or most_images < FEWEST_IMAGES:
            needed = cost * (
                fewest * n_images
                if n_images <= FEWEST_IMAGES
                else of_part * FEWEST_IMAGES
            )
            return math.ceil(10 * needed / max(seconds, 1e-9)) / 10
        n_val = min(most_images // 5, look.n_val or most_images)
        n_images = most_images
        sizes = {"train_size": most_images - n_val, "val_size": n_val}
    return _Fitted(
        settings.get("epochs") or min(most, int(seconds / (cost * n_images))),
        n_images,
        sizes,
    )


def _size(
    rung: Rung,
    fitted: _Fitted,
    cost: float,
    reason: str,
    look: Look,
    timer: "StepTimer",
    settings: Mapping[str, Any],
) -> TrainingSize:
    return TrainingSize(
        settings={**_settings(rung, fitted.epochs, timer, settings), **fitted.sizes},
        n_images=fitted.n_images,
        seconds=fitted.epochs * cost * fitted.n_images,
        reasons=tuple(_reasons(rung, fitted, reason, look, timer, settings)),
    )


def images_of(look: Look, settings: Mapping[str, Any]) -> int:
    """Number of images for training and validation."""
    if "train_size" not in settings:
        return look.n_train
    return min(
        look.n_train,
        settings["train_size"]
        + settings.get("val_size", look.n_val or look.n_train // 5),
    )


def _settings(
    chosen: Rung, epochs: int, timer: "StepTimer", settings: Mapping[str, Any]
) -> dict[str, Any]:
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
    chosen: Rung,
    fitted: _Fitted,
    reason: str,
    look: Look,
    timer: "StepTimer",
    settings: Mapping[str, Any],
) -> list[str]:
    reasons = []
    epochs = fitted.epochs
    is_pretrained = bool(chosen.further)
    if fitted.n_images < images_of(look, settings):
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
            if epochs == (MOST_FINE_TUNING if is_pretrained else MOST_EPOCHS)
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


class StepTimer:
    """Times training steps of one process, in single precision and in bfloat16, or only
    in the given one.
    """

    def __init__(
        self,
        look: Look,
        batch_size: int,
        device: torch.device,
        n_threads: int,
        settings: Mapping[str, Any],
    ) -> None:
        self.batch_size = batch_size
        self.device = device
        self.n_threads = n_threads
        self.settings = settings
        self.n_classes = len(look.class_names)
        self._seconds = dict[Any, dict[bool, float]]()

    def seconds(self, rung: Rung) -> float:
        """Seconds per image of a training step, including its augmentation."""
        if rung.key not in self._seconds:
            # A processor without instructions for bfloat16 is many times slower with
            # it.
            is_slow = any(
                by_precision.get(True, 0.0) > MUCH_SLOWER * by_precision[False]
                for by_precision in self._seconds.values()
                if False in by_precision
            )
            tried = [False] if is_slow else [False, True]
            if "fast" in self.settings:
                tried = [bool(self.settings["fast"])]
            with default_generators(self.device):
                self._seconds[rung.key] = {
                    is_fast: self._timed(rung, is_fast) for is_fast in tried
                }
        return self._seconds[rung.key][self.is_fast(rung)]

    def is_fast(self, rung: Rung) -> bool:
        """Whether to use bfloat16: as given, or if it is worth it."""
        return bool(self.settings.get("fast", self.gain(rung) > WORTH_IT))

    def gain(self, rung: Rung) -> float:
        """How many times as fast bfloat16 is; 1 if it was not tried."""
        times = self._seconds[rung.key]
        return times[False] / times[True] if len(times) == 2 else 1.0

    def _timed(self, rung: Rung, is_fast: bool) -> float:
        """Time a few steps, without the first and those before a CUDA graph, and take
        the median.

        Where other programs compute, the shortest step would be shorter than those of a
        training.
        """
        side = rung.side
        threads = torch.get_num_threads()
        seconds = list[float]()
        fine_tuning = dict(rung.further)
        start = (
            Start.of(rung.model, fine_tuning["pretrained"], fine_tuning["freeze"])
            if fine_tuning
            else None
        )
        own_network = copy.deepcopy(self.settings.get("network"))
        network = (
            (own_network or build_model(rung.model, self.n_classes, 0, side, start))
            .to(self.device)
            .train()
        )
        if is_fast:
            enable_amp(network)
        forward = partial(amp_forward, network) if is_fast else network
        is_on_gpu = self.device.type == "cuda"
        generator = torch.Generator(exact_device(self.device))
        optimizer = torch.optim.SGD(
            network.parameters(), 1e-6, momentum=0.9, foreach=True
        )
        images = torch.full((self.batch_size, 3, side, side), 0.5, device=self.device)
        labels = torch.zeros(self.batch_size, dtype=torch.int64, device=self.device)
        augment = ScheduleAugmentation(RECIPES["overhead-randaugment"].make()).by_epoch(
            1, images
        )[0]
        state = {"network": network, "optimizer": optimizer}
        graphs = StepGraphs.of(
            [network], optimizer, generator, state, wanted=self.settings.get("graph")
        )
        n_slow = 1 if graphs.recorder is None else EAGER_RUNS

        def step(images: Tensor) -> None:
            nn.functional.cross_entropy(
                forward(augment(images, generator)), labels
            ).backward()
            optimizer.step()
            optimizer.zero_grad()

        torch.set_num_threads(self.n_threads)
        try:
            while len(seconds) <= n_slow or (
                len(seconds) < MOST_STEPS and sum(seconds) < MOST_SECONDS
            ):
                began = time.perf_counter()
                graphs.run("step", step, images)
                if is_on_gpu:
                    torch.cuda.synchronize(self.device)
                seconds.append(time.perf_counter() - began)
        except SettingsError:
            # The user's own network cannot compute in bfloat16.
            return math.inf
        finally:
            torch.set_num_threads(threads)
        is_alone = self.n_threads == threads
        return (
            (1.0 if is_alone else BESIDE) * median(seconds[n_slow:]) / self.batch_size
        )
