"""Networks by name, against published parameter counts and shapes."""

import pytest
import torch
from torch import Tensor, nn

from hba.errors import SettingsError
from hba.models import MODELS, build_model, find_model


def n_parameters(name: str, n_classes: int) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in find_model(name)(n_classes).parameters())


def weights(network: nn.Module) -> Tensor:
    return torch.cat([tensor.flatten().double() for tensor in network.state_dict().values()])


@pytest.mark.parametrize(
    ("name", "millions"),
    # Zagoruyko and Komodakis, Wide Residual Networks, Tables 4 and 9, for CIFAR-10.
    [
        ("wrn-40-1", 0.6),
        ("wrn-40-2", 2.2),
        ("wrn-40-4", 8.9),
        ("wrn-16-4", 2.7),
        ("wrn-16-8", 11.0),
        ("wrn-22-8", 17.2),
        ("wrn-28-10", 36.5),
    ],
)
def test_wide_resnets_have_the_published_number_of_parameters(name: str, millions: float) -> None:
    assert n_parameters(name, 10) / 1e6 == pytest.approx(millions, abs=0.05)


@pytest.mark.parametrize(("name", "published"), [("resnet-18", 11_689_512), ("resnet-50", 25_557_032)])
def test_resnets_have_torchvisions_published_number_of_parameters(name: str, published: int) -> None:
    assert n_parameters(name, 1000) == published


@pytest.mark.parametrize(("name", "published"), [("resnet-18", 11_689_512), ("resnet-50", 25_557_032)])
def test_the_small_resnets_differ_in_the_size_of_the_first_filters_only(name: str, published: int) -> None:
    assert n_parameters(f"{name}-small", 1000) == published - 64 * 3 * (7 * 7 - 3 * 3)


@pytest.mark.parametrize("name", [*(name for name in MODELS if name != "wrn-28-10"), "wrn-16-4"])
def test_a_batch_of_images_becomes_logits(name: str) -> None:
    network = build_model(name, n_classes=7, seed=0).eval()
    with torch.no_grad():
        logits = network(torch.rand(2, 3, 32, 32))
    assert logits.shape == (2, 7)
    assert bool(logits.isfinite().all())


@pytest.mark.parametrize("size", [(8, 8), (28, 28), (16, 40)])
def test_a_wide_resnet_takes_images_of_other_sizes(size: tuple[int, int]) -> None:
    assert build_model("wrn-10-1", n_classes=5, seed=0)(torch.rand(2, 3, *size)).shape == (2, 5)


@pytest.mark.parametrize(
    ("name", "layer", "size"),
    [
        ("resnet-18", "layer1", 8),
        ("resnet-18-small", "layer1", 32),
        ("resnet-18-small", "layer4", 4),
        ("wrn-10-1", "conv", 32),
        ("wrn-10-1", "blocks", 8),
    ],
)
def test_small_images_keep_their_size_behind_the_stem(name: str, layer: str, size: int) -> None:
    network, seen = build_model(name, n_classes=3, seed=0).eval(), []
    network.get_submodule(layer).register_forward_hook(lambda _module, _inputs, output: seen.append(output.shape[2:]))
    network(torch.rand(1, 3, 32, 32))
    assert seen == [(size, size)]


SEEDED = ("wrn-10-1", "wrn-16-2", "wrn-22-1", "resnet-18-small")
"""Names of the table, and names that follow the pattern."""


@pytest.mark.parametrize("name", SEEDED)
def test_the_seed_alone_decides_the_weights(name: str) -> None:
    torch.manual_seed(1)
    first = weights(build_model(name, 3, seed=5))
    torch.manual_seed(2)
    assert torch.equal(weights(build_model(name, 3, seed=5)), first)
    assert not torch.equal(weights(build_model(name, 3, seed=6)), first)


@pytest.mark.parametrize("name", SEEDED)
def test_the_global_generator_is_left_alone(name: str) -> None:
    before = torch.get_rng_state()
    build_model(name, 3, seed=5)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.gpu
def test_the_global_generator_of_the_gpu_is_left_alone() -> None:
    before = torch.cuda.get_rng_state()
    build_model("wrn-10-1", 3, seed=5)
    assert torch.equal(torch.cuda.get_rng_state(), before)


@pytest.mark.parametrize("name", ["wrn-10", "resnet-34", "WRN-40-2", "wrn-16-4-dropout", "wrn--16-4", ""])
def test_an_unknown_name_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(SettingsError, match="unknown model") as raised:
        build_model(name, 3, seed=0)
    message = str(raised.value)
    assert repr(name) in message
    assert "wrn-<depth>-<width>" in message
    assert all(known in message for known in ("wrn-40-2", "wrn-28-10", "wrn-10-1", "resnet-18", "resnet-50-small"))


@pytest.mark.parametrize("name", ["wrn-12-1", "wrn-4-1", "wrn-0-1", "wrn-16-0"])
def test_a_wide_resnet_that_cannot_be_is_refused_by_its_name(name: str) -> None:
    with pytest.raises(SettingsError, match="depth 10, 16, 22"):
        find_model(name)


def test_a_new_wide_resnet_keeps_the_scale_of_activations_and_starts_without_preference() -> None:
    network = build_model("wrn-16-2", n_classes=10, seed=0).train()
    logits = network(torch.randn(64, 3, 16, 16, generator=torch.Generator().manual_seed(0)))
    assert torch.equal(network.get_parameter("linear.bias"), torch.zeros(10))
    assert 0.05 < float(logits.detach().std()) < 5
