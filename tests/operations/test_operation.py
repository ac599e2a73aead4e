"""The table of operations, and what an operation requires of its own numbers, of images
and of magnitudes.
"""

import dataclasses
import math
from typing import Any

import pytest
import torch
from paper_table import PAPER_RANGES
from torch import Tensor

from hba.errors import SettingsError
from hba.operations import OPERATIONS, STAGED, Operation, find_operation
from hba.operations.drawing import AROUND, SIGN, UP_TO
from hba.operations.operation import check_images

GEOMETRIC = {"ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate"}


def halve(images: Tensor, *magnitude: Tensor) -> Tensor:
    return images / 2


def test_the_table_has_the_operations_and_ranges_of_the_paper() -> None:
    assert {
        name: operation.magnitude_range for name, operation in OPERATIONS.items()
    } == PAPER_RANGES
    assert all(operation.name == name for name, operation in OPERATIONS.items())
    assert {
        name for name, operation in OPERATIONS.items() if operation.drawing == SIGN
    } == GEOMETRIC
    assert {
        name
        for name, operation in OPERATIONS.items()
        if operation.interpolation == "nearest"
    } == GEOMETRIC
    assert {
        name for name, operation in OPERATIONS.items() if operation.uses_fill
    } == GEOMETRIC | {"Cutout"}
    assert [name for name, operation in OPERATIONS.items() if operation.n_uniforms] == [
        "Cutout"
    ]
    with pytest.raises(SettingsError, match="did you mean Rotate"):
        find_operation("rotate")


def test_an_operation_that_contradicts_itself_is_refused() -> None:
    wrong: list[tuple[str, dict[str, Any]]] = [
        *(
            (name, {})
            for name in (
                "",
                "My operation",
                "Rotate.1",
                "2nd",
                "Shear-X",
                "a/b",
                "Blur\n",
                "all",
            )
        ),
        *(
            ("Half", {"magnitude_range": ends})
            for ends in ((), (1.0,), (0.0, 1.0, 2.0), (0.0, math.inf), (math.nan, 1.0))
        ),
        *(
            ("Half", {"magnitude_range": ends, "identity": 0.0, "drawing": drawing})
            for ends in ((-0.1, 0.3), (0.3, -0.1))
            for drawing in (SIGN, AROUND)
        ),
        *(
            ("Half", {name: value})
            for name, value in (
                ("unit", "degrees"),
                ("identity", 0.0),
                ("drawing", SIGN),
                ("drawing", "twice"),
                ("stage", "first"),
            )
        ),
        *(
            ("Half", {"magnitude_range": (0.0, 1.0), "drawing": drawing})
            for drawing in (AROUND, UP_TO)
        ),
        ("Half", {"magnitude_range": (0.0, 1.0), "identity": math.nan}),
    ]
    for name, options in wrong:
        with pytest.raises(SettingsError) as raised:
            Operation(name, halve, **options)
        assert (name or "''") in str(raised.value) or repr(name) in str(raised.value)
    assert Operation("Schärfe_2", halve, [0.5, -2.0]).magnitude_range == (0.5, -2.0)  # type: ignore[arg-type]


def test_ranges_and_interpolations_are_changed_alone() -> None:
    for name, operation in OPERATIONS.items():
        bilinear = operation.with_interpolation("bilinear")
        if name in GEOMETRIC:
            assert bilinear.interpolation == "bilinear"
            assert bilinear.with_interpolation("nearest") == operation != bilinear
        else:
            assert bilinear is operation
        assert operation.with_range(operation.magnitude_range) == operation
        with pytest.raises(SettingsError, match=name):
            operation.with_range(None if operation.magnitude_range else (0.0, 1.0))
        with pytest.raises(SettingsError, match="bicubic"):
            operation.with_interpolation("bicubic")
    rotate = OPERATIONS["Rotate"]
    assert rotate.with_range((30.0, 5.0)) == dataclasses.replace(
        rotate, magnitude_range=(30.0, 5.0)
    )


def test_strength_is_the_distance_from_the_identity() -> None:
    half = Operation("Half", halve, (0.0, 5.0))
    for operation, magnitude, expected in (
        (OPERATIONS["Rotate"], -30.0, 1.0),
        (OPERATIONS["Brightness"], 1.45, 0.5),
        (OPERATIONS["Solarize"], 64.0, 0.75),
        (OPERATIONS["Invert"], 0.0, 1.0),
        (OPERATIONS["Rotate"].with_range((0.0, 0.0)), 0.0, 0.0),
        (OPERATIONS["Posterize"].with_range((4.0, 0.0)), 4.0, 0.5),
        (OPERATIONS["Rotate"].with_range((20.0, 10.0)), -10.0, 0.5),
        (STAGED["BrightnessJitter"], 0.3, 0.3),
        (STAGED["Jpeg"], 55.0, 0.5),
        (half, 0.0, 1.0),
    ):
        assert math.isclose(operation.strength(magnitude), expected, abs_tol=1e-12), (
            operation.name,
            magnitude,
        )


def test_images_and_magnitudes_of_another_shape_or_type_are_refused() -> None:
    for images in (
        torch.zeros(3, 8, 8),
        torch.zeros(1, 1, 3, 8, 8),
        torch.zeros(2, 0, 8, 8),
        torch.zeros(2, 3, 8, 8, dtype=torch.uint8),
        torch.zeros(2, 3, 8, 8, dtype=torch.int64),
    ):
        for use in (check_images, OPERATIONS["Invert"]):
            with pytest.raises(SettingsError, match="floating point"):
                use(images)
    for operation in OPERATIONS.values():
        for magnitude in (
            None,
            torch.tensor(0.1),
            torch.zeros(1),
            torch.zeros(3),
            torch.zeros(2, 1),
        ):
            if operation.magnitude_range:
                with pytest.raises(SettingsError, match=operation.name):
                    operation(torch.zeros(2, 3, 8, 8), magnitude)
