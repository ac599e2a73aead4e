"""Files of a run's folder that are nearly what a search or an evaluation wrote, or not."""

import json
from typing import Any

from hypothesis import strategies as st

from fuzzed.inputs import NUMBERS, OTHERS, changed, edited, other_bytes

CELLS = ("", "x", "nan", "inf", "-1", "1e999", "0", "1.5", "9" * 5000, '"', "\x00", "λ", "a,b", " ")


@st.composite
def json_files(draw: st.DrawFn, good: str) -> bytes:
    """JSON of which some values, keys, characters or bytes are others."""
    content: Any = json.loads(good)
    for _ in range(draw(st.integers(0, 3))):
        content = changed(draw, content)
    text = json.dumps(content)
    for _ in range(draw(st.sampled_from([0, 0, 0, 1, 2]))):
        text = edited(draw, text)
    return _with_other_bytes(draw, text)


@st.composite
def settings_files(draw: st.DrawFn, good: str) -> bytes:
    """Settings by name, of which some are other values."""
    content: dict[str, Any] = json.loads(good)
    others = st.sampled_from([*NUMBERS, *OTHERS, 2, "a\0b", "wrn-10-1", "lookahead", "hba", "digits", "none"])
    for name in draw(st.lists(st.sampled_from(sorted(content)), max_size=3, unique=True)):
        content[name] = draw(others)
    return _with_other_bytes(draw, json.dumps(content))


@st.composite
def tables(draw: st.DrawFn, good: str) -> bytes:
    """Comma-separated numbers, of which some cells, lines or bytes are others."""
    rows = [line.split(",") for line in good.splitlines()]
    for _ in range(draw(st.integers(0, 3))):
        row = draw(st.integers(0, len(rows) - 1))
        column = draw(st.integers(0, max(0, len(rows[row]) - 1)))
        what = draw(st.integers(0, 5))
        if what == 0:
            rows[row] = rows[row][:column]
        elif what == 1:
            rows.insert(row, rows[row] * 2)
        else:
            rows[row] = [*rows[row][:column], draw(st.sampled_from(CELLS)), *rows[row][column + 1 :]]
    return _with_other_bytes(draw, "\n".join(map(",".join, rows)))


def _with_other_bytes(draw: st.DrawFn, text: str) -> bytes:
    content = text.encode("utf-8", "surrogatepass")
    return draw(other_bytes(content, most=draw(st.sampled_from([0, 0, 0, 2]))))
