"""Settings by name: the paper's Table 10 for searches, its Table 11 for evaluations, and the embedded digits."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from hba.errors import SettingsError
from hba.utils.text import unknown

Settings = Mapping[str, Any]


def _search(
    data: str,
    model: str,
    images: tuple[int, int],
    epochs: int,
    rates: tuple[float, float, float],
    batch_size: int = 128,
    **further: Any,
) -> Settings:
    """images: of training and validation. rates: learning rate, weight decay, learning rate of the hyperparameters."""
    return {
        "data": data,
        "train_size": images[0],
        "val_size": images[1],
        "model": model,
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": rates[0],
        "weight_decay": rates[1],
        "lambda_learning_rate": rates[2],
        **further,
    }


_OF_120_CLASSES: dict[str, Any] = {"classes": "imagenet-120", "image_size": 32, "learning_rate_schedule": "step"}
_TARGET = ((40_000, 10_000), 200, (0.1, 0.0005, 0.003))

SEARCH_PRESETS: Mapping[str, Settings] = MappingProxyType(
    {
        "digits": _search("digits", "wrn-10-1", (200, 500), 300, (0.1, 0.0005, 0.03), 100),
        "reduced-cifar10": _search("cifar10", "wrn-40-2", (4_000, 10_000), 200, (0.05, 0.005, 0.03)),
        "reduced-svhn": _search("svhn", "wrn-40-2", (4_000, 10_000), 160, (0.01, 0.01, 0.02)),
        "reduced-imagenet": _search(
            "imagenet", "wrn-40-2", (6_000, 10_000), 270, (0.1, 0.001, 0.007), **_OF_120_CLASSES
        ),
        "cifar10-wrn-40-2": _search("cifar10", "wrn-40-2", *_TARGET),
        "cifar10-wrn-28-10": _search("cifar10", "wrn-28-10", *_TARGET),
        "cifar100-wrn-40-2": _search("cifar100", "wrn-40-2", *_TARGET),
        "cifar100-wrn-28-10": _search("cifar100", "wrn-28-10", *_TARGET),
    }
)
"""Of a search: the columns of Table 10, the last of which are four presets, and digits."""

DEFAULT_PRESETS: Mapping[str, str] = MappingProxyType(
    {
        "digits": "digits",
        "cifar10": "reduced-cifar10",
        "cifar100": "cifar100-wrn-40-2",
        "svhn": "reduced-svhn",
        "imagenet": "reduced-imagenet",
    }
)
"""By dataset, the preset of a search on it that names none."""


def _evaluation(data: str, model: str, learning_rate: float, weight_decay: float, epochs: int) -> Settings:
    return {
        "data": data,
        "model": model,
        "learning_rate": learning_rate,
        "learning_rate_schedule": "cosine",
        "weight_decay": weight_decay,
        "batch_size": 64 if model.startswith("pyramidnet") else 128,
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
"""By dataset, the settings of an evaluation on it without a preset; the network is that of the search."""


def find_preset(name: str, presets: Mapping[str, Settings] = SEARCH_PRESETS) -> Settings:
    """The preset of that name; SettingsError with the known names otherwise."""
    if name not in presets:
        raise SettingsError(unknown("preset", name, presets))
    return presets[name]
