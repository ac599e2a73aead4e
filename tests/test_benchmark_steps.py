"""Steps beside their floors: the passes that are counted, and the table."""

from collections import Counter
from typing import Any

import pytest
import torch
from benchmark_modules import module
from torch import Tensor, nn

from hba.policy_search.config import SearchConfig

pytestmark = pytest.mark.usefixtures("benchmarks_can_be_imported")
SIZE, BATCH = 8, 8


def config_of(name: str) -> SearchConfig:
    floors = module("steps.floors").FLOORS
    shared = {"data": "noise", "model": "wrn-10-1", "image_size": SIZE, "batch_size": BATCH, "device": "cpu"}
    return SearchConfig.make({**shared, **floors[name].settings}).resolved()


@pytest.mark.parametrize(
    ("name", "of_training", "validated", "of_lambda", "reaches_weights"),
    [
        ("lookahead", 1, BATCH // 2, 8, True),
        ("hba", 1, BATCH, 0, False),
        ("hba-lookahead", 1, BATCH, 8, True),
        ("stn", 1, BATCH, 0, False),
        ("delta-stn", 2 + 2, BATCH, 0, False),
    ],
)
def test_a_floor_has_the_passes_that_its_steps_need(
    name: str,
    of_training: int,
    validated: int,
    of_lambda: int,
    reaches_weights: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    floors, command = module("steps.floors"), module("step_cost")
    config, data = config_of(name), command.noise_data(SIZE, BATCH)
    forwards: list[int] = []
    from hba.models import WideResNet

    forward = WideResNet.forward

    def counted(self: WideResNet, x: Tensor) -> Tensor:
        forwards.append(len(x))
        return forward(self, x)

    wanted: list[Any] = []
    gradient = torch.autograd.grad

    def spied(loss: Tensor, of: Any, **further: Any) -> Any:
        wanted.append(of)
        return gradient(loss, of, **further)

    monkeypatch.setattr(WideResNet, "forward", counted)
    monkeypatch.setattr("torch.autograd.grad", spied)
    updates = config.algorithm.update_schedule
    n_steps = 2 * updates.train_steps
    assert floors.bare_seconds_per_step(floors.FLOORS[name], config, data, n_steps) > 0
    # One more is a try of the network that is built.
    assert set(forwards) - {BATCH, validated} <= {1, 2}
    expected = Counter({BATCH: n_steps * of_training + 2 * updates.in_a_row * of_lambda})
    expected[validated] += 2 * updates.in_a_row
    assert {size: forwards.count(size) for size in expected} == expected
    assert len(wanted) == 2 * updates.in_a_row
    assert all(isinstance(of[0], nn.Parameter) is reaches_weights for of in wanted)


def test_the_floors_are_of_the_algorithms_that_they_say() -> None:
    from hba.algorithms import ALGORITHMS

    floors = module("steps.floors").FLOORS
    assert {config_of(name).algorithm.name for name in floors} == set(floors) <= set(ALGORITHMS)
    assert config_of("delta-stn").algorithm.response == "linearized"  # type: ignore[attr-defined]


def record_of(model: str, ratios: dict[str, float]) -> Any:
    records = module("common.records")
    settings = {"model": model, "image_size": 32, "batch_size": 128, "algorithms": {}}
    found = {
        "seconds_per_step": {name: [ratio * 0.5, ratio * 0.25] for name, ratio in ratios.items()},
        "floor_seconds_per_step": {name: [0.5, 0.25] for name in ratios},
    }
    made_by = {"device": "cpu", "device_name": "A CPU", "n_threads": 1, "packages": {"torch": "9.9"}, "commit": "abc"}
    return records.Record(records.Run("steps", "noise", settings, 0), found, made_by)


def test_ratios_are_within_a_round() -> None:
    table = module("steps.page").table_of([record_of("wrn-16-2", {"lookahead": 1.5, "hba": 1.25})])
    assert "wrn-16-2, 32x32 pixels, batches of 128; 2 rounds; A CPU, 1 thread(s), PyTorch 9.9; commit `abc`." in table
    (line,) = [line for line in table.splitlines() if line.startswith("| `lookahead`")]
    assert "| 0.5625 ± 0.2652 | 0.3750 ± 0.1768 | 1.50 ± 0.00 |" in line


def test_the_page_has_the_table_of_what_is_kept() -> None:
    page, records, command = module("steps.page"), module("common.records"), module("step_cost")
    text = (records.DOCS / "speed.md").read_text(encoding="utf-8")
    kept = records.newest_of_each_size(records.RESULTS, command.QUESTION)
    assert kept
    assert module("common.pages").placed(text, page.MARK, page.table_of(kept)) == text
