"""The two updates that the algorithms are made of: of the hypernetwork's parameters phi, and of lambda."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from hba.algorithms.gradient_state import GradientState, HyperGradientState
from hba.algorithms.problem import Problem
from hba.algorithms.responses import RESPONSES
from hba.algorithms.state import HyperState, SearchState


def update_phi(problem: Problem, state: HyperState, images: Tensor, labels: Tensor, lam_rows: Tensor) -> None:
    """Equations 2 and 4: one SGD step on a batch (B, C, H, W) in which every image has its own lambda (B, n)."""
    state.hypernetwork.train()
    state.weight_optimizer.zero_grad()
    augment = partial(problem.augment, generator=state.generator)
    learn = RESPONSES[problem.config.response].gradients
    loss, logits = learn(state.hypernetwork, augment, F.cross_entropy, images, labels, lam_rows)
    state.weight_optimizer.step()
    state.weight_schedule.step()
    state.totals.add_training(loss, (logits.argmax(1) != labels).float().mean())


def update_lambda(problem: Problem, state: HyperGradientState) -> None:
    """Equation 3: one Adam step on lambda for validation images, not augmented.

    Validation images never change BatchNorm's running statistics.
    """
    state.hypernetwork.eval()
    with validation_statistics(state.hypernetwork, problem.config.val_statistics):
        loss = validation_loss(problem, state, lambda images: state.hypernetwork(images, state.lam))
    (gradient,) = torch.autograd.grad(loss, state.lam)
    state.moves.add(gradient)
    move_lambda(problem, state, gradient)
    move_center(problem, state)
    state.totals.add_lambda(loss.detach())


def is_lambda_time(problem: Problem, state: SearchState) -> bool:
    """After each T_train training steps, once the warm-up is over."""
    config = problem.config
    return state.step % config.train_steps == 0 and state.step > config.warm_up_epochs * state.steps_per_epoch


def sigma_now(problem: Problem, state: SearchState) -> float:
    """Standard deviation of the noise on lambda at this step; linear from sigma to sigma_end."""
    config = problem.config
    if config.sigma_end is None:
        return config.sigma
    progress = state.step / (config.epochs * state.steps_per_epoch)
    return config.sigma + progress * (config.sigma_end - config.sigma)


def validation_loss(problem: Problem, state: GradientState, predict: Callable[[Tensor], Tensor]) -> Tensor:
    """Mean cross entropy on the next val_batches validation batches; predict gives the logits of a network's input."""
    losses = []
    for _ in range(problem.config.val_batches):
        images, labels = state.val_stream.next()
        losses.append(problem.loss(predict(problem.preprocessing.measure(images)), labels))
    return torch.stack(losses).mean()


def move_lambda(problem: Problem, state: GradientState, gradient: Tensor) -> None:
    """One Adam step on lambda (n,), not longer than the trust radius, into the bounds."""
    config = problem.config
    before = state.lam.detach().clone()
    state.lam.grad = gradient
    state.lambda_optimizer.step()
    with torch.no_grad():
        if config.trust_radius is not None:
            move = state.lam - before
            state.lam.copy_(before + move * (config.trust_radius / move.norm().clamp(min=config.trust_radius)))
        if config.logit_bound is not None:
            state.lam.clamp_(-config.logit_bound, config.logit_bound)


def move_center(problem: Problem, state: HyperGradientState) -> None:
    """A centered response goes with lambda."""
    if RESPONSES[problem.config.response].centered:
        state.hypernetwork.center.copy_(state.lam.detach())


@contextmanager
def validation_statistics(network: nn.Module, statistics: str) -> Iterator[None]:
    """For a network in eval mode: with `batch`, BatchNorm normalizes by the batch; its own statistics stay."""
    layers = [layer for layer in network.modules() if isinstance(layer, _BatchNorm) and layer.track_running_stats]
    if statistics == "running":
        layers = []
    for layer in layers:
        # Without tracking, PyTorch neither reads nor writes the running statistics.
        layer.training, layer.track_running_stats = True, False
    try:
        yield
    finally:
        for layer in layers:
            layer.training, layer.track_running_stats = False, True
