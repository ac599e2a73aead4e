"""Algorithm 1 of the paper, which is its Algorithm 3: a population of models, each with weights and lambda of its own.

symbol              in the code                     meaning
theta_i             state.weights                   parameters of all members, each tensor of shape (members, ...)
lambda_i            state.lam_rows                  hyperparameters of the members as logits, shape (members, n)
theta_k, lambda_k   state.best_weights, lam         those of the member selected last, before it explored
D_T, D_V            state.train_stream, problem.val batches of training images, all validation images
sigma, sigma'       config.sigma, weight_sigma

Each member trains on its own images: image j of a batch belongs to member j // (images per member). Its running
statistics of BatchNorm and its momentum go with its weights when it is copied. In the words of Population Based
Training (paper, Appendix C): update is `step`, select is `eval`, `exploit` and `explore` are themselves.
"""

import copy
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap
from torch.optim import SGD
from torch.optim.lr_scheduler import LRScheduler

from hba.algorithms.exploring import best_of, explored, members_of
from hba.algorithms.networks import Networks
from hba.algorithms.problem import Problem
from hba.algorithms.state import SearchState, shared_fields
from hba.config.search import SearchConfig
from hba.data.load import SearchData
from hba.errors import SettingsError
from hba.policy.space import SearchSpace
from hba.training.measure import totals
from hba.training.optimizer import sgd_of

Tensors = dict[str, Tensor]


@dataclass(kw_only=True)
class PopulationState(SearchState):
    """template: the network without weights of its own. weights and buffers: (members, ...) by name in the network.

    best_weights, best_buffers: those of the selected member, by name.
    """

    WITH_STATE_DICT = (*SearchState.WITH_STATE_DICT, "optimizer", "schedule")
    TENSORS = (*SearchState.TENSORS, "lam_rows")
    MAPPINGS = ("weights", "buffers", "best_weights", "best_buffers")

    template: nn.Module
    weights: Tensors
    buffers: Tensors
    best_weights: Tensors
    best_buffers: Tensors
    lam_rows: Tensor
    optimizer: SGD
    schedule: LRScheduler

    def weights_learning(self) -> tuple[SGD, LRScheduler]:
        return self.optimizer, self.schedule

    def members(self) -> list[tuple[Tensors, Tensors]]:
        """Views of each member's weights and buffers."""

        def each(stacked: Tensors) -> list[Tensors]:
            by_member = zip(*(tensor.unbind() for tensor in stacked.values()), strict=True)
            return [dict(zip(stacked, tensors, strict=True)) for tensors in by_member]

        # A network without buffers has none for each member.
        buffers = each(self.buffers) or [{}] * len(self.lam_rows)
        return list(zip(each(self.weights), buffers, strict=True))

    @torch.no_grad()
    def plain(self) -> nn.Module:
        network = copy.deepcopy(self.template)
        for name, weight in self.best_weights.items():
            network.get_parameter(name).copy_(weight)
        for name, buffer in self.best_buffers.items():
            network.get_buffer(name).copy_(buffer)
        return network

    def state_dict(self) -> dict[str, Any]:
        mappings = {
            mapping: {name: tensor.detach() for name, tensor in getattr(self, mapping).items()}
            for mapping in self.MAPPINGS
        }
        return {**super().state_dict(), **mappings}

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        for mapping in self.MAPPINGS:
            for name, tensor in getattr(self, mapping).items():
                tensor.copy_(state[mapping][name])


def initial_state(config: SearchConfig, space: SearchSpace, networks: Networks, data: SearchData) -> PopulationState:
    """Line 2: each member from a network of its own, its lambda about the space's initial values."""
    fields = shared_fields(config, space.initial(config.initial_fraction), data)
    device, stream = fields["lam"].device, fields["train_stream"]
    members = [networks(number).to(device) for number in range(members_of(config, stream))]
    weights, buffers = stack_module_state(members)
    optimizer, schedule = sgd_of(config, weights.values(), stream.batches_per_pass)
    return PopulationState(
        **fields,
        template=members[0],
        weights=weights,
        buffers=buffers,
        best_weights={name: tensor[0].detach().clone() for name, tensor in weights.items()},
        best_buffers={name: tensor[0].clone() for name, tensor in buffers.items()},
        lam_rows=explored(fields["lam"], len(members), config.sigma, fields["generator"]),
        optimizer=optimizer,
        schedule=schedule,
    )


def search_step(problem: Problem, state: PopulationState) -> None:
    """One training step of all members; after each T_train of them, select, exploit and explore (lines 4 to 14)."""
    update(problem, state)
    state.step += 1
    if state.step % problem.config.train_steps == 0:
        losses = validation_losses(problem, state)
        k = best_of(losses)
        exploit(state, k)
        explore(problem, state)
        state.totals.add_lambda(losses.index_select(0, k)[0])


def update(problem: Problem, state: PopulationState) -> None:
    """Equation 1 for every member: one SGD step on its own images, augmented by its own policy."""
    state.template.train()
    n_members = len(state.lam_rows)
    images, labels = state.train_stream.next()
    lam = state.lam_rows.repeat_interleave(len(images) // n_members, 0)
    inputs = problem.augment(images, lam, state.generator).unflatten(0, (n_members, -1))
    logits = forward(state, inputs, problem.config.batched_members)
    losses = F.cross_entropy(logits.flatten(0, 1), labels, reduction="none").unflatten(0, (n_members, -1)).mean(dim=1)
    state.optimizer.zero_grad()
    # No member's loss depends on another's weights: the gradient of the sum is each one's own.
    losses.sum().backward()
    state.optimizer.step()
    state.schedule.step()
    state.totals.add_training(losses.detach().mean(), (logits.flatten(0, 1).argmax(1) != labels).float().mean())


def forward(state: PopulationState, inputs: Tensor, batched: bool) -> Tensor:
    """Logits (members, images, classes) of each member for its own inputs (members, images, C, H, W)."""

    def one(weights: Tensors, buffers: Tensors, x: Tensor) -> Tensor:
        return functional_call(state.template, (weights, buffers), (x,))

    try:
        if batched:
            return vmap(one, randomness="different")(state.weights, state.buffers, inputs)
        return torch.stack([one(*member, x) for member, x in zip(state.members(), inputs, strict=True)])
    except ValueError as error:
        if "more than 1 value per channel" not in str(error):
            raise
        raise SettingsError(
            "BatchNorm needs more than one number per channel, got one image per member and 1x1 pixels behind some "
            "layer; choose a smaller population_size, or a larger image_size"
        ) from None


def validation_losses(problem: Problem, state: PopulationState) -> Tensor:
    """Mean loss on all of D_V of each member, (members,), in eval mode.

    One member after the other: many images of one network are faster than one image of many.
    """
    state.template.eval()
    sums = [
        totals(partial(functional_call, state.template, member), problem.val, problem.preprocessing.measure)
        for member in state.members()
    ]
    loss, _, count = torch.stack(sums).T
    return loss / count


@torch.no_grad()
def exploit(state: PopulationState, k: Tensor) -> None:
    """theta_i = theta_k and lambda_i = lambda_k for all members; k of shape (1,)."""
    for best, stacked in ((state.best_weights, state.weights), (state.best_buffers, state.buffers)):
        for name, tensor in stacked.items():
            chosen = tensor.index_select(0, k)
            best[name].copy_(chosen[0])
            tensor.copy_(chosen.expand_as(tensor))
    for slot in state.optimizer.state.values():
        momentum = slot["momentum_buffer"]
        momentum.copy_(momentum.index_select(0, k).expand_as(momentum))
    state.lam.copy_(state.lam_rows.index_select(0, k)[0])


@torch.no_grad()
def explore(problem: Problem, state: PopulationState) -> None:
    """theta_i + epsilon'_i and lambda_i + epsilon_i (lines 12 and 13), for every member, the selected one too.

    Frozen weights stay as they are.
    """
    state.lam_rows = explored(state.lam, len(state.lam_rows), problem.config.sigma, state.generator)
    for tensor in [weight for weight in state.weights.values() if weight.requires_grad]:
        noise = torch.randn(tensor.shape, generator=state.generator, device=tensor.device)
        tensor += problem.config.weight_sigma * noise
