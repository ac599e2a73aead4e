"""Lists in texts of other programs: found wherever they stand, and never run."""

from pathlib import Path

import pytest

from hba.errors import ScheduleError
from hba.importers import literals
from hba.importers.literals import limited_text, lists_in, literal

POLICY = [[["Rotate", 0.5, 0.25], ["Invert", 0.125, 1]]]
AS_PYTHON = "[[('Rotate', 0.5, 0.25), ('Invert', 0.125, 1)]]"
AS_JSON = '[[["Rotate", 0.5, 0.25], ["Invert", 0.125, 1]]]'


def is_list(value: object) -> bool:
    return isinstance(value, list | tuple)


def plain(value: object) -> object:
    return [plain(one) for one in value] if isinstance(value, list | tuple) else value


@pytest.mark.parametrize("text", [AS_PYTHON, AS_JSON])
@pytest.mark.parametrize(
    ("around", "name"),
    [
        ("{}", ""),
        ("\n  {}\n\n", ""),
        ("policy = {}", "policy"),
        ("import os\nos.remove('x')\npolicy = {}\nother = 3", "policy"),
        ("def found():\n    p = {}\n    return p", "found"),
        ("def found():\n    'What was found.'\n    return {}", "found"),
        ("[2019-05-01 12:00:00,000] [Fast AutoAugment] [INFO] {}", ""),
        ("epoch 1\ngenotype = [[('Invert', 0.1, 0.1)]] (old)\n05/01 12:00 genotype = {}\nacc 93.5", ""),
    ],
)
def test_a_list_is_found_wherever_it_stands(text: str, around: str, name: str) -> None:
    found = lists_in(around.format(text), is_list)
    assert {key: plain(value) for key, value in found.items()} == {name: POLICY}


def test_of_a_log_the_last_line_with_a_wanted_list_counts() -> None:
    log = "epoch 1: [[1]]\nepoch 2: [[2]]\nepoch 3: [3]\nthe end"
    assert lists_in(log, is_list) == {"": [[2]]}
    assert lists_in(log, lambda value: value == [[1]]) == {"": [[1]]}


def test_one_list_can_have_several_names() -> None:
    found = lists_in(f"A = first = {AS_PYTHON}\nB = {AS_PYTHON}", is_list)
    assert list(found) == ["A", "first", "B"]
    assert found["A"] is found["first"]
    assert found["A"] is not found["B"]


@pytest.mark.parametrize(
    "text",
    [
        f"@mapped\ndef found():\n    return {AS_PYTHON}",
        "def found():\n    return a + b",
        "policy = [f(x) for x in y]",
        "policy = __import__('os').getcwd()",
        "",
        "nothing here",
        "3",
        "{'a': 1}",
        "(" * 100_000,
        "[" * 100_000 + "]" * 100_000,
        "-" * 100_000 + "1",
        "[[" * 50_000,
    ],
    ids=lambda text: text[:20],
)
def test_what_is_no_list_is_left_out(text: str) -> None:
    assert lists_in(text, is_list) == {}


def test_nothing_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    for text in (f"open({str(mark)!r}, 'w')", f"[open({str(mark)!r}, 'w')]", f"p = [open({str(mark)!r}, 'w')]"):
        with pytest.raises(ScheduleError):
            literal(text)
        assert lists_in(text, is_list) == {}
    assert not mark.exists()


def test_a_long_file_is_refused_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "long.txt"
    path.write_text(AS_JSON)
    assert limited_text(path, "policy") == AS_JSON
    monkeypatch.setattr(literals, "MOST_BYTES", 10)
    with pytest.raises(ScheduleError, match=r"long.txt has 47 bytes, too many for a policy; keep .* most 10$"):
        limited_text(path, "policy")
