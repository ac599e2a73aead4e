"""Schedule files with mistakes of any kind, which are read, or refused in one clear
line.
"""

import copy
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

import hba
from hba.errors import ScheduleError
from hba.schedule.summary import summarize_regularizers

LONGEST = 7000
"""Characters of a message."""
VALUES = st.one_of(
    st.sampled_from(
        [
            -1,
            10**20,
            10**400,
            1e308,
            float("nan"),
            float("inf"),
            "a\nb",
            "\x1b[31m",
            "\ud800",
            {"": []},
        ]
    ),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(st.text(max_size=5), inner, max_size=4)
        ),
        max_leaves=8,
    ),
)
SHIPPED = json.loads(files("hba.policies").joinpath("digits.json").read_text("utf-8"))
SHORT = {**SHIPPED, "epochs": 3, "values": SHIPPED["values"][:3], "spread": 0.25}
TUNED = json.loads(
    (Path(__file__).parent / "golden" / "schedule-regularizers.json").read_text("utf-8")
)
EDITS = (
    "",
    '"',
    "[",
    "]",
    "{",
    "}",
    ",",
    ":",
    "NaN",
    "1e999",
    "\\u0000",
    "\n",
    "9" * 5000,
)


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
        return
    assert repr(schedule).isprintable()
    if schedule.space.operations:
        schedule.without_regularizers().policy(0)
    assert len(summarize_regularizers(schedule)) == len(schedule.regularization(0))
    json.loads(schedule.text())


@st.composite
def schedule_texts(draw: st.DrawFn) -> str:
    """A schedule file of which some values, keys or characters are others."""
    content: Any = copy.deepcopy(draw(st.sampled_from([SHORT, TUNED])))
    for _ in range(draw(st.integers(0, 3))):
        inner = content
        while True:
            key = draw(
                st.sampled_from(
                    sorted(inner) if isinstance(inner, dict) else range(len(inner))
                )
            )
            if (
                not isinstance(inner[key], dict | list)
                or not inner[key]
                or draw(st.integers(0, 4)) == 0
            ):
                break
            inner = inner[key]
        if draw(st.integers(0, 4)):
            inner[key] = copy.deepcopy(draw(VALUES))
        else:
            del inner[key]
    text = json.dumps(content)
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(text)))
        length = draw(st.integers(0, 3))
        text = text[:place] + draw(st.sampled_from(EDITS)) + text[place + length :]
    return text
