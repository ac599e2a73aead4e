"""Lambda steps: when they come, what they see, and where they go: against Adam by hand
and points of rest.
"""

import copy
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from own_operations import DARKEN, GAMMA
from random_inputs import seeded
from search_steps import (
    algorithm_of,
    begun,
    begun_as_in_the_paper,
    next_validation,
    respond_at_random,
    space_of,
    step,
)
from torch import Tensor
from torch.optim import Adam

from hba.algorithms.lambda_steps import (
    SHARED,
    LambdaGradient,
    SharedDirections,
    directions,
    proximal_step,
)
from hba.operations import OPERATIONS, Operation
from hba.policy.space import SearchSpace
from hba.policy.spaces import SPACES, randaugment, search_space


@pytest.mark.parametrize("algorithm", ["hba", "lookahead"])
# Three steps are an epoch, and a lambda step comes after every T_train.
@pytest.mark.parametrize(
    ("warm_up_epochs", "train_steps", "first"), [(0, 2, 2), (1, 1, 4), (1, 3, 6)]
)
def test_lambda_stays_until_the_warm_up_is_over(
    algorithm: str, warm_up_epochs: int, train_steps: int, first: int
) -> None:
    problem, state = begun(
        algorithm=algorithm, warm_up_epochs=warm_up_epochs, train_steps=train_steps
    )
    if algorithm != "lookahead":
        respond_at_random(state.learner.hypernetwork, 0.1)
    assert state.steps_per_epoch == 3
    start = state.lam.detach().clone()
    step(problem, state, first - 1)
    assert torch.equal(state.lam, start)
    step(problem, state)
    assert not torch.equal(state.lam, start)


def test_the_gradient_is_that_of_the_next_validation_batch() -> None:
    problem, state = begun_as_in_the_paper(val_batch_size=4)
    respond_at_random(state.learner.hypernetwork, 0.1)
    (images, labels), (after, _) = next_validation(problem, state, 2)
    network = copy.deepcopy(state.learner.hypernetwork).eval()
    at = state.lam.detach().clone().requires_grad_()
    F.cross_entropy(network(images, at), labels).backward()
    algorithm_of(problem).update_lambda(problem, state, ())
    torch.testing.assert_close(state.lam.grad, at.grad, rtol=1e-4, atol=1e-7)
    assert torch.equal(
        problem.preprocessing.measure(state.mover.val_stream.next()[0]), after
    )


GEOMETRIC = {"ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Cutout"}
DESCENDING = Operation("Tones", torch.nn.Identity(), (3.0, -1.0), "tones", 0.0)
UNKNOWN = Operation("Level", torch.nn.Identity(), (3.0, 5.0), "levels")
OWN = SearchSpace(
    (GAMMA, DESCENDING, UNKNOWN, DARKEN, OPERATIONS["Rotate"].with_range((7.0, 7.0)))
)
CPU = torch.device("cpu")


def columns(row: Tensor, space: SearchSpace) -> set[str]:
    return {
        name for name, number in zip(space.names, row.tolist(), strict=True) if number
    }


@pytest.mark.parametrize(
    "space", [*SPACES.values(), SearchSpace(copies=1)], ids=[*SPACES, "one copy"]
)
def test_each_coordinate_moves_one_kind_of_number_of_one_kind_of_operation(
    space: SearchSpace,
) -> None:
    rows = directions(space, CPU)[: len(SHARED)]
    walk = {
        f"{slot.prefix}.{quantity}"
        for slot in space.slots[space.walk_slots]
        for quantity in ("probability", "magnitude")
    }
    assert len(SHARED) == 4
    for number, (is_geometric, quantity) in enumerate(
        [
            (True, "probability"),
            (False, "probability"),
            (True, "magnitude"),
            (False, "magnitude"),
        ]
    ):
        assert SHARED[number].startswith("geometric" if is_geometric else "color")
        assert columns(rows[number], space) == {
            name
            for name in walk.intersection(space.names)
            if name.endswith(quantity)
            and (name.split(".")[0] in GEOMETRIC) == is_geometric
        }
    assert (rows[:2] >= 0).all()
    moved = [float(name in walk) for name in space.names]
    assert rows.abs().sum(0).tolist() == moved, (
        "every hyperparameter of the walk is moved by one"
    )


@pytest.mark.parametrize("space", [*SPACES.values(), OWN], ids=[*SPACES, "own"])
@pytest.mark.parametrize(
    "start",
    [randaugment, lambda space: space.initial(0.5)],
    ids=["randaugment", "middle"],
)
def test_a_step_along_them_takes_every_magnitude_away_from_doing_nothing(
    space: SearchSpace, start: Any
) -> None:
    lam = start(space).double()
    along = directions(space, CPU)[2:4].sum(0).double()
    before, after = (space.decode(lam + small * along) for small in (0.0, 1e-4))
    for slot in space.slots[space.walk_slots]:
        if slot.magnitude is None:
            continue
        low, high = sorted(slot.operation.magnitude_range or ())
        identity = slot.operation.identity
        moved = (after - before)[slot.magnitude].item()
        if identity is None or low == high:
            assert moved == 0
        elif low < identity < high:
            assert (moved > 0) == (slot.copy % 2 == 0), (
                "the first copy upwards, the second downwards"
            )
            assert moved
        else:
            distances = [
                abs(values[slot.magnitude].item() - identity)
                for values in (before, after)
            ]
            assert distances[1] > distances[0], slot.operation.name


def adam(
    gradients: list[float], rate: float, betas: tuple[float, float]
) -> list[float]:
    """Where Adam stands after each step (Kingma and Ba 2015, Algorithm 1)."""
    at = 0.0
    mean = 0.0
    square = 0.0
    places = []
    for step_number, gradient in enumerate(gradients, start=1):
        mean = betas[0] * mean + (1 - betas[0]) * gradient
        square = betas[1] * square + (1 - betas[1]) * gradient**2
        at -= (
            rate
            * mean
            / (1 - betas[0] ** step_number)
            / (math.sqrt(square / (1 - betas[1] ** step_number)) + 1e-8)
        )
        places.append(at)
    return places


def test_shared_coordinates_go_by_adam_along_the_sum_of_their_gradients() -> None:
    space = search_space(searches_count=True)
    betas = (0.8, 0.95)
    rate = 0.05
    rows = directions(space, CPU)
    generator = seeded(0)
    offsets = torch.zeros(len(rows), requires_grad=True)
    strength = SharedDirections(offsets, Adam([offsets], lr=rate, betas=betas))
    gradients = [torch.randn(space.n, generator=generator) for _ in range(5)]
    lam = torch.zeros(space.n)
    for gradient in gradients:
        lam += strength.moved(space, gradient)
    expected = torch.zeros(space.n)
    for number, row in enumerate(rows):
        summed = [
            sum(a * b for a, b in zip(row.tolist(), gradient.tolist(), strict=True))
            for gradient in gradients
        ]
        place = adam(summed, rate, betas)[-1]
        assert strength.offsets[number].item() == pytest.approx(place, rel=1e-4)
        expected += place * row
    torch.testing.assert_close(lam, expected, rtol=1e-4, atol=1e-6)


N = 5


def test_the_step_ends_where_its_gradient_and_its_length_balance() -> None:
    """It minimizes half of curvature times squared distance, plus half the squared
    length of the step by 1 / rates.
    """
    generator = seeded(3)
    lam, start, root = (
        torch.randn(*shape, generator=generator).double()
        for shape in ((N,), (N,), (N, N))
    )
    curvature = torch.rand(N, generator=generator).double()
    rates = root @ root.T + 0.1 * torch.eye(N)
    moved = proximal_step(lam, start, curvature, rates)
    slope = torch.linalg.inv(rates) @ (moved - lam) + curvature * (moved - start)
    torch.testing.assert_close(slope, torch.zeros_like(slope), rtol=0, atol=1e-10)
    assert not torch.allclose(moved, lam)


@pytest.mark.parametrize("optimizer", ["adam", "rmsprop"])
@pytest.mark.parametrize("shared", [0.0, 0.1])
def test_lambda_comes_to_rest_where_rewards_and_pull_are_equal(
    shared: float, optimizer: str
) -> None:
    space = space_of("Rotate", "Invert", copies=2)
    problem, state = begun(
        space,
        algorithm="lookahead",
        strength_learning_rate=shared,
        lambda_optimizer=optimizer,
    )
    generator = seeded(5)
    gradient = torch.randn(space.n, generator=generator)
    curvature = 1 + torch.rand(space.n, generator=generator)
    for _ in range(1000):
        algorithm_of(problem).move_lambda(
            problem, state, LambdaGradient(torch.zeros(()), gradient.clone(), curvature)
        )
    expected = state.mover.start - gradient / curvature
    torch.testing.assert_close(state.lam.detach(), expected, rtol=1e-3, atol=1e-3)
