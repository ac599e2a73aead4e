"""The table of operations holds those of the paper's Table 9, with their ranges."""

import pytest
from paper_table import PAPER_RANGES
from PIL import Image
from pil_reference import PIL_REFERENCE, geometric_reference

from hba.errors import SettingsError
from hba.operations import OPERATIONS, find_operation

GEOMETRIC = set(geometric_reference(Image.Resampling.NEAREST))


def test_the_table_has_exactly_the_operations_of_the_paper() -> None:
    assert len(OPERATIONS) == 15
    assert set(OPERATIONS) == set(PAPER_RANGES) == set(PIL_REFERENCE)
    assert all(operation.name == name for name, operation in OPERATIONS.items())


@pytest.mark.parametrize("name", PAPER_RANGES)
def test_magnitude_ranges_are_those_of_the_paper(name: str) -> None:
    assert OPERATIONS[name].magnitude_range == PAPER_RANGES[name]


def test_exactly_the_geometric_operations_are_signed_and_resample_by_the_nearest_pixel() -> None:
    assert {name for name, operation in OPERATIONS.items() if operation.signed} == GEOMETRIC
    assert {name for name, operation in OPERATIONS.items() if operation.interpolation == "nearest"} == GEOMETRIC
    assert {operation.interpolation for operation in OPERATIONS.values()} == {"nearest", None}


def test_exactly_those_that_uncover_pixels_use_the_fill_colour() -> None:
    assert {name for name, operation in OPERATIONS.items() if operation.uses_fill} == GEOMETRIC | {"Cutout"}
    assert [name for name, operation in OPERATIONS.items() if operation.uses_position] == ["Cutout"]


@pytest.mark.parametrize(("name", "meant"), [("rotate", "did you mean Rotate"), ("ShearZ", "did you mean S"), ("", "")])
def test_an_unknown_name_is_refused_with_what_was_meant_and_the_known_ones(name: str, meant: str) -> None:
    with pytest.raises(SettingsError, match=rf"unknown operation '{name}'; {meant}.*[kK]nown: .*Rotate.*Cutout"):
        find_operation(name)
