"""The search space: columns and names, logits and values, named spaces, and
regularizers beside the operations.
"""

import dataclasses
import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings, strategies as st
from own_operations import DARKEN, GAMMA
from paper_table import PAPER_RANGES
from random_inputs import seeded
from search_steps import space_of
from torch import Tensor

from hba.errors import SettingsError
from hba.operations import OPERATIONS, STAGED, Operation, register_operation
from hba.operations.drawing import DRAWINGS, FIXED, SIGN
from hba.policy.space import SearchSpace
from hba.policy.spaces import RECIPE, SPACES, of_row, randaugment, search_space
from hba.regularization.regularizer import Hyperparameter

PBA_TABLE = {
    "Rotate": (0, 30),
    "TranslateX": (0, 0.3125),
    "TranslateY": (0, 0.3125),
    "Brightness": (0.1, 1.9),
    "Color": (0.1, 1.9),
    "Invert": None,
    "Sharpness": (0.1, 1.9),
    "Posterize": (4, 0),
    "ShearX": (0, 0.3),
    "Solarize": (256, 0),
    "ShearY": (0, 0.3),
    "Equalize": None,
    "AutoContrast": None,
    "Cutout": (0, 0.625),
    "Contrast": (0.1, 1.9),
}
"""Magnitudes at PBA's levels 0 and 10, in the order of its files; 10 and 20 pixels of
32 are 0.3125 and 0.625.
"""
DROPOUT = Hyperparameter("dropout.fc", 0.0, 0.95, 0.05)
DECAY = Hyperparameter("weight_decay", 1e-6, 0.1, 5e-4, "log")
COUNT = Hyperparameter("mine.count", 0, 4, 1, whole=True)
TUNED = (DROPOUT, DECAY, COUNT)


def lower_and_upper(space: SearchSpace, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    low, high = torch.tensor(space.ranges, dtype=dtype).unbind(1)
    return low, high


def test_the_named_spaces_are_their_sources_tables() -> None:
    assert list(SPACES) == ["hba", "pba", "recipe", "stn", "full"]
    assert search_space("hba") == search_space() == SearchSpace()
    for name, table in (("hba", PAPER_RANGES), ("pba", PBA_TABLE)):
        space = SPACES[name]
        assert [
            (operation.name, operation.magnitude_range)
            for operation in space.operations
        ] == list(table.items())
        assert (space.n, len(space.slots), space.copies, space.max_count) == (
            54,
            30,
            2,
            2,
        )
        assert space.count_probabilities == (0.2, 0.3, 0.5)
        for operation in space.operations:
            assert (
                operation.with_range(PAPER_RANGES[operation.name])
                == OPERATIONS[operation.name]
            )
        bilinear = search_space(name, None, "bilinear")
        assert [
            operation.with_interpolation("nearest") for operation in bilinear.operations
        ] == list(space.operations)
    with pytest.raises(SettingsError, match="did you mean hba"):
        search_space("HBA")
    recipe = SPACES["recipe"]
    full = SPACES["full"]
    assert {operation.name for operation in full.operations} == {*OPERATIONS, *STAGED}
    assert {operation.name for operation in recipe.walk} == {*OPERATIONS} - {"Cutout"}
    assert {operation.name for operation in recipe.operations} - {*OPERATIONS} == {
        *RECIPE
    } & {*STAGED}
    for space in (recipe, full):
        assert (space.copies, space.count_probabilities) == (2, (0.2, 0.3, 0.5))
    assert search_space("recipe", searches_count=True).count_probabilities == (
        0.2,
        0.3,
        0.4,
        0.1,
    )


def test_columns_are_named_by_operation_copy_and_kind() -> None:
    for copies in (1, 2, 3):
        space = SearchSpace(copies=copies)
        expected = []
        for name, bounds in PAPER_RANGES.items():
            for copy in range(1, copies + 1):
                expected.append((f"{name}.{copy}.probability", (0.0, 1.0)))
                expected += [(f"{name}.{copy}.magnitude", bounds)] if bounds else []
        assert list(zip(space.names, space.ranges, strict=True)) == expected
    space = space_of(
        "Invert", "Rotate", "Cutout", copies=2, count_probabilities=(0.25, 0.5, 0.25)
    )
    columns = space.slot_columns(torch.device("cpu"))
    assert columns.operation.tolist() == [0, 0, 1, 1, 2, 2, -1]
    drawings = [DRAWINGS[index] for index in columns.drawing.tolist()]
    assert drawings == [FIXED, FIXED, SIGN, SIGN, FIXED, FIXED]
    assert [space.names[i].split(".")[::2] for i in columns.probability.tolist()] == [
        [name, "probability"] for name in ("Invert", "Rotate", "Cutout") for _ in (1, 2)
    ]
    assert columns.magnitude.tolist()[:2] == [
        10,
        10,
    ], "one past the last column, where there is no magnitude"
    assert columns.count_limits.tolist() == [0.25, 0.75]


def test_the_start_is_95_percent_low_and_infinite_logits_are_the_end_points() -> None:
    for space in SPACES.values():
        logits = space.initial()
        assert (logits.shape, logits.dtype) == ((space.n,), torch.float32)
        expected = torch.tensor(
            [0.95 * low + 0.05 * high for low, high in space.ranges]
        )
        torch.testing.assert_close(space.decode(logits), expected, atol=1e-5, rtol=1e-5)
        for dtype in (torch.float32, torch.float64):
            low, high = lower_and_upper(space, dtype)
            infinite = torch.full((space.n,), math.inf, dtype=dtype)
            assert torch.equal(space.decode(infinite), high)
            assert torch.equal(space.decode(-infinite), low)
            infinite = infinite.where(space.is_searched(infinite.device), 0)
            assert torch.equal(space.encode(high), infinite)
            assert torch.equal(space.encode(low), -infinite)


@settings(max_examples=30)
@given(
    st.lists(st.floats(-15, 15), min_size=54, max_size=54),
    st.sampled_from(["hba", "pba"]),
)
def test_decode_is_low_plus_range_times_sigmoid_and_encode_undoes_it(
    logits: list[float], name: str
) -> None:
    space = SPACES[name]
    expected = [
        low + (high - low) / (1 + math.exp(-logit))
        for (low, high), logit in zip(space.ranges, logits, strict=True)
    ]
    rows = torch.tensor([logits, logits[::-1]], dtype=torch.float64)
    values = space.decode(rows)
    torch.testing.assert_close(
        values[0], torch.tensor(expected, dtype=torch.float64), atol=1e-12, rtol=1e-12
    )
    torch.testing.assert_close(space.encode(values), rows, atol=1e-6, rtol=1e-6)
    low, high = lower_and_upper(space, torch.float32)
    singles = space.decode(rows.float() * 1000)
    assert ((singles >= low.minimum(high)) & (singles <= low.maximum(high))).all()


def test_values_outside_their_range_are_refused_by_name() -> None:
    space = search_space("pba", ["Rotate", "Posterize"])
    for column, value in ((0, -0.01), (1, 30.1), (2, math.nan), (5, 4.01)):
        row = space.decode(torch.zeros(2, space.n))
        row[1, column] = value
        with pytest.raises(SettingsError, match=space.names[column]):
            space.encode(row)


def test_spaces_that_cannot_be_are_refused() -> None:
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"operations": ()}, "operations"),
        ({"operations": (OPERATIONS["Rotate"],) * 2}, "Rotate"),
        ({"regularizers": (DROPOUT, DROPOUT)}, "dropout.fc"),
        ({"copies": 0}, "copies"),
        *(
            ({"count_probabilities": probabilities}, "count_probabilities")
            for probabilities in (
                (),
                (0.5,),
                (-0.5, 1.5),
                (math.nan, 1.0),
                (0.2, 0.3, 0.4),
            )
        ),
        ({"operations": (OPERATIONS["Rotate"],), "copies": 1}, "1 slots"),
        (
            {"count_probabilities": (1.0,), "searches_count": True},
            "count_probabilities",
        ),
        (
            {
                "operations": (Operation("count", torch.nn.Identity()),),
                "searches_count": True,
            },
            "count",
        ),
    ]
    for options, named in wrong:
        with pytest.raises(SettingsError, match=named):
            SearchSpace(**options)


@pytest.mark.usefixtures("registered")
def test_operations_are_chosen_by_name_and_registered_ones_too() -> None:
    register_operation(DARKEN)
    register_operation(GAMMA)
    pba = SPACES["pba"].operations
    assert search_space("pba", iter(["Power", "Rotate"])).operations == (GAMMA, pba[0])
    assert search_space("pba", ["all", "Power"]).operations == (*pba, GAMMA)
    assert search_space("hba", ["all"]) == SearchSpace(), (
        "a registered operation is there only by its name"
    )
    assert search_space("hba", ["Power"], "bilinear").operations == (GAMMA,)
    for operations, named in (
        (["Rotate", "Rotate"], "Rotate"),
        ([], "at least one"),
        (["rotate"], "did you mean Rotate"),
        (["all", "Rotate"], "Rotate twice"),
        (["-rotate"], "did you mean Rotate"),
        (["-HorizontalFlip"], "-HorizontalFlip"),
        (["-Rotate", "-Rotate"], "-Rotate"),
        (["Rotate", "-Rotate"], "at least one"),
    ):
        with pytest.raises(SettingsError, match=named):
            search_space("pba", operations)
    own_hue = register_operation(dataclasses.replace(GAMMA, name="Hue"))
    assert own_hue in search_space("recipe").walk, "it stands for hba's"
    for names in (["-Rotate"], ["all", "-Rotate"]):
        assert search_space("pba", names).operations == pba[1:]
    assert search_space("pba", ["-Rotate", "HorizontalFlip"]).operations == (
        STAGED["HorizontalFlip"],
        *pba[1:],
    )
    assert search_space("pba", ["Color", "Rotate", "-Color"]).operations == pba[:1]
    flips = search_space("recipe", ["HorizontalFlip", "CutMix"], searches_count=True)
    assert (flips.walk, flips.count_probabilities, flips.searches_count) == (
        (),
        (1.0,),
        False,
    )
    assert search_space("hba", ["Rotate"], searches_count=True).count_probabilities == (
        0.2,
        0.3,
        0.5,
    )
    assert search_space(searches_count=True).names[-3:] == tuple(
        f"count.{k}.probability" for k in (1, 2, 3)
    )


def test_ranges_are_those_in_which_magnitudes_are_searched() -> None:
    ranges = {
        "Rotate": (0.0, 180.0),
        "Posterize": (8.0, 4.0),
        "ResizedCrop": (1.0, 0.5),
        "CutMix": (1.0, 1.0),
    }
    space = search_space("recipe", ranges=ranges)
    assert {
        operation.name: operation.magnitude_range
        for operation in space.operations
        if operation.name in ranges
    } == ranges
    middle = dict(
        zip(space.names, space.decode(space.initial(0.5)).tolist(), strict=True)
    )
    assert (middle["Rotate.2.magnitude"], middle["CutMix.magnitude"]) == (90.0, 1.0)
    assert middle["ResizedCrop.magnitude"] == pytest.approx(0.75)
    for name, magnitudes, message in (
        ("Rotatee", (0.0, 1.0), "did you mean Rotate"),
        ("Cutout", (0.0, 0.1), "Cutout"),
        ("Invert", (0.0, 1.0), "Invert has none"),
        ("Rotate", (-1.0, 1.0), "at least 0, got -1:1"),
        ("Mixup", (0.0, 2.0), r"Mixup must lie in \[0, 1\], got 0:2"),
        ("ResizedCrop", (1.0, 0.0), "ResizedCrop"),
    ):
        with pytest.raises(SettingsError, match=message):
            search_space("recipe", ranges={name: magnitudes})


def both(searches_count: bool = True) -> SearchSpace:
    return search_space(
        "hba", ["Rotate", "Invert"], searches_count=searches_count, regularizers=TUNED
    )


def alone() -> SearchSpace:
    return SearchSpace((), count_probabilities=(1.0,), regularizers=TUNED)


def test_regularizers_come_last_and_start_at_their_own_values() -> None:
    space = both()
    assert space.names[-4:] == (
        "count.3.probability",
        "dropout.fc",
        "weight_decay",
        "mine.count",
    )
    assert space.names[space.count_columns] == tuple(
        f"count.{k}.probability" for k in (1, 2, 3)
    )
    assert (
        repr(alone())
        == "SearchSpace(dropout.fc, weight_decay, mine.count; copies=2, max_count=0,"
        " n=3)"
    )
    for any_space in (space, both(searches_count=False), alone()):
        of_schedule = of_row(
            any_space, {"Rotate.1.probability": 0.3, "dropout.fc": 0.05}
        )
        for start in (
            any_space.initial(),
            any_space.initial(0.5),
            randaugment(any_space),
            of_schedule,
        ):
            values = any_space.decode(start.double())[any_space.n_of_policy :]
            assert values.tolist() == pytest.approx([0.05, 5e-4, 1], rel=1e-5)


def test_a_log_scale_is_even_in_the_logarithm_and_encode_its_inverse() -> None:
    space = alone()
    quarter = torch.full((3,), 0.25, dtype=torch.float64).logit()
    assert float(space.decode(quarter)[1]) == pytest.approx((1e-6) ** 0.75 * 0.1**0.25)
    logits = torch.randn(20, 3, generator=seeded(0), dtype=torch.float64)
    torch.testing.assert_close(space.encode(space.decode(logits)), logits)
    ends = space.decode(torch.tensor([[-torch.inf], [torch.inf]]).expand(2, 3))
    assert torch.equal(ends, torch.stack(space.bounds(ends.dtype, ends.device)))
