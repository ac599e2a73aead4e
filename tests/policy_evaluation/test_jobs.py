"""Trainings side by side and on a cluster: the numbers of one after the other, and
nothing is left however they end.
"""

import json
import multiprocessing
import os
import signal
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from own_operations import GAMMA_FILE
from PIL import Image
from ray_machines import Machines
from small_trainings import one_operation, tiny_data
from torch import Tensor, nn

import hba
import hba.data.folder
from hba.data.reading import Levels
from hba.errors import DivergedError, RunError, SettingsError
from hba.executors.executor import number_of_jobs
from hba.operations import find_operation
from hba.operations.registration import load_operations_file
from hba.training.metrics import Measured

CPU = torch.device("cpu")
GPU = torch.device("cuda")
INVERT = one_operation("Invert", [[0.0], [1.0]])
SETTINGS: dict[str, Any] = {
    "model": "mlp-8", "epochs": 1, "batch_size": 6, "device": "cpu", "image_size": 8,
    "against": "none",
}  # fmt: skip
N_STEPS = 4
pytestmark = pytest.mark.usefixtures("no_process_is_left")


def write_folder(folder: Path) -> Path:
    """24 images for training and 12 for testing."""
    for split, n_images in (("train", 12), ("test", 6)):
        for label, name in enumerate(("cat", "dog")):
            (folder / split / name).mkdir(parents=True)
            for index in range(n_images):
                color = (100 * label + 3 * index, 90 * (index % 3), 50 * (index % 2))
                Image.new("RGB", (8, 8), color).save(
                    folder / split / name / f"{index:02}.png"
                )
    return folder


class Events(hba.EvaluationCallback):
    """What happens: steps, files that are opened, trainings that end; and whatever
    `on_done` does then.
    """

    def __init__(self, on_done: Callable[[], None] = lambda: None) -> None:
        self.seen: list[str] = []
        self.epochs: dict[tuple[str, int], Sequence[Measured]] = {}
        self.on_done = on_done

    def record_files(self, monkeypatch: pytest.MonkeyPatch) -> None:
        read_image = hba.data.reading.read_image

        def record(path: Path, image_size: int, levels: Levels | None) -> Tensor:
            self.seen.append("test" if "test" in path.parts else "train")
            return read_image(path, image_size, levels)

        monkeypatch.setattr("hba.data.pool.read_image", record)

    def step_done(self) -> None:
        self.seen.append("step")

    def training_done(
        self, name: str, seed: int, test: Measured, epochs: Sequence[Measured]
    ) -> None:
        self.epochs[name, seed] = epochs
        self.seen.append("done")
        self.on_done()

    def check(self, n_trainings: int) -> None:
        """Every image is read once."""
        counts = {
            event: self.seen.count(event) for event in ("train", "test", "step", "done")
        }
        assert counts == {
            "train": 24,
            "test": 12,
            "step": n_trainings * N_STEPS,
            "done": n_trainings,
        }


class Brightened:
    """An augmentation of one's own, of a module that no other machine has."""

    definition = "brightened"

    def by_epoch(
        self, epochs: int, train: Any
    ) -> list[Callable[[Tensor, torch.Generator], Tensor]]:
        return [lambda images, generator: (images + 0.1).clamp(0, 1)] * epochs


def test_two_processes_find_what_one_finds_and_read_each_image_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_folder(tmp_path / "images")
    events = Events()
    events_of_one = Events()
    settings: dict[str, Any] = {
        **SETTINGS,
        "against": ["randaugment", Brightened()],
        "seeds": 2,
    }
    del settings["model"]
    # What the user brings reaches the processes.
    settings["network"] = lambda seed: nn.Sequential(nn.Flatten(), nn.Linear(192, 2))
    alone = hba.evaluate(INVERT, folder, callback=events_of_one, **settings)
    events.record_files(monkeypatch)
    result = hba.evaluate(
        INVERT, folder, jobs=2, callback=events, out=tmp_path, **settings
    )
    assert result.rows == alone.rows
    assert events.epochs == events_of_one.epochs
    assert len({loss for row in alone.rows for loss in row.test_loss}) == 6, (
        "the numbers can differ"
    )
    assert (result.environment["jobs"], result.environment["n_threads"]) == (2, 1)
    events.check(n_trainings=6)
    assert json.loads((tmp_path / "results.json").read_text())["test_images"] == 12


def stop() -> None:
    raise KeyboardInterrupt


def kill_all() -> None:
    for process in multiprocessing.active_children():
        os.kill(process.pid or 0, signal.SIGKILL)


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
@pytest.mark.parametrize(
    ("on_done", "error"), [(stop, KeyboardInterrupt), (kill_all, RunError)]
)
def test_an_early_end_keeps_what_has_ended_and_ends_all_processes(
    tmp_path: Path, on_done: Callable[[], None], error: type[BaseException]
) -> None:
    settings = {**SETTINGS, "model": "wrn-10-1", "batch_size": 20, "epochs": 6}
    with pytest.raises(error):
        hba.evaluate(
            INVERT,
            tiny_data(),
            seeds=3,
            jobs=2,
            out=tmp_path,
            callback=Events(on_done),
            **settings,
        )
    rows = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))["rows"]
    assert 1 <= sum(len(row["seeds"]) for row in rows) <= 2


def gamma_schedule(folder: Path) -> hba.Schedule:
    (folder / "operations_of_mine.py").write_text(GAMMA_FILE, encoding="utf-8")
    load_operations_file(folder / "operations_of_mine.py")
    space = hba.SearchSpace(
        (find_operation("Power"), hba.OPERATIONS["Invert"]), copies=1
    )
    return hba.Schedule(space, [[0.5, 1.5, 0.5]])  # type: ignore[arg-type]


@pytest.mark.usefixtures("registered")
def test_processes_know_operations_of_a_file_and_pass_on_an_error(
    tmp_path: Path,
) -> None:
    # Without the operation, it would not come to a loss.
    with pytest.raises(
        DivergedError, match=r"^\w+, seed 0: the loss of epoch 1 is not finite"
    ):
        hba.evaluate(
            gamma_schedule(tmp_path),
            tiny_data(),
            seeds=1,
            jobs=2,
            learning_rate=1e30,
            **SETTINGS,
        )


def test_jobs_are_as_many_as_threads_and_no_more_than_trainings(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    for asked, n_trainings, device, expected in (
        *((None, 9, CPU, 3), (None, 2, CPU, 2), (None, 9, GPU, 1), (None, 0, CPU, 1)),
        *((1, 9, CPU, 1), (4, 9, GPU, 4), (12, 9, CPU, 9)),
    ):
        assert number_of_jobs(asked, n_trainings, tiny_data().train, device) == expected
    for wrong in ({"jobs": 0}, {"jobs": 2, "cluster": "auto"}):
        with pytest.raises(SettingsError, match=next(iter(wrong))):
            hba.evaluate(INVERT, "no/such/folder", **wrong)


@pytest.mark.slow
@pytest.mark.usefixtures("registered")
def test_two_machines_find_what_one_process_finds_even_if_one_is_lost(
    machines: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    folder = write_folder(tmp_path / "images")
    events = Events()
    against: list[Any] = ["none", "randaugment", Brightened()]
    alone = hba.evaluate(INVERT, folder, **{**SETTINGS, "against": against, "seeds": 2})
    events.record_files(monkeypatch)
    settings: dict[str, Any] = {
        **SETTINGS,
        "against": against,
        "seeds": 2,
        "out": tmp_path / "out",
    }
    result = hba.evaluate(
        INVERT, folder, cluster=machines.address, callback=events, **settings
    )
    assert result.rows == alone.rows
    made_by = {
        name: result.environment[name] for name in ("jobs", "n_threads", "machines")
    }
    assert made_by == {"jobs": 2, "n_threads": 1, "machines": 2}
    events.check(n_trainings=8)
    assert json.loads((tmp_path / "out" / "results.json").read_text())["machines"] == 2

    del settings["model"]
    own_network = {
        **settings,
        "against": [],
        "network": nn.Sequential(nn.Flatten(), nn.Linear(192, 2)),
    }
    kept = {**own_network, "out": tmp_path / "kept", "keep_network": True}
    on_two = hba.evaluate(INVERT, tiny_data(), cluster=machines.address, **kept)
    assert (
        on_two.rows
        == hba.evaluate(INVERT, tiny_data(), **{**own_network, "out": None}).rows
    )
    assert (
        hba.load_network(tmp_path / "kept").info.test_error_percent
        == on_two.rows[0].test_error_percent[0]
    )
    schedule = gamma_schedule(tmp_path)
    with pytest.raises(
        DivergedError, match=r"^\w+, seed 0: the loss of epoch 1 is not finite"
    ):
        hba.evaluate(
            schedule,
            tiny_data(),
            cluster=machines.address,
            learning_rate=1e30,
            seeds=1,
            **SETTINGS,
        )

    with pytest.raises(
        SettingsError, match="no machine of the cluster has a GPU, of 2"
    ):
        hba.evaluate(
            INVERT,
            tiny_data(),
            **{**SETTINGS, "device": "cuda", "cluster": machines.address},
        )

    settings = {**SETTINGS, "epochs": 20, "seeds": 2}
    after_loss = hba.evaluate(
        INVERT,
        tiny_data(),
        cluster=machines.address,
        callback=Events(machines.lose_one),
        **settings,
    )
    assert after_loss.rows == hba.evaluate(INVERT, tiny_data(), **settings).rows
