"""benchmarks/quality/trials.py: each differs from look-ahead in the one thing that its name says."""

from dataclasses import replace

import pytest
import torch
from benchmark_modules import module
from search_steps import begun
from torch import Tensor

from hba.algorithms import Algorithm, Lookahead
from hba.preprocessing.baseline import Baseline

pytestmark = pytest.mark.usefixtures("benchmarks_can_be_imported")


def rates(algorithm: type[Algorithm], step: int) -> tuple[float, float]:
    """With which lambda and the shared coordinates move after that training step of 12."""
    problem, state = begun(algorithm=algorithm, epochs=4)
    assert state.steps_per_epoch * 4 == 12
    state.step = step
    algorithm.make({}).move_lambda(problem, state, torch.ones_like(state.lam))  # type: ignore[attr-defined]
    optimizers = state.mover.optimizer, state.mover.strength.optimizer
    own, shared = (optimizer.param_groups[0]["lr"] for optimizer in optimizers)
    return own, shared


def test_early_steps_fall_from_twice_the_rates_to_none_and_are_as_large_in_the_mean() -> None:
    early = module("quality.trials").EarlySteps
    assert rates(early, 0) == pytest.approx((0.06, 0.2))
    assert rates(early, 6) == pytest.approx((0.03, 0.1))
    assert rates(Lookahead, 6) == (0.03, 0.1)
    assert rates(early, 12) == pytest.approx((0.0, 0.0))


def validation_images(kind: type[Algorithm], flip: bool) -> Tensor:
    """What the network of a lambda step sees."""
    problem, state = begun(algorithm=kind)
    problem = replace(problem, preprocessing=replace(problem.preprocessing, baseline=Baseline(flip=flip)))
    seen: list[Tensor] = []

    def predict(images: Tensor) -> Tensor:
        seen.append(images)
        return torch.zeros(len(images), len(problem.data.class_names))

    kind.make({}).validation_loss(problem, state, predict)  # type: ignore[attr-defined]
    return seen[0]


def test_augmented_validation_goes_through_the_baseline() -> None:
    trial = module("quality.trials").AugmentedValidation
    plain = validation_images(Lookahead, flip=True)
    assert torch.equal(validation_images(trial, flip=False), plain)
    augmented = validation_images(trial, flip=True)
    is_plain, is_flipped = ((augmented == one).flatten(1).all(dim=1) for one in (plain, plain.flip(3)))
    assert bool((is_plain | is_flipped).all())
    assert 0 < int(is_flipped.sum()) < len(plain)
