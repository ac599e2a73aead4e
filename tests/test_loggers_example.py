"""The loggers of the example, with a module in the place of the real ones that writes down what it is told."""

import runpy
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import hba

EXAMPLE = Path(__file__).parents[1] / "examples" / "loggers.py"


@pytest.mark.parametrize("library", ["wandb", "mlflow"])
def test_a_logger_is_told_the_metrics_and_the_policy_of_every_epoch(
    library: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    told: list[tuple[dict[str, float], int]] = []

    def log(values: dict[str, float], step: int) -> None:
        told.append((values, step))

    fake = SimpleNamespace(init=lambda project: SimpleNamespace(log=log), log_metrics=log)
    monkeypatch.setitem(sys.modules, library, fake)
    monkeypatch.setattr(sys, "argv", ["loggers.py", library, "--epochs", "3"])
    found: list[hba.SearchResult] = []
    search = hba.search

    def kept(*arguments: Any, **settings: Any) -> hba.SearchResult:
        found.append(search(*arguments, **settings, val_size=20, train_size=20, image_size=8))
        return found[-1]

    monkeypatch.setattr(hba, "search", kept)
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    schedule = found[0].schedule
    assert schedule is not None
    assert [step for _, step in told] == [1, 1, 2, 2, 3, 3]
    for epoch, (values, _) in enumerate(told[::2]):
        assert values == pytest.approx(dict(zip(schedule.space.names, schedule.values[epoch].tolist(), strict=True)))
    for metrics, (values, _) in zip(found[0].metrics, told[1::2], strict=True):
        assert values == {name: value for name, value in metrics.items() if value is not None}
