"""What an operation asks of its own numbers, of images and of magnitudes, and the operations made from it."""

import dataclasses
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from hba.errors import SettingsError
from hba.operations import OPERATIONS, Operation, check_images
from hba.policy.space import SearchSpace

WITH_MAGNITUDE = tuple(operation for operation in OPERATIONS.values() if operation.magnitude_range is not None)
WITHOUT_MAGNITUDE = tuple(operation for operation in OPERATIONS.values() if operation.magnitude_range is None)
MOVE_PIXELS = {"ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate"}


def operation_id(operation: Operation) -> str:
    return operation.name


def halve(images: Tensor, *magnitude: Tensor) -> Tensor:
    return images / 2


@pytest.mark.parametrize("name", ["", "My operation", "Rotate.1", "2nd", "Shear-X", "a/b", "Blur\n"])
def test_a_name_is_a_word(name: str) -> None:
    with pytest.raises(SettingsError, match="an operation's name must be a word of letters, digits and _, got "):
        Operation(name, halve)


@pytest.mark.parametrize("name", ["Blur", "blur_2", "_", "Schärfe"])
def test_any_word_is_a_name(name: str) -> None:
    assert Operation(name, halve).name == name


@pytest.mark.parametrize(
    "magnitude_range",
    [(), (1.0,), (0.0, 1.0, 2.0), (0.0, math.inf), (-math.inf, 0.0), (math.nan, 1.0), (0.0, math.nan)],
)
def test_a_range_is_two_numbers(magnitude_range: Any) -> None:
    with pytest.raises(SettingsError, match="Half: magnitude_range must be two numbers, got "):
        Operation("Half", halve, magnitude_range)
    with pytest.raises(SettingsError, match="Rotate: magnitude_range must be two numbers, got "):
        OPERATIONS["Rotate"].with_range(magnitude_range)


@pytest.mark.parametrize("magnitude_range", [(-0.1, 0.3), (0.3, -0.1), (-2.0, -1.0)])
def test_a_signed_range_is_not_negative_and_another_may_be(magnitude_range: tuple[float, float]) -> None:
    with pytest.raises(SettingsError, match="Half is signed, so its magnitude_range must not be negative"):
        Operation("Half", halve, magnitude_range, signed=True)
    assert Operation("Half", halve, magnitude_range).magnitude_range == magnitude_range


@pytest.mark.parametrize("contradiction", [{"unit": "degrees"}, {"identity": 0.0}, {"signed": True}])
def test_what_describes_a_magnitude_needs_one(contradiction: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match="Half has no magnitude_range, so it must have no unit, identity or sign"):
        Operation("Half", halve, **contradiction)
    assert Operation("Half", halve, (0.0, 1.0), **contradiction).name == "Half"


@pytest.mark.parametrize("magnitude_range", [(0.0, 10.0), (30.0, 0.0), (5.0, 5.0), (0.0, 400.0)])
def test_another_range_is_the_only_difference(magnitude_range: tuple[float, float]) -> None:
    rotate = OPERATIONS["Rotate"]
    other = rotate.with_range(magnitude_range)
    assert other == dataclasses.replace(rotate, magnitude_range=magnitude_range)
    assert rotate.magnitude_range == (0.0, 30.0)
    space = SearchSpace((other,), copies=1, count_probabilities=(0.0, 1.0))
    ends = space.decode(torch.tensor([[-math.inf, -math.inf], [math.inf, math.inf]]))
    assert ends[:, 1].tolist() == list(magnitude_range)


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=operation_id)
def test_its_own_range_changes_nothing(operation: Operation) -> None:
    assert operation.with_range(operation.magnitude_range) == operation


@pytest.mark.parametrize("operation", WITH_MAGNITUDE, ids=operation_id)
def test_no_range_is_for_operations_without_magnitude(operation: Operation) -> None:
    with pytest.raises(SettingsError, match=rf"the magnitude_range of {operation.name} must be like \("):
        operation.with_range(None)


@pytest.mark.parametrize("operation", WITHOUT_MAGNITUDE, ids=operation_id)
def test_a_range_is_not_for_operations_without_magnitude(operation: Operation) -> None:
    with pytest.raises(SettingsError, match=rf"the magnitude_range of {operation.name} must be like None"):
        operation.with_range((0.0, 1.0))


@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=operation_id)
def test_interpolation_is_a_choice_of_the_operations_that_move_pixels(operation: Operation) -> None:
    changed = operation.with_interpolation("bilinear")
    if operation.name in MOVE_PIXELS:
        assert (operation.interpolation, changed.interpolation) == ("nearest", "bilinear")
        assert changed.with_interpolation("nearest") == operation != changed
        assert dataclasses.replace(changed, function=operation.function) == operation
    else:
        assert changed is operation
        assert operation.interpolation is None


@pytest.mark.parametrize("interpolation", ["bicubic", "Bilinear", ""])
@pytest.mark.parametrize("name", ["Rotate", "Invert"])
def test_an_unknown_interpolation_is_refused(interpolation: str, name: str) -> None:
    with pytest.raises(SettingsError, match=f"interpolation must be nearest or bilinear, got '{interpolation}'"):
        OPERATIONS[name].with_interpolation(interpolation)


@pytest.mark.parametrize(
    ("name", "magnitude", "expected"),
    [
        ("Rotate", 0.0, 0.0),
        ("Rotate", -30.0, 1.0),
        ("ShearX", 0.15, 0.5),
        ("Contrast", 1.0, 0.0),
        ("Contrast", 0.1, 1.0),
        ("Contrast", 1.9, 1.0),
        ("Brightness", 1.45, 0.5),
        ("Solarize", 0.0, 1.0),
        ("Solarize", 64.0, 0.75),
        ("Posterize", 8.0, 0.0),
        ("Posterize", 2.0, 0.75),
        ("Cutout", 0.05, 0.25),
        ("Invert", 0.0, 1.0),
    ],
)
def test_strength_is_the_distance_from_the_identity(name: str, magnitude: float, expected: float) -> None:
    assert math.isclose(OPERATIONS[name].strength(magnitude), expected, abs_tol=1e-12)


def test_a_range_that_allows_only_the_identity_has_no_strength() -> None:
    """A schedule file may narrow a range to one magnitude."""
    assert dataclasses.replace(OPERATIONS["Rotate"], magnitude_range=(0.0, 0.0)).strength(0.0) == 0.0


@pytest.mark.parametrize(
    ("name", "magnitude_range", "magnitude", "expected"),
    [
        ("Solarize", (256.0, 0.0), 256.0, 0.0),
        ("Solarize", (256.0, 0.0), 192.0, 0.25),
        ("Solarize", (256.0, 0.0), 0.0, 1.0),
        ("Posterize", (4.0, 0.0), 4.0, 0.5),
        ("Posterize", (4.0, 0.0), 0.0, 1.0),
        ("Rotate", (20.0, 10.0), 20.0, 1.0),
        ("Rotate", (20.0, 10.0), -10.0, 0.5),
    ],
)
def test_strength_of_a_descending_range(
    name: str, magnitude_range: tuple[float, float], magnitude: float, expected: float
) -> None:
    """The first end is where a search starts, not what does least."""
    for ends in (magnitude_range, magnitude_range[::-1]):
        strength = OPERATIONS[name].with_range((ends[0], ends[1])).strength(magnitude)
        assert math.isclose(strength, expected, abs_tol=1e-12)


def test_without_an_identity_the_strength_is_full() -> None:
    assert Operation("Half", halve, (0.0, 5.0)).strength(0.0) == 1.0


@pytest.mark.parametrize(
    ("images", "shown"),
    [
        (torch.zeros(3, 8, 8), r"float32 \(3, 8, 8\)"),
        (torch.zeros(1, 1, 3, 8, 8), r"\(1, 1, 3, 8, 8\)"),
        (torch.zeros(2, 0, 8, 8), r"\(2, 0, 8, 8\)"),
        (torch.zeros(2, 3, 8, 8, dtype=torch.uint8), r"uint8 \(2, 3, 8, 8\)"),
        (torch.zeros(2, 3, 8, 8, dtype=torch.int64), r"int64 \(2, 3, 8, 8\)"),
    ],
)
def test_images_of_another_shape_or_type_are_refused(images: Tensor, shown: str) -> None:
    message = rf"images must be floating point of shape \(B, C, H, W\) with at least one channel, got .*{shown}"
    with pytest.raises(SettingsError, match=message):
        check_images(images)
    with pytest.raises(SettingsError, match=message):
        OPERATIONS["Invert"](images)


@pytest.mark.parametrize("operation", WITH_MAGNITUDE, ids=operation_id)
@pytest.mark.parametrize(
    ("magnitude", "got"),
    [
        (None, "None"),
        (torch.tensor(0.1), r"\(\)"),
        (torch.zeros(1), r"\(1,\)"),
        (torch.zeros(3), r"\(3,\)"),
        (torch.zeros(2, 1), r"\(2, 1\)"),
    ],
)
def test_magnitudes_of_another_shape_are_refused(operation: Operation, magnitude: Tensor | None, got: str) -> None:
    message = rf"{operation.name} needs one magnitude per image, shape \(2,\), got {got}"
    with pytest.raises(SettingsError, match=message):
        operation(torch.zeros(2, 3, 8, 8), magnitude)


@pytest.mark.parametrize("shape", [(2, 3, 0, 5), (2, 1, 4, 0), (0, 3, 4, 4), (0, 3, 0, 0)])
@pytest.mark.parametrize("operation", OPERATIONS.values(), ids=operation_id)
def test_images_without_a_pixel_are_copied(operation: Operation, shape: tuple[int, ...]) -> None:
    magnitude = None if operation.magnitude_range is None else torch.full(shape[:1], operation.magnitude_range[1])
    assert operation(torch.zeros(shape), magnitude).shape == shape
