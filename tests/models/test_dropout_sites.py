"""Dropout modules of networks by name: where they stand, and that a rate of 0 is as none."""

import torch
import torch.nn.functional as F
from each import each
from torch import Tensor, nn

from hba.models import build_model

SIZE = 16
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
        *[f"layer{stage}.after_{block}" for stage, n in ((1, 3), (2, 4), (3, 6), (4, 3)) for block in range(n)],
    ],
}
"""Of WRN-d-k as many as blocks, (d - 4) / 2; of ResNets one for each block and one for the input."""


def dropouts(network: nn.Module) -> dict[str, nn.Module]:
    return {name: layer for name, layer in network.named_modules() if isinstance(layer, DROPOUTS)}


def images(n: int = 4) -> Tensor:
    return torch.rand(n, 3, SIZE, SIZE, generator=torch.Generator().manual_seed(1))


def built(name: str) -> nn.Module:
    return build_model(name, 5, seed=3, image_size=SIZE).train()


def step(network: nn.Module) -> list[Tensor]:
    """Logits, gradients and statistics of a batch."""
    logits = network(images())
    F.cross_entropy(logits, torch.tensor([0, 1, 2, 3])).backward()
    return [logits, *(one.grad for one in network.parameters() if one.grad is not None), *network.buffers()]


@each("name", SITES)
def test_dropout_stands_where_the_papers_have_it(name: str) -> None:
    found = dropouts(built(name))
    assert list(found) == SITES[name]
    assert {layer.p for layer in found.values()} == {0.0}
    # Channels in networks like Delta-STN's, single activations in wide ResNets.
    assert {type(layer) for layer in found.values()} == {nn.Dropout if name.startswith("wrn") else nn.Dropout2d}


def without_dropout(name: str) -> nn.Module:
    network = built(name)
    for site in dropouts(network):
        parent, _, child = site.rpartition(".")
        network.get_submodule(parent).add_module(child, nn.Identity())
    return network


@each("name", SITES)
def test_a_rate_of_0_changes_no_bit_and_draws_nothing(name: str) -> None:
    expected = step(without_dropout(name))
    torch.manual_seed(7)
    before = torch.get_rng_state()
    actual = step(built(name))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(one, other) for one, other in zip(actual, expected, strict=True))


def inputs_of(network: nn.Module, name: str) -> Tensor:
    seen: list[Tensor] = []
    hook = network.get_submodule(name).register_forward_pre_hook(lambda _layer, given: seen.append(given[0].detach()))
    network(images(64))
    hook.remove()
    return seen[0]


def test_a_wide_resnet_drops_what_goes_into_the_second_convolution_of_a_block() -> None:
    network, rate = built("wrn-10-1"), 0.25
    full = inputs_of(network, "blocks.1.conv2")
    network.get_submodule("blocks.1.between_convs").p = rate  # type: ignore[assignment]
    torch.manual_seed(0)
    dropped = inputs_of(network, "blocks.1.conv2")
    kept = dropped > 0
    torch.testing.assert_close(dropped[kept], full[kept] / (1 - rate))
    positive = full > 0
    share = float((positive & ~kept).sum() / positive.sum())
    # Four standard deviations of a share of so many draws.
    assert abs(share - rate) < 4 * (rate * (1 - rate) / int(positive.sum())) ** 0.5
    network.eval()
    torch.testing.assert_close(inputs_of(network, "blocks.1.between_convs"), inputs_of(network, "blocks.1.conv2"))


@each(("site", "layer"), [("on_input", "conv1"), ("layer1.after_0", "layer1.1")])
def test_a_small_resnet_drops_channels_of_its_input_and_of_what_blocks_make(site: str, layer: str) -> None:
    network, rate = built("resnet-18-small"), 0.5
    full = inputs_of(network, layer)
    network.get_submodule(site).p = rate  # type: ignore[assignment]
    torch.manual_seed(0)
    dropped = inputs_of(network, layer)
    is_dropped = (dropped == 0).all(dim=(2, 3)) & (full != 0).any(dim=(2, 3))
    torch.testing.assert_close(dropped, full / (1 - rate) * ~is_dropped[:, :, None, None])
    n = is_dropped.numel()
    assert abs(float(is_dropped.double().mean()) - rate) < 4 * (rate * (1 - rate) / n) ** 0.5
    torch.testing.assert_close(inputs_of(network.eval(), site), inputs_of(network, layer))
