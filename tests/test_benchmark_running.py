"""How tasks of benchmarks are done: side by side, in other processes, and one that fails alone."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmark_modules import BENCHMARKS, module
from ray_machines import Machines

from hba.errors import SettingsError

pytestmark = pytest.mark.usefixtures("benchmarks_can_be_imported")


class OfWords:
    """A task that finds a number, or fails, without hba."""

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def run(self) -> Any:
        return module("common.records").Run(self.name, "none", {}, 0)

    def do(self) -> dict[str, float]:
        if self.name == "wrong":
            raise SettingsError("nothing can be wrong here")
        return {"length": float(len(self.name))}

    def estimated_seconds(self) -> float:
        return 30.0


def test_tasks_run_one_after_the_other_in_this_process() -> None:
    tasks = [OfWords("a"), OfWords("wrong"), OfWords("abc")]
    outcomes = list(module("common.running").side_by_side(tasks, 1))
    assert outcomes == [
        (tasks[0], {"length": 1.0}),
        (tasks[1], "nothing can be wrong here"),
        (tasks[2], {"length": 3.0}),
    ]


class OfProcess(OfWords):
    """A task that finds out where it runs."""

    def do(self) -> dict[str, float]:
        return {"process": float(os.getpid()), "threads": float(torch.get_num_threads())}


def test_tasks_run_in_other_processes_of_one_thread() -> None:
    tasks = [OfProcess(str(number)) for number in range(4)]
    outcomes = dict((task.name, outcome) for task, outcome in module("common.running").side_by_side(tasks, 2))
    assert set(outcomes) == {"0", "1", "2", "3"}
    assert float(os.getpid()) not in {outcome["process"] for outcome in outcomes.values()}
    assert {outcome["threads"] for outcome in outcomes.values()} == {1.0}


def test_what_fails_is_named_and_leaves_the_others_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = module("common.records").Store(tmp_path / "words.jsonl")
    tasks = [OfWords("a"), OfWords("wrong"), OfWords("abc")]
    kept = module("common.running").carry_out(tasks, store, "cpu", 1, False)
    assert [record.results["length"] for record in kept] == [1.0, 3.0]
    assert "wrong, seed 0: nothing can be wrong here" in capsys.readouterr().err
    again = module("common.running").carry_out(tasks, store, "cpu", 1, False)
    assert "1 of 3 runs to do" in capsys.readouterr().out
    assert again == kept


def test_an_estimate_runs_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = module("common.records").Store(tmp_path / "words.jsonl")
    assert module("common.running").carry_out([OfWords("a"), OfWords("b")], store, "cpu", 1, True) == []
    assert "in all 1.0 minutes" in capsys.readouterr().out
    assert not store.path.exists()


class OfSchedule(OfWords):
    """A task that asks for the schedule of a search which nobody has done yet, as rows made of one search do."""

    def __init__(self, name: str, work: Path) -> None:
        super().__init__(name)
        self.work = work

    def do(self) -> dict[str, float]:
        bed = module("quality.beds").find_bed("digits")
        search = bed.search("strength", 0, self.work, epochs=2, image_size=8)
        return {"sum": float(search.schedule().values.sum())}


def test_tasks_that_need_the_same_search_wait_for_who_does_it(tmp_path: Path) -> None:
    outcomes = [found for _, found in module("common.running").side_by_side([OfSchedule(n, tmp_path) for n in "ab"], 2)]
    assert outcomes[0] == outcomes[1]
    assert isinstance(outcomes[0], dict)


@pytest.mark.slow
def test_a_suite_finds_on_a_cluster_what_it_finds_in_one_process(machines: Machines, tmp_path: Path) -> None:
    program = [sys.executable, str(BENCHMARKS / "closed_forms.py"), "--problems", "decay", "--seeds", "1"]
    found = []
    for name, address in (("alone", ""), ("cluster", machines.address)):
        folder = tmp_path / name
        words = [*program, "--results", str(folder), "--picture", str(folder / "picture.png")]
        environment = {**os.environ, "HBA_CLUSTER": address, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
        records = [json.loads(line) for line in (folder / "closed-forms.jsonl").read_text().splitlines()]
        found.append({record["digest"]: record["results"] for record in records})
        assert len(found[-1]) > 1
        assert all(record["made_by"].get("cluster", "") == address for record in records)
    assert found[0] == found[1]
