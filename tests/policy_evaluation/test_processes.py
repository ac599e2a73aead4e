"""Trainings side by side: the numbers of one after the other, and no process is left however it ends."""

import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch.multiprocessing
from PIL import Image
from small_trainings import one_operation, tiny_data
from torch import Tensor

import hba
import hba.data.folder
from hba.config.evaluation import EvaluationConfig
from hba.data.levels import Levels
from hba.data.load import load_evaluation_data
from hba.distributed.sending import own_modules
from hba.errors import DivergedError, RunError, SettingsError
from hba.operations.registration import load_operations_file
from hba.policy_evaluation import processes
from hba.policy_evaluation.contenders import contenders, named_rows
from hba.policy_evaluation.processes import number_of_jobs
from hba.policy_evaluation.sending import modules_of
from hba.utils.pool import ProcessPool

CPU, GPU = torch.device("cpu"), torch.device("cuda")
INVERT = one_operation("Invert", [[0.0], [1.0]])
SETTINGS: dict[str, Any] = {"model": "wrn-10-1", "epochs": 2, "batch_size": 6, "device": "cpu", "image_size": 8}
N_STEPS = 2 * 4


@pytest.fixture(autouse=True)
def no_process_is_left() -> Iterator[None]:
    """Of those that a test has started; libraries that other tests use keep some for later."""
    before = set(multiprocessing.active_children())
    yield
    assert set(multiprocessing.active_children()) <= before


def write_folder(folder: Path) -> Path:
    """24 images for training and 12 for testing."""
    for part, n in (("train", 12), ("test", 6)):
        for label, name in enumerate(("cat", "dog")):
            (folder / part / name).mkdir(parents=True)
            for index in range(n):
                color = (100 * label + 3 * index, 90 * (index % 3), 50 * (index % 2))
                Image.new("RGB", (8, 8), color).save(folder / part / name / f"{index:02}.png")
    return folder


class Events(hba.EvaluationCallback):
    """What happens: steps, files that are opened, trainings that end; and whatever `on_done` does then."""

    def __init__(self, on_done: Callable[[], None] = lambda: None) -> None:
        self.seen: list[str] = []
        self.on_done = on_done

    def record_files(self, monkeypatch: pytest.MonkeyPatch) -> None:
        read_image = hba.data.folder.read_image

        def recording(path: Path, image_size: int, levels: Levels | None) -> Tensor:
            self.seen.append("test" if "test" in path.parts else "train")
            return read_image(path, image_size, levels)

        monkeypatch.setattr("hba.data.folder.read_image", recording)

    def step_done(self) -> None:
        self.seen.append("step")

    def training_done(self, name: str, seed: int, test_error_percent: float) -> None:
        self.seen.append("done")
        self.on_done()


def interrupt_at_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Ctrl-C, which reaches new processes too, is left to the one that started them."""
    submit = ProcessPoolExecutor.submit
    # The quick ones of conftest.py know nothing of what this thread keeps from its processes.
    monkeypatch.setattr(ProcessPool, "context", torch.multiprocessing.get_context("spawn"))

    def submit_and_interrupt(pool: ProcessPoolExecutor, *arguments: Any) -> Future[Any]:
        future: Future[Any] = submit(pool, *arguments)
        for process in multiprocessing.active_children() if os.name == "posix" else ():
            os.kill(process.pid or 0, signal.SIGINT)
        return future

    monkeypatch.setattr(ProcessPoolExecutor, "submit", submit_and_interrupt)


def test_two_processes_find_what_one_finds_and_read_each_image_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, events = write_folder(tmp_path / "images"), Events()
    alone = hba.evaluate(INVERT, folder, against=["none", "randaugment"], seeds=2, **SETTINGS)
    events.record_files(monkeypatch)
    interrupt_at_the_start(monkeypatch)
    result = hba.evaluate(
        INVERT, folder, against=["none", "randaugment"], seeds=2, jobs=2, callback=events, out=tmp_path, **SETTINGS
    )
    assert result.rows == alone.rows
    assert len({error for row in alone.rows for error in row.test_error_percent}) > 1, "the numbers can differ"
    assert (result.environment["jobs"], result.environment["n_threads"]) == (2, 1)
    counts = {event: events.seen.count(event) for event in ("train", "test", "step", "done")}
    assert counts == {"train": 24, "test": 12, "step": 6 * N_STEPS, "done": 6}
    assert events.seen.index("done") > events.seen.index("test") > events.seen.index("step")
    assert json.loads((tmp_path / "results.json").read_text())["test_images"] == 12


def stop() -> None:
    raise KeyboardInterrupt


def kill_all() -> None:
    for process in multiprocessing.active_children():
        os.kill(process.pid or 0, signal.SIGKILL)


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
@pytest.mark.parametrize(
    ("on_done", "error", "message"),
    [(stop, KeyboardInterrupt, "^$"), (kill_all, RunError, r"has died \(exit code -9\); what has ended is kept")],
    ids=["ctrl-c", "killed"],
)
def test_an_early_end_keeps_what_has_ended_and_ends_all_processes(
    tmp_path: Path, on_done: Callable[[], None], error: type[BaseException], message: str
) -> None:
    settings = {**SETTINGS, "batch_size": 20, "epochs": 20}
    with pytest.raises(error, match=message):
        hba.evaluate(INVERT, tiny_data(), seeds=3, jobs=2, out=tmp_path, callback=Events(on_done), **settings)
    rows = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["rows"]
    assert 1 <= sum(len(row["seeds"]) for row in rows) <= 2


def test_a_training_that_ended_while_another_failed_is_kept() -> None:
    failed, ended = Future[float](), Future[float]()
    failed.set_exception(SettingsError("it failed"))
    ended.set_result(12.5)
    nothing: Any = SimpleNamespace(
        n_steps=SimpleNamespace(get_obj=lambda: SimpleNamespace(value=0)),
        test_wanted=SimpleNamespace(acquire=lambda block: False),
    )
    futures: Any = {failed: "one", ended: "other"}
    finished: Any = processes._finished(futures, nothing, tiny_data().test, lambda: None)
    assert next(finished) == ("other", 12.5)
    with pytest.raises(SettingsError, match="it failed"):
        next(finished)


@pytest.mark.usefixtures("registered")
def test_operations_of_a_file_are_known_to_the_processes_and_an_error_of_theirs_is_told(tmp_path: Path) -> None:
    text = """
import hba

def gamma_of_a_file(images, exponent):
    return images ** exponent[:, None, None, None]

hba.register_operation(
    hba.Operation("Gamma", gamma_of_a_file, magnitude_range=(0.5, 2.0), unit="exponent", identity=1.0)
)
"""
    (tmp_path / "operations_of_mine.py").write_text(text, encoding="utf-8")
    (gamma,) = load_operations_file(tmp_path / "operations_of_mine.py")
    space = hba.SearchSpace((gamma, hba.OPERATIONS["Invert"]), copies=1)
    schedule = hba.Schedule(space, [[0.5, 1.5, 0.5]])  # type: ignore[arg-type]
    config = EvaluationConfig.make(SETTINGS)
    first, none = contenders(named_rows(schedule, ["none"]), schedule, config)
    assert [module.__name__ for module in own_modules(modules_of(first))] == ["operations_of_mine"]
    assert own_modules(modules_of(none)) == ()
    # Without the operation, it would not come to a loss.
    with pytest.raises(DivergedError, match="the loss of epoch 1 is not finite; try a learning rate below"):
        hba.evaluate(schedule, tiny_data(), seeds=1, jobs=2, learning_rate=1e30, **SETTINGS)


@pytest.mark.parametrize(
    ("asked", "n_trainings", "device", "expected"),
    [(None, 9, CPU, 3), (None, 2, CPU, 2), (None, 9, GPU, 1), (None, 0, CPU, 1), (1, 9, CPU, 1), (4, 9, GPU, 4),
     (12, 9, CPU, 9)],
)  # fmt: skip
def test_jobs_are_as_many_as_threads_and_no_more_than_trainings(
    monkeypatch: pytest.MonkeyPatch, asked: int | None, n_trainings: int, device: torch.device, expected: int
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert number_of_jobs(asked, n_trainings, tiny_data(), device) == expected


def test_jobs_that_cannot_be_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SettingsError, match="jobs must be at least 1, got 0"):
        number_of_jobs(0, 9, tiny_data(), CPU)
    config = EvaluationConfig.make({"data": str(write_folder(tmp_path)), **SETTINGS, "stream": True, "workers": 0})
    streamed = load_evaluation_data(config)
    with pytest.raises(SettingsError, match="streamed from their files are trained on one by one: jobs 1, got 2"):
        number_of_jobs(2, 9, streamed, CPU)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert number_of_jobs(None, 9, streamed, CPU) == 1


def test_a_test_split_that_stays_in_its_files_is_known_before_a_training_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = EvaluationConfig.make({"data": str(write_folder(tmp_path)), **SETTINGS, "train_size": 4, "workers": 0})
    pixels = 3 * config.stored_size**2
    for n_in_memory, expected in ((12, 3), (11, 1)):
        monkeypatch.setattr("hba.data.load.STREAM_ABOVE_BYTES", n_in_memory * pixels)
        data = load_evaluation_data(config)
        assert data.n_test == 12
        monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
        assert number_of_jobs(None, 9, data, CPU) == expected
    with pytest.raises(SettingsError, match="jobs 1, got 2"):
        number_of_jobs(2, 9, data, CPU)
