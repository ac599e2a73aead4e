"""What a schedule can be exported to, by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from hba.errors import SettingsError
from hba.exports import transforms
from hba.exports.albumentations_file import albumentations_file
from hba.exports.torchvision_file import torchvision_file
from hba.schedule.schedule import Schedule
from hba.utils.text import unknown


@dataclass(frozen=True)
class Target:
    """text: what is written. ending: of the file's name. write: its text, from a schedule and its name as a module.
    differs: what is not exact, where something is not. has_regularizers: whether it holds what was tuned beside
    operations too.
    """

    text: str
    ending: str
    write: Callable[[Schedule, str], str]
    differs: str = ""
    has_regularizers: bool = False


@dataclass(frozen=True)
class _PythonFile:
    """usage: `{module}` stands for the file's name without its ending."""

    usage: str
    needs: str
    makes: tuple[Any, ...]

    def __call__(self, schedule: Schedule, module: str) -> str:
        return torchvision_file(schedule, self.usage.format(module=module), self.needs, self.makes)


def _kornia_file(schedule: Schedule, module: str) -> str:
    # kornia's augmentations take long to import.
    from hba.exports.kornia_file import kornia_file

    return kornia_file(schedule, _KORNIA.format(module=module), "torch and kornia 0.8 or newer")


def _schedule_file(schedule: Schedule, _: str) -> str:
    return schedule.text()


_TORCHVISION = """\
    from {module} import transform

    policy = transform()
    pipeline = v2.Compose([policy, v2.RandomHorizontalFlip(), v2.ToImage(), v2.ToDtype(torch.float32, scale=True)])
    for epoch in range(epochs):
        policy.set_epoch(epoch, epochs)  # reaches DataLoader workers, persistent ones too
"""
_TIMM = """\
    from {module} import timm_transform, transform

    policy = transform()
    loader.dataset.transform = timm_transform(policy, input_size=224, use_prefetcher=True)  # as your loader has it
    for epoch in range(epochs):
        policy.set_epoch(epoch, epochs)  # reaches DataLoader workers, persistent ones too
"""
_KORNIA = """\
    from {module} import policy

    augment = AugmentationSequential(policy(), data_keys=["input", "mask"])  # or policy() alone, on images
    for epoch in range(epochs):
        augment[0].set_epoch(epoch, epochs)
"""

TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        "torchvision": Target(
            "a Python file with a torchvision v2 transform; it needs torch, torchvision and Pillow, but not hba",
            "_torchvision.py",
            _PythonFile(_TORCHVISION, "torch, torchvision 0.19 or newer, and Pillow", (transforms.transform,)),
        ),
        "timm": Target(
            "the same for the loaders of timm",
            "_timm.py",
            _PythonFile(
                _TIMM,
                "torch, torchvision 0.19 or newer, Pillow and timm",
                (transforms.transform, transforms.timm_transform),
            ),
        ),
        "kornia": Target(
            "a Python file with an augmentation of kornia, for batches; it needs torch and kornia, but not hba",
            "_kornia.py",
            _kornia_file,
            "enhancers and bilinear operations differ from PIL's by one grey level at most",
        ),
        "albumentations": Target(
            "a pipeline that albumentations.load reads, of one policy",
            "_albumentations.json",
            lambda schedule, _: albumentations_file(schedule),
            "only Invert, Solarize, Posterize and Brightness are exact, and a slot can fire twice for an image",
        ),
        "json": Target(
            "a schedule file of hba; docs/schedule.schema.json is its schema",
            ".json",
            _schedule_file,
            has_regularizers=True,
        ),
    }
)
"""By name."""


def find_target(name: str) -> Target:
    """The target of that exact name; SettingsError with the known names otherwise."""
    if name not in TARGETS:
        raise SettingsError(unknown("target", name, TARGETS))
    return TARGETS[name]
