"""Settings by name: the paper's Table 10 for searches, its Table 11 for evaluations,
and the embedded digits.
"""

from collections.abc import Mapping
from typing import Any

from hba.errors import SettingsError
from hba.utils.text import unknown

Settings = Mapping[str, Any]

_SEARCH = (
    "data",
    "train_size",
    "val_size",
    "model",
    "epochs",
    "batch_size",
    "learning_rate",
    "weight_decay",
    "lambda_learning_rate",
)
_OF_TARGET = (40_000, 10_000)
_TABLE_10 = {
    "digits": ("digits", 200, 500, "wrn-10-1", 300, 100, 0.1, 0.0005, 0.03),
    "reduced-cifar10": (
        "cifar10",
        4_000,
        10_000,
        "wrn-40-2",
        200,
        128,
        0.05,
        0.005,
        0.03,
    ),
    "reduced-svhn": ("svhn", 4_000, 10_000, "wrn-40-2", 160, 128, 0.01, 0.01, 0.02),
    "reduced-imagenet": (
        "imagenet",
        6_000,
        10_000,
        "wrn-40-2",
        270,
        128,
        0.1,
        0.001,
        0.007,
    ),
    "cifar10-wrn-40-2": (
        "cifar10",
        *_OF_TARGET,
        "wrn-40-2",
        200,
        128,
        0.1,
        0.0005,
        0.003,
    ),
    "cifar10-wrn-28-10": (
        "cifar10",
        *_OF_TARGET,
        "wrn-28-10",
        200,
        128,
        0.1,
        0.0005,
        0.003,
    ),
    "cifar100-wrn-40-2": (
        "cifar100",
        *_OF_TARGET,
        "wrn-40-2",
        200,
        128,
        0.1,
        0.0005,
        0.003,
    ),
    "cifar100-wrn-28-10": (
        "cifar100",
        *_OF_TARGET,
        "wrn-28-10",
        200,
        128,
        0.1,
        0.0005,
        0.003,
    ),
}
_OF_120_CLASSES: dict[str, Any] = {
    "classes": "imagenet-120",
    "image_size": 32,
    "learning_rate_schedule": "step",
}

SEARCH_PRESETS: Mapping[str, Settings] = {
    name: (
        dict(zip(_SEARCH, row, strict=True))
        | (_OF_120_CLASSES if name == "reduced-imagenet" else {})
    )
    for name, row in _TABLE_10.items()
}
"""Presets of a search: the columns of Table 10, the last of which is four presets, and
digits.
"""

DEFAULT_PRESETS = {
    str(values["data"]): name for name, values in reversed([*SEARCH_PRESETS.items()])
}
"""For each dataset, the preset of a search that names none: its first one."""


_EVALUATION = ("data", "model", "learning_rate", "weight_decay", "batch_size", "epochs")
_TABLE_11 = {
    "cifar10-wrn-40-2": ("cifar10", "wrn-40-2", 0.1, 0.0005, 128, 200),
    "cifar10-wrn-28-10": ("cifar10", "wrn-28-10", 0.1, 0.0005, 128, 200),
    "cifar10-shake-shake-26-2x32d": (
        "cifar10",
        "shake-shake-26-2x32d",
        0.01,
        0.001,
        128,
        1800,
    ),
    "cifar10-shake-shake-26-2x96d": (
        "cifar10",
        "shake-shake-26-2x96d",
        0.01,
        0.001,
        128,
        1800,
    ),
    "cifar10-shake-shake-26-2x112d": (
        "cifar10",
        "shake-shake-26-2x112d",
        0.01,
        0.001,
        128,
        1800,
    ),
    "cifar10-pyramidnet-272-200": (
        "cifar10",
        "pyramidnet-272-200",
        0.05,
        0.00005,
        64,
        1800,
    ),
    # Table 4 has this row, but Table 11 does not; its settings are those of CIFAR-10.
    "cifar100-wrn-40-2": ("cifar100", "wrn-40-2", 0.1, 0.0005, 128, 200),
    "cifar100-wrn-28-10": ("cifar100", "wrn-28-10", 0.1, 0.0005, 128, 200),
    "cifar100-shake-shake-26-2x96d": (
        "cifar100",
        "shake-shake-26-2x96d",
        0.01,
        0.0025,
        128,
        1800,
    ),
    "cifar100-pyramidnet-272-200": (
        "cifar100",
        "pyramidnet-272-200",
        0.025,
        0.0005,
        64,
        1800,
    ),
    "svhn-wrn-28-10": ("svhn-full", "wrn-28-10", 0.005, 0.001, 128, 160),
    "svhn-shake-shake-26-2x96d": (
        "svhn-full",
        "shake-shake-26-2x96d",
        0.01,
        0.00015,
        128,
        160,
    ),
    "imagenet-resnet-50": ("imagenet", "resnet-50", 0.1, 0.0001, 256, 270),
}
_OF_IMAGENET: dict[str, Any] = {
    "learning_rate_schedule": "step",
    "image_size": 224,
    "classes": None,
}

EVALUATION_PRESETS: Mapping[str, Settings] = {
    name: (
        dict(zip(_EVALUATION, row, strict=True))
        | (
            _OF_IMAGENET
            if name == "imagenet-resnet-50"
            else {"learning_rate_schedule": "cosine"}
        )
    )
    for name, row in _TABLE_11.items()
}
"""Presets of an evaluation: the rows of Table 11. SVHN: core and extra images, as in
the works compared there.
"""

DEFAULT_EVALUATIONS: Mapping[str, str] = {
    "cifar10": "cifar10-wrn-28-10",
    "cifar100": "cifar100-wrn-28-10",
    "svhn": "svhn-wrn-28-10",
    "svhn-full": "svhn-wrn-28-10",
    "imagenet": "imagenet-resnet-50",
}
"""For each dataset, the preset that an evaluation without a preset uses, except for the
network.
"""


def find_preset(
    name: str, presets: Mapping[str, Settings] = SEARCH_PRESETS
) -> Settings:
    """The preset of that name; SettingsError with the known names otherwise."""
    if name not in presets:
        raise SettingsError(unknown("preset", name, presets))
    return presets[name]
