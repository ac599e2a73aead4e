"""Threads, processes, and a machine without Numba."""

import multiprocessing
import subprocess
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
import torch
from mixed_draws import SPACES, mixed_draw
from random_inputs import seeded
from torch import Tensor

from hba.packed import compiling, running
from hba.policy.draw import apply_operations
from hba.schedule.schedule import Schedule

SPACE = SPACES["nearest"]
N_IMAGES = 150


@pytest.fixture
def images(monkeypatch: pytest.MonkeyPatch) -> Tensor:
    """Enough for several threads."""
    monkeypatch.setattr(running, "THREAD_VALUES", 1000)
    return torch.randint(0, 256, (N_IMAGES, 3, 40, 40), generator=seeded(1), dtype=torch.uint8)


@pytest.fixture
def several_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if PyTorch had three, but without its own, which no forked process could use."""
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)


@pytest.fixture
def without_numba(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    compiling.kernels.cache_clear()
    monkeypatch.setattr(compiling, "find_spec", lambda name: None)
    yield
    compiling.kernels.cache_clear()


def augmented(images: Tensor) -> Tensor:
    return apply_operations(SPACE, mixed_draw(SPACE, len(images), seed=2), images, torch.tensor([0.5, 0.5, 0.5]))


def test_threads_share_the_images(images: Tensor, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = augmented(images)
    counts, threads = [], running._threads

    def counted(process: int, count: int) -> object:
        counts.append(count)
        return threads(process, count)

    monkeypatch.setattr(running, "_threads", counted)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 3)
    assert torch.equal(augmented(images), expected)
    assert counts == [3]


def _augment_in_a_child(images: Tensor, to_parent: Connection) -> None:
    to_parent.send(augmented(images).numpy())


def test_a_forked_process_has_threads_of_its_own(images: Tensor, several_threads: None) -> None:
    """As DataLoader's workers are, of a process that has augmented before."""
    expected = augmented(images)
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe(duplex=False)
    child = context.Process(target=_augment_in_a_child, args=(images, there))
    child.start()
    assert here.poll(120)
    np.testing.assert_array_equal(here.recv(), expected.numpy())
    child.join()


def test_without_numba_the_bytes_are_the_same(images: Tensor, request: pytest.FixtureRequest) -> None:
    transform = Schedule(SPACE, np.array([SPACE.ranges]).mean(axis=2)).transform()

    def all_ways() -> list[np.ndarray]:
        torch.manual_seed(3)
        batch = transform(images)
        single = [transform(image) for image in images[:20]]
        arrays = [transform(image.permute(1, 2, 0).numpy()) for image in images[:20]]
        return [augmented(images).numpy(), batch.numpy(), *(image.numpy() for image in single), *arrays]

    with_numba = all_ways()
    request.getfixturevalue("without_numba")
    assert compiling.kernels() is None
    assert all(map(np.array_equal, all_ways(), with_numba))


def test_numba_that_does_not_start_is_named_once(monkeypatch: pytest.MonkeyPatch, images: Tensor) -> None:
    compiling.kernels.cache_clear()

    def refuse(name: str) -> None:
        raise ImportError("Numba needs NumPy 2.3 or less")

    monkeypatch.setattr("importlib.import_module", refuse)
    with pytest.warns(RuntimeWarning, match="Numba needs NumPy 2.3 or less.*to the same levels, but slower"):
        augmented(images[:, :, :8, :8])
    compiling.kernels()
    compiling.kernels.cache_clear()


def test_where_no_file_can_be_written_functions_are_compiled_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    njit: Any = numba.njit
    asked = []

    def refuse(**named: bool) -> Any:
        asked.append(named)
        if named.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return njit(**named)

    monkeypatch.setattr(numba, "njit", refuse)
    assert compiling.compiled(lambda number: number + 1)(2) == 3
    assert asked == [{"nogil": True, "cache": True}, {"nogil": True}]


def test_numba_is_not_imported_before_it_is_needed() -> None:
    """It takes a fifth of a second."""
    script = "import sys, hba; hba.load_policy('digits').transform(); print('numba' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=Path.cwd())
    assert run.stdout.strip() == "False"


def test_very_large_images_go_by_floats(monkeypatch: pytest.MonkeyPatch, images: Tensor) -> None:
    """Places of theirs are more than 32 bits hold, with 16 bits of fraction."""
    expected = augmented(images)
    monkeypatch.setattr(running, "LARGE_SIDE_PIXELS", 40)
    assert not running.can_run(images)
    assert torch.equal(augmented(images), expected)
