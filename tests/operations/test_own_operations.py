"""Operations of your own: they are tried when they are registered, loaded from files,
and refused in one line.
"""

import functools
import importlib
import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from own_operations import DARKEN, GAMMA, GAMMA_FILE, darken, gamma
from torch import Tensor

import hba
from hba.errors import SettingsError
from hba.operations import OPERATIONS, Operation, find_operation, register_operation
from hba.operations.drawing import SIGN
from hba.operations.registration import (
    check_known,
    function_path,
    load_operations_file,
    registered_operations,
)
from hba.policy.space import SearchSpace

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


def test_registered_operations_are_found_in_their_order() -> None:
    assert registered_operations() == ()
    assert hba.register_operation(GAMMA) is GAMMA
    register_operation(DARKEN)
    assert find_operation("Power") is GAMMA
    stronger = register_operation(
        Operation("Power", gamma, (0.1, 10.0), "exponent", 1.0)
    )
    assert registered_operations() == (stronger, DARKEN)
    assert function_path(DARKEN) == "own_operations:darken"
    assert {
        function_path(operation.with_interpolation("bilinear"))
        for operation in OPERATIONS.values()
    } == {None}
    with pytest.raises(SettingsError, match="did you mean Power"):
        find_operation("power")


def test_names_that_are_taken_and_functions_without_a_name_are_refused(
    tmp_path: Path,
) -> None:
    for name in OPERATIONS:
        with pytest.raises(SettingsError, match=name):
            register_operation(Operation(name, gamma, (0.5, 2.0), "exponent", 1.0))
    for function in (
        functools.partial(darken),
        torch.nn.Identity(),
        lambda images: images.clone(),
    ):
        for use in (register_operation, function_path):
            with pytest.raises(SettingsError, match="Nameless"):
                use(Operation("Nameless", function))
    register_operation(GAMMA)
    for other in (
        Operation("Power", gamma, (0.5, 2.0), "power", 1.0),
        Operation("Rotate", gamma, (0.0, 30.0), "degrees", 0.0, drawing=SIGN),
    ):
        with pytest.raises(SettingsError, match=other.name):
            check_known(other)
    space = SearchSpace((other,), copies=1, count_probabilities=(0.5, 0.5))
    with pytest.raises(SettingsError, match="Rotate"):
        hba.Schedule(space, np.zeros((1, space.n))).save(tmp_path / "a.json")
    check_known(GAMMA.with_range((1.5, 0.7)))
    check_known(
        OPERATIONS["Rotate"].with_range((10.0, 5.0)).with_interpolation("bilinear")
    )
    assert registered_operations() == (GAMMA,)


def fails(images: Tensor) -> Tensor:
    raise RuntimeError("not\n  today")


def takes_nothing() -> Tensor:
    return torch.zeros(1)


def works_in_place(images: Tensor) -> Tensor:
    return images.mul_(0.5)


WRONG: dict[str, Any] = {
    "RuntimeError: not today": fails,
    "TypeError": takes_nothing,
    "not change": works_in_place,
    "ndarray": lambda images: images.numpy(),
    "(2, 3, 31, 32)": lambda images: images[:, :, 1:],
    "torch.float64": lambda images: images.double(),
    "[0.5, 1.5]": lambda images: images + 0.5,
    "nan": lambda images: images * float("nan"),
}


def test_mistakes_show_when_an_operation_is_registered() -> None:
    state = torch.get_rng_state()
    for named, function in WRONG.items():

        @functools.wraps(function)
        def wrong(*arguments: Tensor, function: Any = function) -> Any:
            return function(*arguments)

        wrong.__qualname__ = "wrong"
        with pytest.raises(SettingsError) as raised:
            register_operation(Operation("Mine", wrong))
        assert named in str(raised.value)
        assert str(raised.value).startswith("Mine")
        assert len(str(raised.value).splitlines()) == 1
    with pytest.raises(SettingsError, match="single images"):
        register_operation(Operation("Mine", torch.clone, stage="mixing"))
    assert registered_operations() == ()
    assert torch.equal(torch.get_rng_state(), state)


def test_a_file_registers_its_operations(tmp_path: Path) -> None:
    load_operations_file(
        written(tmp_path, GAMMA_FILE.replace("Power", "Other"), "other.py")
    )
    load_operations_file(written(tmp_path, GAMMA_FILE + TWO_MORE))
    assert [operation.name for operation in registered_operations()] == [
        "Other",
        "Power",
        "Same",
        "Softer",
    ]
    operation = find_operation("Power")
    assert (operation.magnitude_range, operation.unit, operation.identity) == (
        (0.5, 2.0),
        "exponent",
        1.0,
    )
    images = torch.rand(2, 3, 4, 4)
    torch.testing.assert_close(
        operation(images, torch.tensor([2.0, 0.5]))[0], images[0] ** 2
    )
    assert function_path(operation) == "my_operations:gamma"
    assert importlib.import_module("my_operations").gamma is operation.function
    assert pickle.loads(pickle.dumps(operation)) == operation
    own_operations = sys.modules["own_operations"]
    load_operations_file(
        written(tmp_path, GAMMA_FILE.replace("2.0", "3.25"), "own_operations.py")
    )
    assert sys.modules["own_operations"] is own_operations, (
        "a module of that name stays"
    )
    assert find_operation("Power").magnitude_range == (0.5, 3.25)


def test_a_file_that_fails_is_refused_with_the_reason_and_its_line(
    tmp_path: Path,
) -> None:
    for text, named in (
        ("raise ValueError('first\\n  second')", "ValueError: first second (line 1)"),
        ("def f():\n    raise KeyError('a')\n\n\nf()", "(line 2)"),
        ("x = 1\ny = (\n", "line 2)"),
        ("import sys\nsys.exit(0)\n", "SystemExit"),
        (GAMMA_FILE.replace("images **", "4 * images **"), "(line 8)"),
    ):
        path = written(tmp_path, text)
        message = refusal_of(path)
        assert message.startswith(str(path))
        assert named in message
        assert "my_operations" not in sys.modules
    load_operations_file(written(tmp_path, GAMMA_FILE))
    assert registered_operations() == (find_operation("Power"),), (
        "a file can be mended and loaded"
    )
    assert "nowhere.py" in refusal_of(tmp_path / "nowhere.py")
    assert "mine.txt" in refusal_of(written(tmp_path, GAMMA_FILE, "mine.txt"))
