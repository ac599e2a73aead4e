"""Look-ahead: how much would a step on this augmented image lower the validation loss? It needs no hypernetwork.

symbol      in the code                     meaning
w           state.network                   weights of an ordinary network
lambda      state.lam                       hyperparameters as logits, shape (n,)
epsilon     noise                           one row for each draw of a batch, standard normal, shape (B, n)
v           direction                       gradient of the validation loss with respect to w
r_i         rewards                         derivative of the training loss of image i along v, shape (B,)

A step of SGD on image i moves w by -alpha times the gradient of its loss l_i, and so changes the validation loss by
-alpha r_i to first order. r is a reward for what the policy drew for this image: the score function of the draw
(Williams 1992) times r, averaged over the batch, is the gradient of the expected reward with respect to lambda. The
operations are never differentiated. The reward is the one of Differentiable Data Selection (Wang et al. 2020), where
it weighs training images.

Rewards differ far more between images than between the draws for one image. So each image is drawn for several times,
and a reward counts by how far it is from the mean of the image's other draws: the leave-one-out baseline of REINFORCE
(Kool, van Hoof and Welling 2019), which changes no expectation.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, jvp

from hba.algorithms.forward_mode import differentiable_attention, forward_mode
from hba.algorithms.gradient_state import GradientState, lambda_fields
from hba.algorithms.moves import probe_learning_rate, probe_reach
from hba.algorithms.networks import Networks
from hba.algorithms.problem import Problem
from hba.algorithms.state import OneModelState, SearchState, shared_fields
from hba.algorithms.updates import is_lambda_time, move_lambda, sigma_now, validation_loss, validation_statistics
from hba.config.search import SearchConfig
from hba.data.load import SearchData
from hba.policy.draw import Walk
from hba.policy.space import SearchSpace
from hba.training.optimizer import sgd_of


@dataclass(kw_only=True)
class LookaheadState(OneModelState, GradientState):
    """network: trained as ever; its weights do not depend on lambda."""

    WITH_STATE_DICT = (*OneModelState.WITH_STATE_DICT, *GradientState.OF_LAMBDA_STEPS, "network")

    network: nn.Module

    def plain(self) -> nn.Module:
        return copy.deepcopy(self.network)


@dataclass(frozen=True)
class Trial:
    """A batch as the network sees it, (B, C, H, W) and labels (B,), and how lambda decided what was done to it.

    probabilities (B, number of slots): with which the slots would fire. noise (B, n): epsilon. sigma: its scale. draws:
    how many there are for each image; first one for every image, then the next for every image.
    """

    images: Tensor
    labels: Tensor
    walk: Walk
    probabilities: Tensor
    noise: Tensor
    sigma: float
    draws: int = 1


def initial_state(config: SearchConfig, space: SearchSpace, networks: Networks, data: SearchData) -> LookaheadState:
    """A network, and lambda at the space's initial values. data is on its device."""
    fields = shared_fields(config, space.initial(config.initial_fraction), data)
    network = networks(0).to(fields["lam"].device)
    optimizer, schedule = sgd_of(config, network.parameters(), fields["train_stream"].batches_per_pass)
    fields |= lambda_fields(config, fields["lam"], data)
    return LookaheadState(**fields, network=network, weight_optimizer=optimizer, weight_schedule=schedule)


def search_step(problem: Problem, state: LookaheadState) -> None:
    """One training step; after each T_train of them, T_val lambda steps, which judge draws for the images of the last
    batch by other validation images each.
    """
    images, labels = state.train_stream.next()
    trial = augmented(problem, state, images, labels)
    update_weights(state, trial)
    state.step += 1
    if is_lambda_time(problem, state):
        draws = problem.config.reward_draws
        for number in range(problem.config.val_steps):
            is_told_by_training = draws == 1 and number == 0
            judged = trial if is_told_by_training else augmented(problem, state, images, labels, draws)
            update_lambda(problem, state, judged)


def augmented(problem: Problem, state: SearchState, images: Tensor, labels: Tensor, draws: int = 1) -> Trial:
    """Every image, as often as it is drawn for, augmented at a lambda of its own, lambda + sigma epsilon."""
    space, sigma = problem.space, sigma_now(problem, state)
    images, labels = images.repeat(draws, 1, 1, 1), labels.repeat(draws)
    noise = torch.randn(len(images), space.n, generator=state.generator, device=state.device)
    values = space.decode(state.lam.detach() + sigma * noise)
    inputs, walk = problem.augment_with(values, images, state.generator)
    probabilities = values[:, space.slot_columns(state.device).probability]
    return Trial(inputs, labels, walk, probabilities, noise, sigma, draws)


def update_weights(state: LookaheadState, trial: Trial) -> None:
    """One SGD step on the batch."""
    state.network.train()
    logits = state.network(trial.images)
    loss = F.cross_entropy(logits, trial.labels)
    state.weight_optimizer.zero_grad()
    loss.backward()
    state.weight_optimizer.step()
    state.weight_schedule.step()
    state.totals.add_training(loss.detach(), (logits.argmax(1) != trial.labels).float().mean())


def update_lambda(problem: Problem, state: LookaheadState, trial: Trial) -> None:
    """One Adam step on lambda, by the standardised rewards of the trial."""
    state.network.eval()
    with validation_statistics(state.network, problem.config.val_statistics):
        loss = validation_loss(problem, state, state.network)
    parameters = trained_parameters(state.network)
    direction = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True, materialize_grads=True)
    rewards = rewards_of(state.network, trial, dict(zip(parameters, direction, strict=True)))
    gradient, nats = reward_gradient(problem, state, trial, rewards)
    state.moves.add(nats * gradient)
    move_lambda(problem, state, gradient)
    state.totals.add_lambda(loss.detach())


def trained_parameters(network: nn.Module) -> dict[str, nn.Parameter]:
    """By name, those that are not frozen."""
    return {name: parameter for name, parameter in network.named_parameters() if parameter.requires_grad}


def rewards_of(network: nn.Module, trial: Trial, direction: Mapping[str, Tensor], *further: Tensor) -> Tensor:
    """r (B,): the derivative of each image's loss along the direction, by one forward pass in forward mode.

    direction: by name, of the parameters that are trained. further: what the network takes after the images. The
    network is in eval mode, so that no image's reward depends on the others of its batch.
    """

    def losses(parameters: dict[str, Tensor]) -> Tensor:
        logits = functional_call(network, parameters, (trial.images, *further))
        return F.cross_entropy(logits, trial.labels, reduction="none")

    parameters = {name: network.get_parameter(name).detach() for name in direction}
    with torch.no_grad(), differentiable_attention(), forward_mode("look-ahead", "the algorithm hba"):
        rewards: Tensor = jvp(losses, (parameters,), (dict(direction),))[1]
    return rewards


def reward_gradient(problem: Problem, state: GradientState, trial: Trial, rewards: Tensor) -> tuple[Tensor, Tensor]:
    """Gradient (n,) of lambda by the standardised rewards (B,), downhill for the validation loss; and the nats () that
    a short training, as of a probe, wins for one of its units: a step of SGD wins the learning rate times a reward.
    """
    advantages = advantages_of(rewards, trial.draws)
    scale = advantages.std().clamp(min=torch.finfo(rewards.dtype).tiny)
    standardized = advantages / scale
    if (limit := problem.config.reward_limit) is not None:
        standardized = standardized.clamp(-limit, limit)
    nats = probe_reach() * probe_learning_rate(problem, state) * scale
    return -expected_score(problem.space, trial, standardized), nats


def advantages_of(rewards: Tensor, draws: int) -> Tensor:
    """Rewards (B,) less the mean of the image's other draws; where it has but one draw, less the mean of the batch."""
    if draws == 1:
        return rewards - rewards.mean()
    by_draw = rewards.view(draws, -1)
    return ((by_draw - by_draw.mean(dim=0)) * (draws / (draws - 1))).flatten()


def expected_score(space: SearchSpace, trial: Trial, rewards: Tensor) -> Tensor:
    """Gradient (n,) of the expected reward with respect to lambda, estimated from rewards (B,).

    A probability p = sigmoid(logit) of a slot that was visited has the score fired - p; a magnitude that was used the
    score of its normal distribution, epsilon / sigma.
    """
    columns = space.slot_columns(rewards.device)
    score = rewards.new_zeros(len(rewards), space.n + 1)
    score[:, columns.probability] = (trial.walk.fired.float() - trial.probabilities) * trial.walk.visited
    # The column after the last is for slots without a magnitude.
    padded = torch.cat([trial.noise, trial.noise.new_zeros(len(rewards), 1)], dim=1)
    if trial.sigma > 0:
        score[:, columns.magnitude] = padded[:, columns.magnitude] / trial.sigma * trial.walk.fired
    return (rewards[:, None] * score).mean(dim=0)[: space.n]
