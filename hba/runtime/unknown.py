"""What is said of a name that is not known: which one was probably meant, and which there are."""

import difflib
from collections.abc import Iterable

ALIKE = 0.75
"""From 0 to 1; below it, a name is more probably another thing than misspelt."""


def unknown(kind: str, name: str, known: Iterable[str], also_meant: str | None = None) -> str:
    """`unknown model 'resnet50'; did you mean resnet-50? Known: wrn-40-2, ...`

    also_meant: a further name to propose.
    """
    names = list(known)
    meant = did_you_mean(name, names, also_meant)
    return f"unknown {kind} {name!r}{listed(meant, 'known', names)}"


def did_you_mean(name: str, known: Iterable[str], also_meant: str | None = None) -> str:
    """`; did you mean Rotate?` after what was given as `rotate`, empty where no known name is like it."""
    by_form: dict[str, str] = {}
    for candidate in known:
        by_form.setdefault(candidate.casefold(), candidate)
    alike = difflib.get_close_matches(name.casefold(), by_form, n=1, cutoff=ALIKE)
    meant = [*(by_form[form] for form in alike), *([also_meant] if also_meant else [])]
    return f"; did you mean {' or '.join(meant)}?" if meant else ""


def listed(meant: str, heading: str, names: Iterable[str]) -> str:
    """`; known: a, b`, or after `; did you mean a?` ` Known: a, b`."""
    return f"{meant} {heading.capitalize()}: {', '.join(names)}" if meant else f"; {heading}: {', '.join(names)}"
