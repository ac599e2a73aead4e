"""Algorithm 2, step by step, against its pseudo-code written out again."""

import copy
import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from search_problems import SELF_TUNING
from search_steps import (
    algorithm_of,
    begun,
    begun_as_in_the_paper,
    next_validation,
    respond_at_random,
    step,
)
from torch import Tensor, nn

from hba.algorithms import Hypergradient, hypergradient
from hba.algorithms.problem import ImageProblem
from hba.algorithms.responses import RESPONSES, TrainingBatch
from hba.hypernet.layers import HyperLayer


def begin_responding(**settings: Any) -> tuple[Any, Any]:
    """With a hypernetwork that answers lambda: at the start phi_V is zero, so that no
    gradient reaches lambda.
    """
    torch.manual_seed(0)
    problem, state = begun_as_in_the_paper(**settings)
    respond_at_random(state.learner.hypernetwork, 0.05)
    return problem, state


def test_a_lambda_step_moves_only_lambda_by_the_slope_of_the_validation_loss() -> None:
    problem, state = begin_responding()
    weights = copy.deepcopy(state.learner.hypernetwork.state_dict())
    start = state.lam.detach().clone()
    ((x, labels),) = next_validation(problem, state)
    algorithm_of(problem).update_lambda(problem, state, ())
    for name, value in state.learner.hypernetwork.state_dict().items():
        assert torch.equal(value, weights[name]), name
    direction = torch.zeros(54)
    distance = 0.05
    network = state.learner.hypernetwork
    direction[int(state.lam.grad.abs().argmax())] = 1.0
    with torch.no_grad():
        plus, minus = (
            F.cross_entropy(network(x, start + sign * distance * direction), labels)
            for sign in (1, -1)
        )
    slope = (plus.double() - minus.double()).item() / (2 * distance)
    assert math.isclose(slope, float(state.lam.grad @ direction), rel_tol=0.02)
    # Adam's first step is the learning rate times the sign of the gradient.
    assert torch.allclose(
        state.lam.detach() - start, -0.03 * state.lam.grad.sign(), atol=2e-3
    )


@pytest.mark.parametrize(("train_steps", "val_steps"), [(2, 1), (3, 2), (2, 0)])
def test_steps_alternate_as_in_the_pseudo_code(
    train_steps: int, val_steps: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, state = begun_as_in_the_paper(train_steps=train_steps, val_steps=val_steps)
    calls: list[str] = []

    def update_phi(_: ImageProblem, state: Any, *arguments: Any) -> None:
        calls.append("phi")
        state.learner.update()

    monkeypatch.setattr(hypergradient, "update_phi", update_phi)
    monkeypatch.setattr(
        Hypergradient, "update_lambda", lambda *_: calls.append("lambda")
    )
    step(problem, state, 3 * train_steps)
    assert calls == 3 * (train_steps * ["phi"] + val_steps * ["lambda"])


def test_every_image_has_its_own_lambda_in_policy_and_network_alike(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    problem, state = begun_as_in_the_paper(sigma=0.7, val_steps=0)
    seen: dict[str, Tensor] = {}
    augment = ImageProblem.augment
    forward = state.learner.hypernetwork.forward

    def record_augment(
        self: ImageProblem, images: Tensor, lam: Tensor, generator: torch.Generator
    ) -> Tensor:
        seen["policy"] = lam
        return augment(self, images, lam, generator)

    def record_forward(x: Tensor, lam: Tensor) -> Tensor:
        seen["network"] = lam
        return forward(x, lam)

    monkeypatch.setattr(ImageProblem, "augment", record_augment)
    monkeypatch.setattr(state.learner.hypernetwork, "forward", record_forward)
    noises = []
    for _ in range(20):
        step(problem, state)
        assert torch.equal(seen["policy"], seen["network"])
        noises.append(seen["policy"] - state.lam.detach())
    noise = torch.cat(noises)
    assert len(noise.unique(dim=0)) == len(noise)
    # Standard errors of mean and spread of so many normal numbers are below 0.5 % of
    # sigma.
    assert abs(noise.mean()) < 0.02
    assert math.isclose(noise.std().item(), 0.7, rel_tol=0.03)


@pytest.mark.parametrize("name", RESPONSES)
def test_a_training_step_is_one_of_sgd_along_those_gradients(name: str) -> None:
    problem, state = begin_responding(
        response=name, weight_decay=0.0, learning_rate=0.1
    )
    copied = copy.deepcopy(state)
    images, labels = copied.train_stream.next()
    rows = copied.lam.detach() + torch.randn(
        len(images), len(state.lam), generator=copied.generator
    )

    def augment(images: Tensor, rows: Tensor) -> Tensor:
        return problem.augment(images, rows, copied.generator)

    hypernetwork = copied.learner.hypernetwork.train()
    RESPONSES[name](
        TrainingBatch(hypernetwork, augment, F.cross_entropy, images, labels, rows)
    )
    step(problem, state)
    for moved, still in zip(
        state.learner.hypernetwork.parameters(), hypernetwork.parameters(), strict=True
    ):
        # The first step of Nesterov's momentum of 0.9 is 1.9 gradients long.
        torch.testing.assert_close(
            moved, still - 0.1 * 1.9 * still.grad, rtol=1e-4, atol=1e-6
        )


@pytest.mark.parametrize("algorithm", SELF_TUNING)
def test_every_layer_answers_the_last_one_too(algorithm: str) -> None:
    problem, state = begun(algorithm=algorithm)
    plain = state.to_module()
    hypernetwork = state.learner.hypernetwork.model
    layers = [
        name
        for name, module in plain.named_modules()
        if isinstance(module, nn.Conv2d | nn.BatchNorm2d | nn.Linear)
    ]
    assert [
        name
        for name, module in hypernetwork.named_modules()
        if isinstance(module, HyperLayer)
    ] == layers
    assert isinstance(plain.get_submodule(layers[-1]), nn.Linear)
    assert algorithm_of(problem).response == (
        "linearized" if algorithm == "delta-stn" else "affine"
    )


LEARN_NOISE: dict[str, dict[str, Any]] = {
    **{name: {"algorithm": name} for name in SELF_TUNING},
    "fixed-noise": {
        "algorithm": "fixed-noise",
        "sigma_entropy": 0.01,
        "lambda_optimizer": "rmsprop",
    },
}


@pytest.mark.parametrize("settings", LEARN_NOISE.values(), ids=LEARN_NOISE)
def test_noise_of_training_has_the_learnt_scale_of_each_hyperparameter(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, state = begun(**settings, val_steps=0)
    scales = torch.linspace(0.1, 2.0, len(state.lam))
    with torch.no_grad():
        state.mover.scale.spread.copy_(scales.expm1().log())
    seen: list[Tensor] = []
    decode = type(problem.space).decode

    def record(self: Any, logits: Tensor) -> Tensor:
        seen.append(logits - state.lam.detach())
        return decode(self, logits)

    monkeypatch.setattr(type(problem.space), "decode", record)
    step(problem, state, 12)
    # Those of delta-stn's own loss are without noise.
    noise = torch.cat([batch for batch in seen if batch.any()])
    assert len(noise) == 12 * 8
    torch.testing.assert_close(noise.std(dim=0), scales, rtol=0.35, atol=0)
    assert noise.std(dim=0)[:10].mean() < 0.25 * noise.std(dim=0)[-10:].mean()
