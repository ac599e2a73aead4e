"""The documents, the commands and examples in them, and the files that these name, as
small as can be.
"""

import re
import shlex
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from PIL import Image

import hba

ROOT = Path(__file__).parents[1]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/*.md"))]
CLASSES = ("cat", "dog", "horse")
TINY: dict[str, Any] = {
    "epochs": 2,
    "batch_size": 8,
    "model": "wrn-10-1",
    "image_size": 8,
    "device": "cpu",
}
BLOCK = re.compile(
    r"^```(?P<language>bash|console)\n(?P<lines>.*?)^```", re.DOTALL | re.MULTILINE
)


def text_of(document: str | Path) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def blocks_of(text: str, language: str) -> list[str]:
    """The code of each block, but for those marked as compiled only."""
    fence = re.compile(
        rf"^(<!-- compiled only -->\n)?```{language}\n(.*?)^```",
        re.DOTALL | re.MULTILINE,
    )
    return [block[2] for block in fence.finditer(text) if not block[1]]


class Command(NamedTuple):
    """A command that a reader may type, without a comment."""

    document: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.document}: {self.typed}"

    @property
    def typed(self) -> str:
        return " ".join(self.words)


def commands_in_blocks() -> list[Command]:
    """In their order; in a console, the lines after the prompt. `time` before a command
    is dropped.
    """
    commands = []
    for document in DOCUMENTS:
        for block in BLOCK.finditer(text_of(document)):
            lines = block["lines"].splitlines()
            if block["language"] == "console":
                lines = [
                    line.removeprefix("$ ") for line in lines if line.startswith("$ ")
                ]
            calls = [
                call.strip().removeprefix("time ")
                for line in lines
                for call in line.split(" && ")
            ]
            commands += [
                Command(document.name, tuple(shlex.split(call, comments=True)))
                for call in calls
            ]
    return [command for command in dict.fromkeys(commands) if command.words]


def make_images(folder: Path) -> None:
    """Noise, twelve images of each class."""
    random = np.random.default_rng(0)
    for name in CLASSES:
        (folder / name).mkdir(parents=True)
        for number in range(12):
            pixels = random.integers(0, 256, (16, 16, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")


def make_runs(folder: Path, names: Iterable[str]) -> None:
    """Searches in runs/NAME, each on the images in the folder of that name without its
    number.
    """
    for seed, name in enumerate(names):
        hba.search(
            folder / name.partition("-")[0],
            out=folder / "runs" / name,
            seed=seed,
            **TINY,
        )
