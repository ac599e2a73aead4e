"""What a schedule can be exported to, by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from hba.errors import SettingsError
from hba.exports import transforms
from hba.exports.python_file import python_file
from hba.runtime.unknown import unknown
from hba.schedule.schedule import Schedule


@dataclass(frozen=True)
class Target:
    """text: what is written. ending: of the file's name. write: its text, from a schedule and its name as a module."""

    text: str
    ending: str
    write: Callable[[Schedule, str], str]


@dataclass(frozen=True)
class _PythonFile:
    """usage: `{module}` stands for the file's name without its ending."""

    usage: str
    needs: str
    makes: tuple[Any, ...]

    def __call__(self, schedule: Schedule, module: str) -> str:
        return python_file(schedule, self.usage.format(module=module), self.needs, self.makes)


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

TARGETS: Mapping[str, Target] = MappingProxyType(
    {
        "torchvision": Target(
            "a Python file with a torchvision v2 transform; it needs torch, torchvision and Pillow, but not hba",
            "_torchvision.py",
            _PythonFile(_TORCHVISION, "torch, torchvision 0.21 or newer, and Pillow", (transforms.transform,)),
        ),
        "timm": Target(
            "the same for the loaders of timm",
            "_timm.py",
            _PythonFile(
                _TIMM,
                "torch, torchvision 0.21 or newer, Pillow and timm",
                (transforms.transform, transforms.timm_transform),
            ),
        ),
        "json": Target("a schedule file of hba; docs/schedule.schema.json is its schema", ".json", _schedule_file),
    }
)


def find_target(name: str) -> Target:
    """The target of that exact name; SettingsError with the known names otherwise."""
    if name not in TARGETS:
        raise SettingsError(unknown("target", name, TARGETS))
    return TARGETS[name]
