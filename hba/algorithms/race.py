"""Race: decides by forks of one training what to augment with.

symbol    in the code          meaning
P, F      lengths              epochs without augmentation, and of a fork
rows      state.rows           policies that are tried, values (legs, n): no augmentation, then one for each fork
l_j       state.losses         losses of the validation images after leg j, (legs, images)

    train P epochs without augmentation; keep the weights
    take a symmetry g where the network recognises validation images g(x) as well as x
    for each group of operations, and at first for none: from the weights that were kept, train F epochs with the
        symmetries and the group, while the learning rate falls as in the rest of a training
    the same with the two groups that have the least loss, with the three and with the four
    the policy is that of the fork whose loss is the least, if it is a standard error below that without a group

Where images and their labels are distributed as their mirror images are, a network that has seen no mirror images
recognises them just as well, and augmentation by them only lowers variance (Chen, Dobriban and Lee 2020). Where not, it
does not, and mirroring may ruin a training. No other operation has this test, because what makes images harder may
still prevent overfitting. Forks of one training (Tian et al. 2020) cost a part of whole trainings; small images make
them longer at the same price, because in short trainings weak augmentation looks better than it is in long ones.

Losses are calibrated: of logits times the one number that is best on the same images. Otherwise all that makes
networks less confident would look good.
"""

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler

from hba.algorithms.algorithm import Algorithm, Count
from hba.algorithms.race_policies import TOGETHER, WALK_GROUP, groups_of, names_of_forks, row_of, symmetries_of
from hba.algorithms.state import NetworkModel, Networks, SearchState
from hba.algorithms.task import ImageTask
from hba.algorithms.update_schedule import UpdateSchedule
from hba.config.training import PLATEAU, CommonSearchConfig
from hba.data.labels import is_multi_label
from hba.data.loader import BatchStream, as_floats
from hba.errors import SettingsError
from hba.models.resized import Resized
from hba.operations import Operation
from hba.policy.space import SearchSpace
from hba.training.criterion import losses_of
from hba.training.custom_network import CustomNetwork
from hba.utils.seeding import default_generator_state, restore_default_generators
from hba.utils.snapshot import restore, snapshot
from hba.utils.text import counted

PLAIN_SHARE, LARGEST_FORK_SHARE = 0.25, 0.6
"""Of a training: how long it is without augmentation, and how long a fork is at most."""
LEAST_SIDE = 16
"""In pixels."""
LARGEST_GAP = 0.15
"""Of a symmetry: the largest share of what a network has learned that moving images may cost."""
TEMPERATURES = torch.logspace(-3, 3, 61, base=2.0)
"""By which logits are multiplied to calibrate them."""


@dataclass
class Trunk:
    """Everything that decides how a training goes on. default_generators: as default_generator_state returns them."""

    learner: NetworkModel
    train_stream: BatchStream
    generator: torch.Generator
    default_generators: dict[str, Any]


@dataclass(kw_only=True)
class RaceState(SearchState[NetworkModel]):
    """step is the place in the order of legs, one after the other; those that have ended before are skipped.

    trunk: a copy from the end of leg 0, where all forks begin. rows, losses: as above; infinite before the end of a
    leg. ended (legs,): which legs have ended. gaps (symmetries, 2): as the function gaps returns them.
    """

    trunk: Trunk
    rows: Tensor
    losses: Tensor
    ended: Tensor
    gaps: Tensor


class Race(Algorithm):
    """Race, which decides by forks of one training."""

    name: ClassVar[str] = "race"
    multi_label: ClassVar[bool] = True
    can_be_fast: ClassVar[bool] = True
    has_presets: ClassVar[bool] = False
    is_fixed: ClassVar[bool] = True
    idle = ("initial_fraction", "init", "init_from", "train_steps", "sigma", "spread_over", "spread_share")

    count: Count = "searched"
    price: Annotated[float, Field(ge=1.0)] = 2.25
    """How many pixels the search may train on, in trainings of the same epochs. Its time is more: 2.4 to 3.2 trainings
    of 24 pixels on a CPU."""
    smaller: Annotated[float, Field(gt=0.0, le=1.0)] = 2 / 3
    """Sides of images in the search, of those of the training, but at least 16 pixels. 1: for a network that takes
    images of one size only."""

    def side(self, side: int) -> int:
        """Of images in the search, in pixels; side: of those of the training."""
        return min(side, max(LEAST_SIDE, round(self.smaller * side)))

    def lengths(self, config: CommonSearchConfig, space: SearchSpace) -> tuple[int, int]:
        """P and F in epochs, so that the search has its price in pixels."""
        share_of_pixels = (self.side(config.side) / config.side) ** 2
        of_fork = (self.price / share_of_pixels - PLAIN_SHARE) / (len(names_of_forks(space)))
        plain, fork = (max(1, round(one * config.epochs)) for one in (PLAIN_SHARE, min(of_fork, LARGEST_FORK_SHARE)))
        return plain, fork

    def leg_epochs(self, config: CommonSearchConfig, space: SearchSpace) -> tuple[tuple[str, int], ...]:
        plain, fork = self.lengths(config, space)
        return (("no augmentation", plain), *((f"fork {name}", fork) for name in names_of_forks(space)))

    def plan_note(self, config: CommonSearchConfig, space: SearchSpace) -> str:
        (plain, fork), side, n_forks = self.lengths(config, space), self.side(config.side), len(names_of_forks(space))
        trainings = (plain + n_forks * fork) * (side / config.side) ** 2 / config.epochs
        return (
            f"Race: {counted(plain, 'epoch')} without augmentation, then {counted(n_forks, 'fork')} of "
            f"{counted(fork, 'epoch')} each from there, on images of {side}x{side}: as many pixels as {trainings:.1f} "
            f"trainings of {counted(config.epochs, 'epoch')}."
        )

    @property
    def update_schedule(self) -> UpdateSchedule:
        """Without policy steps."""
        return UpdateSchedule(self.train_steps, in_a_row=0)

    def check(self, config: CommonSearchConfig) -> None:
        if config.start:
            raise SettingsError("start has no effect on the algorithm race; remove it")
        if config.learning_rate_schedule == PLATEAU:
            raise SettingsError(f"race plans its learning rate: learning_rate_schedule must not be {PLATEAU}")

    def sigma_now(self, state: Any) -> float:
        return 0.0

    def begin(self, task: Any, networks: Networks) -> Any:
        """A network without augmentation."""
        space = task.space
        if not isinstance(task, ImageTask) or not space.operations or space.regularizers:
            raise SettingsError("race decides on operations on images alone: tune must be augmentation")
        if (n_images := len(task.data.val)) < 2:
            raise SettingsError(f"race needs at least 2 validation images, whose losses it compares, got {n_images}")
        side = self.side(task.config.side)
        if side < task.config.side:
            try:
                CustomNetwork(networks(0)).check_takes(task.data.train, side, len(task.data.class_names))
            except SettingsError as error:
                raise SettingsError(f"race trains on smaller images: {error}; set smaller to 1") from None

        def network() -> nn.Module:
            return networks(0) if side == task.config.side else Resized(networks(0), side)

        n_legs, n_symmetries = 1 + len(names_of_forks(space)), len(symmetries_of(space))
        learner, of_trunk = (NetworkModel.of(task, network()) for _ in range(2))
        trunk = Trunk(of_trunk, task.train_stream(), task.generator(), default_generator_state(task.device))
        for one in (learner, of_trunk):
            one.schedule = self.course(task, one.optimizer, trunk.train_stream.batches_per_pass)
        return RaceState.of(
            task,
            space.encode(row_of(space, [WALK_GROUP])).float().to(task.device),
            learner,
            trunk=trunk,
            rows=row_of(space, []).repeat(n_legs, 1).to(task.device),
            losses=torch.full((n_legs, len(task.data.val)), torch.inf, device=task.device),
            ended=torch.zeros(n_legs, dtype=torch.bool),
            gaps=torch.full((n_symmetries, 2), torch.inf, device=task.device),
        )

    def legs(self, task: Any, steps_per_epoch: int) -> list[range]:
        """The steps of each leg, where all run one after the other."""
        plain, fork = (length * steps_per_epoch for length in self.lengths(task.config, task.space))
        begins = [plain + number * fork for number in range(len(names_of_forks(task.space)))]
        return [range(plain), *(range(begin, begin + fork) for begin in begins)]

    def course(self, task: ImageTask, optimizer: Optimizer, steps_per_epoch: int) -> LRScheduler:
        """The learning rate of a whole training; each fork goes faster through what follows its beginning."""
        plain, fork = (len(steps) for steps in self.legs(task, steps_per_epoch)[:2])
        rates, (stand_in, course) = [], task.optimizer_of([torch.zeros(1, requires_grad=True)])
        for _ in range(task.config.epochs * steps_per_epoch):
            rates.append(float(course.get_last_lr()[0]) / task.config.learning_rate)
            stand_in.step()
            course.step()

        def factor(step: int) -> float:
            at = step if step < plain else plain + (step - plain) % fork * (len(rates) - plain) // fork
            return rates[min(at, len(rates) - 1)]

        for group in optimizer.param_groups:
            group["initial_lr"] = task.config.learning_rate
        return LambdaLR(optimizer, factor)

    def step(self, task: Any, state: RaceState) -> None:
        """One training step of a leg, and at its end what follows from it."""
        legs = self.legs(task, state.steps_per_epoch)
        leg = next(number for number, steps in enumerate(legs) if state.step in steps)
        if leg and state.step == legs[leg].start:
            # All forks have the same batches and random numbers.
            copy_trunk(state.trunk, trunk_of(state))
            restore_default_generators(state.trunk.default_generators, state.device)
            state.totals.reset()
        images, labels = state.train_stream.next()
        row = state.rows[leg].float()
        inputs, _ = task.augment_with(row.expand(len(images), -1), images, state.generator)
        state.totals.add_training(*state.learner.learn(*task.mixed(row, inputs, labels, state.generator)))
        state.step += 1
        if state.step == legs[leg].stop:
            network = state.learner.network
            logits, labels = logits_of(task, network)
            if leg == 0:
                copy_trunk(trunk_of(state), state.trunk)
                state.gaps.copy_(gaps(task, network))
            self.end(task, state, leg, losses_of(calibrated(logits, labels), labels), network.state_dict())

    def forks(self, task: Any, state: RaceState) -> list[int]:
        """The numbers of the legs that can run now in any order, each on a copy of the state; none in leg 0."""
        left = [leg for leg, has_ended in enumerate(state.ended.tolist()) if not has_ended]
        return [] if 0 in left else [leg for leg in left if leg < 2 + len(groups_of(task.space))] or left

    def end(self, task: Any, state: RaceState, leg: int, losses: Tensor, weights: Mapping[str, Tensor]) -> None:
        """Note what a leg has found, and decide what follows. losses (images,). weights: of its network."""
        space, legs = task.space, self.legs(task, state.steps_per_epoch)
        # A network that diverged must not win.
        state.losses[leg] = losses.nan_to_num(nan=torch.inf)
        state.ended[leg] = True
        taken = self.symmetries(space, state.gaps)
        for one in self.forks(task, state):
            state.rows[one] = row_of(space, [*taken, *self.groups_in(space, state, one)])
        is_chosen = bool(state.ended[1:].any())
        least = state.rows[1 + self.winner(state.losses[1:])] if is_chosen else row_of(space, [*taken, WALK_GROUP])
        state.lam.copy_(space.encode(least))
        if leg == len(legs) - 1:
            # The search returns this network, wherever it was trained.
            state.learner.network.load_state_dict(weights)
        if state.step in (legs[leg].stop, *legs[leg]):
            left = (steps.start for steps, has_ended in zip(legs, state.ended.tolist(), strict=True) if not has_ended)
            state.step = next(left, legs[-1].stop)

    def groups_in(self, space: SearchSpace, state: RaceState, leg: int) -> list[str]:
        """Those that a leg has, by the losses of those before it."""
        groups = [*groups_of(space)]
        if leg <= 1 + len(groups):
            return groups[leg - 2 : leg - 1] if leg > 1 else []
        best = state.losses[2 : 2 + len(groups)].mean(dim=1).argsort()
        return [groups[number] for number in best[: TOGETHER[leg - len(groups) - 2]].tolist()]

    def winner(self, losses: Tensor) -> int:
        """Number of the fork with the least upper bound, one standard error above its difference to the first fork.

        So a group that is not better than chance is left out. losses (forks, images) of forks that have not ended are
        infinite.
        """
        differences = losses - losses[0]
        bounds = differences.mean(dim=1) + differences.std(dim=1) / losses.shape[1] ** 0.5
        # Groups that change nothing, as colors of grey images, differ from the first fork by rounding.
        rounded_bounds = (bounds.nan_to_num(nan=torch.inf) * 1e4).round().tolist()
        return rounded_bounds.index(min(rounded_bounds))

    def symmetries(self, space: SearchSpace, found: Tensor) -> list[str]:
        """Those that are taken, by what the function gaps returns."""
        named = zip(symmetries_of(space), found.tolist(), strict=True)
        return [name for name, (gap, error) in named if gap + error <= LARGEST_GAP]

    def findings(self, task: Any, state: RaceState) -> dict[str, Any]:
        """The gaps of symmetries, and the largest that is taken; of each fork that has ended the mean loss, its
        difference to the first fork's, and the standard error of the difference; the fork that was taken, and its
        symmetries and groups. None for what is not a number, and gaps where the network has learned nothing.
        """
        names, forks = symmetries_of(task.space), {}
        for name, losses in zip(names_of_forks(task.space), state.losses[1:], strict=True):
            if losses.isfinite().all():
                difference = losses - state.losses[1]
                numbers = (losses.mean(), difference.mean(), difference.std() / len(losses) ** 0.5)
                forks[name] = rounded(torch.stack(numbers))
        found = {name: rounded(gap) for name, gap in zip(names, state.gaps, strict=True)} if state.ended[0] else {}
        winner, groups = None, [WALK_GROUP]
        if state.ended[1:].any():
            number = self.winner(state.losses[1:])
            winner, groups = names_of_forks(task.space)[number], self.groups_in(task.space, state, 1 + number)
        taken = {"fork": winner, "operations": [*self.symmetries(task.space, state.gaps), *groups]}
        return {"symmetries": found, "largest_gap": LARGEST_GAP, "forks": forks, "taken": taken}


def rounded(numbers: Tensor) -> list[float | None]:
    """As JSON values, which are neither infinite nor -0."""
    return [round(one, 5) + 0.0 if math.isfinite(one) else None for one in numbers.tolist()]


@torch.no_grad()
def logits_of(task: ImageTask, network: nn.Module, move: Operation | None = None) -> tuple[Tensor, Tensor]:
    """Logits (images, classes) and labels of all validation images, each after an operation."""
    was_training = network.training
    network.eval()
    found = []
    for batch, labels in task.data.val.once(500):
        images = as_floats(batch)
        if move is not None:
            places = (torch.arange(len(images) * move.n_uniforms, device=images.device) % 3 + 0.5) / 3
            images = move(images, fill=task.fill, position=places.view(len(images), move.n_uniforms))
        found.append((network(task.preprocessing.measure(images)), labels))
    network.train(was_training)
    logits, labels = (torch.cat(one) for one in zip(*found, strict=True))
    return logits.float(), labels


def doubts(logits: Tensor, labels: Tensor) -> Tensor:
    """1 minus the probability of the label (images,), or its mean over classes for several labels."""
    if is_multi_label(labels):
        return (logits.sigmoid() - labels.float()).abs().mean(dim=1)
    return 1 - logits.softmax(dim=1).gather(1, labels[:, None])[:, 0]


def gaps(task: ImageTask, network: nn.Module) -> Tensor:
    """For each symmetry of the space, the share of what the network has learned that moving images costs, and its
    standard error, (symmetries, 2).

    What it has learned is by how much its doubts are less than those of answers by the shares of classes. Infinite
    where it has learned nothing.
    """
    logits, labels = logits_of(task, network)
    before = doubts(logits, labels)
    share = (labels.float() if is_multi_label(labels) else nn.functional.one_hot(labels).float()).mean(dim=0)
    guessing = (2 * share * (1 - share)).mean() if is_multi_label(labels) else 1 - share.square().sum()
    learned = (guessing - before.mean()).clamp(min=0)
    found = []
    for one in task.space.operations:
        if one.stage == "symmetry":
            cost = (doubts(*logits_of(task, network, one)) - before) / learned
            found.append(
                torch.stack([cost.mean(), cost.std() / len(cost) ** 0.5]).nan_to_num(torch.inf, torch.inf, torch.inf)
            )
    return torch.stack(found) if found else before.new_zeros(0, 2)


def calibrated(logits: Tensor, labels: Tensor) -> Tensor:
    """Logits times the number of TEMPERATURES that makes their mean loss least."""
    losses = torch.stack([losses_of(one * logits, labels).mean() for one in TEMPERATURES.to(logits)])
    return logits * TEMPERATURES.to(logits)[losses.argmin()]


def trunk_of(state: RaceState) -> Trunk:
    """The training as it is, not a copy."""
    return Trunk(state.learner, state.train_stream, state.generator, default_generator_state(state.device))


def copy_trunk(of: Trunk, to: Trunk) -> None:
    restore(to, copy.deepcopy(snapshot(of)))
