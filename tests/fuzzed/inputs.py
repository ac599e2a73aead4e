"""Input that nobody should give: schedules, logs of PBA, options, tables and arrays that are nearly right, or not."""

import io
import json
import math
from collections.abc import Callable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas
from hypothesis import strategies as st

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


TUNED = json.loads((Path(__file__).parents[1] / "golden" / "schedule-v3.json").read_text("utf-8"))
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


LOG_LINE = json.dumps([0, 1, 5, 6, [1] * 60, [2] * 60])


@st.composite
def logs(draw: st.DrawFn) -> str:
    """A log of PBA of which some values or characters are others, in JSON or as Python writes it."""
    lines = []
    for number in range(draw(st.integers(0, 4))):
        line: Any = [number + 1, number, 5, number, [1] * 60, {"hp_policy": [2] * 60}]
        for _ in range(draw(st.integers(0, 2))):
            line = changed(draw, line)
        lines.append(json.dumps(line) if draw(st.booleans()) else repr(line))
    text = "\n".join(lines)
    for _ in range(draw(st.integers(0, 2))):
        text = edited(draw, text)
    return text


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

CELLS = (
    *(
        "cat/0.png",
        "cat/1.png",
        "cat/2.png",
        "dog/0.png",
        "dog/1.png",
        "dog/2.png",
        "cat",
        "dog",
        "train",
        "val",
        "test",
    ),
    *("", " ", "nan", "0", "1.5", "λ", "a\nb", "\x00", "\x1b[31m", '"', "'", "../x.png", "/", "pipe", "x" * 5000, "="),
)
HEADINGS = ("path", "label", "split", "file", "class", "Path", "", "λ", "index", "a\nb")


@st.composite
def csv_files(draw: st.DrawFn) -> bytes:
    """A table of paths and labels of which some cells, columns or bytes are others."""
    headings = ["path", "label", *draw(st.lists(st.sampled_from(HEADINGS), max_size=2))]
    rows = [[f"{name}/{number}.png", name, "train", "x"] for name in ("cat", "dog") for number in range(3)]
    for _ in range(draw(st.integers(0, 4))):
        row = draw(st.sampled_from(rows))
        row[draw(st.integers(0, 2))] = draw(st.sampled_from(CELLS))
    if draw(st.integers(0, 4)) == 0:
        headings[draw(st.integers(0, len(headings) - 1))] = draw(st.sampled_from(HEADINGS))
    separator = draw(st.sampled_from([",", ";", "\t", "|"]))
    lines = [headings, *(row[: len(headings)] for row in rows[draw(st.integers(0, 2)) :])]
    text = draw(st.sampled_from(["\n", "\r\n", "\n\n"])).join(separator.join(line) for line in lines)
    encoding = draw(st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "latin-1"]))
    return draw(other_bytes(text.encode(encoding, errors="replace"), most=draw(st.sampled_from([0, 0, 3]))))


@st.composite
def other_bytes(draw: st.DrawFn, good: bytes, most: int = 3) -> bytes:
    """The bytes of a file of which some are others, cut out or twice there; or its beginning."""
    content = good
    for _ in range(draw(st.integers(0, most))):
        place, length = draw(st.integers(0, len(content))), draw(st.integers(0, 40))
        new = draw(st.sampled_from([b"", content[place : place + 2 * length], b"\xff" * length, b"\x00"]))
        content = content[:place] + new + content[place + length :]
    return content[: draw(st.integers(0, len(content)))] if most and draw(st.integers(0, 9)) == 0 else content


def parquet() -> bytes:
    """The same table, whole."""
    names = ["cat"] * 3 + ["dog"] * 3
    paths = [f"{name}/{number % 3}.png" for number, name in enumerate(names)]
    file = io.BytesIO()
    pandas.DataFrame({"path": paths, "label": names}).to_parquet(file)
    return file.getvalue()


def parquet_files() -> st.SearchStrategy[bytes]:
    return other_bytes(parquet())


ARRAYS = ("images", "labels", "train_images", "train_labels", "val_images", "test_x", "test_y", "x", "y", "λ", "a b")
TYPES = (
    "uint8",
    "uint16",
    "int8",
    "int64",
    "float16",
    "float32",
    "float64",
    "bool",
    "complex64",
    "U3",
    "datetime64[s]",
)


@st.composite
def npz_files(draw: st.DrawFn) -> bytes:
    """Arrays of images and labels of which some names, shapes, types or bytes are others."""
    n_images = draw(st.sampled_from([1, 4, 8, 12]))
    shapes = {"images": (n_images, 6, 6), "labels": (n_images,)}
    for _ in range(draw(st.integers(0, 2))):
        sides = draw(st.lists(st.integers(0, 6), max_size=4))
        shapes[draw(st.sampled_from(ARRAYS))] = tuple([n_images, *sides] if draw(st.booleans()) else sides)
    arrays: dict[str, Any] = {}
    for name, shape in shapes.items():
        is_usual = draw(st.integers(0, 3)) > 0
        kind = "uint8" if is_usual else draw(st.sampled_from(TYPES))
        values = np.arange(math.prod(shape)) % (2 if name == "labels" else 251)
        arrays[name] = values.astype("int64").astype(kind).reshape(shape)
        if kind.startswith("float") and values.size and draw(st.booleans()):
            arrays[name].flat[0] = draw(st.sampled_from([math.nan, math.inf, -1e4]))
    file = io.BytesIO()
    (np.savez_compressed if draw(st.booleans()) else np.savez)(file, **arrays)
    return draw(other_bytes(file.getvalue(), most=draw(st.sampled_from([0, 0, 3]))))
