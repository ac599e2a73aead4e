"""The gradient that reaches lambda, against closed forms and finite differences."""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from each import each
from torch import Tensor, nn

from hba.hypernet import SHARING, HyperNetwork

N = 3


def set_parameters(hyper: HyperNetwork, **values: Tensor) -> None:
    """Parameters by the last part of their name; each must exist."""
    named = {name.rpartition(".")[2]: parameter for name, parameter in hyper.named_parameters()}
    with torch.no_grad():
        for name, value in values.items():
            named[name].copy_(value.reshape(named[name].shape))


def gradient(loss: Callable[[Tensor], Tensor], lam: Tensor) -> Tensor:
    at = lam.clone().requires_grad_()
    return torch.autograd.grad(loss(at), at)[0]


# A 1x1 convolution of one pixel with two filters: output j is x (w_j + (V_j . lambda) u_j), so that the squared
# error to the targets t is the quadratic sum_j (x w_j + x u_j V_j . lambda - t_j)^2.
PIXEL = 1.5
W = torch.tensor([0.4, -0.7]).double()
U = torch.tensor([2.0, -0.5]).double()
V = torch.tensor([[1.0, 0.3], [-0.2, 0.8]]).double()
T = torch.tensor([1.0, 3.0]).double()


def quadratic_hypernetwork() -> HyperNetwork:
    model = nn.Sequential(nn.Conv2d(1, 2, 1, bias=False), nn.Flatten()).double()
    hyper = HyperNetwork(model, 2, "conv")
    set_parameters(hyper, weight_0=W, weight_U=U, weight_V=V)
    return hyper


def test_the_gradient_of_a_two_parameter_quadratic_is_the_closed_form() -> None:
    hyper, pixel = quadratic_hypernetwork(), torch.full((1, 1, 1, 1), PIXEL).double()
    lam = torch.tensor([0.9, -1.1]).double()
    residual = PIXEL * (W + U * (V @ lam)) - T
    closed_form = V.T @ (2 * PIXEL * U * residual)
    actual = gradient(lambda at: (hyper(pixel, at) - T).square().sum(), lam)
    torch.testing.assert_close(actual, closed_form)


class Tiny(nn.Module):
    """Two convolutions, BatchNorm, a hidden and a last linear layer; smooth, so that finite differences hold."""

    def __init__(self) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 4, 3, padding=1)
        self.bn = nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 5, 3, stride=2, bias=False)
        self.hidden = nn.Linear(5, 6)
        self.linear = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.conv2(torch.tanh(self.bn(self.conv1(x)))))
        return self.linear(torch.tanh(self.hidden(x.mean(dim=(2, 3)))))


def tiny_hypernetwork(sharing: str) -> HyperNetwork:
    torch.manual_seed(0)
    hyper = HyperNetwork(Tiny().double(), N, sharing)
    with torch.no_grad():
        for name, parameter in hyper.named_parameters():
            if name.endswith("_V"):
                parameter.normal_()
        # Running statistics that differ from the validation batch's.
        hyper(torch.randn(8, 3, 6, 6).double() + 1, torch.randn(8, N).double())
    return hyper.eval()


@each("per_image", [False, True])
@each("sharing", SHARING)
def test_the_gradient_of_the_validation_loss_equals_central_differences(sharing: str, per_image: bool) -> None:
    hyper = tiny_hypernetwork(sharing)
    x, labels = torch.randn(7, 3, 6, 6).double(), torch.arange(7) % 4
    lam = torch.randn(7, N).double() if per_image else torch.randn(N).double()

    def loss(at: Tensor) -> Tensor:
        return F.cross_entropy(hyper(x, at), labels)

    step, expected = 1e-5, torch.zeros_like(lam).flatten()
    with torch.no_grad():
        for k in range(lam.numel()):
            shift = step * torch.eye(lam.numel()).double()[k].reshape(lam.shape)
            expected[k] = (loss(lam + shift) - loss(lam - shift)) / (2 * step)
    assert float(expected.abs().max()) > 1e-4
    torch.testing.assert_close(gradient(loss, lam), expected.reshape(lam.shape), rtol=1e-5, atol=1e-9)
