"""Policies of other tools that are nearly right, or not: lists of Fast AutoAugment and DADA, JSON of AutoAlbument."""

import json
from collections.abc import Sequence
from typing import Any

from autoalbument_files import POLICY as OF_AUTOALBUMENT
from hypothesis import strategies as st

from fuzzed.inputs import VALUES, changed, edited

NAMES = ("ShearX", "Rotate", "Cutout", "AutoContrast", "Posterize", "Solarize", "Flip", "λ", "", "x" * 500)
IN_UNIT = (0.0, 0.25, 1.0, 1, 0, 1e-300, -0.5, 1.5)


@st.composite
def lists(draw: st.DrawFn) -> Any:
    """Sub-policies, of which some values are others."""
    entries = st.tuples(st.sampled_from(NAMES[:5]), st.sampled_from(IN_UNIT[:4]), st.sampled_from(IN_UNIT[:4]))
    found: Any = draw(st.lists(st.lists(entries.map(list), min_size=1, max_size=3), min_size=1, max_size=6))
    for _ in range(draw(st.integers(0, 3))):
        found = changed(draw, found, st.one_of(st.sampled_from([*NAMES, *IN_UNIT]), VALUES))
    return found


@st.composite
def policies_of_fast_autoaugment(draw: st.DrawFn) -> str:
    """A list alone, as JSON or as Python, or a module with some."""
    found = _written(draw, draw(lists()))
    shapes = ("{}", "policy = {}\n", "def fa_reduced():\n    p = {}\n    return p\n", "A = {0}\nB = A\nC = {0}\n")
    return _damaged(draw, draw(st.sampled_from(shapes)).format(found))


@st.composite
def logs_of_dada(draw: st.DrawFn) -> str:
    """A log, with what it writes between the lists."""
    between: Sequence[str] = (
        "05/01 12:00:00 PM epoch 19 lr 1e-3",
        "05/01 12:00:00 PM 0: (Rotate 0.5 0.5)\t(Color 0.5 0.5) 0.01",
        "05/01 12:00:00 PM tensor([[0.5, 0.5]])",
        "[2019-05-01] [INFO] [[1, 2], [3]]",
    )
    lines = []
    for number in range(draw(st.integers(1, 4))):
        lines += draw(st.lists(st.sampled_from(between), max_size=2))
        lines.append(f"05/01 12:00:00 PM genotype_{number}: {_written(draw, draw(lists()))}")
    return _damaged(draw, "\n".join(lines))


@st.composite
def policies_of_autoalbument(draw: st.DrawFn) -> str:
    found: Any = OF_AUTOALBUMENT
    for _ in range(draw(st.integers(0, 3))):
        found = changed(draw, found)
    return _damaged(draw, json.dumps(found))


def _written(draw: st.DrawFn, found: Any) -> str:
    return json.dumps(found) if draw(st.booleans()) else repr(found)


def _damaged(draw: st.DrawFn, text: str) -> str:
    for _ in range(draw(st.sampled_from([0, 0, 1, 2]))):
        text = edited(draw, text)
    return text
