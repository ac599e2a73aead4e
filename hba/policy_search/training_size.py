"""Chooses network, image size and epochs of a training that takes a given time on this machine.

It times steps on a ladder of networks and sizes, each of which costs more, and is better with equally many epochs, than
the one before. It chooses the highest one for which enough epochs fit, or that is as fast as the lowest one. On a
GPU, steps of small images take equally long.
"""

import copy
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from hba.data.look import Look
from hba.errors import SettingsError
from hba.models import build_model
from hba.models.timm_networks import TIMM, weights_at_hand
from hba.schedule.recipes import RECIPES
from hba.training.amp import amp_forward, enable_amp
from hba.training.augmentation import ScheduleAugmentation
from hba.utils.seeding import default_generators
from hba.utils.text import counted

SMALL, LARGE = ("wrn-10-1", "wrn-10-2", "wrn-16-2", "wrn-40-2", "wrn-28-10"), ("resnet-18", "resnet-50")
"""Networks for images of up to LARGEST_SMALL pixels, and for larger ones, from the fastest to the slowest."""
SIDES, LARGEST_SMALL = (16, 24, 32, 48, 64, 96, 128, 160, 224), 64
PRETRAINED, PRETRAINED_SIDE, PRETRAINED_EPOCHS = "timm:resnet18.a1_in1k", 128, 8
"""A network for photographs, if its weights are on this machine; the smallest side, and the fewest epochs."""
IMAGES_OF_TRAINING, LEAST_EPOCHS, ENOUGH_EPOCHS, MOST_EPOCHS = 90_000, 30, 100, 200
"""Images in a training that make a larger network worthwhile; bounds on the epochs for that; and most epochs."""
FEWEST_EPOCHS, EPOCHS_OF_PART, FEWEST_IMAGES = 5, 15, 500
"""If fewer epochs of all images fit, a part of them is used for EPOCHS_OF_PART; fewer images are an error."""
STEPS_PER_EPOCH, BATCH_SIZES = 20, (32, 64, 128)
LEARNING_RATE, WEIGHT_DECAY, PRETRAINED_LEARNING_RATE = 0.1, 0.0005, 0.01
"""Learning rates are for batches of 128, and proportional to the square root of the batch size."""
WORTH_IT, AS_FAST = 1.25, 1.1
"""How many times as fast bfloat16 must be to be used; how many times as long as the shortest a step may always take."""
BESIDE, MOST_STEPS, MOST_SECONDS = 1.3, 20, 1.0
"""How much longer a step takes while other trainings run, and how many steps to time, for how long."""

Rung = tuple[str, int]
"""Network and side of images."""


@dataclass(frozen=True)
class TrainingSize:
    """settings: the chosen ones, by name. n_images: for training and validation. seconds: of one training. reasons: one
    sentence for each choice, with the option that overrides it.
    """

    settings: Mapping[str, Any]
    n_images: int
    seconds: float
    reasons: tuple[str, ...]


def training_size(
    look: Look, seconds: float, device: torch.device, n_threads: int, given: Mapping[str, Any]
) -> TrainingSize:
    """Choose the settings that are not given, so that one training takes about this many seconds.

    n_threads: of PyTorch for one training. given: settings by name. If FEWEST_EPOCHS of all images do not fit, it uses
    a part of them. Raises SettingsError if that part would have fewer than FEWEST_IMAGES.
    """
    n = images_of(look, given)
    timer, rungs = StepTimer(look, batch_size_for(n, given), device, n_threads, given), ladder(look, given)
    enough = min(max(LEAST_EPOCHS, math.ceil(IMAGES_OF_TRAINING / n)), ENOUGH_EPOCHS)
    needed = given.get("epochs", enough)
    chosen, cost, reason = rungs[0], timer.seconds(rungs[0]), "the smallest choice"
    free = AS_FAST * cost
    for rung in rungs[1:]:
        try:
            longer = timer.seconds(rung)
        except torch.OutOfMemoryError:
            break
        least = given.get("epochs", PRETRAINED_EPOCHS) if rung[0] == PRETRAINED else needed
        fits = longer * n * least <= seconds
        if not fits and longer > free:
            break
        chosen, cost = rung, longer
        reason = f"the largest choice for which {least} epochs fit" if fits else "as fast as the smallest"
    sizes: dict[str, int] = {}
    if "epochs" not in given and FEWEST_EPOCHS * cost * n > seconds:
        most = n if "train_size" in given else int(seconds / (cost * EPOCHS_OF_PART))
        if most == n or most < FEWEST_IMAGES:
            needed_time = cost * (FEWEST_EPOCHS * n if n <= FEWEST_IMAGES else EPOCHS_OF_PART * FEWEST_IMAGES)
            times = math.ceil(10 * needed_time / max(seconds, 1e-9)) / 10
            raise SettingsError(f"the budget is too short for one training; give one {times:.1f} times as long")
        n_val = min(most // 5, look.n_val or most)
        n, sizes = most, {"train_size": most - n_val, "val_size": n_val}
    epochs = given.get("epochs") or min(MOST_EPOCHS, int(seconds / (cost * n)))
    return TrainingSize(
        settings={**_settings(chosen, epochs, timer, given), **sizes},
        n_images=n,
        seconds=epochs * cost * n,
        reasons=tuple(_reasons(chosen, epochs, reason, look, timer, given, n)),
    )


def images_of(look: Look, given: Mapping[str, Any]) -> int:
    """Number of images for training and validation."""
    if "train_size" not in given:
        return look.n_train
    return min(look.n_train, given["train_size"] + given.get("val_size", look.n_val or look.n_train // 5))


def _settings(chosen: Rung, epochs: int, timer: "StepTimer", given: Mapping[str, Any]) -> dict[str, Any]:
    is_pretrained, is_sgd = chosen[0] == PRETRAINED, given.get("optimizer", "sgd") == "sgd"
    rate = PRETRAINED_LEARNING_RATE if is_pretrained else LEARNING_RATE
    rate = float(f"{rate * math.sqrt(timer.batch_size / BATCH_SIZES[-1]):.2g}")
    found = {
        **{"model": chosen[0], "image_size": chosen[1], "epochs": epochs, "batch_size": timer.batch_size},
        **({"learning_rate": rate, "weight_decay": WEIGHT_DECAY} if is_sgd else {}),
        **({"pretrained": TIMM} if is_pretrained else {}),
        "fast": timer.is_fast(chosen),
    }
    return {name: value for name, value in found.items() if name not in given}


def _reasons(
    chosen: Rung, epochs: int, reason: str, look: Look, timer: "StepTimer", given: Mapping[str, Any], n_images: int
) -> list[str]:
    (model, side), found = chosen, []
    if n_images < images_of(look, given):
        found.append(f"{n_images:,} of the {look.n_train:,} images for training and validation (--train-size)")
    if not {"model", "image_size"} <= given.keys():
        size = f"the images have about {look.side}"
        found.append(f"{model}, images of {side}x{side} pixels ({size}): {reason} (--model, --image-size)")
    if "epochs" not in given:
        most = ", the most" if epochs == MOST_EPOCHS else ""
        few = ": few, which favors little augmentation" if epochs < LEAST_EPOCHS and model != PRETRAINED else ""
        found.append(f"{counted(epochs, 'epoch')} a training{most}{few} (--epochs)")
    if "fast" not in given and timer.is_fast(chosen):
        found.append(f"bfloat16: {timer.gain(chosen):.1f} times as fast here (--no-fast)")
    return found


def ladder(look: Look, given: Mapping[str, Any]) -> list[Rung]:
    """Networks and sides from the cheapest to the most expensive, without those that a given model or side excludes."""
    side, model = given.get("image_size"), given.get("model")
    sides = [side] if side else [one for one in SIDES if one <= look.side] or [SIDES[0]]
    if model is not None:
        return [(model, one) for one in sides]
    small, large = ([one for one in sides if (one > LARGEST_SMALL) == is_large] for is_large in (False, True))
    rungs = [(SMALL[0], one) for one in small]
    rungs += [(one, at) for one in SMALL[1 : 3 if large else None] for at in small[-1:]]
    rungs += [(LARGE[0], at) for at in large] + [(LARGE[1], at) for at in large[-1:]]
    has_photographs = sides[-1] >= PRETRAINED_SIDE and not look.is_grey
    if has_photographs and "pretrained" not in given and weights_at_hand(PRETRAINED):
        rungs.append((PRETRAINED, min(sides[-1], SIDES[-1])))
    return rungs


def batch_size_for(n_images: int, given: Mapping[str, Any]) -> int:
    """The size in BATCH_SIZES for which an epoch has about STEPS_PER_EPOCH; smaller for very few images."""
    nearest = min(BATCH_SIZES, key=lambda one: abs(math.log(one * STEPS_PER_EPOCH / n_images)))
    return int(given.get("batch_size") or min(nearest, max(2, n_images // 3)))


class StepTimer:
    """Times training steps of one process, in single precision and in bfloat16, or only in the given one."""

    def __init__(
        self, look: Look, batch_size: int, device: torch.device, n_threads: int, given: Mapping[str, Any]
    ) -> None:
        self.batch_size, self.device, self.n_threads, self.given = batch_size, device, n_threads, given
        self.n_classes, self._found = len(look.class_names), dict[Rung, dict[bool, float]]()

    def seconds(self, rung: Rung) -> float:
        """Seconds per image of a training step, including its augmentation."""
        if rung not in self._found:
            tried = [bool(self.given["fast"])] if "fast" in self.given else [False, True]
            with default_generators(self.device):
                self._found[rung] = {is_fast: self._timed(rung, is_fast) for is_fast in tried}
        return self._found[rung][self.is_fast(rung)]

    def is_fast(self, rung: Rung) -> bool:
        """Whether to use bfloat16: as given, or if it is worth it."""
        return bool(self.given.get("fast", self.gain(rung) > WORTH_IT))

    def gain(self, rung: Rung) -> float:
        """How many times as fast bfloat16 is; 1 if it was not tried."""
        found = self._found[rung]
        return found[False] / found[True] if len(found) == 2 else 1.0

    def _timed(self, rung: Rung, is_fast: bool) -> float:
        """Time a few steps, without the first, and take the shortest."""
        (model, side), threads, seconds = rung, torch.get_num_threads(), list[float]()
        network = copy.deepcopy(self.given.get("network")) or build_model(
            model.partition(".")[0], self.n_classes, 0, side
        )
        network = network.to(self.device).train()
        if is_fast:
            enable_amp(network)
        forward = partial(amp_forward, network) if is_fast else network
        optimizer = torch.optim.SGD(network.parameters(), LEARNING_RATE, momentum=0.9, foreach=True)
        images = torch.full((self.batch_size, 3, side, side), 0.5, device=self.device)
        labels = torch.zeros(self.batch_size, dtype=torch.int64, device=self.device)
        augment = ScheduleAugmentation(RECIPES["overhead-randaugment"].make()).by_epoch(1, images)[0]
        torch.set_num_threads(self.n_threads)
        try:
            while len(seconds) < 2 or (len(seconds) < MOST_STEPS and sum(seconds) < MOST_SECONDS):
                began = time.perf_counter()
                inputs = augment(images, torch.Generator(self.device))
                optimizer.zero_grad()
                try:
                    nn.functional.cross_entropy(forward(inputs), labels).backward()
                except SettingsError:
                    # The user's own network cannot compute in bfloat16.
                    return math.inf
                optimizer.step()
                if self.device.type == "cuda":
                    torch.cuda.synchronize(self.device)
                seconds.append(time.perf_counter() - began)
        finally:
            torch.set_num_threads(threads)
        return BESIDE * min(seconds[1:]) / self.batch_size
