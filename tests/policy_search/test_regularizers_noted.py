"""What a search of regularizers notes on its way: rows in its history, events, and the text beside its bar."""

from typing import Any

import pytest
from search_problems import SMALL_SETTINGS, WithDropout, small_data
from torch import Tensor

import hba
from hba.policy.space import SearchSpace
from hba.policy_search.callbacks import SearchProgress
from hba.policy_search.history import History
from hba.regularization.regularizer import Hyperparameter

TUNE = "augmentation,dropout,weight-decay,label-smoothing"
SETTINGS: dict[str, Any] = {**SMALL_SETTINGS, "operations": ("Rotate",)}


def test_regularizers_are_kept_to_six_digits_however_small() -> None:
    decay = Hyperparameter("weight_decay", 1e-6, 0.1, 5e-4, "log")
    smoothing = Hyperparameter("label_smoothing", 0.0, 0.5, 0.05)
    space = SearchSpace((), count_probabilities=(1.0,), regularizers=(decay, smoothing))
    history = History(3)
    for row in ([1.23456789e-6, 0.123456789], [0.0123456789, 1e-9], [0.1 + 1e-12, 0.5]):
        history.note(row, 0.0, {}, space)
    assert history.rows == [[1.23457e-6, 0.123457], [0.0123457, 1e-9], [0.1, 0.5]]


def test_magnitudes_of_a_narrow_range_are_kept_to_as_many_digits_as_of_a_wide_one() -> None:
    def brighter(images: Tensor, amount: Tensor) -> Tensor:
        return (images + amount[:, None, None, None]).clamp(0, 1)

    ranges = [(0.0, 1e-6), (0.1, 0.0), (0.0, 256.0)]
    operations = [hba.Operation(f"Of{n}", brighter, ends, "share") for n, ends in enumerate(ranges)]
    space = SearchSpace(tuple(operations), copies=1)
    history = History(1)
    history.note([0.123456789, 3.123456789e-7, 0.123456789, 0.0123456789, 0.123456789, 123.123456789], 0.0, {}, space)
    assert history.rows == [[0.123457, 3.1235e-7, 0.123457, 0.012346, 0.123457, 123.123457]]


class Noting(SearchProgress):
    """Keeps what it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []
        self.plan: hba.SearchPlan | None = None

    def planned(self, plan: hba.SearchPlan) -> None:
        super().planned(plan)
        self.plan = plan

    def epoch_done(self, metrics: Any) -> None:
        super().epoch_done(metrics)
        self.texts.append(self.text)


@pytest.mark.parametrize("tune", [TUNE, "dropout,weight-decay,label-smoothing", "augmentation"])
def test_the_plan_and_the_bar_name_regularizers_where_they_stand(tune: str) -> None:
    settings = {**SETTINGS} if "augmentation" in tune else {**SMALL_SETTINGS}
    with Noting() as callback:
        result = hba.search(small_data(), tune=tune, network=WithDropout(), callback=callback, **settings)
    schedule, plan = result.schedule, callback.plan
    assert schedule is not None
    assert plan is not None
    assert plan.operations == tuple(one.name for one in schedule.space.operations)
    began = {one.name: one.initial for one in schedule.space.regularizers}
    assert dict(plan.regularizers) == pytest.approx(began, rel=1e-5)
    for text, row in zip(callback.texts, schedule.values, strict=True):
        values = row[schedule.space.n_of_policy :]
        first = [f"{name} {value:.3g}" for name, value in zip(began, values, strict=True)][:2]
        assert text.partition("; ")[2] == (f"{', '.join(first)} and 1 more" if first else "")
