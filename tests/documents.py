"""The documents, and the commands in their blocks of code and in their sentences."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
DOCUMENTS = [*sorted(ROOT.glob("*.md")), *sorted(ROOT.glob("docs/*.md"))]
SPAN = re.compile(r"`((?:hba|python benchmarks/\S+\.py) [^`]+)`")
BLOCK = re.compile(r"^```(?P<language>bash|console)\n(?P<lines>.*?)^```", re.DOTALL | re.MULTILINE)


def text_of(document: str | Path) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


class Command(NamedTuple):
    """What the reader may type, without a comment."""

    document: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.document}: {self.typed}"

    @property
    def typed(self) -> str:
        return " ".join(self.words)


def commands_in_blocks() -> list[Command]:
    """In their order; in a console, what stands after the prompt. `time` before a command is not part of it."""
    found = []
    for document in DOCUMENTS:
        for block in BLOCK.finditer(text_of(document)):
            lines = block["lines"].splitlines()
            if block["language"] == "console":
                lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
            calls = [call.strip().removeprefix("time ") for line in lines for call in line.split(" && ")]
            found += [Command(document.name, tuple(shlex.split(call, comments=True))) for call in calls]
    return [command for command in dict.fromkeys(found) if command.words]


def commands_in_sentences() -> list[Command]:
    """Of hba and of benchmarks: often without what a whole command needs, or with words in the place of values."""
    found = [
        Command(document.name, tuple(shlex.split(span)))
        for document in DOCUMENTS
        for span in SPAN.findall(prose_of(document))
    ]
    return list(dict.fromkeys(found))


def prose_of(document: str | Path) -> str:
    """Without blocks of code."""
    return re.sub(r"^```.*?^```", "", text_of(document), flags=re.DOTALL | re.MULTILINE)
