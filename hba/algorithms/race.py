"""Race: chooses operations by forks of one training, then tunes their strength by
look-ahead.

symbol   in the code   meaning
P, F, A  lengths       epochs without augmentation, of a fork, and of look-ahead
rows     state.rows    policies of the legs, values (legs, n): no augmentation, then one
                       for each fork, and the policy at which look-ahead begins
l_j      state.losses  losses of the validation images after leg j, (legs, images)

    train P epochs without augmentation, on three quarters of the images; save the
        weights
    choose a symmetry g if the network recognises new images g(x) as well as x; if it
        does not, choose g for the classes whose images g(x) it recognises as well as x,
        as the same class or as one that g exchanges with it
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

At a price of 1, there are no forks, and look-ahead begins with RandAugment.

New images are those that these epochs have not seen, and the validation images, unless
these are separate and so may be of another kind. If mirror images have the same
distribution as the images and their labels, a network that has seen none recognises
them just as well, and augmentation by them only lowers variance (Chen, Dobriban and Lee
2020). Otherwise it does not, and mirroring may ruin a training. No other operation gets
this test, because an operation that makes images harder may still prevent overfitting.
Forks of one training (Tian et al. 2020) cost less than whole trainings. Smaller images
allow longer forks at the same price: in short trainings, weak augmentation looks better
than it is in long ones. For the same reason, the hardest of the forks that do not
differ significantly wins.

Look-ahead rewards images that the network does not fit yet, so it would choose
symmetries that do not hold. Here it moves only the probabilities and magnitudes of the
operations that the forks have chosen.

Losses are calibrated: logits are multiplied by the number that gives the lowest loss on
the same images. Otherwise, everything that makes networks less confident would look
good.
"""

import copy
import functools
import math
from collections.abc import Set
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

from hba.algorithms.algorithm import Algorithm, ConfigT, Count
from hba.algorithms.lambda_steps import GradientState
from hba.algorithms.lookahead import Lookahead
from hba.algorithms.problem import Batches, ImageProblem
from hba.algorithms.race_findings import LARGEST_GAP, is_lower
from hba.algorithms.race_measures import (
    SymmetryTest,
    calibrated,
    held_out,
    tested_symmetries,
    validated,
)
from hba.algorithms.race_policies import (
    TOGETHER,
    WALK_GROUP,
    groups_of,
    names_of_forks,
    row_of,
)
from hba.algorithms.state import NetworkModel, Networks
from hba.algorithms.update_schedule import UpdateSchedule
from hba.config.training import PLATEAU, CommonSearchConfig
from hba.errors import SettingsError
from hba.models.resized import Resized
from hba.operations.operation import SYMMETRY
from hba.policy.class_moves import ClassMoves
from hba.policy.space import SearchSpace
from hba.tasks import IMAGE_TASKS
from hba.training.custom_network import CustomNetwork
from hba.utils.seeding import default_generator_state, restore_default_generators
from hba.utils.snapshot import restore, snapshot
from hba.utils.text import counted

PLAIN_SHARE = 0.25
"""Share of the epochs of a training without augmentation."""
LARGEST_FORK_SHARE = 0.6
"""Share of the epochs of a training in the longest fork."""
LEAST_SIDE = 8
"""Smallest side of images in pixels."""
LEAST_STEPS = 50
"""Fewest steps of a fork; a race with fewer steps prints a note."""
LOOKAHEAD = Lookahead()
WITHOUT_POLICY_STEPS = Lookahead(val_steps=0)
EPOCHS_FOR_TIMING = 8
"""Epochs of the training whose first steps are timed."""
SECONDS_TO_TUNE_STRENGTH = 3600.0
"""The shortest budget of `hba auto` in which the strength is tuned."""
FOR_FORKS = frozenset({"price", "space", "operations", "operations_file", "start"})
"""Settings with which the race of `hba auto` has forks."""
LARGEST_LOGIT = 30.0
"""Logit of a probability of 1 (-30 for 0) in look-ahead, which needs finite logits."""


@dataclass
class Trunk:
    """Everything that a training needs to continue."""

    learner: NetworkModel
    train_stream: Batches
    generator: torch.Generator
    default_generators: dict[str, Any]
    """As default_generator_state returns them."""


@dataclass(kw_only=True)
class RaceState(GradientState[NetworkModel]):
    """The state of a race.

    step counts over all legs, one after the other; legs that have ended before are
    skipped.
    """

    trunk: Trunk
    """A copy from the end of leg 0, where all others begin."""
    rows: Tensor
    """Policies of the legs (legs, n), as above, on the CPU."""
    losses: Tensor
    """Losses (legs, images), as above, without the leg of look-ahead; infinite before
    the end of a leg.
    """
    train_losses: Tensor
    """Training losses (legs,) of the last epoch."""
    ended: Tensor
    """Which legs have ended, (legs,)."""
    plain_stream: Batches
    """Batches of leg 0, without the images that it holds out."""
    held_out: Tensor
    """Indices of these training images, on the CPU."""
    symmetry_test: SymmetryTest
    """The test after leg 0, on the CPU."""
    moves: Tensor
    """Whether look-ahead moves a hyperparameter (n,); all False before its leg."""
    is_moved: bool = False
    """Whether look-ahead moves any."""


class Race(Algorithm[RaceState, ImageProblem]):
    """Race: chooses operations by forks of a training, their strength by look-ahead."""

    name: ClassVar[str] = "race"
    tasks: ClassVar[tuple[str, ...]] = tuple(IMAGE_TASKS)
    can_be_fast: ClassVar[bool] = True
    has_presets: ClassVar[bool] = False
    can_mix: ClassVar[bool] = True
    has_parallel_parts: ClassVar[bool] = True
    default_space: ClassVar[str] = "recipe"
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
    more time than that. With 1 there are no forks.
    """
    smaller: Annotated[float, Field(gt=0.0, le=1.0)] = 2 / 3
    """Side of images in the search, relative to images of the training; at least 8
    pixels. Set it to 1 for a network that takes images of one size only.
    """

    tunes_strength: bool = True
    """Tune the strength of the chosen operations by look-ahead, which takes half of the
    time of the search.
    """

    @property
    def has_forks(self) -> bool:
        return self.price > 1

    @property
    def only_tests_symmetries(self) -> bool:
        """Whether nothing follows the training without augmentation."""
        return not self.has_forks and not self.tunes_strength

    def forks(self, space: SearchSpace) -> tuple[str, ...]:
        """Names of the forks."""
        return names_of_forks(space) if self.has_forks else ()

    def side(self, side: int) -> int:
        """Side of images in the search, in pixels.

        Args:
            side: Side of images of the training.
        """
        return min(side, max(LEAST_SIDE, round(self.smaller * side)))

    def lengths(
        self, config: CommonSearchConfig, space: SearchSpace
    ) -> tuple[int, int, int]:
        """P, F and A in epochs, chosen for the price in pixels.

        P and A together are one whole training, if there is a leg of look-ahead;
        otherwise A is 0.
        """
        share_of_pixels = (self.side(config.side) / config.side) ** 2
        of_fork = min(
            (self.price / share_of_pixels - 1) / len(names_of_forks(space)),
            LARGEST_FORK_SHARE,
        )
        plain = max(1, round(PLAIN_SHARE * config.epochs))
        lookahead = max(1, config.epochs - plain) if self.tunes_strength else 0
        return plain, max(1, round(of_fork * config.epochs)), lookahead

    def leg_epochs(
        self, config: CommonSearchConfig, space: SearchSpace
    ) -> tuple[tuple[str, int], ...]:
        plain, fork, lookahead = self.lengths(config, space)
        forks = ((f"fork {name}", fork) for name in self.forks(space))
        return (("no augmentation", plain), *forks, ("look-ahead", lookahead))

    def plan_note(
        self, config: CommonSearchConfig, space: SearchSpace, steps_per_epoch: int
    ) -> str:
        plain, fork, lookahead = self.lengths(config, space)
        side = self.side(config.side)
        n_forks = len(self.forks(space))
        trainings = (
            (plain + n_forks * fork + lookahead)
            * (side / config.side) ** 2
            / config.epochs
        )
        steps = fork * steps_per_epoch
        short = ""
        if n_forks and steps < LEAST_STEPS:
            epochs = math.ceil(config.epochs * LEAST_STEPS / steps)
            short = (
                f" Forks of {counted(steps, 'step')} are too short to compare; use"
                f" about {epochs} epochs."
            )
        then = (
            f", then look-ahead for {counted(lookahead, 'epoch')}" if lookahead else ""
        )
        forks = (
            f", then {counted(n_forks, 'fork')} of {counted(fork, 'epoch')} each from"
            " there"
            if n_forks
            else ""
        )
        return (
            f"Race: {counted(plain, 'epoch')} without augmentation{forks}{then}, on"
            f" images of {side}x{side}: as many pixels as"
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

    def sigma_now(self, state: RaceState) -> Tensor:
        return LOOKAHEAD.sigma * state.moves

    def epochs_of_schedule(
        self, rows: np.ndarray, config: CommonSearchConfig, space: SearchSpace
    ) -> list[int]:
        """The epochs of look-ahead, with its first repeated for the epochs before it.

        It is only the last epoch until look-ahead has ended, or if it has moved
        nothing.
        """
        plain, _, lookahead = self.lengths(config, space)
        first = self.total_epochs(config, space) - lookahead
        if len(rows) < first + lookahead or (rows[first:] == rows[-1]).all():
            return [len(rows) - 1]
        return [first] * plain + [*range(first, len(rows))]

    def spread_columns(self, space: SearchSpace) -> Tensor:
        return LOOKAHEAD.spread_columns(space)

    def begin(self, problem: ImageProblem, networks: Networks) -> RaceState:
        """Begin with a network that trains without augmentation."""
        space = problem.space
        if (
            not isinstance(problem, ImageProblem)
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
        if (n_images := len(problem.data.val)) < 2:
            raise SettingsError(
                "race must have at least 2 validation images to compare losses, got"
                f" {n_images}"
            )
        side = self.side(problem.config.side)
        network_pair = [networks(0), networks(0)]
        if side < problem.config.side:
            try:
                CustomNetwork(network_pair[0]).check_takes(
                    problem.data.train, side, len(problem.data.class_names)
                )
            except SettingsError as error:
                raise SettingsError(
                    f"race trains on smaller images: {error}; set smaller to 1"
                ) from None
            network_pair = [Resized(network, side) for network in network_pair]
        n_legs = 1 + len(self.forks(space))
        places = held_out(problem)
        learner, of_trunk = (
            NetworkModel.of(problem, network) for network in network_pair
        )
        trunk = Trunk(
            of_trunk,
            problem.train_stream(),
            problem.generator(),
            default_generator_state(problem.device),
        )
        first = self.first_groups(space)
        lam = space.encode(row_of(space, first, problem.config.start))
        lam = lam.to(problem.device, torch.get_default_dtype())
        state = RaceState.of(
            problem,
            lam,
            learner,
            mover=LOOKAHEAD.mover(problem, lam),
            trunk=trunk,
            rows=row_of(space, []).repeat(n_legs + 1, 1),
            losses=torch.full(
                (n_legs, len(problem.data.val)), torch.inf, device=problem.device
            ),
            train_losses=torch.zeros(n_legs, device=problem.device),
            ended=torch.zeros(n_legs + 1, dtype=torch.bool),
            plain_stream=problem.train_stream(without=places),
            held_out=places,
            symmetry_test=SymmetryTest.before(space, len(problem.data.class_names)),
            moves=torch.zeros(space.n, dtype=torch.bool, device=problem.device),
        )
        for model in (learner, of_trunk):
            model.schedule = self.course(problem, state, model.optimizer)
        return state

    def legs(self, problem: ImageProblem, steps_per_epoch: int) -> list[range]:
        """The steps of each leg when all run one after the other."""
        ends = [
            *accumulate(
                n * steps_per_epoch
                for _, n in self.leg_epochs(problem.config, problem.space)
            )
        ]
        return [range(begin, end) for begin, end in pairwise((0, *ends))]

    def course(
        self, problem: ImageProblem, state: RaceState, optimizer: Optimizer
    ) -> LRScheduler:
        """The learning rate of a whole training.

        A fork runs faster through the part after its beginning.
        """
        plain, *fork_legs = self.legs(problem, state.steps_per_epoch)
        rates = []
        stand_in, course = problem.optimizer_of([torch.zeros(1, requires_grad=True)])
        for _ in range(problem.config.epochs * state.steps_per_epoch):
            rates.append(float(course.get_last_lr()[0]) / problem.config.learning_rate)
            stand_in.step()
            course.step()

        def factor(n_steps: int) -> float:
            """Factor of the next step. After a first step, state.step is the number of
            the one just made.
            """
            step = state.step + (n_steps > 0)
            leg = next((leg for leg in fork_legs if step in leg), fork_legs[-1])
            at = len(plain) + (step - leg.start) * (len(rates) - len(plain)) // max(
                1, len(leg)
            )
            return rates[min(step if step in plain else at, len(rates) - 1)]

        for group in optimizer.param_groups:
            group["initial_lr"] = problem.config.learning_rate
        return LambdaLR(optimizer, factor)

    def step(self, problem: ImageProblem, state: RaceState) -> None:
        """Make one training step of a leg, and evaluate the leg after its last step."""
        legs = self.legs(problem, state.steps_per_epoch)
        leg = next(number for number, steps in enumerate(legs) if state.step in steps)
        if leg and state.step == legs[leg].start:
            # All forks use the same batches and random numbers.
            restore(trunk_of(state), copy.deepcopy(snapshot(state.trunk)))
            restore_default_generators(state.trunk.default_generators, state.device)
            state.totals.reset()
        problem = replace(
            problem,
            space=self.space_of_schedule(problem, state),
            candidates=problem.space.candidates(state.rows[leg]),
        )
        if leg == len(state.losses):
            return self.look_ahead(problem, state, legs[leg])
        # A blocking copy would wait for the device.
        row = state.rows[leg].to(
            problem.device, torch.get_default_dtype(), non_blocking=True
        )
        key = "leg", leg, problem.candidates
        stream = state.train_stream if leg else state.plain_stream
        state.graphs.run(
            key,
            partial(self.train_step, problem, state),
            row,
            *stream.next(),
        )
        state.learner.schedule.step()
        state.step += 1
        if state.step == legs[leg].stop:
            state.graphs.clear()
            logits, labels = validated(problem, state.learner.network)
            if leg == 0:
                restore(state.trunk, copy.deepcopy(snapshot(trunk_of(state))))
                test = tested_symmetries(problem, state.learner.network, state.held_out)
                restore(state.symmetry_test, snapshot(test))
            self.end(
                problem,
                state,
                leg,
                problem.task.losses(calibrated(logits, labels), labels),
                state.totals.means()[0],
            )

    def train_step(
        self,
        problem: ImageProblem,
        state: RaceState,
        row: Tensor,
        images: Tensor,
        labels: Tensor,
    ) -> None:
        """Make one training step with the policy `row` (n,), in natural units."""
        inputs, labels, _ = problem.augment_with(
            row.expand(len(images), -1), images, labels, state.generator
        )
        state.totals.add_training(
            *state.learner.learn(*problem.mixed(row, inputs, labels, state.generator))
        )

    @torch.no_grad()
    def look_ahead(self, problem: ImageProblem, state: RaceState, leg: range) -> None:
        """Make one step of look-ahead.

        It moves the values of the groups that the forks chose, not of symmetries.
        """
        mover = state.mover
        if state.step == leg.start:
            chosen = moved_by_lookahead(problem.space, problem.space.decode(state.lam))
            state.lam.clamp_(-LARGEST_LOGIT, LARGEST_LOGIT)
            mover.start.copy_(state.lam)
            state.moves.copy_(chosen)
            state.is_moved = bool(chosen.any())
        with torch.enable_grad():
            (LOOKAHEAD if state.is_moved else WITHOUT_POLICY_STEPS).step(problem, state)
        state.lam.copy_(state.lam.where(state.moves, mover.start))
        state.ended[-1] = state.step == leg.stop

    def most_parallel_parts(self, space: SearchSpace) -> int:
        return 1 + len(groups_of(space)) if self.has_forks else 1

    def parallel_parts(self, problem: ImageProblem, state: RaceState) -> list[int]:
        """Numbers of the forks that can run now; none in leg 0."""
        left = [
            leg
            for leg, has_ended in enumerate(state.ended.tolist()[:-1])
            if not has_ended
        ]
        if 0 in left:
            return []
        with_one_group = [
            leg for leg in left if leg < 2 + len(groups_of(problem.space))
        ]
        return with_one_group or left

    def start_part(self, problem: ImageProblem, state: RaceState, part: int) -> None:
        steps = self.legs(problem, state.steps_per_epoch)[part]
        if state.step not in steps:
            state.step = steps.start

    def result_of_part(
        self, state: RaceState, part: int
    ) -> tuple[Tensor, float] | None:
        """The losses (images,) and the training loss of a fork; None until it ends."""
        if not state.ended[part]:
            return None
        return state.losses[part], float(state.train_losses[part])

    def end_part(
        self,
        problem: ImageProblem,
        state: RaceState,
        part: int,
        result: tuple[Tensor, float],
    ) -> None:
        losses, train_loss = result
        self.end(problem, state, part, losses, train_loss)

    def cost(self, n_jobs: int = 1) -> float:
        # The forks run in parallel, look-ahead does not.
        forks = 1.2 if n_jobs > 1 else 1.8
        without_lookahead = forks if self.has_forks else PLAIN_SHARE
        return without_lookahead + (1.1 if self.tunes_strength else 0.0)

    def config_for_timing(self, config: ConfigT) -> ConfigT:
        # At its start, a race plans the learning rates of all epochs.
        return config.model_copy(update={"epochs": EPOCHS_FOR_TIMING})

    def steps_for_timing(self, space: SearchSpace) -> int:
        return max(1, len(self.forks(space)))

    def prepare_timed_step(
        self, problem: ImageProblem, state: RaceState, number: int
    ) -> None:
        """Always in the first leg, with all symmetries and each group in turn."""
        symmetries = [operation.name for operation in problem.space.symmetries]
        fork = self.forks(problem.space)[number : number + 1]
        state.step = 0
        state.rows[0] = row_of(problem.space, [*symmetries, *fork])

    @classmethod
    def settings_in_auto(cls, budget_seconds: float, given: Set[str]) -> dict[str, Any]:
        """Its contest tries groups of operations in whole trainings, instead of forks,
        unless the user asks for a price or chooses operations.
        """
        tunes_strength = budget_seconds >= SECONDS_TO_TUNE_STRENGTH
        if given & FOR_FORKS:
            return {"tunes_strength": tunes_strength}
        return {"price": 1.0, "smaller": 1.0, "tunes_strength": tunes_strength}

    def end(
        self,
        problem: ImageProblem,
        state: RaceState,
        leg: int,
        losses: Tensor,
        train_loss: float,
    ) -> None:
        """Store the results of a leg, and set the later policies.

        Args:
            problem: The problem of the search.
            state: The state, which is changed in place.
            leg: Number of the leg.
            losses: Losses of the validation images (images,).
            train_loss: Training loss of the last epoch of the leg.
        """
        space = problem.space
        legs = self.legs(problem, state.steps_per_epoch)
        # A network that diverged must not win.
        state.losses[leg] = losses.nan_to_num(nan=torch.inf)
        state.train_losses[leg] = train_loss
        state.ended[leg] = True
        applied = state.symmetry_test.chosen(space)
        for fork in self.parallel_parts(problem, state):
            groups = self.groups_in(space, state, fork)
            state.rows[fork] = row_of(space, [*applied, *groups], problem.config.start)
        if state.ended[1:-1].any():
            chosen = 1 + self.winner(state.losses[1:], state.train_losses[1:])
            state.rows[-1] = state.rows[chosen]
        else:
            first = [*applied, *self.first_groups(space)]
            state.rows[-1] = row_of(space, first, problem.config.start)
        state.lam.detach().copy_(space.encode(state.rows[-1]))
        if state.step in (legs[leg].stop, *legs[leg]):
            state.step = next(
                steps.start
                for number, steps in enumerate(legs)
                if not state.ended[number]
            )

    def first_groups(self, space: SearchSpace) -> list[str]:
        """The groups of the policy before any fork has ended, and without forks."""
        return [WALK_GROUP] if space.walk and not self.only_tests_symmetries else []

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
        """Number of the fork to choose.

        It is the hardest to fit among those that are better than the first and as good
        as the best, by one standard error of the differences; the first if none is
        better.

        Args:
            losses: Losses (forks, images), infinite for forks that have not ended.
            train_losses: Training losses (forks,).
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

    def space_of_schedule(self, problem: ImageProblem, state: RaceState) -> SearchSpace:
        moves = state.symmetry_test.class_moves(problem.space, problem.data.class_names)
        return problem.space if moves is None else _with_moves(problem.space, moves)

    def findings(self, problem: ImageProblem, state: RaceState) -> dict[str, Any]:
        """What the race has found, as JSON values.

        These are the gaps of symmetries, the names of those that hold only for some
        classes, the numbers of images that decide, and the largest gap allowed; for
        each fork that has ended, its mean loss, the difference to the first fork, and
        its standard error; the chosen fork, its symmetries and groups, and whether
        look-ahead moves their values. Numbers that are not finite, as gaps of a network
        that learned nothing, are None.
        """
        names = [operation.name for operation in problem.space.symmetries]
        test = state.symmetry_test
        moves = test.class_moves(problem.space, problem.data.class_names)
        forks = {}
        for name, losses in zip(
            self.forks(problem.space), state.losses[1:], strict=True
        ):
            if losses.isfinite().all():
                minus = mean_and_error((losses - state.losses[1])[None])
                forks[name] = rounded(torch.cat([losses.mean()[None], *minus]))
        gap_by_symmetry = (
            {name: rounded(gap) for name, gap in zip(names, test.gaps, strict=True)}
            if state.ended[0]
            else {}
        )
        winner = None
        groups = self.first_groups(problem.space)
        if state.ended[1:-1].any():
            number = self.winner(state.losses[1:], state.train_losses[1:])
            winner = self.forks(problem.space)[number]
            groups = self.groups_in(problem.space, state, 1 + number)
        choice = {
            "fork": winner,
            "operations": [*test.chosen(problem.space), *groups],
        }
        measured = {
            "symmetries": gap_by_symmetry,
            "symmetries_by_class": [] if moves is None else list(moves.operations),
            "n_held_out": len(state.held_out),
            "n_validation": len(problem.data.val),
            "has_own_validation": problem.data.has_own_val,
            "largest_gap": LARGEST_GAP,
            "forks": forks,
        }
        return {**measured, "taken": {**choice, "is_moved": state.is_moved}}


@functools.cache
def _with_moves(space: SearchSpace, moves: ClassMoves) -> SearchSpace:
    return replace(space, class_moves=moves)


def moved_by_lookahead(space: SearchSpace, row: Tensor) -> Tensor:
    """Which hyperparameters look-ahead moves: those of operations in use.

    Symmetries are not moved, and nothing is if the policy mixes images, which
    look-ahead cannot search.

    Args:
        space: The search space.
        row: Values (n,) at which look-ahead begins.

    Returns:
        bool (n,).
    """
    moves = torch.zeros(space.n, dtype=torch.bool)
    if any(
        row[space.names.index(f"{operation.name}.probability")] > 0
        for operation in space.mixing
    ):
        return moves
    for slot in space.slots:
        if slot.operation.stage != SYMMETRY and row[slot.probability] > 0:
            moves[slot.probability] = True
            if slot.magnitude is not None:
                moves[slot.magnitude] = True
    of_walk = [slot.probability for slot in space.slots[space.walk_slots]]
    moves[space.count_columns] = moves[of_walk].any()
    return moves


def mean_and_error(differences: Tensor) -> tuple[Tensor, Tensor]:
    """Means and standard errors (forks,) of differences (forks, images)."""
    return differences.mean(dim=1), differences.std(dim=1) / differences.shape[1] ** 0.5


def rounded(numbers: Tensor) -> list[float | None]:
    """Rounded JSON values; None for what is not finite, and 0 for -0."""
    return [
        round(number, 5) + 0.0 if math.isfinite(number) else None
        for number in numbers.tolist()
    ]


def trunk_of(state: RaceState) -> Trunk:
    """The current training, not a copy."""
    return Trunk(
        state.learner,
        state.train_stream,
        state.generator,
        default_generator_state(state.device),
    )
