"""What a notebook shows of the library's values: one short line, without their numbers."""

import copy
import pickle
from typing import Any

import numpy as np
import pytest
import torch

import hba
from hba.config.evaluation import EvaluationConfig
from hba.policy.space import SearchSpace
from hba.policy_evaluation.results import EvaluationRow
from hba.schedule.schedule import Schedule

LONG = "a folder with a very long name " * 20


def schedule(epochs: int = 400, **provenance: Any) -> Schedule:
    return Schedule(SearchSpace(), np.full((epochs, 54), 0.2), provenance=provenance)


def evaluation(n_rows: int, n_seeds: int) -> hba.EvaluationResult:
    rows = [EvaluationRow(f"row{i}", tuple(float(i + j) for j in range(n_seeds)), tuple(range(n_seeds)), LONG)
            for i in range(n_rows)]  # fmt: skip
    return hba.EvaluationResult(tuple(rows), EvaluationConfig.make({}), 1000, 297, 0, {"test": LONG}, {"text": LONG})


def test_the_operations_and_the_numbers_of_a_space_are_shown() -> None:
    assert repr(SearchSpace()) == "SearchSpace(ShearX, ShearY, TranslateX and 12 more; copies=2, max_count=2, n=54)"
    small = SearchSpace((hba.OPERATIONS["Rotate"],), copies=1, count_probabilities=(0.0, 1.0))
    assert repr(small) == "SearchSpace(Rotate; copies=1, max_count=1, n=2)"


def test_the_length_and_the_origin_of_a_schedule_are_shown() -> None:
    assert repr(schedule()) == "Schedule(epochs=400, operations=15, n=54)"
    known = schedule(dataset="digits", algorithm="lookahead", settings={"seed": 3})
    assert repr(known) == "Schedule(epochs=400, operations=15, n=54, dataset='digits', algorithm='lookahead')"


def test_a_policy_shows_what_it_is_made_of() -> None:
    assert repr(schedule(2).policy(0)) == "Policy(operations=15, copies=2, values=(54,))"
    on_meta = hba.Policy(SearchSpace(), torch.empty(8, 54, device="meta"))
    assert repr(on_meta) == "Policy(operations=15, copies=2, values=(8, 54))"


def test_an_evaluation_shows_its_first_rows() -> None:
    model = EvaluationConfig.make({}).model
    assert repr(evaluation(5, 3)) == (
        f"EvaluationResult(row0 1.00 +- 1.00, row1 2.00 +- 1.00, row2 3.00 +- 1.00 and 2 more; model='{model}', "
        "test_images=297)"
    )
    assert repr(evaluation(1, 1)) == f"EvaluationResult(row0 0.00; model='{model}', test_images=297)"
    assert repr(evaluation(1, 0).rows[0]) == "EvaluationRow('row0', test_error_percent=None, seeds=0)"
    assert repr(evaluation(2, 2).rows[1]) == "EvaluationRow('row1', test_error_percent=1.50 +- 0.71, seeds=2)"


ALL: dict[str, Any] = {
    "space": SearchSpace(),
    "schedule": schedule(),
    "schedule of a long origin": schedule(dataset=LONG, algorithm=[LONG] * 9),
    "policy": schedule().policy(3),
    "transform": schedule().transform(),
    "evaluation": evaluation(30, 40),
    "row": evaluation(1, 40).rows[0],
}


@pytest.mark.parametrize("name", ALL)
def test_every_value_is_one_line_of_less_than_200_characters(name: str) -> None:
    assert len(repr(ALL[name])) < 200
    assert "\n" not in repr(ALL[name])


def test_what_is_shown_decides_nothing_about_equality_and_copies() -> None:
    assert SearchSpace() == SearchSpace()
    assert SearchSpace(count_probabilities=(0.3, 0.2, 0.5)) != SearchSpace()
    assert repr(SearchSpace(count_probabilities=(0.3, 0.2, 0.5))) == repr(SearchSpace())
    assert evaluation(2, 3) == evaluation(2, 3) != evaluation(2, 2)
    one = schedule()
    for other in (copy.deepcopy(one), pickle.loads(pickle.dumps(one))):
        np.testing.assert_array_equal(other.values, one.values)
    assert schedule() != schedule()
