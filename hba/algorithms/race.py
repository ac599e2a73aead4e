"""Race: chooses operations by forks of one training, then tunes their strength by
look-ahead.

symbol    in the code          meaning
P, F, A   lengths              epochs without augmentation, of a fork, and of look-ahead
rows      state.rows           policies of the legs, values (legs, n): no augmentation, then one for each fork, and the
                               policy at which look-ahead begins
l_j       state.losses         losses of the validation images after leg j, (legs, images)

    train P epochs without augmentation; save the weights
    choose a symmetry g if the network recognises validation images g(x) as well as x
    first without a group of operations, then with each group: from the saved weights,
        train F epochs with the symmetries and the group, while the learning rate falls
        as in the rest of a training
    do the same with the two groups of the lowest loss, and with the three
    among forks whose loss is a standard error below the loss without a group, and less
        than a standard error above the lowest, choose the policy of the fork with the
        highest training loss
    from the saved weights, train A epochs with this policy, while look-ahead moves the
        values of its groups
    the schedule is this policy for P epochs, then the policies of look-ahead

If mirror images have the same distribution as the images and their labels, a network
that has seen none recognises them just as well, and augmentation by them only lowers
variance (Chen, Dobriban and Lee 2020). Otherwise it does not, and mirroring may ruin a
training. No other operation gets this test, because an operation that makes images
harder may still prevent overfitting. Forks of one training (Tian et al. 2020) cost less
than whole trainings. Smaller images allow longer forks at the same price: in short
trainings, weak augmentation looks better than it is in long ones. For the same reason,
the hardest of the forks that do not differ significantly wins.

Look-ahead rewards images that the network does not fit yet, so it would choose
symmetries that do not hold. Here it moves only the probabilities and magnitudes of the
operations that the forks have chosen.

Losses are calibrated: logits are multiplied by the number that gives the lowest loss on
the same images. Otherwise, everything that makes networks less confident would look
good.
"""

import copy
import math
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from typing import Annotated, Any, ClassVar

import numpy as np
import torch
from pydantic import Field
from torch import Tensor
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, LRScheduler

from hba.algorithms.algorithm import Algorithm, Count
from hba.algorithms.lambda_steps import GradientState
from hba.algorithms.lookahead import Lookahead
from hba.algorithms.race_findings import LARGEST_GAP, is_lower, is_symmetry
from hba.algorithms.race_measures import calibrated, gaps, validated
from hba.algorithms.race_policies import (
    TOGETHER,
    WALK_GROUP,
    groups_of,
    names_of_forks,
    row_of,
    symmetries_of,
)
from hba.algorithms.state import NetworkModel, Networks
from hba.algorithms.task import ImageTask
from hba.algorithms.update_schedule import UpdateSchedule
from hba.config.training import PLATEAU, CommonSearchConfig
from hba.data.loader import BatchStream
from hba.errors import SettingsError
from hba.models.resized import Resized
from hba.policy.space import SearchSpace
from hba.training.criterion import losses_of
from hba.training.custom_network import CustomNetwork
from hba.utils.seeding import default_generator_state, restore_default_generators
from hba.utils.snapshot import restore, snapshot
from hba.utils.text import counted

PLAIN_SHARE, LARGEST_FORK_SHARE = 0.25, 0.6
"""Shares of the epochs of a training: its part without augmentation, and the longest
fork.
"""
LEAST_SIDE, LEAST_STEPS = 8, 50
"""Smallest side of images in pixels, and fewest steps of a fork; a race with fewer
steps prints a note.
"""
LOOKAHEAD, WITHOUT_POLICY_STEPS = Lookahead(), Lookahead(val_steps=0)
LARGEST_LOGIT = 30.0
"""Logit of a probability of 1 (-30 for 0) in look-ahead, which needs finite logits."""


@dataclass
class Trunk:
    """Everything that a training needs to continue. default_generators: as
    default_generator_state returns them.
    """

    learner: NetworkModel
    train_stream: BatchStream
    generator: torch.Generator
    default_generators: dict[str, Any]


@dataclass(kw_only=True)
class RaceState(GradientState[NetworkModel]):
    """The state of a race. step counts over all legs, one after the other; legs that
    have ended before are skipped.

    trunk: a copy from the end of leg 0, where all others begin. rows: as above, on the
    CPU. losses: as above, without the leg of look-ahead; infinite before the end of a
    leg. train_losses (legs,): of the last epoch. ended (legs,): which legs have ended.
    gaps (symmetries, 2): as the function gaps returns them. moves (n,): whether
    look-ahead moves a hyperparameter; all False before its leg. is_moved: whether it
    moves any.
    """

    trunk: Trunk
    rows: Tensor
    losses: Tensor
    train_losses: Tensor
    ended: Tensor
    gaps: Tensor
    moves: Tensor
    is_moved: bool = False


class Race(Algorithm):
    """Race: chooses operations by forks of one training, then tunes their strength by
    look-ahead.
    """

    name: ClassVar[str] = "race"
    multi_label: ClassVar[bool] = True
    can_be_fast: ClassVar[bool] = True
    has_presets: ClassVar[bool] = False
    can_mix: ClassVar[bool] = True
    idle = (
        "initial_fraction",
        "init",
        "init_from",
        "train_steps",
        "sigma",
        "spread_over",
        "spread_share",
    )

    count: Count = "searched"
    price: Annotated[float, Field(ge=1.0)] = 1.6
    """How many pixels the search may train on, in multiples of one training. It takes
    more time than that.
    """
    smaller: Annotated[float, Field(gt=0.0, le=1.0)] = 2 / 3
    """Side of images in the search, relative to images of the training; at least 8
    pixels. Set it to 1 for a network that takes images of one size only.
    """

    tunes_strength: bool = True
    """Tune the strength of the chosen operations by look-ahead, which takes half of the
    time of the search.
    """

    def side(self, side: int) -> int:
        """Side of images in the search, in pixels. side: of images of the training."""
        return min(side, max(LEAST_SIDE, round(self.smaller * side)))

    def lengths(
        self, config: CommonSearchConfig, space: SearchSpace
    ) -> tuple[int, int, int]:
        """P, F and A in epochs, chosen for the price in pixels. P and A together are
        one whole training, if there is a leg of look-ahead; otherwise A is 0.
        """
        share_of_pixels = (self.side(config.side) / config.side) ** 2
        of_fork = min(
            (self.price / share_of_pixels - 1) / len(names_of_forks(space)),
            LARGEST_FORK_SHARE,
        )
        plain = max(1, round(PLAIN_SHARE * config.epochs))
        rest = max(1, config.epochs - plain) if self.tunes_strength else 0
        return plain, max(1, round(of_fork * config.epochs)), rest

    def leg_epochs(
        self, config: CommonSearchConfig, space: SearchSpace
    ) -> tuple[tuple[str, int], ...]:
        plain, fork, rest = self.lengths(config, space)
        forks = ((f"fork {name}", fork) for name in names_of_forks(space))
        return (("no augmentation", plain), *forks, ("look-ahead", rest))

    def plan_note(
        self, config: CommonSearchConfig, space: SearchSpace, steps_per_epoch: int
    ) -> str:
        (plain, fork, rest), side = self.lengths(config, space), self.side(config.side)
        n_forks = len(names_of_forks(space))
        trainings = (
            (plain + n_forks * fork + rest) * (side / config.side) ** 2 / config.epochs
        )
        steps, short = fork * steps_per_epoch, ""
        if steps < LEAST_STEPS:
            epochs = math.ceil(config.epochs * LEAST_STEPS / steps)
            short = (
                f" Forks of {counted(steps, 'step')} are too short to compare; use"
                f" about {epochs} epochs."
            )
        then = f", then look-ahead for {counted(rest, 'epoch')}" if rest else ""
        return (
            f"Race: {counted(plain, 'epoch')} without augmentation, then"
            f" {counted(n_forks, 'fork')} of {counted(fork, 'epoch')} each from"
            f" there{then}, on images of {side}x{side}: as many pixels as"
            f" {trainings:.1f} trainings of {counted(config.epochs, 'epoch')}.{short}"
        )

    @property
    def update_schedule(self) -> UpdateSchedule:
        """It counts no policy steps, because only the last leg makes some."""
        return UpdateSchedule(self.train_steps, in_a_row=0)

    def check(self, config: CommonSearchConfig) -> None:
        if config.learning_rate_schedule == PLATEAU:
            raise SettingsError(
                "race plans its learning rate: learning_rate_schedule must not be"
                f" {PLATEAU}"
            )

    def sigma_now(self, state: Any) -> Tensor:
        return LOOKAHEAD.sigma * state.moves

    def epochs_of_schedule(
        self, rows: np.ndarray, config: CommonSearchConfig, space: SearchSpace
    ) -> list[int]:
        """The epochs of look-ahead, with its first repeated for the epochs before it.
        Only the last epoch until look-ahead has ended, or if it has moved nothing.
        """
        plain, _, rest = self.lengths(config, space)
        first = self.total_epochs(config, space) - rest
        if len(rows) < first + rest or (rows[first:] == rows[-1]).all():
            return [len(rows) - 1]
        return [first] * plain + [*range(first, len(rows))]

    def spread_columns(self, space: SearchSpace) -> Tensor:
        return LOOKAHEAD.spread_columns(space)

    def begin(self, task: Any, networks: Networks) -> Any:
        """Begin with a network that trains without augmentation."""
        space = task.space
        if (
            not isinstance(task, ImageTask)
            or not space.operations
            or space.regularizers
        ):
            raise SettingsError(
                "race chooses only operations on images: tune must be augmentation"
            )
        if space.always:
            raise SettingsError(
                "race chooses operations, but space stn applies all to every image; use"
                " lookahead"
            )
        if (n_images := len(task.data.val)) < 2:
            raise SettingsError(
                "race must have at least 2 validation images to compare losses, got"
                f" {n_images}"
            )
        side, own = self.side(task.config.side), [networks(0), networks(0)]
        if side < task.config.side:
            try:
                CustomNetwork(own[0]).check_takes(
                    task.data.train, side, len(task.data.class_names)
                )
            except SettingsError as error:
                raise SettingsError(
                    f"race trains on smaller images: {error}; set smaller to 1"
                ) from None
            own = [Resized(network, side) for network in own]
        n_legs, n_symmetries = 1 + len(names_of_forks(space)), len(symmetries_of(space))
        learner, of_trunk = (NetworkModel.of(task, network) for network in own)
        trunk = Trunk(
            of_trunk,
            task.train_stream(),
            task.generator(),
            default_generator_state(task.device),
        )
        lam = space.encode(row_of(space, [WALK_GROUP], task.config.start))
        lam = lam.to(task.device, torch.get_default_dtype())
        state = RaceState.of(
            task,
            lam,
            learner,
            mover=LOOKAHEAD.mover(task, lam),
            trunk=trunk,
            rows=row_of(space, []).repeat(n_legs + 1, 1),
            losses=torch.full(
                (n_legs, len(task.data.val)), torch.inf, device=task.device
            ),
            train_losses=torch.zeros(n_legs, device=task.device),
            ended=torch.zeros(n_legs + 1, dtype=torch.bool),
            gaps=torch.full((n_symmetries, 2), torch.inf, device=task.device),
            moves=torch.zeros(space.n, dtype=torch.bool, device=task.device),
        )
        for one in (learner, of_trunk):
            one.schedule = self.course(task, state, one.optimizer)
        return state

    def legs(self, task: Any, steps_per_epoch: int) -> list[range]:
        """The steps of each leg when all run one after the other."""
        ends = [
            *accumulate(
                n * steps_per_epoch for _, n in self.leg_epochs(task.config, task.space)
            )
        ]
        return [range(begin, end) for begin, end in pairwise((0, *ends))]

    def course(
        self, task: ImageTask, state: RaceState, optimizer: Optimizer
    ) -> LRScheduler:
        """The learning rate of a whole training. A fork runs faster through the part
        after its beginning.
        """
        (plain, *others), rates = self.legs(task, state.steps_per_epoch), []
        stand_in, course = task.optimizer_of([torch.zeros(1, requires_grad=True)])
        for _ in range(task.config.epochs * state.steps_per_epoch):
            rates.append(float(course.get_last_lr()[0]) / task.config.learning_rate)
            stand_in.step()
            course.step()

        def factor(n_steps: int) -> float:
            """Factor of the next step. After a first step, state.step is the number of
            the one just made.
            """
            step = state.step + (n_steps > 0)
            leg = next((leg for leg in others if step in leg), others[-1])
            at = len(plain) + (step - leg.start) * (len(rates) - len(plain)) // max(
                1, len(leg)
            )
            return rates[min(step if step in plain else at, len(rates) - 1)]

        for group in optimizer.param_groups:
            group["initial_lr"] = task.config.learning_rate
        return LambdaLR(optimizer, factor)

    def step(self, task: Any, state: RaceState) -> None:
        """Make one training step of a leg, and evaluate the leg after its last step."""
        legs = self.legs(task, state.steps_per_epoch)
        leg = next(number for number, steps in enumerate(legs) if state.step in steps)
        if leg and state.step == legs[leg].start:
            # All forks use the same batches and random numbers.
            restore(trunk_of(state), copy.deepcopy(snapshot(state.trunk)))
            restore_default_generators(state.trunk.default_generators, state.device)
            state.totals.reset()
        task = replace(task, candidates=task.space.candidates(state.rows[leg]))
        if leg == len(state.losses):
            return self.look_ahead(task, state, legs[leg])
        # A blocking copy would wait for the device.
        row = state.rows[leg].to(
            task.device, torch.get_default_dtype(), non_blocking=True
        )
        key = "leg", leg, task.candidates
        state.graphs.run(
            key, partial(self.train_step, task, state), row, *state.train_stream.next()
        )
        state.learner.schedule.step()
        state.step += 1
        if state.step == legs[leg].stop:
            state.graphs.clear()
            logits, labels = validated(task, state.learner.network)
            if leg == 0:
                restore(state.trunk, copy.deepcopy(snapshot(trunk_of(state))))
                state.gaps.copy_(gaps(task, state.learner.network))
            self.end(
                task,
                state,
                leg,
                losses_of(calibrated(logits, labels), labels),
                state.totals.means()[0],
            )

    def train_step(
        self, task: Any, state: RaceState, row: Tensor, images: Tensor, labels: Tensor
    ) -> None:
        """Make one training step with the policy `row` (n,), in natural units."""
        inputs, _ = task.augment_with(
            row.expand(len(images), -1), images, state.generator
        )
        state.totals.add_training(
            *state.learner.learn(*task.mixed(row, inputs, labels, state.generator))
        )

    @torch.no_grad()
    def look_ahead(self, task: Any, state: RaceState, leg: range) -> None:
        """Make one step of look-ahead. It moves the values of the groups that the forks
        chose, not of symmetries.
        """
        mover = state.mover
        if state.step == leg.start:
            chosen = moved_by_lookahead(task.space, task.space.decode(state.lam))
            state.lam.clamp_(-LARGEST_LOGIT, LARGEST_LOGIT)
            mover.start.copy_(state.lam)
            state.moves.copy_(chosen)
            state.is_moved = bool(chosen.any())
        with torch.enable_grad():
            (LOOKAHEAD if state.is_moved else WITHOUT_POLICY_STEPS).step(task, state)
        state.lam.copy_(state.lam.where(state.moves, mover.start))
        state.ended[-1] = state.step == leg.stop

    def forks(self, task: Any, state: RaceState) -> list[int]:
        """Numbers of the legs that can run now, in any order, each on a copy of the
        state; none in leg 0.
        """
        left = [
            leg
            for leg, has_ended in enumerate(state.ended.tolist()[:-1])
            if not has_ended
        ]
        return (
            []
            if 0 in left
            else [leg for leg in left if leg < 2 + len(groups_of(task.space))] or left
        )

    def end(
        self, task: Any, state: RaceState, leg: int, losses: Tensor, train_loss: float
    ) -> None:
        """Store the results of a leg, losses (images,) and train_loss of its last
        epoch; set the later policies.
        """
        space, legs = task.space, self.legs(task, state.steps_per_epoch)
        # A network that diverged must not win.
        state.losses[leg] = losses.nan_to_num(nan=torch.inf)
        state.train_losses[leg], state.ended[leg] = train_loss, True
        taken = self.symmetries(space, state.gaps)
        for one in self.forks(task, state):
            state.rows[one] = row_of(
                space, [*taken, *self.groups_in(space, state, one)], task.config.start
            )
        is_chosen = bool(state.ended[1:].any())
        first = row_of(space, [*taken, WALK_GROUP], task.config.start)
        state.rows[-1] = (
            state.rows[1 + self.winner(state.losses[1:], state.train_losses[1:])]
            if is_chosen
            else first
        )
        state.lam.detach().copy_(space.encode(state.rows[-1]))
        if state.step in (legs[leg].stop, *legs[leg]):
            state.step = next(
                steps.start
                for number, steps in enumerate(legs)
                if not state.ended[number]
            )

    def groups_in(self, space: SearchSpace, state: RaceState, leg: int) -> list[str]:
        """The groups of operations of a leg, given the losses of the legs before it."""
        groups = [*groups_of(space)]
        if leg <= 1 + len(groups):
            return groups[leg - 2 : leg - 1] if leg > 1 else []
        best = state.losses[2 : 2 + len(groups)].mean(dim=1).argsort()
        return [
            groups[number]
            for number in best[: TOGETHER[leg - len(groups) - 2]].tolist()
        ]

    def winner(self, losses: Tensor, train_losses: Tensor) -> int:
        """Number of the fork to choose: the hardest to fit among those that are better
        than the first and as good as the best, by one standard error of the
        differences. If none is better, the first.

        losses (forks, images): infinite for forks that have not ended. train_losses
        (forks,).
        """
        minus, error = mean_and_error(losses - losses[0])
        is_better = is_lower(minus, error)
        if not is_better.any():
            return 0
        behind, error = mean_and_error(
            losses - losses[(minus + error).nan_to_num(nan=torch.inf).argmin()]
        )
        return int(
            train_losses.where(is_better & (behind <= error), -torch.inf).argmax()
        )

    def symmetries(self, space: SearchSpace, found: Tensor) -> list[str]:
        """Names of the symmetries to apply. found: what the function gaps returns."""
        named = zip(symmetries_of(space), found.tolist(), strict=True)
        return [name for name, (gap, error) in named if is_symmetry(gap, error)]

    def findings(self, task: Any, state: RaceState) -> dict[str, Any]:
        """The gaps of symmetries, and the largest gap allowed; for each fork that has
        ended, its mean loss, the difference to the first fork, and its standard error;
        the chosen fork, its symmetries and groups, and whether look-ahead moves their
        values. Numbers that are not finite, as gaps of a network that learned nothing,
        are None.
        """
        names, forks = symmetries_of(task.space), {}
        for name, losses in zip(
            names_of_forks(task.space), state.losses[1:], strict=True
        ):
            if losses.isfinite().all():
                minus = mean_and_error((losses - state.losses[1])[None])
                forks[name] = rounded(torch.cat([losses.mean()[None], *minus]))
        found = (
            {name: rounded(gap) for name, gap in zip(names, state.gaps, strict=True)}
            if state.ended[0]
            else {}
        )
        winner, groups = None, [WALK_GROUP]
        if state.ended[1:].any():
            number = self.winner(state.losses[1:], state.train_losses[1:])
            winner, groups = (
                names_of_forks(task.space)[number],
                self.groups_in(task.space, state, 1 + number),
            )
        taken = {
            "fork": winner,
            "operations": [*self.symmetries(task.space, state.gaps), *groups],
        }
        measured = {"symmetries": found, "largest_gap": LARGEST_GAP, "forks": forks}
        return {**measured, "taken": {**taken, "is_moved": state.is_moved}}


def moved_by_lookahead(space: SearchSpace, row: Tensor) -> Tensor:
    """Which hyperparameters look-ahead moves from the values (n,), bool (n,): those of
    the operations in use, without symmetries. None if the policy mixes images, which
    look-ahead cannot search.
    """
    moves = torch.zeros(space.n, dtype=torch.bool)
    if any(
        row[space.names.index(f"{one.name}.probability")] > 0 for one in space.mixing
    ):
        return moves
    for slot in space.slots:
        if slot.operation.stage != "symmetry" and row[slot.probability] > 0:
            moves[slot.probability] = True
            moves[slot.magnitude or slot.probability] = True
    of_walk = [slot.probability for slot in space.slots[space.walk_slots]]
    moves[space.count_columns] = moves[of_walk].any()
    return moves


def mean_and_error(differences: Tensor) -> tuple[Tensor, Tensor]:
    """Means and standard errors (forks,) of differences (forks, images)."""
    return differences.mean(dim=1), differences.std(dim=1) / differences.shape[1] ** 0.5


def rounded(numbers: Tensor) -> list[float | None]:
    """Rounded JSON values; None for what is not finite, and 0 for -0."""
    return [
        round(one, 5) + 0.0 if math.isfinite(one) else None for one in numbers.tolist()
    ]


def trunk_of(state: RaceState) -> Trunk:
    """The current training, not a copy."""
    return Trunk(
        state.learner,
        state.train_stream,
        state.generator,
        default_generator_state(state.device),
    )
