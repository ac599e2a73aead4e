"""Race: decides by forks of one training what to augment with.

symbol    in the code          meaning
P, F      lengths              steps without augmentation, and of a fork
rows      state.rows           policies that are tried, values (legs, n): no augmentation, then one for each fork
l_j       state.losses         losses of the validation images after leg j, (legs, images)

    train P steps without augmentation; keep the weights
    a symmetry g is taken where validation images g(x) are recognised as x are
    for each group of operations, and at first for none: from the weights that were kept, train F steps with the
        symmetries and the group, while the learning rate falls as in the rest of a training
    at last with all groups that lowered the loss
    the policy is that of the fork with the least loss

Where images and their labels are distributed as their mirror images are, a network that has seen no mirror images
recognises them just as well, and augmentation by them only lowers variance (Chen, Dobriban and Lee 2020). Where not, it
does not, and mirroring may ruin a training. No other operation has this test, because what makes images harder may
still prevent overfitting. Forks of one training (Tian et al. 2020) cost a part of whole trainings.

Losses are calibrated: of logits times the one number that is best on the same images. Otherwise all that makes
networks less confident would look good.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LambdaLR

from hba.algorithms.algorithm import Algorithm, Count
from hba.algorithms.state import NetworkModel, Networks, SearchState
from hba.algorithms.task import ImageTask
from hba.config.training import PLATEAU, CommonSearchConfig, Share
from hba.data.labels import is_multi_label
from hba.data.loader import BatchStream, as_floats
from hba.errors import SettingsError
from hba.operations import Operation
from hba.policy.space import SearchSpace
from hba.policy.spaces import randaugment
from hba.training.criterion import losses_of

Typical = Mapping[str, tuple[float, float | None]]
"""By operation, the probability and the magnitude with which it is tried."""
SYMMETRIES: Typical = MappingProxyType(
    {"HorizontalFlip": (0.5, None), "VerticalFlip": (0.5, None), "QuarterTurn": (0.75, None)}
)
"""All eight turns and mirror images are equally likely with these."""
GROUPS: Mapping[str, Typical] = MappingProxyType(
    {
        "crop": {"PaddedCrop": (1.0, 0.125), "ResizedCrop": (0.5, 0.5)},
        "color": {"Hue": (0.5, 0.1), "Saturation": (0.5, 0.5), "Gamma": (0.5, 0.5), "Gray": (0.05, None)},
        "quality": {"Blur": (0.3, 0.04), "Noise": (0.3, 0.06), "Jpeg": (0.2, 40.0)},
        "shape": {"Perspective": (0.3, 0.3), "Elastic": (0.3, 0.1)},
        "erasing": {"Erase": (0.5, 0.25)},
        "mixing": {"Mixup": (0.5, 0.4), "CutMix": (0.5, 1.0)},
    }
)
"""What is tried together; those of the walk are another group, with RandAugment's policy."""
WALK_GROUP = "RandAugment"
LARGEST_GAP = 0.15
"""Of a symmetry: the largest share of what a network has learned that moving images may cost."""
TEMPERATURES = torch.logspace(-3, 3, 61, base=2.0)
"""By which logits are multiplied to calibrate them."""


@dataclass(kw_only=True)
class RaceState(SearchState[NetworkModel]):
    """trunk: a copy of the learner when the forks began, of the stream of batches, and of the generator.

    rows, losses: as above; infinite before the end of a leg. gaps (symmetries, 2): as the function gaps returns them.
    """

    trunk: NetworkModel
    trunk_stream: BatchStream
    trunk_generator: torch.Generator
    rows: Tensor
    losses: Tensor
    gaps: Tensor


class Race(Algorithm):
    """Race, which decides by forks of one training."""

    name: ClassVar[str] = "race"
    multi_label: ClassVar[bool] = True
    can_be_fast: ClassVar[bool] = True
    has_presets: ClassVar[bool] = False
    is_fixed: ClassVar[bool] = True

    count: Count = "searched"
    plain_share: Share = 0.25
    """Part of a training that is without augmentation, and from whose end the forks begin."""
    fork_share: Share = 0.25
    """Length of a fork, as a part of a training."""

    def total_epochs(self, config: CommonSearchConfig, space: SearchSpace) -> int:
        plain, fork = self.lengths(config.epochs)
        return plain + (len(groups_of(space)) + 2) * fork

    def lengths(self, epochs: int) -> tuple[int, int]:
        """Epochs without augmentation, and those of a fork; of a training of so many epochs."""
        plain, fork = (max(1, round(share * epochs)) for share in (self.plain_share, self.fork_share))
        return plain, fork

    def check(self, config: CommonSearchConfig) -> None:
        if config.learning_rate_schedule == PLATEAU:
            raise SettingsError(f"race plans its learning rate: learning_rate_schedule must not be {PLATEAU}")

    def sigma_now(self, state: Any) -> float:
        return 0.0

    def begin(self, task: Any, networks: Networks) -> Any:
        """A network without augmentation."""
        space, groups = task.space, groups_of(task.space)
        if not isinstance(task, ImageTask) or not (groups or symmetries_of(space)) or space.regularizers:
            raise SettingsError("race decides on operations on images alone: tune must be augmentation")
        n_legs, n_images = len(groups) + 3, len(task.data.val)
        return self.with_rates(
            task,
            RaceState.of(
                task,
                lam=space.encode(row_of(space, [WALK_GROUP])).float().to(task.device),
                learner=NetworkModel.of(task, networks(0)),
                trunk=NetworkModel.of(task, networks(0)),
                trunk_stream=task.train_stream(),
                trunk_generator=task.generator(),
                rows=row_of(space, []).repeat(n_legs, 1).to(task.device),
                losses=torch.full((n_legs, n_images), torch.inf, device=task.device),
                gaps=torch.full((len(symmetries_of(space)), 2), torch.inf, device=task.device),
            ),
        )

    def with_rates(self, task: ImageTask, state: RaceState) -> RaceState:
        """Let the learning rate of each step be that of a whole training, which forks run through faster."""
        epochs, per_epoch = task.config.epochs, state.steps_per_epoch
        stand_in, course = task.optimizer_of([torch.zeros(1, requires_grad=True)])
        rates = []
        for _ in range(epochs * per_epoch):
            rates.append(course.get_last_lr()[0])
            stand_in.step()
            course.step()
        plain, fork = (length * per_epoch for length in self.lengths(epochs))

        def factor(step: int) -> float:
            at = step if step < plain else plain + (step - plain) % fork * (len(rates) - plain) // fork
            return float(rates[min(at, len(rates) - 1)] / task.config.learning_rate)

        for group in state.learner.optimizer.param_groups:
            group["lr"] = group["initial_lr"] = task.config.learning_rate
        state.learner.schedule = LambdaLR(state.learner.optimizer, factor)
        return state

    def step(self, task: Any, state: RaceState) -> None:
        """One training step, and at the end of a leg what follows from it."""
        plain, fork = (length * state.steps_per_epoch for length in self.lengths(task.config.epochs))
        leg = 0 if state.step < plain else 1 + (state.step - plain) // fork
        images, labels = state.train_stream.next()
        row = state.rows[leg].float()
        inputs, _ = task.augment_with(row.expand(len(images), -1), images, state.generator)
        mixed, mixed_labels = task.mixed(row, inputs, labels, state.generator)
        state.totals.add_training(*state.learner.learn(mixed, mixed_labels))
        state.step += 1
        if state.step == plain or (state.step > plain and (state.step - plain) % fork == 0):
            self.end_leg(task, state, leg)

    def end_leg(self, task: ImageTask, state: RaceState, leg: int) -> None:
        """Measure the network, decide what follows, and go back to where the forks began."""
        network, space, groups = state.learner.network, task.space, groups_of(task.space)
        logits, labels = logits_of(task, network)
        state.losses[leg] = losses_of(calibrated(logits, labels), labels)
        if leg == 0:
            copy_weights(state.learner, state.trunk)
            state.trunk_stream.load_state_dict(state.train_stream.state_dict())
            state.trunk_generator.set_state(state.generator.get_state())
            state.gaps.copy_(gaps(task, network))
            taken = [
                name for name, is_one in zip(symmetries_of(space), self.is_symmetry(state.gaps), strict=True) if is_one
            ]
            for number, group in enumerate([(), *((name,) for name in groups)], start=1):
                state.rows[number] = row_of(space, [*taken, *group])
            state.lam.copy_(space.encode(row_of(space, [*taken, WALK_GROUP])))
        else:
            if leg == len(groups) + 1:
                state.rows[-1] = self.together(state)
            best = int(state.losses[1:].mean(dim=1).argmin()) + 1
            state.lam.copy_(space.encode(state.rows[best]))
        if leg < len(groups) + 2:
            # All forks have the same batches and random numbers.
            copy_weights(state.trunk, state.learner)
            state.train_stream.load_state_dict(state.trunk_stream.state_dict())
            state.generator.set_state(state.trunk_generator.get_state())

    def findings(self, task: Any, state: RaceState) -> dict[str, Any]:
        """The gaps of symmetries; and of each fork that has ended the mean loss, its difference to the first fork's,
        and the standard error of the difference.
        """
        symmetries = dict(zip(symmetries_of(task.space), state.gaps.tolist(), strict=True))
        forks = {}
        for name, losses in zip(("none", *groups_of(task.space), "together"), state.losses[1:], strict=True):
            difference = losses - state.losses[1]
            if losses.isfinite().all():
                error = difference.std() / len(losses) ** 0.5
                forks[name] = [round(float(one), 5) for one in (losses.mean(), difference.mean(), error)]
        return {"symmetries": symmetries if state.losses[0].isfinite().all() else {}, "forks": forks}

    def is_symmetry(self, found: Tensor) -> list[bool]:
        """found (symmetries, 2): as gaps returns them."""
        return [gap + error <= LARGEST_GAP for gap, error in found.tolist()]

    def together(self, state: RaceState) -> Tensor:
        """The row (n,) of all groups that lowered the loss, or of the two best ones."""
        differences = (state.losses[2:-1] - state.losses[1]).mean(dim=1)
        order = differences.argsort()
        lowered = order[: max(2, int((differences < 0).sum()))]
        return torch.stack([state.rows[1], *state.rows[lowered + 2]]).amax(dim=0)


def symmetries_of(space: SearchSpace) -> tuple[str, ...]:
    return tuple(one.name for one in space.operations if one.stage == "symmetry")


def groups_of(space: SearchSpace) -> dict[str, Typical]:
    """The groups that the space has operations of. Operations of your own are a group each."""
    names = {one.name for one in space.operations}
    found = {name: {one: how for one, how in group.items() if one in names} for name, group in GROUPS.items()}
    if space.walk:
        found = {WALK_GROUP: {}, **found}
    return {name: group for name, group in found.items() if group or name == WALK_GROUP}


def row_of(space: SearchSpace, taken: list[str]) -> Tensor:
    """Values (n,), float64: with the probabilities of the groups and symmetries that are taken, and none of others."""
    walk = space.decode(randaugment(space).double())
    values = dict(zip(space.names, walk.tolist(), strict=True))
    groups = groups_of(space)
    typical: dict[str, Any] = {**SYMMETRIES, **{one: how for group in groups.values() for one, how in group.items()}}
    tried = {one for name in taken for one in groups.get(name, {name: None})}
    for operation in space.operations:
        on_walk = operation.stage == "walk"
        probability, magnitude = typical.get(operation.name, (0.5, None))
        for prefix in space.prefixes(operation):
            if not on_walk:
                values[f"{prefix}.probability"] = probability
                if magnitude is not None:
                    values[f"{prefix}.magnitude"] = magnitude
            if not (WALK_GROUP in taken if on_walk else operation.name in tried):
                values[f"{prefix}.probability"] = 0.0
    row = torch.tensor(list(values.values()), dtype=torch.float64)
    low, high = space.bounds(row.dtype, row.device)
    return row.clamp(low.minimum(high), low.maximum(high))


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
            found.append(torch.stack([cost.mean(), cost.std() / len(cost) ** 0.5]).nan_to_num(nan=torch.inf))
    return torch.stack(found) if found else before.new_zeros(0, 2)


def calibrated(logits: Tensor, labels: Tensor) -> Tensor:
    """Logits times the number of TEMPERATURES that makes their mean loss least."""
    losses = torch.stack([losses_of(one * logits, labels).mean() for one in TEMPERATURES.to(logits)])
    return logits * TEMPERATURES.to(logits)[losses.argmin()]


@torch.no_grad()
def copy_weights(of: NetworkModel, to: NetworkModel) -> None:
    """The network and what its optimizer keeps, without the learning rate."""
    to.network.load_state_dict(of.network.state_dict())
    rates = [group["lr"] for group in to.optimizer.param_groups]
    to.optimizer.load_state_dict(copy.deepcopy(of.optimizer.state_dict()))
    for group, rate in zip(to.optimizer.param_groups, rates, strict=True):
        group["lr"] = rate
