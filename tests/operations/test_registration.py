"""Operations of your own: how they become known, and which cannot."""

import functools
import math
from typing import Any

import pytest
import torch
from own_operations import DARKEN, GAMMA, darken, gamma
from torch import Tensor

import hba
from hba.errors import SettingsError
from hba.operations import (
    OPERATIONS,
    Operation,
    find_operation,
    function_path,
    register_operation,
    registered_operations,
)
from hba.policy.module import Policy
from hba.policy.space import SearchSpace

pytestmark = pytest.mark.usefixtures("registered")


class Callable:
    """Can be called, but has no name of its own."""

    def __call__(self, images: Tensor) -> Tensor:
        return images

    @staticmethod
    def inner(images: Tensor) -> Tensor:
        return images


def made_here() -> Any:
    return lambda images: images.clone()


def test_a_registered_operation_is_found_by_its_name() -> None:
    assert registered_operations() == ()
    assert hba.register_operation(GAMMA) is GAMMA
    assert find_operation("Gamma") is GAMMA
    assert registered_operations() == (GAMMA,)
    assert "Gamma" not in OPERATIONS


def test_registered_operations_keep_their_order() -> None:
    for operation in (GAMMA, DARKEN):
        register_operation(operation)
    assert registered_operations() == (GAMMA, DARKEN)


def test_a_second_registration_takes_the_place_of_the_first() -> None:
    register_operation(GAMMA)
    register_operation(DARKEN)
    stronger = Operation("Gamma", gamma, (0.1, 10.0), "exponent", 1.0)
    assert register_operation(stronger) is stronger
    assert find_operation("Gamma") is stronger
    assert registered_operations() == (stronger, DARKEN)


@pytest.mark.parametrize("name", list(OPERATIONS))
def test_the_names_of_the_15_are_taken(name: str) -> None:
    with pytest.raises(SettingsError) as raised:
        register_operation(Operation(name, gamma, (0.5, 2.0), "exponent", 1.0))
    assert str(raised.value) == f"{name} is one of hba's own operations; give yours another name"
    assert find_operation(name) is OPERATIONS[name]
    assert registered_operations() == ()


@pytest.mark.parametrize(
    "function",
    [functools.partial(gamma), functools.partial(darken), Callable(), torch.nn.Identity()],
    ids=["partial", "partial without magnitude", "object", "module"],
)
def test_a_function_without_a_name_is_refused(function: Any) -> None:
    operation = Operation("Nameless", function)
    for use in (register_operation, function_path):
        with pytest.raises(SettingsError) as raised:
            use(operation)
        assert str(raised.value).startswith("the function of Nameless must be a function with a name, got ")
    with pytest.raises(SettingsError, match="unknown operation 'Nameless'"):
        find_operation("Nameless")


@pytest.mark.parametrize("function", [lambda images: images.clone(), made_here()], ids=["lambda", "in a function"])
def test_a_lambda_is_refused_because_its_name_tells_nothing(function: Any) -> None:
    with pytest.raises(SettingsError, match=r"the function of Mine must be a function with a name, got <function .*>"):
        register_operation(Operation("Mine", function))
    assert registered_operations() == ()


@pytest.mark.parametrize(
    ("function", "path"),
    [
        (darken, "own_operations:darken"),
        (Callable.inner, "test_registration:Callable.inner"),
        (torch.sigmoid, "_VariableFunctionsClass.sigmoid"),
    ],
)
def test_the_path_says_where_the_function_is(function: Any, path: str) -> None:
    assert str(function_path(register_operation(Operation("Mine", function)))).endswith(path)


def test_the_15_have_no_path() -> None:
    assert {function_path(operation) for operation in OPERATIONS.values()} == {None}
    assert function_path(OPERATIONS["Rotate"].with_interpolation("bilinear")) is None


@pytest.mark.parametrize("name", ["gamma", "Gamma ", "", "GAMMA"])
def test_only_the_exact_name_is_found_and_the_known_ones_are_named(name: str) -> None:
    register_operation(GAMMA)
    with pytest.raises(SettingsError) as raised:
        find_operation(name)
    meant = "known" if not name else "did you mean Gamma? Known"
    assert str(raised.value).startswith(f"unknown operation {name!r}; {meant}: {', '.join([*OPERATIONS, 'Gamma'])}")


@pytest.mark.parametrize("name", ["", "two words", "a.b", "a,b", "1st", "Gamma\n"])
def test_a_name_that_cannot_stand_in_a_file_or_an_option_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="an operation's name must be a word of letters, digits and _"):
        Operation(name, darken)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unit": "exponent"}, "has no magnitude_range, so it must have no unit, identity or sign"),
        ({"identity": 1.0}, "has no magnitude_range, so it must have no unit, identity or sign"),
        ({"signed": True}, "has no magnitude_range, so it must have no unit, identity or sign"),
        ({"magnitude_range": (0.0,)}, ": magnitude_range must be two numbers, got"),
        ({"magnitude_range": (0.0, 1.0, 2.0)}, ": magnitude_range must be two numbers, got"),
        ({"magnitude_range": (0.0, math.inf)}, ": magnitude_range must be two numbers, got"),
        ({"magnitude_range": (math.nan, 1.0)}, ": magnitude_range must be two numbers, got"),
        ({"magnitude_range": (-0.5, 1.0), "signed": True}, "is signed, so its magnitude_range must not be neg"),
        ({"magnitude_range": (1.0, -0.5), "signed": True}, "is signed, so its magnitude_range must not be neg"),
    ],
)
def test_an_operation_that_contradicts_itself_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as raised:
        Operation("Mine", gamma, **options)
    assert str(raised.value).startswith("Mine")
    assert message in str(raised.value)


def test_a_range_may_be_a_list() -> None:
    operation = Operation("Gamma", gamma, [0.5, 2.0], "exponent", 1.0)  # type: ignore[arg-type]
    assert operation == GAMMA
    assert hash(operation) == hash(GAMMA)
    assert SearchSpace((operation,)) == SearchSpace((GAMMA,))


@pytest.mark.parametrize(
    ("magnitude_range", "identity", "magnitude", "strength"),
    [
        ((0.5, 2.0), 1.0, 1.0, 0.0),
        ((0.5, 2.0), 1.0, 2.0, 1.0),
        ((2.0, 0.5), 1.0, 0.5, 0.5),
        ((4.0, 0.0), 8.0, 4.0, 0.5),
        ((0.5, 2.0), None, 0.5, 1.0),
        ((1.0, 1.0), 1.0, 1.0, 0.0),
    ],
)
def test_strength_counts_from_where_nothing_happens(
    magnitude_range: tuple[float, float], identity: float | None, magnitude: float, strength: float
) -> None:
    operation = Operation("Mine", gamma, magnitude_range, "exponent", identity)
    assert operation.strength(magnitude) == pytest.approx(strength)


def test_a_policy_does_what_the_functions_do() -> None:
    """Gamma with an exponent of 2 and Darken, each always and once, in either order."""
    space = SearchSpace((GAMMA, DARKEN), copies=1, count_probabilities=(0.0, 0.0, 1.0))
    images = torch.rand(64, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    policy = Policy(space, torch.tensor([1.0, 2.0, 1.0]))
    draw = policy.draw(64, torch.Generator().manual_seed(0))
    changed = policy.replay(images, draw)
    gamma_first = draw.slots[:, 0] == 0
    assert 0 < gamma_first.sum() < 64
    torch.testing.assert_close(changed[gamma_first], images[gamma_first] ** 2 / 2)
    torch.testing.assert_close(changed[~gamma_first], (images[~gamma_first] / 2) ** 2)
