"""hba operations: what can be searched over, as a table and as it stands in the documentation."""

from pathlib import Path

import pytest
from commands import refusal_of, run, usage_error_of
from own_operations import GAMMA_FILE

from hba.operations import registered_operations
from hba.policy.space import SearchSpace
from hba.policy.spaces import HEADINGS, LEGEND, SPACES, as_markdown, magnitude_table, search_space

GAMMA_ROW = ("Gamma", "0.5 to 2", "exponent", "1", "-", "your function")


@pytest.fixture(autouse=True)
def in_a_folder_with_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registered: object) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(GAMMA_FILE)


def lines_of(*arguments: str) -> list[str]:
    result = run("operations", *arguments)
    assert (result.exit_code, result.stderr) == (0, ""), repr(result.exception) + result.stderr
    return result.stdout.splitlines()


def cells_in(lines: list[str]) -> list[tuple[str, ...]]:
    """The rows of the table, each put together again where it was too long for a line."""
    rows: list[list[str]] = []
    for line in lines:
        if line.startswith("│"):
            cells = [cell.strip() for cell in line.strip("│").split("│")]
            if cells[0]:
                rows.append(cells)
            else:
                rows[-1] = [f"{above} {below}".strip() for above, below in zip(rows[-1], cells, strict=True)]
    return [tuple(row) for row in rows]


def without_spaces(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    return [tuple(cell.replace(" ", "") for cell in row) for row in rows]


def test_the_columns_say_what_a_magnitude_means() -> None:
    rows = {row[0]: dict(zip(HEADINGS[1:], row[1:], strict=True)) for row in magnitude_table(SPACES["pba"])}
    assert HEADINGS == ("operation", "magnitude", "unit", "no effect at", "also", "defined by")
    assert list(rows) == [operation.name for operation in SPACES["pba"].operations]
    assert rows["Rotate"] == {
        "magnitude": "0 to 30",
        "unit": "degrees",
        "no effect at": "0",
        "also": "sign, nearest, fill",
        "defined by": "PIL Image.rotate",
    }
    assert rows["Posterize"]["magnitude"] == "4 to 0"
    assert (rows["Solarize"]["magnitude"], rows["Solarize"]["no effect at"]) == ("256 to 0", "256")
    assert (rows["Cutout"]["magnitude"], rows["Cutout"]["also"]) == ("0 to 0.625", "fill")
    assert set(list(rows["Invert"].values())[:-1]) == {"-"}
    assert magnitude_table(search_space("hba", ["Rotate"], "bilinear"))[0][4] == "sign, bilinear, fill"
    assert all(word in LEGEND for word in ("sign", "nearest", "bilinear", "fill"))


def test_markdown_is_a_heading_a_rule_and_the_rows() -> None:
    text = as_markdown(("a", "b"), [("1", "2"), ("-", "x, y")])
    assert text == "| a | b |\n| --- | --- |\n| 1 | 2 |\n| - | x, y |"


@pytest.mark.parametrize("name", ["hba", "pba"])
def test_a_space_is_printed_with_the_counts_of_operations(name: str) -> None:
    lines = lines_of("--space", name)
    assert lines[0].strip() == f"Search space {name}"
    rows = magnitude_table(SPACES[name])
    assert without_spaces(cells_in(lines)) == without_spaces(rows)
    assert max(map(len, lines[: lines.index(LEGEND)])) <= 110
    limits = "0 (20%), 1 (30%), 2 (50%)"
    assert lines[-2:] == [
        LEGEND,
        f"2 copies of each. Most operations that an image can get, with probability: {limits}.",
    ]


def test_the_paper_s_space_is_the_default() -> None:
    assert lines_of() == lines_of("--space", "hba") != lines_of("--space", "pba")
    assert lines_of("--markdown") == lines_of("--space", "hba", "--markdown")


@pytest.mark.parametrize("name", ["hba", "pba"])
def test_markdown_is_what_the_documentation_shows(name: str) -> None:
    expected = as_markdown(HEADINGS, magnitude_table(SPACES[name]))
    assert "\n".join(lines_of("--space", name, "--markdown")) == expected


@pytest.mark.parametrize("name", ["hba", "pba"])
def test_own_operations_stand_behind_those_of_the_space(name: str) -> None:
    lines = lines_of("--operations-file", "mine.py", "--space", name)
    assert without_spaces(cells_in(lines))[-1] == without_spaces([GAMMA_ROW])[0]
    assert len(cells_in(lines)) == 16
    lines = lines_of("--operations-file", "mine.py", "--space", name, "--markdown")
    shown = SearchSpace((*SPACES[name].operations, *registered_operations()))
    assert "\n".join(lines) == as_markdown(HEADINGS, magnitude_table(shown))
    assert lines[-1] == f"| {' | '.join(GAMMA_ROW)} |"


def test_several_files_can_be_given() -> None:
    Path("other.py").write_text(GAMMA_FILE.replace("Gamma", "Other"))
    lines = lines_of("--markdown", "--operations-file", "other.py", "--operations-file", "mine.py")
    assert [line.split(" | ")[0] for line in lines[-2:]] == ["| Other", "| Gamma"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("nowhere.py", None, "no operations file nowhere.py"),
        ("a.txt", GAMMA_FILE, "an operations file must be a Python file ending .py, got a.txt"),
        ("a.py", "1 / 0", "a.py failed: ZeroDivisionError: division by zero (line 1)"),
        ("a.py", "", "a.py registers no operation; it must call hba.register_operation"),
    ],
)
@pytest.mark.parametrize(
    "command",
    [
        ["operations"],
        ["search", "digits", "--out", "run"],
        ["show", "digits"],
        ["apply", "digits", "a.png", "--out", "b.png"],
        ["evaluate", "digits", "--out", "run"],
    ],
    ids=lambda command: command[0],
)
def test_a_file_that_cannot_be_used_is_refused_by_every_command(
    command: list[str], name: str, text: str | None, message: str
) -> None:
    if text is not None:
        Path(name).write_text(text)
    before = sorted(Path().iterdir())
    assert refusal_of(*command, "--operations-file", name) == message
    assert sorted(Path().iterdir()) == before, "nothing was written"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--space", "faa"], "Error: Invalid value for '--space': 'faa' is not one of 'hba', 'pba'."),
        (["--operations-file"], "Error: Option '--operations-file' requires an argument."),
        (["hba"], "Error: Got unexpected extra argument (hba)"),
    ],
)
def test_an_option_that_is_wrong_is_a_usage_error(arguments: list[str], message: str) -> None:
    assert usage_error_of("operations", *arguments) == message


@pytest.mark.parametrize("command", ["policies", "import"])
def test_commands_that_need_no_operations_of_yours_take_no_file(command: str) -> None:
    assert usage_error_of(command, "--operations-file", "mine.py").startswith("Error: No such option")
