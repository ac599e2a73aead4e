"""Executors: results, shared tensors, steps and errors of tasks, and that no process is
left.
"""

import multiprocessing
import multiprocessing.forkserver
import os
import pickle
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any, cast

import pytest
import torch
import torch.multiprocessing
from ray_machines import Machines
from torch import Tensor

from hba.data.loader import default_workers
from hba.errors import HbaError, RunError, SettingsError
from hba.executors import ray_executor
from hba.executors.executor import (
    Executor,
    ProcessExecutor,
    SerialExecutor,
    Shared,
    packed,
)
from hba.executors.ray_executor import RayExecutor, connected, needed_by_task

CPU = torch.device("cpu")
pytestmark = pytest.mark.usefixtures("no_process_is_left")


def prepare(value: int, tensors: tuple[Tensor, ...]) -> Any:
    return value, *tensors


def add(
    task: int, shared: Any, step_done: Callable[[], None]
) -> tuple[int, float, int]:
    """Writes into the first shared tensor, and reads the second one."""
    value, counts, numbers = shared
    step_done()
    step_done()
    if task == 13:
        raise SettingsError("thirteen is refused")
    if counts.is_shared():
        counts[task] += 1
    return value + task, float(numbers.sum()), torch.get_num_threads()


def check(executor: Executor, n_threads: int = 1) -> Tensor:
    """Run a few tasks; the counts that they have written."""
    steps: list[Any] = []
    counts = torch.zeros(4)
    shared = Shared(100, (counts, torch.ones(3)), prepare)
    results = dict(executor.run(add, range(4), shared, lambda: steps.append(1)))
    assert results == {number: (100 + number, 3.0, n_threads) for number in range(4)}
    assert len(steps) == 8
    with pytest.raises(SettingsError, match="thirteen"):
        list(executor.run(add, [13], shared, lambda: None))
    assert list(executor.run(add, [], shared, lambda: None)) == []
    return counts


def test_one_after_the_other() -> None:
    check(SerialExecutor(CPU))


def test_processes_share_tensors_and_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 6)
    assert check(ProcessExecutor(CPU, 2), n_threads=3).tolist() == [1.0] * 4


@pytest.mark.slow
def test_machines(machines: Machines) -> None:
    with connected(machines.address) as ray:
        assert ray is not None
        executor = RayExecutor(ray, "auto")
        check(executor)
        assert (executor.n_jobs, executor.environment()["machines"]) == (2, 2)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs SIGINT")
def test_an_interrupt_of_new_processes_is_left_to_the_one_that_started_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    submit = ProcessPoolExecutor.submit
    server = cast(Any, multiprocessing.forkserver)._forkserver
    # One that another test has started outside of an executor lets interrupts through.
    server._stop()

    def submit_and_interrupt(pool: ProcessPoolExecutor, *arguments: Any) -> Future[Any]:
        future: Future[Any] = submit(pool, *arguments)
        for process in multiprocessing.active_children():
            os.kill(process.pid or 0, signal.SIGINT)
        return future

    monkeypatch.setattr(ProcessPoolExecutor, "submit", submit_and_interrupt)
    shared = Shared(100, (torch.zeros(1), torch.ones(3)), prepare)
    assert [
        result[:2]
        for _, result in ProcessExecutor(CPU, 1).run(add, [0], shared, lambda: None)
    ] == [(100, 3.0)]


def die(task: int, shared: Any, step_done: Callable[[], None]) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_process_that_dies_is_an_error_in_one_line() -> None:
    with pytest.raises(RunError, match="has died"):
        list(ProcessExecutor(CPU, 2).run(die, [0, 1], Shared(), lambda: None))


SCRIPT = """
import os, time, torch
from pathlib import Path
from hba.executors.executor import ProcessExecutor, Shared

def note(folder, shared, step_done):
    Path(folder, str(os.getpid())).touch()
    time.sleep(600)

if __name__ == "__main__":
    next(ProcessExecutor(torch.device("cpu"), 1).run(note, [{folder!r}], Shared(), \
None))
"""


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    stat = Path("/proc", str(pid), "stat")
    # A process that nobody has waited for is dead too.
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] != "Z"


def until(condition: Callable[[], object], seconds: float = 240) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_processes_end_when_their_parent_is_killed(tmp_path: Path) -> None:
    (tmp_path / "pids").mkdir()
    (tmp_path / "script.py").write_text(
        SCRIPT.format(folder=str(tmp_path / "pids")), encoding="utf-8"
    )
    parent = subprocess.Popen([sys.executable, str(tmp_path / "script.py")])
    until(lambda: list((tmp_path / "pids").iterdir()))
    (pid,) = (int(path.name) for path in (tmp_path / "pids").iterdir())
    assert is_alive(pid)
    parent.kill()
    parent.wait()
    until(lambda: not is_alive(pid))


@pytest.mark.slow
def test_processes_import_nothing_from_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    script = tmp_path / "scripts" / "script.py"
    script.write_text(
        SCRIPT.format(folder=str(tmp_path)).replace("time.sleep(600)", "pass"),
        encoding="utf-8",
    )
    for name in ("random", "timm"):
        (tmp_path / f"{name}.py").write_text(
            f"open('imported {name}', 'w').close()", encoding="utf-8"
        )
    subprocess.run([sys.executable, str(script)], cwd=tmp_path, check=True)
    assert not list(tmp_path.glob("imported *"))


def test_what_cannot_be_pickled_is_refused_in_one_line() -> None:
    with pytest.raises(SettingsError, match="cannot be sent to another process"):
        packed(multiprocessing.Lock())


def test_functions_of_own_modules_are_sent_by_value(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_here.py").write_text(
        "def double(x):\n    return 2 * x\n", encoding="utf-8"
    )
    monkeypatch.syspath_prepend(tmp_path)
    module = __import__("only_here")
    ray_executor._send_own_modules()
    content = packed(module.double)
    monkeypatch.delitem(sys.modules, "only_here")
    monkeypatch.setattr(
        sys, "path", [path for path in sys.path if path != str(tmp_path)]
    )
    assert pickle.loads(content)(4) == 8


def test_a_task_has_a_gpu_and_its_share_of_the_cpus() -> None:
    for sizes, device, expected in (
        ([(16, 0), (4, 0)], "auto", (1, 0)),
        ([(16, 8), (4, 0)], "auto", (2, 1)),
        ([(16, 8), (12, 2)], "cuda", (2, 1)),
        ([(16, 8), (4, 0)], "cpu", (1, 0)),
        ([(1, 4)], "auto", (1, 1)),
    ):
        assert needed_by_task(device, sizes) == expected
    for size, device, name in (
        ((4, 0), "cuda", "GPU"),
        ((4, 1), "cuda:0", "cuda:0"),
        ((0, 0), "auto", "CPU"),
    ):
        with pytest.raises(SettingsError, match=name):
            needed_by_task(device, [size])


def test_machines_with_another_version_are_refused() -> None:
    with pytest.raises(RunError, match="hba-augment"):
        ray_executor._run_task(
            {**ray_executor.VERSIONS, "hba-augment": "0.0.1"}, 1, b"", (b"", ())
        )


def test_no_cluster_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("ray", reason="needs the extra cluster")
    for address in ("127.0.0.1:1", "head"):
        with pytest.raises(HbaError, match=address), connected(address):
            pass
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(SettingsError, match="pip install"), connected("auto"):
        pass


def _refused_jobs() -> tuple[str, int]:
    try:
        ProcessExecutor(torch.device("cpu"), 2)
    except SettingsError as error:
        return str(error), default_workers()
    return "", default_workers()


def test_a_process_that_may_start_no_others_says_so() -> None:
    with multiprocessing.get_context("fork").Pool(1) as pool:
        message, n_workers = pool.apply(_refused_jobs)
    assert "jobs=1" in message
    assert n_workers == 0


WITHOUT_GUARD = """
from pathlib import Path
import hba
settings = dict(model="wrn-10-1", epochs=1, image_size=8, device="cpu", seeds=1)
hba.evaluate("randaugment", "digits", against="none", jobs=2, out="run", **settings)
Path("ended").touch()
"""


@pytest.mark.slow
def test_a_script_without_a_guard_ends_in_one_error_that_names_it(
    tmp_path: Path,
) -> None:
    (tmp_path / "script.py").write_text(WITHOUT_GUARD)
    done = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1
    assert "__name__" in done.stderr.splitlines()[-1]
    assert not (tmp_path / "ended").exists()
