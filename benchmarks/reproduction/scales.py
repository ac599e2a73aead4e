"""Scales at which the tables can be run: the paper's own, a fraction of its epochs, and what two CPU cores can do."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from hba.errors import SettingsError
from reproduction.runs import Search, Training

ABLATION_SIZES = (30_000, 10_000, 10_000)
"""Training, validation and held-out images of the paper's ablation study (4.1)."""


@dataclass(frozen=True)
class Scale:
    """What differs from the paper. None: nothing.

    epochs_factor: of all epochs. models: what stands for a network; another than these is not run. search_sizes:
    training and validation images by preset. whole_size: images that stand for the whole training set. epochs: by
    preset, for searches and for trainings; by_algorithm goes before them, because the algorithms differ in what an
    epoch costs. ablation, target: further settings of the searches of the ablation and of target tasks. The paper's
    lambda moves about as far in its searches on target tasks (lambda steps times alpha' is 94) as in the reduced one
    (93), and has to at any other scale.
    """

    name: str
    text: str
    seeds: int
    epochs_factor: float = 1.0
    models: Mapping[str, str] | None = None
    search_sizes: Mapping[str, tuple[int, int]] | None = None
    ablation_sizes: tuple[int, int, int] = ABLATION_SIZES
    whole_size: int | None = None
    batch_size: int | None = None
    search_epochs: Mapping[str, int] = field(default_factory=dict)
    training_epochs: int | None = None
    by_algorithm: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    ablation: Mapping[str, float] = field(default_factory=dict)
    target: Mapping[str, float] = field(default_factory=dict)
    common: Mapping[str, Any] = field(default_factory=dict)

    def settings(self, run: Search | Training) -> dict[str, Any] | None:
        """Settings over the run's preset, without sizes on the ablation's split; None where it is not run."""
        preset = run.settings
        changes = dict(run.changes)
        model = changes.get("model", preset["model"])
        if self.models is not None and model not in self.models:
            return None
        epochs = max(1, round(preset["epochs"] * self.epochs_factor))
        if isinstance(run, Search):
            own = self.by_algorithm.get(changes.get("algorithm", ""), {})
            if self.search_sizes is not None and run.preset not in self.search_sizes:
                return None
            sizes = {} if run.ablation else self._sizes(run.preset)
            kind = self.ablation if run.ablation else {} if run.preset.startswith("reduced") else self.target
            sized = {"epochs": self.search_epochs.get(run.preset, epochs), **sizes, **own, **kind}
        else:
            sized = {"epochs": self.training_epochs or epochs}
            if self.whole_size is not None and not run.ablation:
                sized["train_size"] = self.whole_size
        if self.batch_size is not None:
            sized.setdefault("batch_size", self.batch_size)
        model = model if self.models is None else self.models[model]
        return {**sized, **self.common, **changes, "model": model}

    def _sizes(self, preset: str) -> dict[str, int]:
        if self.search_sizes is None:
            return {}
        train_size, val_size = self.search_sizes[preset]
        return {"train_size": train_size, "val_size": val_size}


_POPULATION = {"epochs": 12, "population_size": 10, "validate_every": 1}

SCALES = {
    "full": Scale("full", "as in the paper", seeds=5),
    "small": Scale(
        "small",
        "16x16 pixels, WRN-10-1 for WRN-40-2, batches of 100. Searches on 1,000 training and 2,000 validation images, "
        "120 epochs; on target tasks 4,000 and 2,000, 40 epochs; of the derivation 300 epochs, but algorithms 3 and 4 "
        "with 10 members, 12 epochs. Trainings on 6,000 images, 60 epochs; in the ablation on 3,000, measured on 5,000 "
        "others. alpha' is such that lambda can go equally far in all but the derivation (18 logits). The runs of the "
        "derivation went two at a time on two cores, one thread each",
        seeds=3,
        models={"wrn-40-2": "wrn-10-1", "alexnet": "alexnet"},
        search_sizes={"reduced-cifar10": (1_000, 2_000), "cifar10-wrn-40-2": (4_000, 2_000)},
        ablation_sizes=(1_000, 2_000, 5_000),
        whole_size=6_000,
        batch_size=100,
        search_epochs={"reduced-cifar10": 120, "cifar10-wrn-40-2": 40},
        training_epochs=60,
        by_algorithm={
            "population": _POPULATION,
            "hyper-population": _POPULATION,
            "fixed-noise": {"epochs": 300},
            "hba": {"epochs": 300},
        },
        ablation={"epochs": 120, "lambda_learning_rate": 0.03},
        target={"lambda_learning_rate": 0.0225},
        common={"image_size": 16},
    ),
    "tiny": Scale(
        "tiny",
        "8x8 pixels, WRN-10-1, a few dozen images, two epochs: that everything runs, no more",
        seeds=2,
        models={"wrn-40-2": "wrn-10-1", "alexnet": "alexnet"},
        search_sizes={"reduced-cifar10": (20, 20), "cifar10-wrn-40-2": (30, 20)},
        ablation_sizes=(20, 20, 20),
        whole_size=40,
        batch_size=10,
        search_epochs={"reduced-cifar10": 2, "cifar10-wrn-40-2": 2},
        training_epochs=2,
        common={"image_size": 8},
    ),
}


def find_scale(name: str) -> Scale:
    """A scale by name, or the paper's with its epochs times a number in (0, 1], such as 0.1, one seed."""
    if name in SCALES:
        return SCALES[name]
    try:
        factor = float(name)
    except ValueError:
        factor = 0.0
    if not 0 < factor <= 1:
        raise SettingsError(f"--scale must be {', '.join(SCALES)} or a number in (0, 1], got {name!r}")
    return Scale(
        f"epochs-{factor:g}", f"as in the paper, but {factor:g} times its epochs", seeds=1, epochs_factor=factor
    )
