"""What a notebook shows of the library's values: one short line, without their numbers."""

from typing import Any

import numpy as np

import hba
from hba.config.evaluation import EvaluationConfig
from hba.policy.space import SearchSpace
from hba.report.results import EvaluationRow
from hba.schedule.schedule import Schedule

LONG = "a folder with a very long name " * 20


def schedule(epochs: int = 400, **provenance: Any) -> Schedule:
    return Schedule(SearchSpace(), np.full((epochs, 54), 0.2), provenance=provenance)


def evaluation(n_rows: int, n_seeds: int) -> hba.EvaluationResult:
    seeds = tuple(range(n_seeds))
    rows = tuple(
        EvaluationRow(name=f"row{i}", test_error_percent=tuple(i + j for j in seeds), seeds=seeds, definition=LONG)
        for i in range(n_rows)
    )
    settings = EvaluationConfig.make({}).model_dump()
    return hba.EvaluationResult(
        rows=rows, settings=settings, train_images=1000, test_images=297, skipped_images=0, fingerprints={"test": LONG},
        environment={"text": LONG},
    )  # fmt: skip


def test_every_value_is_one_short_line_that_says_what_it_is() -> None:
    shown: dict[str, Any] = {
        "SearchSpace(ShearX, ShearY, TranslateX and 12 more; copies=2, max_count=2, n=54)": SearchSpace(),
        "Schedule(epochs=400, operations=15, n=54, dataset='digits')": schedule(dataset="digits"),
        "Policy(operations=15, copies=2, values=(54,))": schedule(2).policy(0),
        "Schedule(": schedule(dataset=LONG, algorithm=[LONG] * 9),
        "PolicyTransform(": schedule().transform(),
        "EvaluationResult(row0 1.00 +- 1.00, row1 2.00 +- 1.00, row2 3.00 +- 1.00 and 2 more; ": evaluation(5, 3),
        "EvaluationRow('row0', ": evaluation(1, 40).rows[0],
    }
    for begin, value in shown.items():
        assert repr(value).startswith(begin)
        assert len(repr(value)) < 200
        assert "\n" not in repr(value)
