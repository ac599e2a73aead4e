"""A file of own operations: it is run, and what is wrong with it is one line."""

import importlib
import pickle
import sys
from pathlib import Path

import pytest
import torch
from own_operations import GAMMA_FILE

import hba
from hba.errors import SettingsError
from hba.operations import OPERATIONS, Operation, find_operation, function_path, registered_operations
from hba.operations.registration import load_operations_file

pytestmark = pytest.mark.usefixtures("registered")

TWO_MORE = """
def same(images):
    return images.clone()

hba.register_operation(hba.Operation("Same", same))
hba.register_operation(hba.Operation("Softer", gamma, (1.0, 1.2), "exponent", 1.0))
"""


def written(folder: Path, text: str, name: str = "my_operations.py") -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def refusal_of(path: Path) -> str:
    with pytest.raises(SettingsError) as raised:
        load_operations_file(path)
    assert len(str(raised.value).splitlines()) == 1
    return str(raised.value)


def test_the_file_registers_its_operation(tmp_path: Path) -> None:
    (operation,) = load_operations_file(written(tmp_path, GAMMA_FILE))
    assert registered_operations() == (operation,)
    assert find_operation("Gamma") is operation
    assert (operation.magnitude_range, operation.unit, operation.identity) == ((0.5, 2.0), "exponent", 1.0)
    images = torch.rand(2, 3, 4, 4)
    torch.testing.assert_close(operation(images, torch.tensor([2.0, 0.5]))[0], images[0] ** 2)
    torch.testing.assert_close(operation(images, torch.tensor([2.0, 0.5]))[1], images[1] ** 0.5)


def test_several_are_given_in_their_order_and_only_those_of_this_file(tmp_path: Path) -> None:
    load_operations_file(written(tmp_path, GAMMA_FILE.replace("Gamma", "Other"), "other.py"))
    loaded = load_operations_file(written(tmp_path, GAMMA_FILE + TWO_MORE))
    assert [operation.name for operation in loaded] == ["Gamma", "Same", "Softer"]
    assert [operation.name for operation in registered_operations()] == ["Other", "Gamma", "Same", "Softer"]


def test_its_functions_are_found_by_the_name_of_its_module(tmp_path: Path) -> None:
    (operation,) = load_operations_file(written(tmp_path, GAMMA_FILE))
    assert function_path(operation) == "my_operations:gamma"
    assert importlib.import_module("my_operations").gamma is operation.function
    again: Operation = pickle.loads(pickle.dumps(operation))
    assert again == operation
    transform = hba.Schedule(hba.SearchSpace((operation,)), torch.tensor([[0.5, 1.0] * 2]).numpy()).transform()
    assert pickle.loads(pickle.dumps(transform)).schedule.space.operations == (operation,)


def test_a_module_of_that_name_stays(tmp_path: Path) -> None:
    own_operations = sys.modules["own_operations"]
    load_operations_file(written(tmp_path, GAMMA_FILE, "own_operations.py"))
    assert sys.modules["own_operations"] is own_operations
    assert find_operation("Gamma").function is not own_operations.gamma


def test_a_file_that_was_changed_can_be_loaded_again(tmp_path: Path) -> None:
    (first,) = load_operations_file(written(tmp_path, GAMMA_FILE))
    (second,) = load_operations_file(written(tmp_path, GAMMA_FILE.replace("2.0", "3.25")))
    assert registered_operations() == (second,)
    assert (first.magnitude_range, second.magnitude_range) == ((0.5, 2.0), (0.5, 3.25))
    (third,) = load_operations_file(tmp_path / "my_operations.py")
    assert registered_operations() == (third,)


def test_a_file_elsewhere_may_use_its_own_path_and_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "deep folder").mkdir()
    monkeypatch.chdir(tmp_path)
    checks = 'import pathlib\nassert __name__ == "own-2"\nassert pathlib.Path(__file__).name == "own-2.py"\n'
    (operation,) = load_operations_file(written(Path("deep folder"), checks + GAMMA_FILE, "own-2.py"))
    assert function_path(operation) == "own-2:gamma"


@pytest.mark.parametrize("name", ["nowhere.py", "folder.py", "nowhere/mine.py"])
def test_a_file_that_is_not_there_is_refused(name: str, tmp_path: Path) -> None:
    (tmp_path / "folder.py").mkdir()
    assert refusal_of(tmp_path / name) == f"no operations file {tmp_path / name}"


@pytest.mark.parametrize("name", ["mine.txt", "mine", "mine.json", "mine.PY.bak"])
def test_a_file_of_another_kind_is_refused(name: str, tmp_path: Path) -> None:
    path = written(tmp_path, GAMMA_FILE, name)
    assert refusal_of(path) == f"an operations file must be a Python file ending .py, got {path}"
    assert registered_operations() == ()


@pytest.mark.parametrize("text", ["", "import hba\n", "import hba\nhba.Operation('Mine', print)\n"])
def test_a_file_that_registers_nothing_is_refused(text: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    assert refusal_of(path) == f"{path} registers no operation; it must call hba.register_operation"


FAILING: list[tuple[str, str]] = [
    ("raise ValueError('too dark')", "ValueError: too dark (line 1)"),
    ("\n\n1 / 0", "ZeroDivisionError: division by zero (line 3)"),
    ("import no_such_module_here", "ModuleNotFoundError: No module named 'no_such_module_here' (line 1)"),
    (GAMMA_FILE + "print(undefined)\n", "NameError: name 'undefined' is not defined (line 9)"),
    ("def f():\n    raise KeyError('a')\n\n\nf()", "KeyError: 'a' (line 2)"),
]


@pytest.mark.parametrize(("text", "message"), FAILING, ids=[message[:20] for _, message in FAILING])
def test_a_file_that_fails_is_refused_with_the_reason_and_its_line(text: str, message: str, tmp_path: Path) -> None:
    path = written(tmp_path, text)
    assert refusal_of(path) == f"{path} failed: {message}"
    assert "my_operations" not in sys.modules


def test_a_file_that_failed_can_be_mended_and_loaded(tmp_path: Path) -> None:
    refusal_of(written(tmp_path, GAMMA_FILE + "1 / 0\n"))
    (operation,) = load_operations_file(written(tmp_path, GAMMA_FILE))
    assert sys.modules["my_operations"].gamma is operation.function


def test_the_name_of_one_of_the_15_is_refused_with_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, GAMMA_FILE.replace("Gamma", "Rotate"))
    message = refusal_of(path)
    assert message.startswith(
        f"{path} failed: SettingsError: Rotate is one of hba's own operations; give yours another"
    )
    assert find_operation("Rotate") is OPERATIONS["Rotate"]


@pytest.mark.parametrize(
    "content", [b"x = 1\ny = (\n", b"x = '\xe4'", b"\0", b"\tx = 1"], ids=["cut off", "latin-1", "zero", "indented"]
)
def test_what_is_no_python_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "my_operations.py"
    path.write_bytes(content)
    assert refusal_of(path).startswith(f"{path} failed: ")
