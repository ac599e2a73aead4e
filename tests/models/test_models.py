"""Networks by name, against published parameter counts and shapes."""

import pytest
import torch
from torch import Tensor, nn

from hba.errors import SettingsError
from hba.models import MODELS, PATTERNS, build_model, find_model


def n_parameters(name: str, n_classes: int) -> int:
    with torch.device("meta"):
        return sum(
            parameter.numel() for parameter in find_model(name)(n_classes).parameters()
        )


def weights(network: nn.Module) -> Tensor:
    return torch.cat(
        [tensor.flatten().double() for tensor in network.state_dict().values()]
    )


PUBLISHED = {
    # Zagoruyko and Komodakis, Wide Residual Networks, Tables 4 and 9, for CIFAR-10.
    "wrn-40-1": 0.6,
    "wrn-40-4": 8.9,
    "wrn-16-8": 11.0,
    "wrn-22-8": 17.2,
    "wrn-28-10": 36.5,
    # Gastaldi, Shake-Shake regularization, for CIFAR-10. The widest is of the
    # AutoAugment paper.
    "shake-shake-26-2x32d": 2.9,
    "shake-shake-26-2x96d": 26.2,
    "shake-shake-26-2x112d": 35.6,
    # Han, Kim and Kim, Deep Pyramidal Residual Networks, with bottlenecks.
    "pyramidnet-164-48": 1.7,
    "pyramidnet-200-240": 26.6,
    "pyramidnet-272-200": 26.0,
}
"""Millions of parameters."""


def test_networks_have_the_published_number_of_parameters() -> None:
    assert {
        name: round(n_parameters(name, 10) / 1e6, 1) for name in PUBLISHED
    } == PUBLISHED
    # torchvision's.
    assert [n_parameters(name, 1000) for name in ("resnet-18", "resnet-50")] == [
        11_689_512,
        25_557_032,
    ]


GIANTS = (
    "wrn-28-10",
    "shake-shake-26-2x96d",
    "shake-shake-26-2x112d",
    "pyramidnet-272-200",
)
SMALL_SHAKEN = ("shake-shake-26-2x4d", "pyramidnet-11-6", "pyramidnet-20-12")


@pytest.mark.parametrize(
    "name",
    [*(name for name in MODELS if name not in GIANTS), *SMALL_SHAKEN, "wrn-16-4"],
)
def test_a_batch_of_images_becomes_logits(name: str) -> None:
    network = build_model(name, n_classes=7, seed=0).eval()
    with torch.no_grad():
        logits = network(torch.rand(2, 3, 32, 32))
    assert logits.shape == (2, 7)
    assert bool(logits.isfinite().all())


SEEDED = (
    *SMALL_SHAKEN,
    "wrn-10-1",
    "resnet-18-small",
    "mlp-8",
    "vgg-16-stn-2",
    "timm:resnet10t",
)


@pytest.mark.parametrize("name", SEEDED)
def test_the_seed_alone_decides_the_weights(name: str) -> None:
    torch.manual_seed(1)
    first = weights(build_model(name, 3, seed=5))
    torch.manual_seed(2)
    assert torch.equal(weights(build_model(name, 3, seed=5)), first)
    assert not torch.equal(weights(build_model(name, 3, seed=6)), first)


@pytest.mark.parametrize("name", ["resnet-34", "WRN-40-2", "wrn-16-4-dropout", ""])
def test_an_unknown_name_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(SettingsError, match="unknown model") as raised:
        build_model(name, 3, seed=0)
    assert all(
        name_in_message in str(raised.value)
        for name_in_message in (repr(name), "wrn-28-10", "timm:<name>", *PATTERNS)
    )


DROPOUTS = (nn.Dropout, nn.Dropout2d)
SITES: dict[str, list[str]] = {
    "wrn-10-1": [f"blocks.{block}.between_convs" for block in range(3)],
    "wrn-16-2": [f"blocks.{block}.between_convs" for block in range(6)],
    "resnet-18-small": [
        "on_input",
        *[f"layer{stage}.after_{block}" for stage in (1, 2, 3, 4) for block in (0, 1)],
    ],
    "resnet-50-small": [
        "on_input",
        *[
            f"layer{stage}.after_{block}"
            for stage, n in ((1, 3), (2, 4), (3, 6), (4, 3))
            for block in range(n)
        ],
    ],
    "alexnet-stn": [
        "on_input",
        *[f"after_conv{n}" for n in range(1, 6)],
        "after_fc1",
        "after_fc2",
    ],
    "vgg-16-stn": [
        "on_input",
        *[f"after_conv{n}" for n in range(1, 14)],
        "after_fc1",
        "after_fc2",
    ],
    "simple-cnn": ["on_input", "after_conv1", "after_conv2", "after_fc1"],
    "mlp": ["on_input", "after_fc1", "after_fc2"],
}
"""Of WRN-d-k as many as blocks, (d - 4) / 2; of ResNets one for each block and one for
the input; 8, 16, 4 and 3 of the last ones (Delta-STN, 5.1 and 5.2).
"""


@pytest.mark.parametrize("name", SITES)
def test_dropout_stands_where_the_papers_have_it(name: str) -> None:
    with torch.device("meta"):
        network = find_model(name)(5)
    dropouts = {
        site: layer
        for site, layer in network.named_modules()
        if isinstance(layer, DROPOUTS)
    }
    assert list(dropouts) == SITES[name]
    assert {layer.p for layer in dropouts.values()} == {0.0}
    # Channels of Delta-STN's convolutions, single activations behind linear layers and
    # in wide ResNets.
    of_maps = nn.Dropout if name.startswith(("wrn", "mlp")) else nn.Dropout2d
    assert [type(layer) for layer in dropouts.values()] == [
        nn.Dropout if "fc" in site else of_maps for site in dropouts
    ]
