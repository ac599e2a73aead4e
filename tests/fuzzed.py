"""Input that nobody should give, and what may come of it: it is read, or refused in one clear line."""

import json
import warnings
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import click
from click.testing import CliRunner
from hba.cli import main
from hypothesis import strategies as st

import hba
from hba.errors import RunError, ScheduleError
from hba.schedule.schedule import Schedule
from hba.schedule.summary import summarize_regularizers

READ, REFUSED = "read", "refused"
LONGEST = 7000
"""Characters of a message."""
THE_END = "the end"
"""Says a search, or an evaluation, that is not to compute."""
COMPUTES = ("hba.policy_search.trainer.SearchTrainer.run", "hba.policy_evaluation.evaluation._train_all")
"""What is to be `end`, so that searches and evaluations end where they would begin to compute."""


def end(*_: Any) -> None:
    """In the place of what computes."""
    raise RunError(THE_END)


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


def check_command(*words: str) -> str:
    """hba with these words, in this process: one line for what went wrong, and none but warnings for nothing."""
    with warnings.catch_warnings():
        result = CliRunner().invoke(main, list(words))
    raised = result.exception
    if raised is not None and not isinstance(raised, SystemExit):
        raise raised
    lines = result.stderr.splitlines()
    if result.exit_code == 0:
        assert all(line.startswith("hba: warning: ") for line in lines), (words, lines)
        return READ
    assert lines, (words, "nothing is said")
    if lines[-1].startswith("Error: "):
        # Of click, after the usage of the command.
        return REFUSED
    assert len(lines) == 1, (words, lines)
    assert lines[0].startswith("hba: error: "), (words, lines)
    assert lines[0].isprintable(), (words, lines)
    return READ if lines[0].endswith(THE_END) else REFUSED


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


WORDS = (
    *("0", "1", "-1", "2", "7", "8", "16", "1000000000", "1" + "0" * 20, "1" + "0" * 400, "1" + "0" * 5000),
    *(
        "nan",
        "inf",
        "-inf",
        "1e999",
        "0.5",
        "1.5",
        "-0.0",
        "",
        "  ",
        "x",
        "a,b",
        "0,1",
        "1,0",
        "0.1,0.2,0.3",
        "nan,nan",
    ),
    *("λ", "\udcff", "a\nb", "\x1b[31m", "nowhere", "nowhere/", "a.json", "x" * 5000, "digits", "none"),
    *("auto", "cpu", "cuda", "cuda:99", "meta", "true", "wrn-10-1", "wrn-10-1000000", "wrn-40-2", "timm:x", "all"),
    *("ShearX,ShearX", ",", ",,,", "-", "--help", "{}", "[]", "lookahead", "hba", "population"),
)
"""For any option; none is a place outside the folder in which a command runs."""

GIVEN = {"schedule": "digits", "data": "digits", "images": "nowhere.png", "file": "nowhere.txt"}
"""For arguments, where a word of WORDS does not take their place."""


def command_lines(names: Sequence[str], command_of: Callable[[str], click.Command]) -> st.SearchStrategy[list[str]]:
    """Words for some of the options of a command, its arguments, and its name before them."""

    @st.composite
    def lines(draw: st.DrawFn) -> list[str]:
        name = draw(st.sampled_from(names))
        parameters = command_of(name).params
        line = [name]
        for parameter in parameters:
            if isinstance(parameter, click.Argument):
                is_given = draw(st.integers(0, 3)) > 0
                line.append(GIVEN.get(str(parameter.name), "nowhere") if is_given else draw(st.sampled_from(WORDS)))
        own = [one for one in parameters if isinstance(one, click.Option) and one.name not in NOT_TRIED]
        chosen = [one for one in own if one.required]
        chosen += draw(st.lists(st.sampled_from(own), max_size=4, unique_by=id)) if own else []
        for option in dict.fromkeys(chosen):
            line.append(draw(st.sampled_from([*option.opts, *option.secondary_opts])))
            if not option.is_flag:
                is_choice = isinstance(option.type, click.Choice) and draw(st.integers(0, 4)) > 0
                words = list(option.type.choices) if is_choice and isinstance(option.type, click.Choice) else WORDS
                line.append(str(draw(st.sampled_from(words))))
        return line

    return lines()


NOT_TRIED = ("help", "help_all", "operations_file", "download")
"""An operations file is run, and a download asks for more than patience."""
