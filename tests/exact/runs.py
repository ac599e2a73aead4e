"""One run: the tool's hypernetwork learns the response by one of the tool's ways, while lambda is held or moves."""

import math
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.optim import Adam

from exact.problems import Problem, at_weights, effective_jacobian, effective_weights, hypernetwork_of
from hba.algorithms.responses import RESPONSES
from hba.hypernet import HyperNetwork
from hba.training.optim import OPTIMIZERS, scheduled

N_POINTS = 50


@dataclass(frozen=True)
class Point:
    """What is true after `step` steps.

    error: |J - J*| / |J*| of the response's Jacobian at lambda, Frobenius norms; cosine: of J and J*. weights: the
    relative error of the weights at lambda. distance: of lambda to the best. excess: validation loss of the best
    response at lambda, above the least.
    """

    step: int
    error: float
    cosine: float
    weights: float
    lam: list[float]
    distance: float
    excess: float


def run(problem: Problem, response: str, seed: int, *, moves: bool) -> list[Point]:
    """moves: lambda is searched, from a random network; else it is held, and the weights start at the best response.

    T_train steps of SGD on phi, then one Adam step on lambda for the validation loss, and so on.
    """
    generator = torch.Generator().manual_seed(seed)
    lam = torch.full((problem.ridge.n,), problem.start if moves else problem.held, dtype=torch.float64)
    hypernetwork = _hypernetwork(problem, response, lam, generator, best=not moves)
    lam.requires_grad_()
    lambda_optimizer = Adam([lam], lr=problem.lambda_learning_rate)
    learned = [parameter for parameter in hypernetwork.parameters() if parameter.requires_grad]
    weight_optimizer = OPTIMIZERS["sgd"](learned, lr=problem.learning_rate, weight_decay=0.0)
    schedule = scheduled(weight_optimizer, "cosine", problem.n_steps)
    batch = problem.regularizer.batch(problem.ridge.train, problem.copies)
    augment = partial(problem.regularizer.augment, generator=generator)
    points = [measure(problem, hypernetwork, lam, 0)]
    for step in range(1, problem.n_steps + 1):
        noise = torch.randn(len(batch.inputs), problem.ridge.n, dtype=torch.float64, generator=generator)
        lam_rows = lam.detach() + problem.sigma * noise
        weight_optimizer.zero_grad()
        RESPONSES[response].gradients(hypernetwork, augment, problem.loss_of, batch.inputs, batch.targets, lam_rows)
        weight_optimizer.step()
        schedule.step()
        if moves and step > problem.warm_up and step % problem.train_steps == 0:
            _move(problem, hypernetwork, response, lam, lambda_optimizer)
        if step * N_POINTS // problem.n_steps > (step - 1) * N_POINTS // problem.n_steps:
            points.append(measure(problem, hypernetwork, lam, step))
    return points


def _hypernetwork(
    problem: Problem, response: str, lam: Tensor, generator: torch.Generator, *, best: bool
) -> HyperNetwork:
    network = problem.network(generator)
    if best:
        at_weights(network, problem.ridge.best_response(lam))
    hypernetwork = hypernetwork_of(problem, network, generator)
    if RESPONSES[response].centered:
        hypernetwork.center.copy_(lam)
    return hypernetwork


def _move(problem: Problem, hypernetwork: HyperNetwork, response: str, lam: Tensor, optimizer: Adam) -> None:
    """One Adam step on lambda (paper, eq. 3); a center goes with it."""
    loss = problem.ridge.validation_loss(effective_weights(hypernetwork, lam))
    (lam.grad,) = torch.autograd.grad(loss, lam)
    optimizer.step()
    if RESPONSES[response].centered:
        hypernetwork.center.copy_(lam.detach())


def measure(problem: Problem, hypernetwork: HyperNetwork, lam: Tensor, step: int) -> Point:
    ridge = problem.ridge
    lam = lam.detach()
    learned, true = effective_jacobian(hypernetwork, lam), ridge.best_response_jacobian(lam)
    weights, best = effective_weights(hypernetwork, lam).detach(), ridge.best_response(lam)
    return Point(
        step=step,
        error=float((learned - true).norm() / true.norm()),
        cosine=float((learned * true).sum() / (learned.norm() * true.norm()).clamp(min=1e-300)),
        weights=float((weights - best).norm() / best.norm()),
        lam=lam.tolist(),
        distance=float((lam - ridge.best_lambda).norm()),
        excess=ridge.excess(lam),
    )


def as_columns(points: list[Point]) -> dict[str, list[Any]]:
    """Four digits, so that a curve is short in a file; None for what is not finite."""
    rows = [asdict(point) for point in points]
    return {name: [_rounded(row[name]) for row in rows] for name in rows[0]}


def _rounded(value: Any) -> Any:
    if isinstance(value, list):
        return [_rounded(one) for one in value]
    if isinstance(value, float):
        return float(f"{value:.4g}") if math.isfinite(value) else None
    return value
