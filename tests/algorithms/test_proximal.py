"""The pull to where a search began: against its optimality condition, Adam's own steps, and where it brings lambda."""

import pytest
import torch
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


@pytest.mark.parametrize(("curvature", "left"), [(0.0, 1.0), (1.0, 0.5), (1e9, 0.0)])
def test_without_curvature_nothing_moves_and_however_large_it_is_none_goes_too_far(
    curvature: float, left: float
) -> None:
    lam, start = torch.tensor([3.0, -2.0]), torch.tensor([1.0, 1.0])
    found = proximal_step(lam, start, torch.full((2,), curvature), torch.eye(2))
    torch.testing.assert_close(found - start, left * (lam - start), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", ["adam", "rmsprop"])
def test_rates_are_how_far_the_optimizer_goes_for_a_steady_gradient(kind: str) -> None:
    gradients = torch.tensor([0.25, -3.0])
    parameter = torch.zeros(2, requires_grad=True)
    optimizer = LAMBDA_OPTIMIZERS[kind]([parameter], 0.1, (0.9, 0.99))
    for _ in range(300):
        before = parameter.detach().clone()
        parameter.grad = gradients.clone()
        optimizer.step()
    torch.testing.assert_close(parameter.detach() - before, -optimizer_rates(optimizer, parameter) * gradients)


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
@pytest.mark.parametrize("shared", [0.0, 0.1])
def test_lambda_comes_to_rest_where_rewards_and_pull_are_equal(shared: float, optimizer: str) -> None:
    space = space_of("Rotate", "Invert", copies=2)
    task, state = begun(space, algorithm="lookahead", strength_learning_rate=shared, lambda_optimizer=optimizer)
    generator = seeded(5)
    gradient, curvature = torch.randn(space.n, generator=generator), 1 + torch.rand(space.n, generator=generator)
    for _ in range(1500):
        algorithm_of(task).move_lambda(task, state, gradient.clone(), curvature=curvature)
    expected = state.mover.start - gradient / curvature
    torch.testing.assert_close(state.lam.detach(), expected, rtol=1e-3, atol=1e-3)


def test_a_long_average_of_rewards_does_not_make_the_pull_swing() -> None:
    """Added to what Adam averages, the same pull carries lambda past the start by a quarter of the way."""
    furthest = {}
    for is_averaged in (False, True):
        task, state = begun(space_of("Rotate", copies=2), algorithm="lookahead", lambda_betas=(0.98, 0.999))
        with torch.no_grad():
            state.lam += 1.0
        curvature, places = torch.full_like(state.lam, 0.3), []
        for number in range(200):
            noise = torch.full_like(state.lam, (-1.0) ** number)
            pull = 0.3 * (state.lam.detach() - state.mover.start)
            if is_averaged:
                algorithm_of(task).move_lambda(task, state, noise + pull)
            else:
                algorithm_of(task).move_lambda(task, state, noise, curvature=curvature)
            places.append((state.lam.detach() - state.mover.start)[0].item())
        furthest[is_averaged] = min(places)
        assert is_averaged or abs(places[-1]) < 0.05
    assert furthest[False] > -0.01
    assert furthest[True] < -0.2
