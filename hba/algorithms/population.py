"""Algorithms 3 and 4 of the paper: a population of lambdas, with a network each or with
one hypernetwork.

symbol             in the code                   meaning
theta_i            learner.weights               Population: parameters of all members,
                                                 tensors (members, ...)
theta_k, lambda_k  learner.best_weights, lam     Population: of the member selected
                                                 last, before it explored
phi                learner.hypernetwork          HyperPopulation: parameters of the
                                                 hypernetwork
lambda_i           state.lam_rows                hyperparameters of the members as
                                                 logits, shape (members, n)
D_T, D_V           state.train_stream, data.val  batches of training images, all
                                                 validation images
sigma, sigma'      sigma, weight_sigma

Each member trains on its own images: image j of a batch belongs to member j // (images
per member). In Population (Algorithm 1 of the paper, the same as its Algorithm 3), the
copy of a member has its weights, its running statistics of BatchNorm and its momentum.
Population Based Training (paper, Appendix C) calls `update` step and the selection
eval.
"""

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, ClassVar, Self

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from typing_extensions import TypeVar

from hba.algorithms.algorithm import Algorithm
from hba.algorithms.hypergradient import update_phi
from hba.algorithms.problem import SearchProblem
from hba.algorithms.rewards import supported
from hba.algorithms.state import HyperModel, InnerModel, L, Networks, SearchState
from hba.algorithms.update_schedule import UpdateSchedule
from hba.config.training import CommonSearchConfig, NotNegative, Sharing
from hba.data.config import Size
from hba.errors import SettingsError
from hba.utils.settings import DefaultText

PopulationSize = Annotated[
    Annotated[int, Field(ge=2)] | None, DefaultText("the batch size, as in the paper")
]
Tensors = dict[str, Tensor]


@dataclass(kw_only=True)
class PopulationModel(InnerModel):
    """The networks of all members."""

    template: nn.Module
    """The network that runs with their weights."""
    weights: Tensors
    """Weights of all members (members, ...), by name in the network."""
    buffers: Tensors
    """Buffers of all members (members, ...), by name in the network."""
    best_weights: Tensors
    """Weights of the selected member, by name."""
    best_buffers: Tensors
    """Buffers of the selected member, by name."""

    @classmethod
    def of(cls, problem: SearchProblem, networks: Networks, n_members: int) -> Self:
        """Make a network for each member."""
        members = [networks(number).to(problem.device) for number in range(n_members)]
        weights, buffers = stack_module_state(members)
        optimizer, schedule = problem.optimizer_of(weights.values())
        best = [
            {name: tensor[0].detach().clone() for name, tensor in stacked.items()}
            for stacked in (weights, buffers)
        ]
        fields = {
            "weights": weights,
            "buffers": buffers,
            "best_weights": best[0],
            "best_buffers": best[1],
        }
        return cls(
            optimizer=optimizer, schedule=schedule, template=members[0], **fields
        )

    def members(self) -> list[Tensors]:
        """Views of each member's weights and buffers."""
        stacked = {**self.weights, **self.buffers}
        by_member = zip(*(tensor.unbind() for tensor in stacked.values()), strict=True)
        return [dict(zip(stacked, tensors, strict=True)) for tensors in by_member]

    def forward(self, inputs: Tensor) -> Tensor:
        """Logits (members, images, classes) for inputs (members, images, C, H, W)."""
        of_each = vmap(partial(functional_call, self.template), randomness="different")
        # A layer may have no batching rule, or a BatchNorm may get only one number per
        # channel.
        with supported(
            "training all members together",
            "a smaller population_size, another algorithm,",
        ):
            return of_each({**self.weights, **self.buffers}, inputs)

    @torch.no_grad()
    def to_module(self, lam: Tensor) -> nn.Module:
        network = copy.deepcopy(self.template)
        tensors = {**dict(network.named_parameters()), **dict(network.named_buffers())}
        for name, best in {**self.best_weights, **self.best_buffers}.items():
            tensors[name].copy_(best)
        return network

    @torch.no_grad()
    def exploit(self, k: Tensor) -> None:
        """theta_i = theta_k for all members; k of shape (1,)."""
        for best, stacked in (
            (self.best_weights, self.weights),
            (self.best_buffers, self.buffers),
        ):
            for name, tensor in stacked.items():
                chosen = tensor.index_select(0, k)
                best[name].copy_(chosen[0])
                tensor.copy_(chosen.expand_as(tensor))
        for slot in self.optimizer.state.values():
            # The momentum of SGD, or the two averages of AdamW, whose step count is the
            # same for all members.
            for average in [
                value
                for value in slot.values()
                if isinstance(value, Tensor) and value.ndim
            ]:
                average.copy_(average.index_select(0, k).expand_as(average))

    @torch.no_grad()
    def explore(self, sigma: float, generator: torch.Generator) -> None:
        """theta_i + epsilon'_i for every member, including the selected one. Frozen
        weights do not change.
        """
        for tensor in [
            weight for weight in self.weights.values() if weight.requires_grad
        ]:
            drawn = torch.randn(
                tensor.shape, generator=generator, device=generator.device
            )
            tensor += sigma * drawn.to(tensor.device)


@dataclass(kw_only=True)
class PopulationState(SearchState[L]):
    """The state of a search with a population.

    `lam` is the lambda of the selected member, before it explored.
    """

    lam_rows: Tensor
    """The lambda of each member (members, n)."""


PopulationStateT = TypeVar("PopulationStateT", bound=PopulationState, default=Any)


class Exploring(Algorithm[PopulationStateT, SearchProblem]):
    """Base class of algorithms that select a member and then explore. The defaults are
    the paper's settings.
    """

    tasks: ClassVar[tuple[str, ...]] = ("classification", "multi-label")

    initial_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.05
    train_steps: Size = 2
    population_size: PopulationSize = None
    """Number of members of the population. Each trains on its part of every batch."""

    @property
    def update_schedule(self) -> UpdateSchedule:
        # It is unknown how many selections a population needs.
        return UpdateSchedule(self.train_steps, stride=self.sigma, tried_steps=0)

    def check(self, config: CommonSearchConfig) -> None:
        self.n_members(config.batch_size)

    def n_members(self, batch_size: int) -> int:
        """Number of members. Each trains on an equal part of every batch; in the paper,
        on one image.
        """
        size = self.population_size or batch_size
        if batch_size % size:
            details = f"got batches of {batch_size} images for population_size {size}"
            raise SettingsError(
                "population_size must divide the number of images in a batch,"
                f" {details}"
            )
        return size

    def begun(self, problem: SearchProblem, learner: L) -> PopulationState[L]:
        """The state before the first step: every lambda_i is drawn around the start."""
        lam = self.start(problem)
        state = PopulationState.of(problem, lam, learner, lam_rows=lam)
        # A training set smaller than batch_size makes smaller batches.
        self.explore(state, self.n_members(state.train_stream.batch_size))
        return state

    def explore(self, state: PopulationState[L], n_members: int) -> None:
        """lambda_i = lambda + epsilon_i, with epsilon_i of standard deviation sigma."""
        drawing = state.generator.device
        noise = torch.randn(
            n_members, len(state.lam), generator=state.generator, device=drawing
        )
        state.lam_rows = state.lam.detach() + self.sigma * noise.to(state.device)

    def select(
        self,
        problem: SearchProblem,
        state: PopulationState[L],
        members: Iterable[Callable[[Tensor], Tensor]],
    ) -> Tensor:
        """Select the member with the lowest loss on all of D_V.

        It sets lambda to that of the member. A loss that is not finite never wins.
        Members run one by one: many images through one network are faster.

        Args:
            problem: The problem of the search.
            state: The state, which is changed in place.
            members: Maps images to logits, for each member.

        Returns:
            The number k (1,) of the member.
        """
        losses = torch.stack([problem.validation_loss(member) for member in members])
        k = losses.nan_to_num(nan=torch.inf).argmin(keepdim=True)
        state.lam.copy_(state.lam_rows.index_select(0, k)[0])
        state.totals.add_lambda(losses.index_select(0, k)[0])
        return k


class Population(Exploring[PopulationState[PopulationModel]]):
    """Algorithm 3, the first of the algorithms from which the paper derives HBA."""

    name: ClassVar[str] = "population"

    weight_sigma: NotNegative = 0.001
    """Standard deviation of the noise on a member's weights when it explores (sigma').
    """

    def begin(
        self, problem: SearchProblem, networks: Networks
    ) -> PopulationState[PopulationModel]:
        """Line 2: each member has a network, and a lambda drawn around the start."""
        n_members = self.n_members(problem.train_stream().batch_size)
        return self.begun(problem, PopulationModel.of(problem, networks, n_members))

    def step(
        self, problem: SearchProblem, state: PopulationState[PopulationModel]
    ) -> None:
        """One training step of all members; after each T_train of them, select, exploit
        and explore (lines 4 to 14).
        """
        self.update(problem, state)
        state.learner.schedule.step()
        state.step += 1
        if state.step % self.train_steps == 0:
            learner = state.learner
            n_members = len(state.lam_rows)
            learner.template.eval()
            k = self.select(
                problem,
                state,
                [
                    partial(functional_call, learner.template, member)
                    for member in learner.members()
                ],
            )
            learner.exploit(k)
            self.explore(state, n_members)
            learner.explore(self.weight_sigma, state.generator)

    def update(
        self, problem: SearchProblem, state: PopulationState[PopulationModel]
    ) -> None:
        """Equation 1 for every member: one SGD step on its own images, augmented by its
        own policy.
        """
        learner = state.learner
        n_members = len(state.lam_rows)
        learner.template.train()
        images, labels = state.train_stream.next()
        lam = state.lam_rows.repeat_interleave(len(images) // n_members, 0)
        inputs = problem.augment(images, lam, state.generator).unflatten(
            0, (n_members, -1)
        )
        logits = learner.forward(inputs).flatten(0, 1)
        losses = problem.task.losses(logits, labels).unflatten(0, (n_members, -1))
        losses = losses.mean(dim=1)
        learner.optimizer.zero_grad()
        # No loss depends on the weights of another member, so the gradient of the sum
        # is each member's own.
        losses.sum().backward()
        learner.update()
        error = problem.task.error_share(logits, labels)
        state.totals.add_training(losses.detach().mean(), error)


class HyperPopulation(Exploring[PopulationState[HyperModel]]):
    """Algorithm 4: Algorithm 3 with one hypernetwork for all members."""

    name: ClassVar[str] = "hyper-population"

    sharing: Sharing = "first-bn"
    """Weight sharing strategy: which layers depend on lambda."""

    def begin(
        self, problem: SearchProblem, networks: Networks
    ) -> PopulationState[HyperModel]:
        """Line 2: phi from a network, every lambda_i drawn around the start."""
        return self.begun(
            problem,
            HyperModel.of(problem, networks(0), self.start(problem), self.sharing),
        )

    def step(self, problem: SearchProblem, state: PopulationState[HyperModel]) -> None:
        """One training step; after each T_train of them, selection of a member and
        exploration (lines 4 to 13).
        """
        batch = state.train_stream.next()
        update_phi(
            problem,
            state,
            batch,
            state.lam_rows.repeat_interleave(len(batch[0]) // len(state.lam_rows), 0),
        )
        state.learner.schedule.step()
        state.step += 1
        if state.step % self.train_steps == 0:
            hypernetwork = state.learner.hypernetwork.eval()
            self.select(
                problem,
                state,
                [partial(hypernetwork, lam=lam) for lam in state.lam_rows],
            )
            self.explore(state, len(state.lam_rows))
