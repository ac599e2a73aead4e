"""STN and Delta-STN in a search: which layers answer, what noise there is and when it is learnt, what is kept of it."""

from typing import Any

import pytest
import torch
from each import each
from search_problems import SELF_TUNING
from search_steps import algorithm_of, begun, begun_as_in_the_paper, step
from torch import Tensor, nn

from hba.algorithms.responses import RESPONSES
from hba.hypernet.layers import HyperLayer

LEARN_NOISE: dict[str, dict[str, Any]] = {
    **{name: {"algorithm": name} for name in SELF_TUNING},
    "hba": {"algorithm": "hba", "sigma_entropy": 0.01},
    "fixed-noise": {"algorithm": "fixed-noise", "sigma_entropy": 0.01, "lambda_optimizer": "rmsprop"},
}


@each("algorithm", SELF_TUNING)
def test_every_layer_answers_the_last_one_too(algorithm: str) -> None:
    _, state = begun(algorithm=algorithm)
    kinds = (nn.Conv2d, nn.BatchNorm2d, nn.Linear)
    plain = state.to_module()
    layers = [name for name, layer in plain.named_modules() if isinstance(layer, kinds)]
    found = [
        name.removeprefix("model.")
        for name, layer in state.learner.hypernetwork.named_modules()
        if isinstance(layer, HyperLayer)
    ]
    assert found == layers
    assert isinstance(plain.get_submodule(layers[-1]), nn.Linear)
    assert RESPONSES[algorithm_of(begun(algorithm=algorithm)[0]).response].centered == (algorithm == "delta-stn")


@pytest.mark.parametrize("settings", LEARN_NOISE.values(), ids=LEARN_NOISE)
def test_noise_of_training_has_the_learnt_scale_of_each_hyperparameter(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    task, state = begun(**settings, val_steps=0)
    scales = torch.linspace(0.1, 2.0, len(state.lam))
    with torch.no_grad():
        state.mover.scale.spread.copy_(scales.expm1().log())
    seen: list[Tensor] = []
    decode = type(task.space).decode

    def record(self: Any, logits: Tensor) -> Tensor:
        seen.append(logits - state.lam.detach())
        return decode(self, logits)

    monkeypatch.setattr(type(task.space), "decode", record)
    step(task, state, 30)
    # Those of delta-stn's own loss are without noise.
    noise = torch.cat([one for one in seen if one.any()])
    assert len(noise) == 30 * 8
    torch.testing.assert_close(noise.std(dim=0), scales, rtol=0.35, atol=0)
    assert noise.std(dim=0)[:10].mean() < 0.25 * noise.std(dim=0)[-10:].mean()


def test_lambda_moves_by_rmsprop_as_its_formula_says() -> None:
    generator = torch.Generator().manual_seed(0)
    gradients = [torch.randn(54, generator=generator) for _ in range(6)]
    task, state = begun_as_in_the_paper(lambda_optimizer="rmsprop", lambda_learning_rate=0.02)
    expected, mean_square = state.lam.detach().double(), torch.zeros(54).double()
    for gradient in gradients:
        mean_square = 0.99 * mean_square + 0.01 * gradient.double().square()
        expected = expected - 0.02 * gradient.double() / (mean_square.sqrt() + 1e-8)
        algorithm_of(task).move_lambda(task, state, gradient)
    torch.testing.assert_close(state.lam.detach().double(), expected, rtol=1e-5, atol=1e-5)
