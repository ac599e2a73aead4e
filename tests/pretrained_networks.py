"""Weights of small networks of timm, written by the tests that start from them."""

import copy
import functools
from pathlib import Path
from typing import Any

import timm
import torch
from search_problems import SMALL_SETTINGS
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

NAME = "resnet10t"
MODEL = f"timm:{NAME}"
CLASSES_THERE = 7
HEAD = {"fc.weight", "fc.bias"}
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of ImageNet, as timm's configuration of the network has it."""
SETTINGS: dict[str, Any] = {
    **{name: value for name, value in SMALL_SETTINGS.items() if name != "model"},
    "model": MODEL,
    "learning_rate": 0.01,
    "epochs": 2,
    "batch_size": 12,
}


def pretrained(
    n_classes: int = CLASSES_THERE, seed: int = 9, name: str = NAME
) -> nn.Module:
    """A network whose running statistics are no longer those of a new one."""
    return copy.deepcopy(_pretrained(n_classes, seed, name))


@functools.cache
def _pretrained(n_classes: int, seed: int, name: str) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network: nn.Module = timm.create_model(name, num_classes=n_classes)
        for layer in network.modules():
            if isinstance(layer, _BatchNorm):
                assert layer.running_mean is not None
                assert layer.running_var is not None
                layer.running_mean.normal_(0, 0.1)
                layer.running_var.uniform_(0.5, 1.5)
    return network


def names_that_differ(network: nn.Module, other: nn.Module) -> set[str]:
    """Of weights and statistics that are not the same to the last bit."""
    theirs = other.state_dict()
    return {
        name
        for name, state in network.state_dict().items()
        if state.shape != theirs[name].shape or not torch.equal(state, theirs[name])
    }


def weights_file(folder: Path, network: nn.Module | None = None) -> Path:
    path = folder / "weights.pth"
    torch.save((network or pretrained()).state_dict(), path)
    return path
