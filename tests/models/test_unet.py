"""U-Nets: shapes, pretrained encoders, frozen layers and refusals."""

import pytest
import torch
from torch import nn

from hba.errors import SettingsError
from hba.models import Start, build_model
from hba.models.timm_networks import LITE, TIMM

NAMES = [LITE, "timm:resnet18", "timm:convnext_atto"]


@pytest.mark.parametrize("encoder", NAMES)
@pytest.mark.parametrize("side", [32, 50])
def test_every_pixel_gets_logits(encoder: str, side: int) -> None:
    network = build_model(f"unet:{encoder}", 5, 0, side).eval()
    images = torch.rand(2, 3, side, side)
    assert network(images).shape == (2, 5, side, side)


def test_all_parameters_get_a_gradient() -> None:
    network = build_model(f"unet:{LITE}", 3, 0, 32)
    network(torch.rand(2, 3, 32, 32)).square().mean().backward()
    idle = [name for name, p in network.named_parameters() if p.grad is None]
    assert idle == []


def test_the_seed_decides_the_weights() -> None:
    same, again, other = (
        build_model(f"unet:{LITE}", 3, seed, 32).state_dict() for seed in (0, 0, 1)
    )
    assert all(torch.equal(tensor, again[name]) for name, tensor in same.items())
    assert not torch.equal(same["head.weight"], other["head.weight"])


def test_the_encoder_has_the_pretrained_weights_and_what_is_frozen() -> None:
    start = Start.of(LITE, TIMM, "3+statistics")
    whole = build_model(LITE, 3, 0, start=start).state_dict()
    network = build_model(f"unet:{LITE}", 3, 0, 32, start)
    weights = {
        name.removeprefix("encoder."): tensor
        for name, tensor in network.state_dict().items()
        if name.startswith("encoder.")
    }
    assert {"conv_stem.weight", "blocks.6.0.conv_pw.weight"} <= {*weights}
    assert all(torch.equal(tensor, whole[name]) for name, tensor in weights.items())
    frozen = {name for name, p in network.named_parameters() if not p.requires_grad}
    assert "encoder.conv_stem.weight" in frozen
    assert not any(name.startswith(("blocks.", "head.")) for name in frozen)


def test_statistics_that_are_frozen_stay_in_training() -> None:
    start = Start.of(LITE, TIMM, "none+statistics")
    network = build_model(f"unet:{LITE}", 3, 0, 32, start).train()
    norms = [
        name
        for name, layer in network.named_modules()
        if isinstance(layer, nn.BatchNorm2d)
    ]
    state = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    network(torch.rand(4, 3, 32, 32))
    after = network.state_dict()
    for name in norms:
        mean = f"{name}.running_mean"
        is_kept = torch.equal(after[mean], state[mean])
        assert is_kept == name.startswith("encoder."), name


@pytest.mark.parametrize("encoder", ["wrn-16-2", "timm:vit_tiny_patch16_224"])
def test_a_network_without_maps_of_several_sizes_is_refused(encoder: str) -> None:
    with pytest.raises(SettingsError, match="unet:"):
        build_model(f"unet:{encoder}", 3, 0)
