"""Settings by name: the paper's Table 10 for searches, its Table 11 for evaluations, and the embedded digits."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from hba.errors import SettingsError
from hba.utils.text import unknown

Settings = Mapping[str, Any]

_REDUCED = {"val_size": 10_000, "model": "wrn-40-2", "batch_size": 128}
_TARGET_TASK = {
    "train_size": 40_000,
    "val_size": 10_000,
    "epochs": 200,
    "batch_size": 128,
    "learning_rate": 0.1,
    "weight_decay": 0.0005,
    "lambda_learning_rate": 0.003,
}

SEARCH_PRESETS: Mapping[str, Settings] = MappingProxyType(
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
            **_REDUCED,
            "data": "cifar10",
            "train_size": 4_000,
            "epochs": 200,
            "learning_rate": 0.05,
            "weight_decay": 0.005,
            "lambda_learning_rate": 0.03,
        },
        "reduced-svhn": {
            **_REDUCED,
            "data": "svhn",
            "train_size": 4_000,
            "epochs": 160,
            "learning_rate": 0.01,
            "weight_decay": 0.01,
            "lambda_learning_rate": 0.02,
        },
        "reduced-imagenet": {
            **_REDUCED,
            "data": "imagenet",
            "classes": "imagenet-120",
            "image_size": 32,
            "train_size": 6_000,
            "epochs": 270,
            "learning_rate": 0.1,
            "learning_rate_schedule": "step",
            "weight_decay": 0.001,
            "lambda_learning_rate": 0.007,
        },
        "cifar10-wrn-40-2": {"data": "cifar10", "model": "wrn-40-2", **_TARGET_TASK},
        "cifar10-wrn-28-10": {"data": "cifar10", "model": "wrn-28-10", **_TARGET_TASK},
        "cifar100-wrn-40-2": {"data": "cifar100", "model": "wrn-40-2", **_TARGET_TASK},
        "cifar100-wrn-28-10": {"data": "cifar100", "model": "wrn-28-10", **_TARGET_TASK},
    }
)
"""Of a search: the columns of Table 10, the last one being four, and digits."""

DEFAULT_PRESETS: Mapping[str, str] = MappingProxyType(
    {
        "digits": "digits",
        "cifar10": "reduced-cifar10",
        "cifar100": "cifar100-wrn-40-2",
        "svhn": "reduced-svhn",
        "imagenet": "reduced-imagenet",
    }
)
"""Dataset to the preset that a search on it uses unless another is asked for."""


def _evaluation(data: str, model: str, learning_rate: float, weight_decay: float, epochs: int) -> Settings:
    batch_size = 64 if model.startswith("pyramidnet") else 128
    return {
        "data": data,
        "model": model,
        "learning_rate": learning_rate,
        "learning_rate_schedule": "cosine",
        "weight_decay": weight_decay,
        "batch_size": batch_size,
        "epochs": epochs,
    }


EVALUATION_PRESETS: Mapping[str, Settings] = MappingProxyType(
    {
        "cifar10-wrn-40-2": _evaluation("cifar10", "wrn-40-2", 0.1, 0.0005, 200),
        "cifar10-wrn-28-10": _evaluation("cifar10", "wrn-28-10", 0.1, 0.0005, 200),
        "cifar10-shake-shake-26-2x32d": _evaluation("cifar10", "shake-shake-26-2x32d", 0.01, 0.001, 1800),
        "cifar10-shake-shake-26-2x96d": _evaluation("cifar10", "shake-shake-26-2x96d", 0.01, 0.001, 1800),
        "cifar10-shake-shake-26-2x112d": _evaluation("cifar10", "shake-shake-26-2x112d", 0.01, 0.001, 1800),
        "cifar10-pyramidnet-272-200": _evaluation("cifar10", "pyramidnet-272-200", 0.05, 0.00005, 1800),
        # Table 4 has this row and Table 11 has not; its settings are those of CIFAR-10.
        "cifar100-wrn-40-2": _evaluation("cifar100", "wrn-40-2", 0.1, 0.0005, 200),
        "cifar100-wrn-28-10": _evaluation("cifar100", "wrn-28-10", 0.1, 0.0005, 200),
        "cifar100-shake-shake-26-2x96d": _evaluation("cifar100", "shake-shake-26-2x96d", 0.01, 0.0025, 1800),
        "cifar100-pyramidnet-272-200": _evaluation("cifar100", "pyramidnet-272-200", 0.025, 0.0005, 1800),
        "svhn-wrn-28-10": _evaluation("svhn-full", "wrn-28-10", 0.005, 0.001, 160),
        "svhn-shake-shake-26-2x96d": _evaluation("svhn-full", "shake-shake-26-2x96d", 0.01, 0.00015, 160),
        "imagenet-resnet-50": {
            **_evaluation("imagenet", "resnet-50", 0.1, 0.0001, 270),
            "learning_rate_schedule": "step",
            "batch_size": 256,
            "image_size": 224,
            "classes": None,
        },
    }
)
"""Of an evaluation: the rows of Table 11. SVHN is its core and extra images, as in the works that it compares with."""

_DEFAULT_EVALUATIONS = {
    "cifar10": "cifar10-wrn-28-10",
    "cifar100": "cifar100-wrn-28-10",
    "svhn": "svhn-wrn-28-10",
    "svhn-full": "svhn-wrn-28-10",
    "imagenet": "imagenet-resnet-50",
}

EVALUATION_SETTINGS: Mapping[str, Settings] = MappingProxyType(
    {
        data: {name: value for name, value in EVALUATION_PRESETS[preset].items() if name not in ("data", "model")}
        for data, preset in _DEFAULT_EVALUATIONS.items()
    }
)
"""Dataset to the settings, but the network, of an evaluation on it without a preset."""


def find_preset(name: str, presets: Mapping[str, Settings] = SEARCH_PRESETS) -> Settings:
    """The preset of that exact name; SettingsError with the known names otherwise."""
    if name not in presets:
        raise SettingsError(unknown("preset", name, presets))
    return presets[name]
