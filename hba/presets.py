"""Settings by name: policy searches of the paper's Table 10 and the embedded digits, evaluations of Table 11."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from hba.errors import SettingsError

_TARGET_TASK = {
    "train_size": 40_000,
    "val_size": 10_000,
    "model": "wrn-40-2",
    "epochs": 200,
    "batch_size": 128,
    "learning_rate": 0.1,
    "weight_decay": 0.0005,
    "lambda_learning_rate": 0.003,
}

PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "digits": {
            "data": "digits",
            "train_size": 200,
            "val_size": 500,
            "model": "wrn-10-1",
            "epochs": 300,
            "batch_size": 100,
            "learning_rate": 0.1,
            "weight_decay": 0.0005,
            "lambda_learning_rate": 0.03,
        },
        "reduced-cifar10": {
            "data": "cifar10",
            "train_size": 4_000,
            "val_size": 10_000,
            "model": "wrn-40-2",
            "epochs": 200,
            "batch_size": 128,
            "learning_rate": 0.05,
            "weight_decay": 0.005,
            "lambda_learning_rate": 0.03,
        },
        "reduced-svhn": {
            "data": "svhn",
            "train_size": 4_000,
            "val_size": 10_000,
            "model": "wrn-40-2",
            "epochs": 160,
            "batch_size": 128,
            "learning_rate": 0.01,
            "weight_decay": 0.01,
            "lambda_learning_rate": 0.02,
        },
        "cifar10": {"data": "cifar10", **_TARGET_TASK},
        "cifar100": {"data": "cifar100", **_TARGET_TASK},
    }
)

DEFAULT_PRESETS: Mapping[str, str] = MappingProxyType(
    {"digits": "digits", "cifar10": "reduced-cifar10", "cifar100": "cifar100", "svhn": "reduced-svhn"}
)
"""Dataset to the preset that a search on it uses unless another is asked for."""


_EVALUATION_CIFAR = {"epochs": 200, "batch_size": 128, "learning_rate": 0.1, "weight_decay": 0.0005}

EVALUATION_SETTINGS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "cifar10": _EVALUATION_CIFAR,
        "cifar100": _EVALUATION_CIFAR,
        "svhn": {"epochs": 160, "batch_size": 128, "learning_rate": 0.005, "weight_decay": 0.001},
    }
)
"""Dataset to the settings of an evaluation on all its images with a wide ResNet (paper, Table 11)."""


def find_preset(name: str) -> Mapping[str, Any]:
    """The preset of that exact name; SettingsError with the known names otherwise."""
    if name not in PRESETS:
        raise SettingsError(f"unknown preset {name!r}; known: {', '.join(PRESETS)}")
    return PRESETS[name]
