"""The options of a lambda step: when it comes, what it sees, how far it goes."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from each import each
from search_steps import algorithm_of, begun, begun_as_in_the_paper, next_validation, respond_at_random, step
from torch import Tensor

from hba.algorithms.lambda_steps import best_temperature

ALGORITHMS = ["hba", "fixed-noise", "lookahead", "hba-lookahead"]
"""Those with lambda steps."""
STEPS_PER_EPOCH = 3


def hba_begun(**settings: Any) -> tuple[Any, Any]:
    """A hypernetwork that answers lambda from the start."""
    task, state = begun_as_in_the_paper(**settings)
    respond_at_random(state.learner.hypernetwork, 0.1)
    return task, state


def lambda_step(task: Any, state: Any) -> None:
    """Without the training step before it."""
    algorithm = algorithm_of(task)
    if algorithm.name == "lookahead":
        algorithm.update_lambda(task, state, algorithm.augmented(task, state, *state.train_stream.next()))
    elif algorithm.name == "hba-lookahead":
        algorithm.update_lambda_by(task, state, algorithm.augmented(task, state, *state.train_stream.next()))
    else:
        algorithm.update_lambda(task, state)


def slope(state: Any, loss: Callable[[Tensor], Tensor]) -> Tensor:
    """Gradient of the loss at lambda."""
    at = state.lam.detach().clone().requires_grad_()
    (gradient,) = torch.autograd.grad(loss(at), at)
    return gradient


@each("algorithm", ALGORITHMS)
@each(
    ("warm_up_epochs", "train_steps", "first"),
    # Three steps are an epoch, and a lambda step comes after every T_train.
    [(0, 2, 2), (1, 1, 4), (1, 2, 4), (1, 3, 6), (2, 2, 8)],
)
def test_lambda_stays_until_the_warm_up_is_over(
    algorithm: str, warm_up_epochs: int, train_steps: int, first: int
) -> None:
    task, state = begun(algorithm=algorithm, warm_up_epochs=warm_up_epochs, train_steps=train_steps)
    if algorithm != "lookahead":
        respond_at_random(state.learner.hypernetwork, 0.1)
    assert state.steps_per_epoch == STEPS_PER_EPOCH
    start = state.lam.detach().clone()
    step(task, state, first - 1)
    assert torch.equal(state.lam, start)
    step(task, state)
    assert not torch.equal(state.lam, start)


@each("calibrate", [False, True])
def test_the_gradient_is_the_mean_of_those_of_the_validation_batches(calibrate: bool) -> None:
    task, state = hba_begun(val_batches=3, val_batch_size=4, calibrate=calibrate)
    batches = next_validation(task, state, 4)
    network = copy.deepcopy(state.learner.hypernetwork).eval()

    def loss_on(images: Tensor, labels: Tensor) -> Callable[[Tensor], Tensor]:
        def loss(at: Tensor) -> Tensor:
            logits = network(images, at)
            return F.cross_entropy(logits / best_temperature(logits.detach(), labels) if calibrate else logits, labels)

        return loss

    expected = torch.stack([slope(state, loss_on(*batch)) for batch in batches[:3]]).mean(0)
    lambda_step(task, state)
    torch.testing.assert_close(state.lam.grad, expected, rtol=1e-4, atol=1e-7)
    # The batch after the three is the next.
    assert torch.equal(task.preprocessing.measure(state.mover.val_stream.next()[0]), batches[3][0])


def moves(gradients: list[Tensor], **settings: Any) -> list[Tensor]:
    """Where lambda stands at first, and after a step for each gradient."""
    task, state = begun_as_in_the_paper(**settings)
    places = [state.lam.detach().clone()]
    for gradient in gradients:
        algorithm_of(task).move_lambda(task, state, gradient)
        places.append(state.lam.detach().clone())
    return places


def random_gradients(n_steps: int = 6) -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(54, generator=generator) for _ in range(n_steps)]


def test_no_move_is_longer_than_the_trust_radius_and_all_keep_their_direction() -> None:
    gradients, radius = random_gradients(), 0.05
    free, bound = moves(gradients), moves(gradients, trust_radius=radius)
    for number in range(len(gradients)):
        # Adam does not know of the radius: its steps are the same.
        own, cut = (places[number + 1] - places[number] for places in (free, bound))
        assert own.norm() > radius
        torch.testing.assert_close(cut, radius * own / own.norm(), rtol=1e-3, atol=1e-6)


def test_no_logit_passes_the_bound() -> None:
    down, up = torch.ones(54), -torch.ones(54)
    places = moves([*[down] * 10, *[up] * 10], logit_bound=3.0)
    assert torch.equal(places[10], torch.full((54,), -3.0))
    assert (places[20] > -3).all()
    far = moves([up] * 5, logit_bound=0.1, lambda_learning_rate=3.0)
    assert torch.equal(far[-1], torch.full((54,), 0.1))
    free = moves([down] * 10)
    assert free[-1].max() < -3.1


def test_the_noise_shrinks_linearly() -> None:
    task, state = begun(algorithm="hba", sigma=0.8, sigma_end=0.2, epochs=4)
    found = []
    for number in (0, 6, 12):
        state.step = number
        found.append(algorithm_of(task).sigma_now(task, state))
    assert found == pytest.approx([0.8, 0.5, 0.2])
    task, state = begun(algorithm="hba", sigma=0.8, sigma_end=None)
    state.step = 5
    assert algorithm_of(task).sigma_now(task, state) == 0.8
