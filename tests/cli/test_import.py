"""hba import: what it writes, what it prints, and what it refuses."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from click.testing import Result
from commands import refusal_of, run

import hba
from hba.importers import SOURCES
from hba.importers.pba import PBA_FILL, read_pba_schedule
from hba.importers.torchvision_policies import POLICIES

STARTING = [0] * 60
EXPLORED = [3, 10, *[0] * 28, 4, 1, *[0] * 28]
"""Rotate.1 (0.3, 30 degrees), Rotate.2 (0.4, 3 degrees), all else 0."""
PBA = ("--from", "pba", "--epochs", "5", "--out", "a.json")


@pytest.fixture(autouse=True)
def in_a_folder_with_a_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("log.txt").write_text(repr(["1", "0", 3, 2, STARTING, EXPLORED]) + "\n", encoding="utf-8")


def said(result: Result) -> list[str]:
    assert (result.exit_code, result.stderr) == (0, ""), repr(result.exception) + result.stderr
    return result.stdout.splitlines()


def test_import_writes_the_schedule_and_says_what_it_read() -> None:
    assert said(run("import", "log.txt", *PBA)) == [
        "Schedule: a.json (2 segments over 5 epochs, 15 operations)",
        "Next, look at it, and see whether it helps on your images:",
        "  hba show a.json",
        "  hba evaluate a.json DIR",
    ]
    schedule = hba.load_policy("a.json")
    np.testing.assert_array_equal(schedule.values, read_pba_schedule(Path("log.txt"), 5).values)
    names = schedule.space.names
    assert schedule.values[:, names.index("Rotate.1.probability")].tolist() == [0, 0, 0.3, 0.3, 0.3]
    assert schedule.values[:, names.index("Rotate.2.magnitude")].tolist() == [0, 0, 3, 3, 3]
    assert schedule.fill == PBA_FILL
    assert schedule.provenance["segments"] == [2, 3]


@pytest.mark.parametrize("out", ["a.json", "new folder/it's.json"])
def test_the_printed_command_shows_what_was_imported(out: str) -> None:
    lines = said(run("import", "log.txt", *PBA[:-1], out))
    program, *arguments = shlex.split(lines[2])
    assert program == "hba"
    assert arguments == ["show", out]
    shown = said(run(*arguments))
    assert shown[0].strip().startswith(f"{out}: 5 epochs, strongest last epoch first")
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in shown if line.startswith("│")]
    # Epochs 1, 3 and 5; the mean of 0.3 and 0.4, and of 30 and 3 degrees.
    name, *numbers = rows[0]
    assert name == "Rotate"
    assert any("degrees: Rotate" in line for line in shown)
    assert (numbers[:3], numbers[-3:]) == (["0.00", "0.35", "0.35"], ["0", "16.5", "16.5"])
    assert Path(out).with_suffix(".png").is_file()


@pytest.mark.parametrize(
    ("text", "fill"), [("0.5", (0.5,)), ("0,0.25,1", (0.0, 0.25, 1.0)), (" 0.1, 0.2 ,3e-1", (0.1, 0.2, 0.3))]
)
def test_the_fill_can_be_chosen(text: str, fill: tuple[float, ...]) -> None:
    said(run("import", "log.txt", *PBA, "--fill", text))
    assert hba.load_policy("a.json").fill == fill


@pytest.mark.parametrize("text", ["", "red", "0,0,1.5", "0,0,-0.1", "0,,0", "nan", "255"])
def test_a_fill_that_is_no_colour_is_refused(text: str) -> None:
    rule = "--fill must be numbers in [0, 1], one for all channels or one for each, separated by commas"
    assert refusal_of("import", "log.txt", *PBA, "--fill", text) == f"{rule}, got {text!r}"
    assert not Path("a.json").exists()


def test_a_second_import_takes_the_place_of_the_first() -> None:
    said(run("import", "log.txt", *PBA))
    said(run("import", "log.txt", *PBA, "--epochs", "7"))
    assert hba.load_policy("a.json").epochs == 7


def test_a_file_that_is_no_log_is_refused_and_nothing_written() -> None:
    assert refusal_of("import", "nowhere.txt", *PBA) == "no PBA schedule file nowhere.txt"
    Path("other.txt").write_text("\n[1, 2]\n")
    assert refusal_of("import", "other.txt", *PBA).startswith(
        "other.txt is not a valid PBA schedule: line 2: must be a list of 6: "
    )
    assert refusal_of("import", "log.txt", *PBA, "--epochs", "1") == (
        "log.txt is not a valid PBA schedule: line 1: the last clone is of epoch 2, so epochs must be at least 2, got 1"
    )
    assert not Path("a.json").exists()


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (PBA[2:], "--from"),
        ((*PBA[:2], *PBA[4:]), "--epochs"),
        (PBA[:4], "--out"),
        ((*PBA, "--from", "faa"), "--from"),
        ((*PBA, "--epochs", "0"), "--epochs"),
        ((*PBA, "--epochs", "many"), "--epochs"),
    ],
)
def test_an_option_that_is_missing_or_wrong_is_a_usage_error(arguments: tuple[str, ...], named: str) -> None:
    result = run("import", "log.txt", *arguments)
    assert (type(result.exception), result.exit_code, result.stdout) == (SystemExit, 2, "")
    assert f"'{named}'" in result.stderr
    assert not Path("a.json").exists()


def test_import_is_listed_and_has_help() -> None:
    assert "\n  import " in run("--help").stdout
    shown = run("import", "--help").stdout
    assert shown.startswith("Usage: main import ")
    assert all(option in shown for option in ("--from [pba|", "--epochs ", "--out ", "--name ", "--fill R,G,B"))
    assert all(name in shown for name in (*SOURCES, *POLICIES))


NEXT = [
    "Next, look at it, and see whether it helps on your images:",
    "  hba show a.json",
    "  hba evaluate a.json DIR",
]


def test_a_policy_of_torchvision_is_imported_by_its_name() -> None:
    assert said(run("import", "--from", "torchvision", "autoaugment-svhn", "--out", "a.json")) == [
        "Schedule: a.json (25 sub-policies over 1 epoch, 10 operations)",
        "The source gives an image 1.32 of these operations on average.",
        "The schedule applies each of them as often.",
        "Not expressed: which operations come together, and in which order.",
        *NEXT,
    ]
    assert hba.load_policy("a.json").provenance["source"] == "autoaugment-svhn"


def test_what_is_lost_of_a_policy_is_said() -> None:
    leaves = [("HorizontalFlip", 0.25, {}), ("ShiftScaleRotate", 0.5, TURNED), ("NoOp", 0.25, {})]
    one_of = {"transforms": [{"__class_fullname__": name, "p": p, **more} for name, p, more in leaves]}
    sequential = {"__class_fullname__": "Sequential", "p": 1.0, "transforms": [{**ONE_OF, **one_of}]}
    compose = {"__class_fullname__": "Compose", "transforms": [{**ONE_OF, "transforms": [sequential]}]}
    Path("policy.json").write_text(json.dumps({"transform": compose}), encoding="utf-8")
    lines = said(run("import", "policy.json", "--from", "autoalbument", "--epochs", "2", "--out", "a.json"))
    assert lines[:5] == [
        "Schedule: a.json (1 sub-policy over 2 epochs, 1 operation)",
        "The source gives an image 0.50 of these operations on average.",
        "The schedule applies each of them as often.",
        "Left out, because hba has no such operation (share of all that is applied): HorizontalFlip 33.33 %.",
        "Ranges that are wider than hba's own: Rotate 0 to 90.",
    ]
    assert lines[5].startswith("Not expressed: which operations come together, and in which order; the signs of ")
    assert lines[6:] == NEXT


ONE_OF = {"__class_fullname__": "OneOf", "p": 1.0}
TURNED = {"shift_limit_x": [0, 0], "shift_limit_y": [0, 0], "scale_limit": [0.0, 0.0], "rotate_limit": [-90, -90]}


def test_what_the_slots_cannot_do_is_said() -> None:
    Path("list.txt").write_text("[[('Invert', 1, 1), ('Invert', 1, 1), ('Invert', 1, 1)]]", encoding="utf-8")
    lines = said(run("import", "list.txt", "--from", "dada", "--out", "a.json"))
    assert lines[1:3] == [
        "The source gives an image 3.00 of these operations on average.",
        "The schedule applies each of them as often, but for up to 100.00 % of the images.",
    ]


def test_a_list_is_chosen_by_its_name() -> None:
    Path("lists.py").write_text("A = [[('Invert', 1, 1)]]\nB = [[('Equalize', 1, 1)]]\n", encoding="utf-8")
    arguments = ("import", "lists.py", "--from", "fast-autoaugment", "--out", "a.json")
    assert refusal_of(*arguments).endswith("it holds 2 lists of sub-policies (A, B); choose one with --name")
    said(run(*arguments, "--name", "B"))
    assert [operation.name for operation in hba.load_policy("a.json").space.operations] == ["Equalize"]
    assert refusal_of("import", "log.txt", *PBA, "--name", "B") == "--name has no effect on policies of pba; remove it"
