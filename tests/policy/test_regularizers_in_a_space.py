"""Regularizers beside the operations of a search space."""

import math
from dataclasses import replace

import pytest
import torch

from hba.errors import SettingsError
from hba.operations import OPERATIONS
from hba.policy.draw import draw_operations
from hba.policy.space import SearchSpace
from hba.policy.spaces import search_space
from hba.policy.starts import at_fraction, of_row, randaugment
from hba.regularization.regularizer import Hyperparameter

DROPOUT = Hyperparameter("dropout.fc", 0.0, 0.95, 0.05)
DECAY = Hyperparameter("weight_decay", 1e-6, 0.1, 5e-4, "log")
HOLES = Hyperparameter("cutout.holes", 0, 4, 1, whole=True)
TUNED = (DROPOUT, DECAY, HOLES)


def both(searches_count: bool = True) -> SearchSpace:
    return search_space("hba", ["Rotate", "Invert"], searches_count=searches_count, regularizers=TUNED)


def alone() -> SearchSpace:
    return SearchSpace((), count_probabilities=(1.0,), regularizers=TUNED)


def test_their_columns_come_last_behind_those_of_the_number_of_operations() -> None:
    space = both()
    assert space.names[-4:] == ("count.3.probability", "dropout.fc", "weight_decay", "cutout.holes")
    assert space.n_of_policy == space.n - 3
    assert space.names[space.count_columns] == tuple(f"count.{k}.probability" for k in (1, 2, 3))
    assert both(searches_count=False).names[-4:-2] == ("Invert.2.probability", "dropout.fc")
    assert space.ranges[-2] == (1e-6, 0.1)


@pytest.mark.parametrize("space", [both(), both(searches_count=False), alone()], ids=["both", "fixed", "alone"])
def test_they_begin_where_they_say_whatever_the_operations_do(space: SearchSpace) -> None:
    for start in (
        space.initial(),
        at_fraction(space, 0.5),
        randaugment(space),
        of_row(space, {"Rotate.1.probability": 0.3, "dropout.fc": 0.05}),
    ):
        values = space.decode(start.double())[space.n_of_policy :]
        assert values.tolist() == pytest.approx([0.05, 5e-4, 1], rel=1e-5)


def test_one_that_begins_near_an_end_of_its_range_begins_there_beside_operations_too() -> None:
    rare = Hyperparameter("dropout.fc", 0.0, 0.95, 0.01)
    space = replace(both(), regularizers=(rare,))
    for start in (randaugment(space), of_row(space, {"Rotate.1.probability": 0.3}), space.initial()):
        assert float(space.decode(start.double())[-1]) == pytest.approx(0.01)
        assert start[: space.n_of_policy].abs().max() <= 5


def test_a_row_of_another_schedule_brings_its_own_values_into_their_ranges() -> None:
    row = {"Rotate.1.probability": 0.3, "dropout.fc": 0.4, "weight_decay": 5.0}
    values = both().decode(of_row(both(), row).double())
    assert float(values[-3]) == pytest.approx(0.4)
    # At the end of its range a search could not be told to move it: five logits, of the logarithm.
    end = math.log(1e-6) + (math.log(0.1) - math.log(1e-6)) / (1 + math.exp(-5))
    assert float(values[-2]) == pytest.approx(math.exp(end), rel=1e-5)


def test_operations_have_the_values_that_they_have_without_regularizers() -> None:
    with_them, without = both(), search_space("hba", ["Rotate", "Invert"], searches_count=True)
    for start in (randaugment, lambda space: at_fraction(space, 0.3)):
        assert torch.equal(start(with_them)[: without.n], start(without))
    logits = torch.randn(5, with_them.n, generator=torch.Generator().manual_seed(0))
    assert torch.equal(with_them.decode(logits)[:, : without.n], without.decode(logits[:, : without.n]))
    values = with_them.decode(logits)
    draws = [
        draw_operations(space, values[:, : space.n], 5, torch.Generator().manual_seed(1))
        for space in (with_them, without)
    ]
    assert torch.equal(draws[0].slots, draws[1].slots)
    assert torch.equal(draws[0].magnitudes, draws[1].magnitudes)


def test_a_log_scale_is_even_in_the_logarithm() -> None:
    space = alone()
    logits = torch.zeros(3, dtype=torch.float64)
    assert float(space.decode(logits)[1]) == pytest.approx(math.sqrt(1e-6 * 0.1))
    quarter = torch.full((3,), 0.25, dtype=torch.float64).logit()
    assert float(space.decode(quarter)[1]) == pytest.approx((1e-6) ** 0.75 * 0.1**0.25)


def test_encode_is_the_inverse_of_decode() -> None:
    logits = torch.randn(20, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    torch.testing.assert_close(alone().encode(alone().decode(logits)), logits)
    ends = alone().decode(torch.tensor([[-torch.inf], [torch.inf]]).expand(2, 3))
    low, high = alone().bounds(ends)
    assert torch.equal(ends, torch.stack([low, high]))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"low": 1.0, "high": 1.0}, "the range of x must be finite and ascend, got 1.0 to 1.0"),
        ({"low": 0.0, "scale": "log"}, "a log scale of x must begin above 0, got 0.0"),
        ({"initial": 3.0}, r"initial of x must lie in \[0.0, 2.0\], got 3.0"),
        ({"scale": "square"}, "scale of x must be linear or log, got 'square'"),
        ({"name": "x..y"}, "the name of a hyperparameter must be words with dots between, got 'x..y'"),
    ],
)
def test_what_no_search_could_move_is_refused(arguments: dict[str, object], said: str) -> None:
    given: dict[str, object] = {"name": "x", "low": 0.0, "high": 2.0, "initial": 1.0, **arguments}
    with pytest.raises(SettingsError, match=said):
        Hyperparameter(**given)  # type: ignore[arg-type]


def test_a_space_needs_something_to_tune_and_each_name_once() -> None:
    with pytest.raises(SettingsError, match="operations must be at least one"):
        SearchSpace(())
    with pytest.raises(SettingsError, match="regularizers must each be named once"):
        SearchSpace((OPERATIONS["Rotate"],), regularizers=(DROPOUT, DROPOUT))


def test_a_space_tells_of_its_regularizers_in_one_line() -> None:
    assert repr(alone()) == "SearchSpace(dropout.fc, weight_decay, cutout.holes; copies=2, max_count=0, n=3)"
