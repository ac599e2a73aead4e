"""Input that nobody should give, and what may come of it: it is read, or refused in one clear line."""

import json
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

import hba
from hba.errors import ScheduleError
from hba.schedule.schedule import Schedule
from hba.schedule.summary import summarize_regularizers

LONGEST = 7000
"""Characters of a message."""


def check_schedule(text: str, folder: Path) -> None:
    """A schedule is read, used and written, or refused in one line."""
    path = folder / "policy.json"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        schedule = hba.load_policy(path)
    except ScheduleError as error:
        message = str(error)
        assert message.isprintable()
        assert 0 < len(message) < LONGEST
    else:
        _use(schedule)


def _use(schedule: Schedule) -> None:
    assert repr(schedule).isprintable()
    if schedule.space.operations:
        schedule.without_regularizers().policy(0)
    assert len(summarize_regularizers(schedule)) == len(schedule.regularization(0))
    json.loads(schedule.text())


GOOD = files("hba.policies").joinpath("digits.json").read_text("utf-8")
NUMBERS: Sequence[Any] = (0, -1, 1, 0.5, 1.5, 10**9, 10**20, 10**400, 1e308, float("nan"), float("inf"), float("-inf"))
OTHERS: Sequence[Any] = (None, True, "", "x", "a\nb", "\x1b[31m", "\ud800", "λ", [], {}, [[]], {"": []}, ["x"] * 3)
VALUES = st.one_of(
    st.sampled_from([*NUMBERS, *OTHERS]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
        max_leaves=8,
    ),
)


TUNED = json.loads((Path(__file__).parent / "golden" / "schedule-v3.json").read_text("utf-8"))
"""Of version 3, as JSON."""


def short_schedule() -> dict[str, Any]:
    """The shipped schedule with few rows, as JSON."""
    content: dict[str, Any] = json.loads(GOOD)
    return {**content, "epochs": 3, "values": content["values"][:3], "spread": 0.25}


@st.composite
def schedule_texts(draw: st.DrawFn) -> str:
    """A schedule file of which some values, keys or characters are others."""
    content: Any = draw(st.sampled_from([short_schedule(), TUNED]))
    for _ in range(draw(st.integers(0, 3))):
        content = changed(draw, content)
    text = json.dumps(content)
    for _ in range(draw(st.integers(0, 2))):
        text = edited(draw, text)
    return text


def changed(draw: st.DrawFn, content: Any, values: st.SearchStrategy[Any] = VALUES) -> Any:
    """JSON with one of the values in one place of it, at any depth; or with something less, or twice."""
    if isinstance(content, dict) and content and draw(st.integers(0, 9)) > 0:
        key = draw(st.sampled_from(sorted(content)))
        what = draw(st.integers(0, 9))
        if what == 0:
            return {name: value for name, value in content.items() if name != key}
        if what == 1:
            return {**content, draw(st.text(max_size=9)): draw(values)}
        return {**content, key: changed(draw, content[key], values)}
    if isinstance(content, list) and content and draw(st.integers(0, 9)) > 0:
        place = draw(st.integers(0, len(content) - 1))
        what = draw(st.integers(0, 9))
        if what == 0:
            return content[:place] + content[place + 1 :]
        if what == 1:
            return content[:place] + content[place:] * 2
        return [*content[:place], changed(draw, content[place], values), *content[place + 1 :]]
    return draw(values)


def edited(draw: st.DrawFn, text: str) -> str:
    """Text with a few characters that are others."""
    place = draw(st.integers(0, len(text)))
    length = draw(st.integers(0, 3))
    other = draw(st.sampled_from(["", '"', "[", "]", "{", "}", ",", ":", "NaN", "1e999", "\\u0000", "\n", "9" * 5000]))
    return text[:place] + other + text[place + length :]
