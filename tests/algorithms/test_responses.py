"""How a hypernetwork learns to answer lambda: against closed forms, autograd on a copy
and finite differences.
"""

import copy
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from search_steps import is_response, respond_at_random
from torch import Tensor, nn

from hba.algorithms.responses import TrainingBatch, joint, linearized, separate
from hba.hypernet import HyperNetwork

N = 3
BATCH = 6
Gradients = Callable[[TrainingBatch], tuple[Tensor, Tensor]]
APART = [separate, linearized]
"""The two that learn the response from a loss of its own."""


class Deep(nn.Module):
    """Smooth, so that finite differences hold; BatchNorm mixes a batch's images."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(2, 4, 3, bias=False)
        self.bn = nn.BatchNorm2d(4)
        self.hidden = nn.Linear(4, 5)
        self.linear = nn.Linear(5, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.bn(self.conv(x)))
        return self.linear(torch.tanh(self.hidden(x.mean(dim=(2, 3)))))


class Linear(nn.Module):
    """Linear in its weights; the last linear layer, which never gets a hyper-layer, is
    not used.
    """

    def __init__(self) -> None:
        super().__init__()
        self.hidden = nn.Linear(2 * 4 * 4, 3)
        self.linear = nn.Linear(1, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.hidden(x.flatten(1))


@pytest.fixture(autouse=True)
def _seed(double_precision: None) -> None:
    torch.manual_seed(0)


def hyper_of(model: nn.Module, center: Tensor | None = None) -> HyperNetwork:
    hypernetwork = HyperNetwork(model, N, "all")
    respond_at_random(hypernetwork)
    if center is not None:
        hypernetwork.center.copy_(center)
    return hypernetwork


def batch() -> tuple[Tensor, Tensor, Tensor]:
    return torch.randn(BATCH, 2, 4, 4), torch.arange(BATCH) % 3, torch.randn(BATCH, N)


def brighter(images: Tensor, lam_rows: Tensor) -> Tensor:
    """An augmentation that depends on lambda."""
    return images + lam_rows.sum(1)[:, None, None, None]


def gradients_of(hypernetwork: HyperNetwork) -> dict[str, Tensor]:
    gradients = {
        name: parameter.grad for name, parameter in hypernetwork.named_parameters()
    }
    return {
        name: gradient.clone()
        for name, gradient in gradients.items()
        if gradient is not None
    }


def learnt(
    learn: Gradients,
    hypernetwork: HyperNetwork,
    images: Tensor,
    labels: Tensor,
    rows: Tensor,
    before: float = 0.0,
) -> dict[str, Tensor]:
    """The gradients that it leaves behind in a copy, where those of the response were
    all `before`.
    """
    copied = copy.deepcopy(hypernetwork)
    for parameter in copied.response_parameters():
        parameter.grad = torch.full_like(parameter, before)
    learn(TrainingBatch(copied, brighter, F.cross_entropy, images, labels, rows))
    return gradients_of(copied)


def test_at_its_center_a_hypernetwork_is_the_network_it_was_made_of() -> None:
    model = Deep()
    center = torch.randn(N)
    hypernetwork = hyper_of(model, center)
    images = batch()[0]
    for lam in (center, center.expand(BATCH, -1)):
        torch.testing.assert_close(hypernetwork(images, lam), model(images))
    assert not torch.allclose(hypernetwork(images, center + 1), model(images))


def test_the_plain_network_answers_as_the_centered_hypernetwork() -> None:
    hypernetwork = hyper_of(Deep(), torch.randn(N)).eval()
    images, _, rows = batch()
    together = hypernetwork(images, rows)
    for image, lam, output in zip(images, rows, together, strict=True):
        torch.testing.assert_close(hypernetwork.to_module(lam)(image[None])[0], output)


def test_the_papers_response_is_one_loss_with_every_image_at_its_own_weights() -> None:
    model = Linear()
    hypernetwork = hyper_of(model)
    images, labels, rows = batch()
    gradients = learnt(joint, hypernetwork, images, labels, rows)
    parameters = {
        name.rpartition(".")[2]: value.detach().requires_grad_()
        for name, value in hypernetwork.named_parameters()
    }
    inputs = brighter(images, rows).flatten(1)
    outputs = []
    for x, lam in zip(inputs, rows, strict=True):
        weight = (
            parameters["weight_0"]
            + (parameters["weight_V"] @ lam)[:, None] * parameters["weight_U"]
        )
        outputs.append(
            weight @ x
            + parameters["bias_0"]
            + (parameters["bias_V"] @ lam) * parameters["bias_U"]
        )
    F.cross_entropy(torch.stack(outputs), labels).backward()
    assert len(gradients) == 6
    for name, gradient in gradients.items():
        torch.testing.assert_close(gradient, parameters[name.rpartition(".")[2]].grad)


@pytest.mark.parametrize("learn", APART)
def test_the_current_weights_learn_from_the_loss_at_the_center_alone(
    learn: Gradients,
) -> None:
    hypernetwork = hyper_of(Deep(), torch.randn(N))
    images, labels, rows = batch()
    gradients = learnt(learn, hypernetwork, images, labels, rows)
    copied = copy.deepcopy(hypernetwork)
    center = hypernetwork.center
    F.cross_entropy(
        copied(brighter(images, center.expand(BATCH, -1)), center), labels
    ).backward()
    for name, gradient in gradients_of(copied).items():
        if is_response(name):
            assert not gradient.any(), (
                "at the center, no output depends on the response"
            )
        else:
            torch.testing.assert_close(gradients[name], gradient)


class Spy:
    """A loss that keeps what it was given, and what it gave."""

    def __init__(self) -> None:
        self.logits: list[Tensor] = []
        self.losses: list[Tensor] = []

    def __call__(self, logits: Tensor, labels: Tensor) -> Tensor:
        loss = F.cross_entropy(logits, labels)
        self.logits.append(logits.detach())
        self.losses.append(loss.detach())
        return loss


def perturb(
    hypernetwork: HyperNetwork, images: Tensor, labels: Tensor, rows: Tensor
) -> tuple[Tensor, Tensor]:
    """Logits and loss of the linearized network at lambda + eps, with an augmentation
    that does nothing.
    """
    spy = Spy()
    linearized(
        TrainingBatch(
            copy.deepcopy(hypernetwork), lambda same, _: same, spy, images, labels, rows
        )
    )
    _, logits = spy.logits
    _, loss = spy.losses
    return logits, loss


@pytest.mark.parametrize("training", [True, False])
def test_the_linearized_logits_change_as_central_differences_say(
    training: bool,
) -> None:
    hypernetwork = hyper_of(Deep(), torch.randn(N)).train(training)
    images, labels, rows = batch()
    logits, _ = perturb(hypernetwork, images, labels, rows)
    center = hypernetwork.center
    small = 1e-5
    with torch.no_grad():
        plus, minus = (
            hypernetwork(images, center + sign * small * (rows - center))
            for sign in (1, -1)
        )
        expected = hypernetwork(images, center) + (plus - minus) / (2 * small)
        assert not torch.allclose(hypernetwork(images, rows), expected, rtol=1e-2)
    torch.testing.assert_close(logits, expected, rtol=1e-7, atol=1e-8)


def test_the_linearized_response_follows_the_slope_of_its_own_loss() -> None:
    hypernetwork = hyper_of(Deep(), torch.randn(N))
    images, labels, rows = batch()
    copied = copy.deepcopy(hypernetwork)
    linearized(
        TrainingBatch(
            copied, lambda same, _: same, F.cross_entropy, images, labels, rows
        )
    )
    small = 1e-6
    for parameter, learning in zip(
        hypernetwork.response_parameters(), copied.response_parameters(), strict=True
    ):
        direction = torch.randn_like(parameter)
        before = parameter.detach().clone()
        losses = []
        for sign in (1, -1):
            with torch.no_grad():
                parameter.copy_(before + sign * small * direction)
            losses.append(perturb(hypernetwork, images, labels, rows)[1])
        with torch.no_grad():
            parameter.copy_(before)
        assert learning.grad is not None
        slope = (losses[0] - losses[1]) / (2 * small)
        torch.testing.assert_close(
            (learning.grad * direction).sum(), slope, rtol=1e-5, atol=1e-8
        )
