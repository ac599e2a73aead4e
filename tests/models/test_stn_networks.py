"""Networks of Delta-STN, against parameters counted by hand and layers applied one by
one.
"""

import pytest
import torch
import torch.nn.functional as F
from random_inputs import seeded
from torch import Tensor, nn

from hba.models import build_model, find_model

SMALL = ("alexnet-stn-4", "vgg-16-stn-2", "simple-cnn-4", "mlp-16")


def conv(inputs: int, outputs: int, side: int = 3) -> int:
    return outputs * (inputs * side**2 + 1)


def linear(inputs: int, outputs: int) -> int:
    return outputs * (inputs + 1)


def n_parameters(name: str, in_channels: int, image_size: int) -> int:
    with torch.device("meta"):
        network = find_model(name)(10, in_channels, image_size)
        assert network.eval()(
            torch.empty(2, in_channels, image_size, image_size)
        ).shape == (2, 10)
    return sum(parameter.numel() for parameter in network.parameters())


def test_alexnet_has_as_many_parameters_as_the_authors() -> None:
    assert n_parameters("alexnet-stn", 3, 32) == 23_272_266
    convolutions = (
        conv(3, 64) + conv(64, 192) + conv(192, 384) + conv(384, 256) + conv(256, 256)
    )
    assert (
        convolutions + linear(4 * 256, 4096) + linear(4096, 4096) + linear(4096, 10)
        == 23_272_266
    )


def images(size: int = 32, n: int = 3) -> Tensor:
    return torch.rand(n, 3, size, size, generator=seeded(1))


def halved(x: Tensor) -> Tensor:
    """A max pooling of 2x2, of an even side."""
    return torch.stack([x[..., i::2, j::2] for i in (0, 1) for j in (0, 1)]).amax(dim=0)


def by_hand(name: str, network: nn.Module, x: Tensor) -> Tensor:
    """The layers in their order, as the papers describe them."""
    weight = network.get_parameter
    n_convolutions, pooled = {
        "alexnet": (5, {1, 2, 5}),
        "vgg": (13, {2, 4, 7, 10, 13}),
        "simple": (2, {1, 2}),
    }.get(name.partition("-")[0], (0, set()))
    for number in range(1, n_convolutions + 1):
        stride = 2 if name.startswith("alexnet") and number == 1 else 1
        filters = weight(f"conv{number}.weight")
        assert filters.shape[-1] == (5 if name.startswith("simple") else 3)
        x = F.conv2d(
            x,
            filters,
            weight(f"conv{number}.bias"),
            stride,
            padding=filters.shape[-1] // 2,
        ).relu()
        x = halved(x) if number in pooled else x
    x = x.flatten(1)
    n_hidden = {"simple-cnn-4": 1, "mlp-16": 3}.get(name, 2)
    for number in range(1, n_hidden + 1):
        x = (x @ weight(f"fc{number}.weight").T + weight(f"fc{number}.bias")).relu()
    return x @ weight(f"fc{n_hidden + 1}.weight").T + weight(f"fc{n_hidden + 1}.bias")


@pytest.mark.parametrize("name", SMALL)
def test_the_layers_run_as_the_papers_describe_them(name: str) -> None:
    network = build_model(name, 7, seed=0, image_size=32).train()
    before = torch.get_rng_state()
    with torch.no_grad():
        torch.testing.assert_close(
            network(images()), by_hand(name, network, images()), rtol=1e-4, atol=1e-6
        )
    assert torch.equal(torch.get_rng_state(), before)
