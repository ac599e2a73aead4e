"""The commands on spaces that were chosen: from the search over the schedule to what is done with it."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from commands import SMALL, make_images, refusal_of, run
from hba.cli import main
from own_operations import GAMMA_FILE

import hba
from hba.operations import OPERATIONS, Operation
from hba.policy.spaces import search_space

OWN = ("--operations-file", "mine.py")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registered: object) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(GAMMA_FILE)
    make_images(tmp_path / "images")


@pytest.fixture
def searched(registered: dict[str, Operation]) -> Path:
    """A run over all operations and Gamma, which is forgotten again."""
    said("search", "images", *OWN, "--operations", "all,Gamma", "--out", "run", *SMALL)
    registered.clear()
    return Path("run")


def said(*arguments: str) -> list[str]:
    result = CliRunner().invoke(main, list(arguments))
    assert (result.exit_code, result.stderr) == (0, ""), repr(result.exception) + result.stderr
    return result.stdout.splitlines()


def operations_of(path: Path) -> list[str]:
    """As the file has them, without the operations being known."""
    rows = json.loads((path / "policy.json").read_text(encoding="utf-8"))["space"]["operations"]
    return [row["name"] for row in rows]


def test_a_search_over_chosen_operations_with_interpolation() -> None:
    arguments = ["search", "images", "--operations", "Rotate,Color", "--interpolation", "bilinear", *SMALL]
    moving = ["--train-steps", "1", "--lambda-learning-rate", "0.5"]
    lines = said(*arguments, *moving, "--space", "pba", "--out", "run")
    first = next(number for number, line in enumerate(lines) if "changed most" in line)
    assert {line.split()[0] for line in lines[first + 2 : first + 4]} == {"Rotate", "Color"}
    assert lines[first + 5].startswith("Spread: magnitudes ")
    assert lines[first + 6].startswith("Validation error")
    assert hba.load_policy("run").space == search_space("pba", ["Rotate", "Color"], "bilinear", searches_count=True)
    stored = json.loads(Path("run/config.json").read_text())
    assert (stored["space"], stored["operations"], stored["interpolation"]) == ("pba", ["Rotate", "Color"], "bilinear")
    for again in (arguments, ["search"]):
        said(*again, "--space", "pba", "--out", "run", "--resume")
    assert refusal_of("search", "--out", "run", "--resume", "--operations", "Color,Rotate") == (
        "a resumed run keeps its settings; run has operations ['Rotate', 'Color'] (given ['Color', 'Rotate'])"
    )
    assert refusal_of("search", "--out", "run", "--resume", "--space", "hba") == (
        "a resumed run keeps its settings; run has space 'pba' (given 'hba')"
    )


def test_a_search_with_an_own_operation_writes_where_its_function_is(searched: Path) -> None:
    assert operations_of(searched) == [*OPERATIONS, "Gamma"]
    content = json.loads((searched / "policy.json").read_text(encoding="utf-8"))
    assert content["space"]["operations"][-1]["function"] == "mine:gamma"
    assert content["hyperparameters"][-7:] == [
        *(f"Gamma.{copy}.{kind}" for copy in (1, 2) for kind in ("probability", "magnitude")),
        *(f"count.{k}.probability" for k in (1, 2, 3)),
    ]


COMMANDS = [
    ["show", "run"],
    ["show", "run/policy.json", "--out", "new.png"],
    ["apply", "run", "images/cats/0.png", "--out", "new.png"],
    ["evaluate", "run", "--out", "results", "--seeds", "1"],
    ["evaluate", "digits", "images", "--against", "run", "--out", "results", "--seeds", "1", *SMALL],
]
NAMES = ["show", "show a file", "apply", "evaluate", "evaluate against"]


@pytest.mark.parametrize("command", COMMANDS, ids=NAMES)
def test_without_the_file_the_schedule_is_refused_in_one_line_that_says_what_to_do(
    searched: Path, command: list[str]
) -> None:
    before = sorted(Path().rglob("*"))
    assert refusal_of(*command) == (
        "run/policy.json is not a valid schedule: space.operations[15] is Gamma, which is not one of hba's operations "
        "but the function mine:gamma: register it with hba.register_operation before loading the schedule "
        "(commands: --operations-file FILE.py)"
    )
    assert sorted(Path().rglob("*")) == before, "nothing was written"


@pytest.mark.parametrize("command", COMMANDS, ids=NAMES)
def test_with_the_file_every_command_works(searched: Path, command: list[str]) -> None:
    lines = said(*command, *OWN)
    if command[0] == "evaluate":
        (row,) = [line for line in lines if re.match("│ run ", line)]
        assert " % " in row
        assert len(json.loads(Path("results/results.json").read_text())["rows"]) == 2
    else:
        picture = Path(lines[-1].removeprefix("Picture: "))
        assert picture.read_bytes().startswith(b"\x89PNG")
    if command[0] == "show":
        (row,) = [line for line in lines if line.startswith("│ Gamma ")]
        assert any(line.startswith("Magnitudes are in ") and "exponent: Gamma" in line for line in lines)


def test_a_search_needs_the_file_for_the_operation(tmp_path: Path) -> None:
    message = refusal_of("search", "images", "--operations", "all,Gamma", *SMALL)
    assert message.startswith(f"unknown operation 'Gamma'; known: {', '.join(OPERATIONS)}")
    assert not (tmp_path / "runs").exists()


def test_a_file_alone_changes_nothing() -> None:
    said("search", "images", *OWN, "--out", "run", *SMALL)
    assert operations_of(Path("run")) == list(OPERATIONS)


def test_a_run_with_an_own_operation_goes_on_with_the_file_only(searched: Path) -> None:
    before = (searched / "policy.json").read_bytes()
    result = run("search", "--out", "run", "--resume")
    assert (result.exit_code, len(result.stderr.splitlines())) == (2, 1)
    assert "unknown operation 'Gamma'" in result.stderr
    assert (searched / "policy.json").read_bytes() == before
    said("search", "--out", "run", "--resume", "--operations", "all,Gamma", *OWN)
    np.testing.assert_array_equal(hba.load_policy("run").values, json.loads(before)["values"])


def test_a_changed_range_is_another_search_but_reads_the_same_schedule(searched: Path) -> None:
    Path("mine.py").write_text(GAMMA_FILE.replace("(0.5, 2.0)", "(0.25, 4.0)"))
    result = run("search", "--out", "run", "--resume", *OWN)
    assert result.exit_code == 2
    assert result.stderr.startswith("hba: error: the search space changed since run was begun (")
    said("show", "run", *OWN)
    assert hba.load_policy("run").space.operations[-1].magnitude_range == (0.5, 2.0)
