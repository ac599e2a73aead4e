"""Layers with a function of their own: timm's fused BatchNorm, and those that are refused or left out."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from each import each
from timm.layers.conv2d_same import Conv2dSame
from timm.layers.norm_act import BatchNormAct2d
from timm.layers.std_conv import ScaledStdConv2d, StdConv2d
from torch import Tensor, nn

from hba.errors import SettingsError
from hba.hypernet import HyperBatchNorm2d, HyperLayer, HyperNetwork
from hba.hypernet.sharing import layers_to_replace

N = 3
BATCH = 4


def randn(*shape: int, seed: int = 1) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def network(*layers: nn.Module) -> nn.Module:
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 2))


def fused_network(**settings: Any) -> HyperNetwork:
    torch.manual_seed(0)
    fused = BatchNormAct2d(6, **settings)
    hyper = HyperNetwork(network(nn.Conv2d(3, 6, 3), fused), N, "bn")
    with torch.no_grad():
        for parameter in hyper.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        for step in range(2):
            hyper(randn(BATCH, 3, 8, 8, seed=step) + step, randn(BATCH, N))
    return hyper


def test_a_fused_batch_norm_scales_each_image_by_its_own_lambda_before_it_acts() -> None:
    hyper, x, lam = fused_network(act_layer=nn.ReLU).eval(), randn(BATCH, 3, 8, 8), randn(BATCH, N)
    layer = hyper.model.get_submodule("1")
    assert isinstance(layer, HyperBatchNorm2d)
    maps = hyper.model.get_submodule("0")(x)
    mean, var = layer.normalize.running_mean, layer.normalize.running_var
    expected = []
    for i in range(BATCH):
        scale, offset = (layer.affine_0 + (layer.affine_V @ lam[i]) * layer.affine_U).chunk(2)
        normal = F.batch_norm(maps[i : i + 1], mean, var, scale, offset, eps=layer.normalize.eps)
        expected.append(normal.relu())
    hyper.door.lam = lam
    actual = layer(maps)
    hyper.door.lam = None
    assert float(actual.detach().min()) == 0
    torch.testing.assert_close(actual, torch.cat(expected))


class PReLU(nn.PReLU):
    """An activation with a weight. Older versions of timm tell every activation whether to work in place."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()


@each("training", [True, False])
@each(
    "settings",
    [{}, {"act_layer": nn.SiLU}, {"drop_layer": nn.Dropout}, {"apply_act": False}, {"act_layer": PReLU}],
    ids=["relu", "silu", "dropout", "no activation", "prelu"],
)
def test_plain_gives_an_ordinary_fused_batch_norm_with_equal_output(settings: dict[str, Any], training: bool) -> None:
    hyper, x, lam = fused_network(**settings).train(training), randn(BATCH, 3, 8, 8), randn(N)
    plain = hyper.to_module(lam)
    layer = plain.get_submodule("1")
    assert type(layer) is BatchNormAct2d
    assert repr(layer) == repr(BatchNormAct2d(6, **settings).train(training))
    torch.manual_seed(3)
    actual = plain(x)
    torch.manual_seed(3)
    torch.testing.assert_close(actual, hyper(x, lam), rtol=1e-4, atol=1e-5)
    torch.manual_seed(3)
    torch.testing.assert_close(actual, hyper(x, lam.expand(BATCH, N)), rtol=1e-4, atol=1e-5)


class Clipped(nn.BatchNorm2d):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).clamp(max=1)


class ActsBefore(nn.BatchNorm2d):
    """Has the parts of timm's BatchNormAct2d, but uses them otherwise."""

    def __init__(self, channels: int) -> None:
        super().__init__(channels)
        self.drop, self.act = nn.Identity(), nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(self.act(self.drop(x)))


class FusedTwice(BatchNormAct2d):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(super().forward(x))


class Reversed(nn.Conv2d):
    def _conv_forward(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return super()._conv_forward(x, weight.flip(2), bias)


def weight_norm() -> nn.Module:
    return nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 6, 3))


REFUSED = [
    pytest.param(StdConv2d(3, 6, 3), "conv", "StdConv2d", id="weight standardization"),
    pytest.param(ScaledStdConv2d(3, 6, 3), "first-conv", "ScaledStdConv2d", id="scaled weight standardization"),
    pytest.param(Conv2dSame(3, 6, 3), "conv+bn", "Conv2dSame", id="padding as in TensorFlow"),
    pytest.param(Reversed(3, 6, 3), "conv", "Reversed", id="a convolution with another function"),
    pytest.param(Clipped(3), "first-bn", "Clipped", id="a clipped BatchNorm"),
    pytest.param(ActsBefore(3), "bn", "ActsBefore", id="a BatchNorm that acts first"),
    pytest.param(FusedTwice(3), "bn", "FusedTwice", id="a fused BatchNorm with another function"),
    pytest.param(nn.BatchNorm2d(3, affine=False), "bn", "affine=False", id="BatchNorm without scale"),
    pytest.param(weight_norm(), "conv", "Conv2d computes its weights", id="weight normalization"),
]


@each(("layer", "sharing", "what"), REFUSED)
def test_a_layer_with_a_function_of_its_own_is_refused_by_its_name(layer: nn.Module, sharing: str, what: str) -> None:
    with pytest.raises(SettingsError, match="cannot replace '0'") as raised:
        HyperNetwork(network(layer), N, sharing)
    assert f"sharing '{sharing}'" in str(raised.value)
    assert what in str(raised.value)
    assert "\n" not in str(raised.value)


class NamedConv(nn.Conv2d):
    """A name only."""


class NamedFused(BatchNormAct2d):
    """A name only."""


def test_a_subclass_without_a_function_of_its_own_is_replaced() -> None:
    model, x = network(NamedConv(3, 6, 3), NamedFused(6)).eval(), randn(BATCH, 3, 8, 8)
    hyper, lam = HyperNetwork(model, N, "conv+bn"), randn(N)
    assert [name for name, layer in hyper.model.named_modules() if isinstance(layer, HyperLayer)] == ["0", "1"]
    torch.testing.assert_close(hyper(x, lam), model(x), rtol=1e-4, atol=1e-5)
    plain = hyper.to_module(lam)
    assert [type(plain.get_submodule(name)) for name in ("0", "1")] == [NamedConv, NamedFused]


class Attentive(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 8, 4, stride=4)
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.hidden = nn.Linear(8, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.embed(x).flatten(2).transpose(1, 2)
        tokens = tokens + self.attention(tokens, tokens, tokens)[0]
        return self.head(F.relu(self.hidden(tokens)).mean(dim=1))


def test_the_output_projection_of_attention_is_left_out() -> None:
    model, x = Attentive(), randn(BATCH, 3, 8, 8)
    assert layers_to_replace(model, "all") == ["embed", "hidden"]
    assert layers_to_replace(model, "every") == ["embed", "hidden", "head"]
    torch.testing.assert_close(HyperNetwork(model, N, "all")(x, randn(BATCH, N)), model(x), rtol=1e-4, atol=1e-5)


class Encoding(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(8, 8)
        self.encoder = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.head = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.encoder(self.stem(x)).mean(dim=1))


@each("mode", [True, False])
def test_the_linear_layers_of_a_transformer_encoder_are_left_out(mode: bool) -> None:
    # In eval mode, PyTorch reads their weights without running them.
    model, x = Encoding().train(mode), randn(BATCH, 3, 8)
    assert layers_to_replace(model, "every") == ["stem", "head"]
    found = HyperNetwork(model, N, "every").train(mode)(x, randn(BATCH, N))
    torch.testing.assert_close(found, model(x), rtol=1e-4, atol=1e-5)
