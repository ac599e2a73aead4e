"""What is measured on a GPU: stages end in time, go on, and say when they fail."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from benchmark_modules import module
from click.testing import CliRunner
from test_benchmark_records import record_of

pytestmark = pytest.mark.usefixtures("benchmarks_can_be_imported")


def program(place: Path, text: str) -> Path:
    file = place / "program.py"
    file.write_text(text)
    return file


def test_a_program_that_ends_in_time_has_ended(tmp_path: Path) -> None:
    limited = module("on_gpu.limited")
    assert limited.finished([program(tmp_path, "print('done')")], 60, tmp_path / "log" / "a.txt")
    assert (tmp_path / "log" / "a.txt").read_text() == "done\n"


def test_one_that_does_not_is_asked_to_stop_and_may_save(tmp_path: Path) -> None:
    saves = f"""
import time
try:
    time.sleep(60)
except KeyboardInterrupt:
    open({str(tmp_path / "saved")!r}, "w")
    raise SystemExit(130)
"""
    assert not module("on_gpu.limited").finished([program(tmp_path, saves)], 3, tmp_path / "log.txt")
    assert (tmp_path / "saved").exists()


def test_one_that_does_not_stop_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limited = module("on_gpu.limited")
    monkeypatch.setattr(limited, "LAST_SECONDS", 0.2)
    deaf = "import signal, time\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(60)"
    ended = limited.run_within([program(tmp_path, deaf)], 1.2, tmp_path / "log.txt")
    assert ended.code is None
    assert ended.seconds < 20


def test_one_that_fails_says_why(tmp_path: Path) -> None:
    limited = module("on_gpu.limited")
    with pytest.raises(limited.StageError, match="no such GPU"):
        limited.finished([program(tmp_path, "raise SystemExit('no such GPU')")], 60, tmp_path / "log.txt")


def of(stage: str, trial: bool = False, commit: str = "a", **results: Any) -> Any:
    run = module("common.records").Run(stage, "cifar10", {"trial": trial, "device_name": "a GPU"}, 0)
    record = record_of(run, **results)
    by = {**record.made_by, "device_name": "a GPU", "commit": commit, "packages": {"torch": "2.15"}}
    return module("common.records").Record(record.run, record.results, by)


def test_the_table_has_every_stage_and_no_trials() -> None:
    gpu = module("gpu")
    found = of("search", seconds=71.2, val_error_percent=20.5)
    trial = of("search-paper", trial=True, seconds=1.0, val_error_percent=1.0)
    lines = gpu.table_of([found, trial]).splitlines()[2:]
    assert [line.split("`")[1] for line in lines] == list(module("on_gpu.stages").STAGES)
    assert "71 s, validation error 20.50 % | a GPU, PyTorch 2.15" in "\n".join(lines)
    assert sum("not run" in line for line in lines) == len(lines) - 1


def test_what_is_recorded_for_a_gpu_and_commit_is_not_done_again(tmp_path: Path) -> None:
    gpu, records = module("gpu"), module("common.records")
    store = records.store_of(tmp_path, "gpu")
    store.add(of("tests", passed=3, failed=0, skipped=0, failures=[]))
    stages = list(module("on_gpu.stages").STAGES)
    store.add(of("steps", trial=True, ratios="1"))
    assert gpu.missing(store, "a GPU", "a") == stages[1:]
    assert gpu.missing(store, "a GPU", "b") == gpu.missing(store, "another GPU", "a") == stages


def test_a_stage_that_a_call_was_too_short_for_lets_the_others_be_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu, stages = module("gpu"), module("on_gpu.stages")
    ends = {"tests": None, "steps": {"said": "1.1"}, "search": None}
    done: list[str] = []

    def stage(name: str) -> Any:
        def do(place: Any) -> Any:
            done.append(name)
            return ends[name]

        return replace(stages.STAGES[name], do=do)

    monkeypatch.setattr(gpu, "STAGES", {name: stage(name) for name in ends})
    by = {**module("common.records").made_by(torch.device("cpu")), "commit": "a"}
    monkeypatch.setattr(gpu, "made_by", lambda device: by)
    call = ["run", "--device", "cpu", "--data", "images", "--work", str(tmp_path / "w"), "--results", str(tmp_path)]
    said = [CliRunner().invoke(gpu.main, call, catch_exceptions=False).output for _ in range(2)]
    assert "tests: its time is over; it begins anew each time, so give it more --minutes; the next call does" in said[0]
    assert done == ["tests", "steps", "search"]
    assert "search: its time is over; call again to go on" in said[1]
    assert gpu.shorter_first(["tests", "search"], tmp_path / "w" / "a") == ["search", "tests"]


def test_a_profile_counts_the_time_of_kernels_once() -> None:
    """An operation is told to have taken what its kernels took, and a span of the program what is in it."""
    profile = module("on_gpu.profile")
    on_cpu, on_gpu = SimpleNamespace(name="CPU"), SimpleNamespace(name="CUDA")
    entries = [
        SimpleNamespace(key=key, device_type=kind, is_user_annotation=span, self_device_time_total=7.0 + n, **of_cpu)
        for n, (key, kind, span) in enumerate(
            [("aten::conv2d", on_cpu, False), ("a kernel", on_gpu, False), ("Optimizer.step", on_gpu, True)]
        )
        for of_cpu in [{"self_cpu_time_total": float(n)}]
    ]
    assert profile.times_of(entries, is_on_gpu=True) == {"a kernel": 8.0}
    assert profile.times_of(entries, is_on_gpu=False) == {"aten::conv2d": 0.0, "a kernel": 1.0, "Optimizer.step": 2.0}


def test_a_machine_without_a_gpu_and_a_call_without_images_are_told() -> None:
    run = CliRunner().invoke(module("gpu").main, ["run"])
    assert (run.exit_code, run.output) == (
        1,
        "Error: --data must name the folder of CIFAR-10's images; give it, or --trial\n",
    )
    run = CliRunner().invoke(module("gpu").main, ["run", "--trial", "--device", "cuda:77"])
    assert run.exit_code == 1
    assert "--trial --device cpu tries the stages without a GPU" in run.output


def test_the_page_has_the_table_of_what_is_kept() -> None:
    records, gpu = module("common.records"), module("gpu")
    kept = list(records.store_of(records.RESULTS, gpu.QUESTION).by_key().values())
    text = (records.DOCS / "gpu.md").read_text(encoding="utf-8")
    assert module("common.pages").placed(text, gpu.MARK, gpu.table_of(kept)) == text


@pytest.mark.slow
def test_every_stage_runs_as_a_trial_and_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    """Without the throughput and the tables, which have tests of their own and take minutes."""
    names = ["tests", "steps", "fast", "compiled", "profile", "search", "search-paper", "evaluation"]
    places = ["--work", str(tmp_path / "work"), "--results", str(tmp_path / "results")]
    call = ["run", *names, "--trial", "--device", "cpu", *places]
    done = CliRunner().invoke(module("gpu").main, call, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    store = module("common.records").store_of(tmp_path / "results", "gpu")
    assert [record.run.name for record in store.by_key().values()] == names
    # What is whole already is resumed, and found again.
    again = CliRunner().invoke(
        module("gpu").main, ["run", "search", "evaluation", *call[1 + len(names) :]], catch_exceptions=False
    )
    assert "search: " in again.output
    assert "evaluation: search " in again.output
