"""The pull to where a search began: against its optimality condition, Adam's own steps, and where it brings lambda."""

import torch
from each import each
from search_problems import seeded
from search_steps import algorithm_of, begun, space_of

from hba.algorithms.lambda_optimizers import LAMBDA_OPTIMIZERS, optimizer_rates, proximal_step

N = 5


def test_the_step_ends_where_its_gradient_and_its_length_balance() -> None:
    """It minimizes half of curvature times squared distance, plus half the squared length of the step by 1 / rates."""
    generator = seeded(3)
    lam, start, root = (torch.randn(*shape, generator=generator).double() for shape in ((N,), (N,), (N, N)))
    curvature = torch.rand(N, generator=generator).double()
    rates = root @ root.T + 0.1 * torch.eye(N)
    found = proximal_step(lam, start, curvature, rates)
    slope = torch.linalg.inv(rates) @ (found - lam) + curvature * (found - start)
    torch.testing.assert_close(slope, torch.zeros_like(slope), rtol=0, atol=1e-10)
    assert not torch.allclose(found, lam)


@each("kind", ["adam", "rmsprop"])
def test_rates_are_how_far_the_optimizer_goes_for_a_steady_gradient(kind: str) -> None:
    gradients = torch.tensor([0.25, -3.0])
    parameter = torch.zeros(2, requires_grad=True)
    optimizer = LAMBDA_OPTIMIZERS[kind]([parameter], 0.1, (0.9, 0.99))
    for _ in range(300):
        before = parameter.detach().clone()
        parameter.grad = gradients.clone()
        optimizer.step()
    torch.testing.assert_close(parameter.detach() - before, -optimizer_rates(optimizer, parameter) * gradients)


@each("optimizer", ["adam", "rmsprop"])
@each("shared", [0.0, 0.1])
def test_lambda_comes_to_rest_where_rewards_and_pull_are_equal(shared: float, optimizer: str) -> None:
    space = space_of("Rotate", "Invert", copies=2)
    task, state = begun(space, algorithm="lookahead", strength_learning_rate=shared, lambda_optimizer=optimizer)
    generator = seeded(5)
    gradient, curvature = torch.randn(space.n, generator=generator), 1 + torch.rand(space.n, generator=generator)
    for _ in range(1500):
        algorithm_of(task).move_lambda(task, state, gradient.clone(), curvature=curvature)
    expected = state.mover.start - gradient / curvature
    torch.testing.assert_close(state.lam.detach(), expected, rtol=1e-3, atol=1e-3)
