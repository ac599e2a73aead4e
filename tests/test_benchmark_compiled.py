"""The table of steps of compiled networks beside those of networks as they are."""

from pathlib import Path
from typing import Any

import pytest
import torch
from benchmark_modules import module
from click.testing import CliRunner
from test_benchmark_records import record_of
from torch import nn

pytestmark = pytest.mark.usefixtures("benchmarks_can_be_imported")


def test_the_table_has_ratios_of_the_same_round() -> None:
    settings = {"model": "wrn-10-1", "image_size": 16, "batch_size": 100, "device": "cpu", "steps": 20, "rounds": 2}
    seconds = {"as it is": [4.0, 6.0], "compiled": [2.0, 2.0]}
    results: dict[str, Any] = {"seconds_per_step": seconds, "seconds_to_compile": {"compiled": 38.4}}
    record = record_of(module("common.records").Run("compiled", "noise", settings, 0), **results)
    record.made_by.update({"device": "cpu", "n_threads": 1, "packages": {"torch": "2"}, "commit": "abc"})
    lines = module("compiled").table_of([record]).splitlines()
    assert lines[-2] == "| wrn-10-1, 16 pixels | as it is | 5.0000 ± 1.4142 | - | - | 2 |"
    assert lines[-1] == "| wrn-10-1, 16 pixels | compiled | 2.0000 ± 0.0000 | 2.50 ± 0.71 | 38 | 2 |"


def test_a_run_compiles_one_of_two_equal_networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[nn.Module, str]] = []

    def compiled(network: nn.Module, *, mode: str, dynamic: bool) -> nn.Module:
        assert not dynamic, "the second network of a run would be compiled for images of any size"
        given.append((network, mode))
        return network

    monkeypatch.setattr(torch, "compile", compiled)
    words = ["run", "--sizes", "wrn-10-1:8", "--batch-size", "4", "--rounds", "2", "--steps", "1", "--device", "cpu"]
    done = CliRunner().invoke(module("compiled").main, [*words, "--results", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert [mode for _, mode in given] == ["default"], "CUDA graphs are for GPUs"
    (record,) = module("common.records").store_of(tmp_path, "compiled").by_key().values()
    assert {name: len(found) for name, found in record.results["seconds_per_step"].items()} == {
        "as it is": 2,
        "compiled": 2,
    }
    assert set(record.results["seconds_to_compile"]) == {"compiled"}


def test_a_step_learns() -> None:
    """The loss of one batch that is trained on again and again falls."""
    compiled, seen = module("compiled"), []
    cross_entropy = torch.nn.functional.cross_entropy

    def noted(*arguments: Any, **named: Any) -> torch.Tensor:
        loss = cross_entropy(*arguments, **named)
        seen.append(loss.item())
        return loss

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("torch.nn.functional.cross_entropy", noted)
        step = compiled.bare_step("wrn-10-1", 8, 8, torch.device("cpu"), None)
        for _ in range(20):
            step()
    assert seen[-1] < seen[0] / 2


def test_the_page_has_the_table_of_what_is_kept() -> None:
    records, compiled = module("common.records"), module("compiled")
    text = (records.DOCS / "speed.md").read_text(encoding="utf-8")
    kept = records.newest_of_each_size(records.RESULTS, compiled.QUESTION)
    assert module("common.pages").placed(text, compiled.MARK, compiled.table_of(kept)) == text
