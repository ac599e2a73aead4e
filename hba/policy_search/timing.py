"""The time of trainings and searches: estimated, measured, and planned again.

symbol   in the code        meaning
J        n_jobs             trainings that run at a time
N        n_trainings        what is left to do, in trainings of which J run at a time
t        training_seconds   seconds of one of them
L        seconds_left       seconds in which everything has to end

    estimate: time a few steps before the first training; t is the time of a step times
        the steps of a training. Choose network, image size and epochs so that N t fits
        into L (training_size.py)
    measure: during the first trainings, take the time of their steps; t is that of the
        later steps
    plan again: if N t > TOLERATED L, begin these trainings again, with L / (N t) times
        the epochs

A search with a budget has no trainings to count. It times steps and a validation of a
copy of itself, and chooses the largest number of epochs that fit. So it draws the same
random numbers as a search with these epochs and no budget.
"""

import copy
import math
import time
from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from hba.errors import SettingsError
from hba.models import Start, build_model
from hba.models.timm_networks import AND_STATISTICS
from hba.models.unet import encoder_of
from hba.policy_search.context import ImageSearchContext
from hba.policy_search.trainer import graphs_for
from hba.schedule.recipes import RECIPES
from hba.tasks import Classification, ImageTask
from hba.training.amp import amp_forward, enable_amp
from hba.training.augmentation import EpochPolicy, ScheduleAugmentation
from hba.training.metrics import measure
from hba.utils.devices import exact_device
from hba.utils.graphs import EAGER_RUNS, StepGraphs
from hba.utils.seeding import default_generators
from hba.utils.text import counted

TOLERATED = 1.1
"""How many times the time that is left the trainings may take."""
FEWEST_EPOCHS = 2
"""Fewest epochs of a training, if trainings take longer than planned."""
WATCHED_SHARE = 0.2
"""Share of the first trainings after which their time is known well enough."""
WATCHED_SECONDS = 2.0
"""Least time for that, in seconds."""
SECONDS_OF_START = 10.0
"""The same if several trainings run at a time, whose processes take seconds to start.
"""
WORTH_IT = 1.25
"""How many times as fast bfloat16 must be to be used."""
MUCH_SLOWER = 1.5
"""If bfloat16 is this many times as slow, it is not tried again."""
BESIDE = 1.3
"""How many times as long a step takes while other trainings run."""
MOST_STEPS = 20
"""How many steps of a training to time, at most."""
MOST_SECONDS = 1.0
"""How long to time steps of a training, at most."""
MANY_EPOCHS = 1_000_000
"""Epochs of a search until the budget chooses them."""
PLANNED_SHARE = 0.85
"""Share of the remaining time of a search to plan with; the rest is for saves, the
report, and a machine that slows down.
"""
MEASURED_SHARE = 0.05
"""Largest share of a budget for timing steps of a search."""
MOST_MEASURED_SECONDS = 10.0
"""Largest number of seconds for timing steps of a search."""

Clock = Callable[[], float]
"""Returns a time in seconds."""


# Estimate


def rounds(n_trainings: int, n_jobs: int) -> int:
    """How many times as long as one training so many take, n_jobs at a time."""
    return math.ceil(n_trainings / n_jobs)


def share_that_fits(
    n_trainings: float, training_seconds: float, seconds_left: float
) -> float:
    """How many times as many epochs the time allows; below 1 for fewer.

    Args:
        n_trainings: What has to be done, in trainings.
        training_seconds: Seconds of one of them.
        seconds_left: Seconds for all of them.
    """
    return seconds_left / max(n_trainings * training_seconds, 1e-3)


def is_late(n_trainings: float, training_seconds: float, seconds_left: float) -> bool:
    """Whether trainings do not fit into the time. The arguments are as in
    share_that_fits.
    """
    return n_trainings * training_seconds > TOLERATED * seconds_left


def fewer_epochs(epochs: int, share: float) -> int:
    """This share of the epochs, at least FEWEST_EPOCHS, and at most all of them."""
    return min(epochs, max(FEWEST_EPOCHS, int(epochs * share)))


# Measure before a training


def time_calls(
    call: Callable[[], None],
    device: torch.device,
    is_enough: Callable[[Sequence[float]], bool],
    clock: Clock,
) -> list[float]:
    """Call a function repeatedly, and return the seconds of each call.

    Args:
        call: The function.
        device: Where it computes; a call has ended when a GPU has.
        is_enough: Whether to stop, given the seconds of the calls so far.
        clock: Returns the time in seconds.
    """
    seconds = list[float]()
    while not is_enough(seconds):
        began = clock()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        seconds.append(clock() - began)
    return seconds


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


class StepTimer:
    """Times training steps of one process, in single precision and in bfloat16, or only
    in the given one.

    Args:
        n_classes: Number of classes.
        batch_size: Images of a step.
        device: The device.
        n_threads: Threads of PyTorch for one training.
        settings: Given settings by name, of which fast and graph count.
        network: The user's own network, which is copied, instead of that of a rung.
        task: The task of the labels, by default one class for each image.
        n_channels: Of the images.
    """

    def __init__(
        self,
        n_classes: int,
        batch_size: int,
        device: torch.device,
        n_threads: int,
        settings: Mapping[str, Any],
        network: nn.Module | None = None,
        task: ImageTask | None = None,
        n_channels: int = 3,
    ) -> None:
        self.n_channels = n_channels
        self.task = task or Classification()
        self.n_classes = n_classes
        self.batch_size = batch_size
        self.device = device
        self.n_threads = n_threads
        self.settings = settings
        self.network = network
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
        network = self._network_of(rung).to(self.device).train()
        if is_fast:
            enable_amp(network)
        forward = partial(amp_forward, network) if is_fast else network
        generator = torch.Generator(exact_device(self.device))
        optimizer = torch.optim.SGD(
            network.parameters(), 1e-6, momentum=0.9, foreach=True
        )
        images = torch.full(
            (self.batch_size, self.n_channels, rung.side, rung.side),
            0.5,
            device=self.device,
        )
        dtype, shape = self.task.stored(self.batch_size, self.n_classes, rung.side)
        labels = torch.zeros(shape, dtype=getattr(torch, dtype), device=self.device)
        recipe = ScheduleAugmentation(RECIPES["overhead-randaugment"].make())
        policy = EpochPolicy.of(recipe.by_epoch(1, images)[0])
        state = {"network": network, "optimizer": optimizer}
        graphs = StepGraphs.of(
            [network], optimizer, generator, state, wanted=self.settings.get("graph")
        )
        n_slow = 1 if graphs.recorder is None else EAGER_RUNS

        def step(images: Tensor) -> None:
            moved, targets = policy.apply(*policy.tensors, images, labels, generator)
            assert targets is not None
            self.task.loss(forward(moved), targets).backward()
            optimizer.step()
            optimizer.zero_grad()

        def is_enough(seconds: Sequence[float]) -> bool:
            is_long = len(seconds) >= MOST_STEPS or sum(seconds) >= MOST_SECONDS
            return len(seconds) > n_slow and is_long

        threads = torch.get_num_threads()
        torch.set_num_threads(self.n_threads)
        try:
            seconds = time_calls(
                lambda: graphs.run("step", step, images),
                self.device,
                is_enough,
                time.perf_counter,
            )
        except SettingsError:
            # The user's own network cannot compute in bfloat16.
            return math.inf
        finally:
            torch.set_num_threads(threads)
        is_alone = self.n_threads == threads
        return (
            (1.0 if is_alone else BESIDE) * median(seconds[n_slow:]) / self.batch_size
        )

    def _network_of(self, rung: Rung) -> nn.Module:
        if self.network is not None:
            return copy.deepcopy(self.network)
        fine_tuning = dict(rung.further)
        start = None
        if fine_tuning:
            start = Start.of(
                encoder_of(rung.model), fine_tuning["pretrained"], fine_tuning["freeze"]
            )
        return build_model(
            rung.model, self.n_classes, 0, rung.side, start, self.n_channels
        )


# Measure during trainings, and plan again


class TooSlow(Exception):
    """Trainings and what follows do not fit into the time. seconds: of a training."""

    def __init__(self, seconds: float) -> None:
        super().__init__(seconds)
        self.seconds = seconds


@dataclass
class Pace:
    """How fast the trainings of a phase are, n_jobs at a time."""

    n_trainings: int
    """How many there are."""
    n_steps: int
    """Steps of all of them."""
    n_jobs: int
    """How many run at a time."""
    seconds_left: float
    """Time for them and for what follows."""
    following: float
    """Time of what follows, in multiples of one of these trainings."""
    clock: Clock = time.monotonic
    """Returns the time in seconds."""
    times: list[float] = field(default_factory=list, init=False)
    """When each step ended."""

    def step_done(self) -> None:
        """Count a step.

        Raises:
            TooSlow: During the first trainings, if they are too slow.
        """
        now = self.clock()
        self.times.append(now)
        n_parallel = min(self.n_jobs, self.n_trainings)
        share = len(self.times) * self.n_trainings / (n_parallel * max(1, self.n_steps))
        least = WATCHED_SECONDS if n_parallel == 1 else SECONDS_OF_START
        if not WATCHED_SHARE <= share < 1 or now - self.times[0] < least:
            return
        # In the first half of this time, some of the processes may not have started.
        middle = (self.times[0] + now) / 2
        n_steps = len(self.times) - bisect_right(self.times, middle)
        seconds_of_step = (now - middle) * n_parallel / n_steps
        training_seconds = seconds_of_step * self.n_steps / self.n_trainings
        n_left = rounds(self.n_trainings, self.n_jobs) + self.following
        if is_late(n_left, training_seconds, self.seconds_left):
            raise TooSlow(training_seconds)


# A search with a budget


def within(
    seconds: float,
    began: float,
    context: ImageSearchContext,
    clock: Clock = time.monotonic,
) -> ImageSearchContext:
    """The same search with as many epochs as fit into a time, and a note on it.

    A step of the warm-up counts like a later one.

    Args:
        seconds: The time, counted from `began`.
        began: When the time began, by the clock.
        context: The search.
        clock: Returns the time in seconds.

    Raises:
        SettingsError: If too few epochs fit.
    """
    config = context.config
    space = context.problem.space
    algorithm = context.config.algorithm
    every = config.measured_every
    batches = context.problem.train_stream().batches_per_pass
    seconds_of_step, seconds_of_validation = time_search(context, seconds, clock)

    def cost(epochs: int) -> float:
        """Seconds from the first step on, with validations also after the first and the
        last epoch and each leg.
        """
        candidate = config.model_copy(update={"epochs": epochs})
        total = algorithm.total_epochs(candidate, space)
        n_legs = len(algorithm.leg_epochs(candidate, space))
        return (
            total * batches * seconds_of_step
            + (total // every + 2 + 3 * n_legs) * seconds_of_validation
        )

    epochs = bisect_right(
        range(1, MANY_EPOCHS + 1), PLANNED_SHARE * (began + seconds - clock()), key=cost
    )
    if epochs == 0:
        needed = math.ceil(clock() - began + cost(1) / PLANNED_SHARE)
        raise SettingsError(
            f"budget_seconds must be at least about {needed} for one epoch, got"
            f" {seconds:g}"
        )
    config = config.changed({"epochs": epochs})
    note = f"{counted(epochs, 'epoch')} fit into the {seconds:g} s."
    problem = replace(context.problem, config=config)
    return replace(
        context,
        config=config,
        problem=problem,
        start_notes=(*context.start_notes, note),
    )


def time_search(
    context: ImageSearchContext, budget: float, clock: Clock
) -> tuple[float, float]:
    """Time a training step and a validation of a copy of a search.

    The first round of train_steps is slower and not counted, nor are those before steps
    run as CUDA graphs.

    Args:
        context: The search.
        budget: The budget in seconds, of which timing takes a share.
        clock: Returns the time in seconds.

    Returns:
        Mean seconds of a training step with its share of the policy steps, and of a
        pass over all validation images.
    """
    config = context.config.algorithm.config_for_timing(context.config)
    algorithm = config.algorithm
    problem = replace(context.problem, config=config)
    with default_generators(problem.device):
        state = algorithm.begin(problem, context.networks)
        state.graphs = graphs_for(state, problem)
        every = algorithm.steps_for_timing(problem.space)
        n_slow = 1 if state.graphs.recorder is None else EAGER_RUNS
        enough_seconds = min(MEASURED_SHARE * budget, MOST_MEASURED_SECONDS)

        def take_round() -> None:
            for number in range(every):
                algorithm.prepare_timed_step(problem, state, number)
                algorithm.step(problem, state)

        def validate() -> None:
            measure(state.to_module(), problem.data.val, problem.preprocessing.measure)

        def is_enough(seconds: Sequence[float]) -> bool:
            return len(seconds) > n_slow and sum(seconds[n_slow:]) >= enough_seconds

        rounds_taken = time_calls(take_round, state.device, is_enough, clock)[n_slow:]
        (seconds_of_validation,) = time_calls(
            validate, state.device, lambda seconds: len(seconds) == 1, clock
        )
        seconds_of_step = sum(rounds_taken) / (len(rounds_taken) * every)
        return seconds_of_step, seconds_of_validation
