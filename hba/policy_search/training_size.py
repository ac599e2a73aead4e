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

SMALL, LARGE = (
    ("wrn-10-1", "wrn-10-2", "wrn-16-2", "wrn-40-2", "wrn-28-10"),
    (
        "resnet-18",
        "resnet-50",
    ),
)
"""Networks for images of up to LARGEST_SMALL pixels, and for larger ones, from the
fastest to the slowest.
"""
SIDES = (16, 24, 32, 48, 64, 96, 128, 160, 224)
LARGEST_SMALL = 64
PRETRAINED_SIDES, ENLARGED = (48, 64, 96, 128, 160, 192, 224), 2
"""Sides for pretrained networks, and how many times the side of the images they may
have: their layers expect large objects, so small images are better enlarged.
"""
FINE_TUNING_BATCH = 32
FINE_TUNING_DECAY = 0.05
GENTLE_RATE, STRONG_RATE, WITHOUT_BATCH_NORM, WARM_UP_EPOCHS = 0.0003, 0.003, 0.2, 1
"""Learning rates of AdamW for images like those of the pretrained weights, with the
first layers and all statistics of BatchNorm frozen, and for other images, with nothing
frozen; their factor for networks without BatchNorm, such as vision transformers; and
the epochs of warm-up, without which gentle trainings may diverge.
"""
FEWEST_FINE_TUNING, MOST_FINE_TUNING, EPOCHS_OF_FINE_PART = (2, 5), 30, 6
"""Bounds on the epochs of fine-tuning, the fewest at the smallest side and at all
others, and the epochs if only a part of the images is used, at the smallest side.
"""
FROZEN_SHARE, MOST_SIDES = 1 / 3, 3
"""Share of the groups of layers, from the first, that a gentle training freezes; how
many sides to time, at most.
"""
IMAGES_OF_TRAINING, ENOUGH_EPOCHS, MOST_EPOCHS = 90_000, 100, 200
"""Images in a training that make a larger network worthwhile; the most epochs for that,
of which LEAST_EPOCHS are the fewest; and most epochs.
"""
FEWEST_EPOCHS, EPOCHS_OF_PART, FEWEST_IMAGES = 5, 15, 500
"""If fewer epochs of all images fit, a part of them is used for EPOCHS_OF_PART; fewer
images are an error.
"""
STEPS_PER_EPOCH = 20
BATCH_SIZES = (32, 64, 128)
LEARNING_RATE, WEIGHT_DECAY = 0.1, 0.0005
"""Learning rates are for batches of 128, and proportional to the square root of the
batch size.
"""
WORTH_IT, MUCH_SLOWER, AS_FAST = 1.25, 1.5, 1.1
"""How many times as fast bfloat16 must be to be used, and how many times as slow to be
tried no more; how many times as long as the shortest a step may always take.
"""
BESIDE, MOST_STEPS, MOST_SECONDS, TOO_LONG = 1.3, 20, 1.0, 1.5
"""How much longer a step takes while other trainings run; how many steps to time, for
how long; and how many times the time of a training may be exceeded, in proportion to
the pixels, for the next size to be timed.
"""


class Rung(NamedTuple):
    """Network and side of images. further: settings of fine-tuning, if any."""

    model: str
    side: int
    further: tuple[tuple[str, Any], ...] = ()

    @property
    def key(self) -> tuple[Any, ...]:
        """What the time of a step depends on."""
        return (
            self.model,
            self.side,
            dict(self.further).get("freeze", "").removesuffix(AND_STATISTICS),
        )


class TrainingSize(pydantic.BaseModel, frozen=True):
    """settings: the chosen ones, by name. n_images: for training and validation.
    seconds: of one training. reasons: one sentence for each choice, with the option
    that overrides it.
    """

    settings: dict[str, Any]
    n_images: int
    seconds: float
    reasons: tuple[str, ...]


def training_size(
    look: Look,
    seconds: float,
    device: torch.device,
    n_threads: int,
    given: Mapping[str, Any],
) -> TrainingSize:
    """Choose the settings that are not given, so that one training from random weights
    takes about this many seconds.

    n_threads: of PyTorch for one training. given: settings by name. If FEWEST_EPOCHS of
    all images do not fit, it uses a part of them. Raises SettingsError if that part
    would have fewer than FEWEST_IMAGES.
    """
    n = images_of(look, given)
    timer = StepTimer(look, batch_size_for(n, given), device, n_threads, given)
    rungs = ladder(look, given)
    enough = min(max(LEAST_EPOCHS, math.ceil(IMAGES_OF_TRAINING / n)), ENOUGH_EPOCHS)
    needed = given.get("epochs", enough)
    chosen = rungs[0]
    cost = timer.seconds(rungs[0])
    reason = "the smallest choice"
    free = AS_FAST * cost
    for rung in rungs[1:]:
        try:
            longer = timer.seconds(rung)
        except torch.OutOfMemoryError:
            break
        fits = longer * n * needed <= seconds
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
        look, cost, seconds, given, (FEWEST_EPOCHS, MOST_EPOCHS, EPOCHS_OF_PART)
    )
    if isinstance(fitted, float):
        raise too_short(fitted)
    return _size(chosen, fitted, cost, reason, look, timer, given)


def fine_tuning_sizes(
    models: Sequence[str],
    look: Look,
    seconds: float,
    device: torch.device,
    n_threads: int,
    given: Mapping[str, Any],
) -> list[TrainingSize]:
    """The choices for pretrained weights whose trainings take about this many seconds,
    with a few epochs or more.

    For each of the models, the largest MOST_SIDES sides, each as in ways_to_fine_tune.
    A network that takes only images of its weights' size gets these. SettingsError if
    none fits.
    """
    batch_size = given.get("batch_size") or min(
        FINE_TUNING_BATCH, max(2, images_of(look, given) // 3)
    )
    timer = StepTimer(look, batch_size, device, n_threads, given)
    source = source_of_weights(given.get("pretrained"))
    largest = max(PRETRAINED_SIDES[0], min(PRETRAINED_SIDES[-1], ENLARGED * look.side))
    found = list[TrainingSize]()
    times = math.inf
    problem = None
    for model in models:
        of_model = list[list[TrainingSize]]()
        of_pixel = 0.0
        sides = (
            [given["image_size"]]
            if given.get("image_size")
            else sides_to_try(model, largest)
        )
        for side in sides:
            bounds = (
                FEWEST_FINE_TUNING[len(of_model) > 0],
                MOST_FINE_TUNING,
                EPOCHS_OF_FINE_PART,
            )
            shortest = of_pixel * side**2 * images_of(look, given) * bounds[0]
            is_too_long = shortest > TOO_LONG * seconds and not given.get("epochs")
            if is_too_long or (of_model and side > largest):
                break
            of_side = list[TrainingSize]()
            for further in ways_to_fine_tune(
                model, batch_size, {**given, "pretrained": source or TIMM}
            ):
                rung = Rung(model, side, further)
                try:
                    cost = timer.seconds(rung)
                except (torch.OutOfMemoryError, SettingsError) as error:
                    problem = error
                    break
                of_pixel = cost / side**2
                fitted = _fitted(look, cost, seconds, given, bounds)
                if isinstance(fitted, float):
                    times = min(times, fitted)
                # A part of the images is used at the smallest side only.
                elif not (of_model and fitted.sizes):
                    of_side.append(_size(rung, fitted, cost, "", look, timer, given))
            # Some networks take images of one size only.
            if not of_side and not isinstance(problem, SettingsError):
                break
            of_model += [of_side] * bool(of_side)
        found += [size for of_side in of_model[-MOST_SIDES:] for size in of_side]
    if not found:
        raise (
            problem
            if isinstance(problem, SettingsError) and times == math.inf
            else too_short(times)
        )
    return found


def sides_to_try(model: str, largest: int) -> list[int]:
    """Sides of images for a pretrained network: PRETRAINED_SIDES up to the largest, and
    last that of its weights, for a network that takes none of the others. Only the
    latter for a network of one size.
    """
    own_side = only_side(model)
    if own_side is not None:
        return [own_side]
    sides = [side for side in PRETRAINED_SIDES if side <= largest]
    return [*dict.fromkeys([*sides, int(timm_config(model).input_size[-1])])]


def ways_to_fine_tune(
    model: str, batch_size: int, given: Mapping[str, Any]
) -> list[tuple[tuple[str, Any], ...]]:
    """Settings of a gentle training and of a strong one. Given ones replace them, and
    equal ones are left out.
    """
    has_batch_norm, n_groups = layout_of(model)
    of_rate = math.sqrt(batch_size / FINE_TUNING_BATCH) * (
        1.0 if has_batch_norm else WITHOUT_BATCH_NORM
    )
    frozen = (
        str(int(FROZEN_SHARE * n_groups) or NOTHING) + AND_STATISTICS * has_batch_norm
    )
    found = []
    for rate, part in ((GENTLE_RATE, frozen), (STRONG_RATE, NOTHING)):
        own = {"pretrained": given["pretrained"], "freeze": part, "optimizer": "adamw"}
        if given.get("optimizer", "adamw") == "adamw":
            own |= {
                "learning_rate": float(f"{rate * of_rate:.2g}"),
                "weight_decay": FINE_TUNING_DECAY,
            }
        found.append(
            tuple(
                {**own, **{name: given[name] for name in own if name in given}}.items()
            )
        )
    return [*dict.fromkeys(found)]


def too_short(times: float) -> SettingsError:
    """times: how many times as long the budget has to be."""
    return SettingsError(
        f"the budget is too short for one training; give one {times:.1f} times as long"
    )


class _Fitted(NamedTuple):
    """Epochs and images of a training, and the settings that select a part of the
    images.
    """

    epochs: int
    n_images: int
    sizes: Mapping[str, int]


def _fitted(
    look: Look,
    cost: float,
    seconds: float,
    given: Mapping[str, Any],
    bounds: tuple[int, int, int],
) -> _Fitted | float:
    """Epochs of all images, or of a part of them, that take this many seconds. If there
    are none, how many times the seconds must be. cost: seconds per image. bounds:
    fewest and most epochs, and those of a part.
    """
    n, (fewest, most, of_part) = images_of(look, given), bounds
    sizes: dict[str, int] = {}
    if "epochs" not in given and fewest * cost * n > seconds:
        most_images = n if "train_size" in given else int(seconds / (cost * of_part))
        if most_images == n or most_images < FEWEST_IMAGES:
            needed = cost * (
                fewest * n if n <= FEWEST_IMAGES else of_part * FEWEST_IMAGES
            )
            return math.ceil(10 * needed / max(seconds, 1e-9)) / 10
        n_val = min(most_images // 5, look.n_val or most_images)
        n = most_images
        sizes = {"train_size": most_images - n_val, "val_size": n_val}
    return _Fitted(
        given.get("epochs") or min(most, int(seconds / (cost * n))), n, sizes
    )


def _size(
    rung: Rung,
    fitted: _Fitted,
    cost: float,
    reason: str,
    look: Look,
    timer: "StepTimer",
    given: Mapping[str, Any],
) -> TrainingSize:
    return TrainingSize(
        settings={**_settings(rung, fitted.epochs, timer, given), **fitted.sizes},
        n_images=fitted.n_images,
        seconds=fitted.epochs * cost * fitted.n_images,
        reasons=tuple(_reasons(rung, fitted, reason, look, timer, given)),
    )


def images_of(look: Look, given: Mapping[str, Any]) -> int:
    """Number of images for training and validation."""
    if "train_size" not in given:
        return look.n_train
    return min(
        look.n_train,
        given["train_size"] + given.get("val_size", look.n_val or look.n_train // 5),
    )


def _settings(
    chosen: Rung, epochs: int, timer: "StepTimer", given: Mapping[str, Any]
) -> dict[str, Any]:
    is_sgd = given.get("optimizer", "sgd") == "sgd"
    rate = float(f"{LEARNING_RATE * math.sqrt(timer.batch_size / BATCH_SIZES[-1]):.2g}")
    found = {
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
        for name, value in found.items()
        if name in dict(chosen.further) or name not in given
    }


def _reasons(
    chosen: Rung,
    fitted: _Fitted,
    reason: str,
    look: Look,
    timer: "StepTimer",
    given: Mapping[str, Any],
) -> list[str]:
    found = []
    epochs = fitted.epochs
    is_pretrained = bool(chosen.further)
    if fitted.n_images < images_of(look, given):
        found.append(
            f"{fitted.n_images:,} of the {look.n_train:,} images for training and"
            " validation (--train-size)"
        )
    if not {"model", "image_size"} <= given.keys():
        size = (
            f"images of {chosen.side}x{chosen.side} pixels (the images have about"
            f" {look.side})"
        )
        how = (
            f" with pretrained weights{frozen_in_words(dict(chosen.further))}"
            if is_pretrained
            else ""
        )
        found.append(
            f"{chosen.model}{how}, {size}{': ' if reason else ''}{reason} (--model,"
            " --image-size)"
        )
    if "epochs" not in given:
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
        found.append(f"{counted(epochs, 'epoch')} a training{most}{few} (--epochs)")
    if "fast" not in given and timer.is_fast(chosen):
        found.append(
            f"bfloat16: {timer.gain(chosen):.1f} times as fast here (--no-fast)"
        )
    return found


def ladder(look: Look, given: Mapping[str, Any]) -> list[Rung]:
    """Networks and sides from the cheapest to the most expensive, without those that a
    given model or side excludes.
    """
    side = given.get("image_size")
    model = given.get("model")
    sides = [side] if side else [one for one in SIDES if one <= look.side] or [SIDES[0]]
    if model is not None:
        return [Rung(model, one) for one in sides]
    small, large = (
        [one for one in sides if (one > LARGEST_SMALL) == is_large]
        for is_large in (False, True)
    )
    rungs = [(SMALL[0], one) for one in small]
    rungs += [(one, at) for one in SMALL[1 : 3 if large else None] for at in small[-1:]]
    rungs += [(LARGE[0], at) for at in large] + [(LARGE[1], at) for at in large[-1:]]
    return [Rung(*one) for one in rungs]


def batch_size_for(n_images: int, given: Mapping[str, Any]) -> int:
    """The size in BATCH_SIZES for about STEPS_PER_EPOCH; smaller for few images."""
    nearest = min(
        BATCH_SIZES, key=lambda one: abs(math.log(one * STEPS_PER_EPOCH / n_images))
    )
    return int(given.get("batch_size") or min(nearest, max(2, n_images // 3)))


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
        given: Mapping[str, Any],
    ) -> None:
        self.batch_size = batch_size
        self.device = device
        self.n_threads = n_threads
        self.given = given
        self.n_classes = len(look.class_names)
        self._found = dict[Any, dict[bool, float]]()

    def seconds(self, rung: Rung) -> float:
        """Seconds per image of a training step, including its augmentation."""
        if rung.key not in self._found:
            # A processor without instructions for bfloat16 is many times slower with
            # it.
            is_slow = any(
                one.get(True, 0.0) > MUCH_SLOWER * one[False]
                for one in self._found.values()
                if False in one
            )
            tried = (
                [bool(self.given["fast"])]
                if "fast" in self.given
                else [False]
                if is_slow
                else [False, True]
            )
            with default_generators(self.device):
                self._found[rung.key] = {
                    is_fast: self._timed(rung, is_fast) for is_fast in tried
                }
        return self._found[rung.key][self.is_fast(rung)]

    def is_fast(self, rung: Rung) -> bool:
        """Whether to use bfloat16: as given, or if it is worth it."""
        return bool(self.given.get("fast", self.gain(rung) > WORTH_IT))

    def gain(self, rung: Rung) -> float:
        """How many times as fast bfloat16 is; 1 if it was not tried."""
        found = self._found[rung.key]
        return found[False] / found[True] if len(found) == 2 else 1.0

    def _timed(self, rung: Rung, is_fast: bool) -> float:
        """Time a few steps, without the first and those before a CUDA graph, and take
        the median.

        Where other programs compute, the shortest step would be shorter than those of a
        training.
        """
        side = rung.side
        threads = torch.get_num_threads()
        seconds = list[float]()
        how = dict(rung.further)
        start = Start.of(rung.model, how["pretrained"], how["freeze"]) if how else None
        own = copy.deepcopy(self.given.get("network"))
        network = (
            (own or build_model(rung.model, self.n_classes, 0, side, start))
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
            [network], optimizer, generator, state, wanted=self.given.get("graph")
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
