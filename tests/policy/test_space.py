"""The search space: columns and their names, and the way between logits and values."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from paper_table import PAPER_RANGES
from torch import Tensor

from hba.errors import SettingsError
from hba.operations import OPERATIONS, Operation
from hba.policy.space import SearchSpace

CPU = torch.device("cpu")


def expected_columns(names: tuple[str, ...], copies: int) -> list[tuple[str, tuple[float, float]]]:
    columns: list[tuple[str, tuple[float, float]]] = []
    for name in names:
        bounds = PAPER_RANGES[name]
        for copy in range(1, copies + 1):
            columns.append((f"{name}.{copy}.probability", (0.0, 1.0)))
            if bounds is not None:
                columns.append((f"{name}.{copy}.magnitude", bounds))
    return columns


def space_of(*names: str, copies: int = 2, count_probabilities: tuple[float, ...] = (0.2, 0.3, 0.5)) -> SearchSpace:
    return SearchSpace(tuple(OPERATIONS[name] for name in names), copies, count_probabilities)


def lower_and_upper(space: SearchSpace, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    low, high = torch.tensor(space.ranges, dtype=dtype).unbind(1)
    return low, high


def test_the_paper_s_space_has_54_hyperparameters_in_30_slots() -> None:
    space = SearchSpace()
    assert (space.n, space.n_slots, space.max_count, space.copies) == (54, 30, 2, 2)
    assert space.count_probabilities == (0.2, 0.3, 0.5)


@settings(deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=20).filter(lambda weights: sum(weights) > 0.01))
def test_count_limits_are_the_float32_cumulative_sums_of_torch(weights: list[float]) -> None:
    probabilities = tuple(weight / sum(weights) for weight in weights)
    space = SearchSpace(count_probabilities=probabilities)
    assert space.count_limits == tuple(torch.tensor(probabilities).cumsum(0)[:-1].tolist())


def test_the_names_say_operation_copy_and_kind_in_column_order() -> None:
    space = SearchSpace()
    assert space.names[:5] == (
        "ShearX.1.probability",
        "ShearX.1.magnitude",
        "ShearX.2.probability",
        "ShearX.2.magnitude",
        "ShearY.1.probability",
    )
    assert space.names[20:23] == ("AutoContrast.1.probability", "AutoContrast.2.probability", "Invert.1.probability")
    assert space.names[-1] == "Cutout.2.magnitude"
    assert list(zip(space.names, space.ranges, strict=True)) == expected_columns(tuple(PAPER_RANGES), copies=2)


@pytest.mark.parametrize(
    ("names", "copies", "n"),
    [
        (tuple(PAPER_RANGES), 1, 27),
        (tuple(PAPER_RANGES), 3, 81),
        (("Rotate", "Invert"), 1, 3),
        (("Equalize", "Rotate"), 4, 12),
    ],
)
def test_a_space_of_other_operations_or_copies(names: tuple[str, ...], copies: int, n: int) -> None:
    space = space_of(*names, copies=copies)
    assert space.n == n
    assert space.n_slots == len(names) * copies
    assert list(zip(space.names, space.ranges, strict=True)) == expected_columns(names, copies)


def test_slot_columns_point_at_each_slot_s_numbers() -> None:
    space = space_of("Invert", "Rotate", "Cutout", copies=2, count_probabilities=(0.25, 0.5, 0.25))
    columns = space.slot_columns(CPU)
    assert columns.operation.tolist() == [0, 0, 1, 1, 2, 2]
    assert columns.signed.tolist() == [False, False, True, True, False, False]
    assert [space.names[i] for i in columns.probability.tolist()] == [
        f"{name}.{copy}.probability" for name in ("Invert", "Rotate", "Cutout") for copy in (1, 2)
    ]
    magnitudes = columns.magnitude.tolist()
    assert magnitudes[:2] == [10, 10], "one past the last column, where there is no magnitude"
    assert [space.names[i] for i in magnitudes[2:]] == [
        f"{name}.{copy}.magnitude" for name in ("Rotate", "Cutout") for copy in (1, 2)
    ]
    assert columns.count_limits.tolist() == [0.25, 0.75]


@pytest.mark.parametrize("copies", [1, 2])
def test_the_start_is_95_percent_low_and_5_percent_high_in_every_column(copies: int) -> None:
    space = SearchSpace(copies=copies)
    logits = space.initial()
    assert logits.shape == (space.n,)
    assert logits.dtype == torch.float32
    expected = torch.tensor([0.95 * low + 0.05 * high for low, high in space.ranges])
    torch.testing.assert_close(space.decode(logits), expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(logits, torch.full((space.n,), math.log(0.05 / 0.95)))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_infinite_logits_are_exactly_the_end_points(dtype: torch.dtype) -> None:
    space = SearchSpace()
    low, high = lower_and_upper(space, dtype)
    infinite = torch.full((space.n,), math.inf, dtype=dtype)
    assert torch.equal(space.decode(infinite), high)
    assert torch.equal(space.decode(-infinite), low)
    assert torch.equal(space.encode(high), infinite)
    assert torch.equal(space.encode(low), -infinite)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-15, 15), min_size=54, max_size=54))
def test_decode_is_low_plus_range_times_sigmoid_and_encode_undoes_it(logits: list[float]) -> None:
    space = SearchSpace()
    expected = [
        low + (high - low) / (1 + math.exp(-logit)) for (low, high), logit in zip(space.ranges, logits, strict=True)
    ]
    values = space.decode(torch.tensor(logits, dtype=torch.float64))
    assert values.dtype == torch.float64
    torch.testing.assert_close(values, torch.tensor(expected, dtype=torch.float64), atol=1e-12, rtol=1e-12)
    back = space.encode(values)
    torch.testing.assert_close(back, torch.tensor(logits, dtype=torch.float64), atol=1e-6, rtol=1e-6)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=54, max_size=54))
def test_values_survive_encode_and_decode(fractions: list[float]) -> None:
    space = SearchSpace()
    low, high = lower_and_upper(space, torch.float64)
    values = (low + (high - low) * torch.tensor(fractions, dtype=torch.float64)).clamp(low, high)
    torch.testing.assert_close(space.decode(space.encode(values)), values, atol=1e-12, rtol=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=True, width=32), st.sampled_from([torch.float32, torch.float64]))
def test_decoded_values_never_leave_their_ranges(logit: float, dtype: torch.dtype) -> None:
    space = SearchSpace()
    low, high = lower_and_upper(space, dtype)
    values = space.decode(torch.full((space.n,), logit, dtype=dtype))
    assert (values >= low).all()
    assert (values <= high).all()


def test_every_row_of_a_batch_is_decoded_by_itself() -> None:
    space = SearchSpace()
    logits = torch.randn(4, 3, space.n, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    values = space.decode(logits)
    low, high = lower_and_upper(space, torch.float64)
    torch.testing.assert_close(values, low + (high - low) / (1 + torch.exp(-logits)))
    torch.testing.assert_close(space.encode(values), logits)


def test_gradients_reach_the_logits() -> None:
    """d value / d lambda = (high - low) / 4 at lambda = 0."""
    space = SearchSpace()
    logits = torch.zeros(space.n, dtype=torch.float64, requires_grad=True)
    space.decode(logits).sum().backward()
    low, high = lower_and_upper(space, torch.float64)
    assert logits.grad is not None
    torch.testing.assert_close(logits.grad, (high - low) / 4)


def test_named_pairs_each_name_with_its_number() -> None:
    space = space_of("Rotate", "Invert", copies=1)
    assert space.named(torch.tensor([0.5, 12.0, 0.25])) == {
        "Rotate.1.probability": 0.5,
        "Rotate.1.magnitude": 12.0,
        "Invert.1.probability": 0.25,
    }


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        (0, -0.01, r"Rotate\.1\.probability must lie in \[0\.0, 1\.0\]"),
        (0, math.nan, r"Rotate\.1\.probability"),
        (1, 30.1, r"Rotate\.1\.magnitude must lie in \[0\.0, 30\.0\]"),
        (2, 1.01, r"Invert\.1\.probability"),
        (2, math.inf, r"Invert\.1\.probability"),
    ],
)
def test_values_outside_their_range_are_refused_by_name(column: int, value: float, message: str) -> None:
    space = space_of("Rotate", "Invert", copies=1)
    row = torch.tensor([0.5, 12.0, 0.25])
    row[column] = value
    with pytest.raises(SettingsError, match=message):
        space.encode(row)
    with pytest.raises(SettingsError, match=message):
        space.encode(torch.stack([torch.tensor([0.5, 12.0, 0.25]), row]))


@pytest.mark.parametrize("names", [(), ("Rotate", "Rotate"), ("Invert", "Rotate", "Invert")])
def test_operations_must_be_there_and_unique(names: tuple[str, ...]) -> None:
    with pytest.raises(SettingsError, match="operations must be at least one and each named once"):
        space_of(*names)


@pytest.mark.parametrize("copies", [0, -1])
def test_copies_must_be_positive(copies: int) -> None:
    with pytest.raises(SettingsError, match=f"copies must be at least 1, got {copies}"):
        SearchSpace(copies=copies)


@pytest.mark.parametrize(
    "count_probabilities",
    [(), (0.5,), (0.5, 0.6), (-0.5, 1.5), (0.2, 0.3, 0.4), (math.nan, 1.0), (0.5, math.nan), (math.inf, 0.5)],
)
def test_count_probabilities_must_be_a_distribution(count_probabilities: tuple[float, ...]) -> None:
    with pytest.raises(SettingsError, match="count_probabilities must be >= 0 and sum to 1"):
        SearchSpace(count_probabilities=count_probabilities)


def test_an_operation_called_as_the_columns_of_k_are_is_refused_where_k_is_searched() -> None:
    operations = (Operation("count", torch.nn.Identity()),)
    assert SearchSpace(operations, count_probabilities=(0.5, 0.5)).n == 2
    with pytest.raises(SettingsError, match="no operation called count"):
        SearchSpace(operations, count_probabilities=(0.5, 0.5), searches_count=True)


def test_no_more_operations_can_be_applied_than_there_are_slots() -> None:
    with pytest.raises(SettingsError, match="allow 2 operations, but there are 1 slots"):
        space_of("Rotate", copies=1)
    assert space_of("Rotate", copies=2).max_count == 2
