"""Settings for all tests."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmark_modules import BENCHMARKS

# Several processes share the cores; threads that spin while they wait would take them from the others. PyTorch reads it
# when it is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch
import torch.multiprocessing
from ray_machines import Machines

import hba
from hba.operations import Operation

SERVER = "forkserver"
LOADED = ["hba", "hba.policy_evaluation.jobs", "hba.policy_search.seeds"]


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Networks this small only wait for each other's threads; one is several times faster on busy cores."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def quick_processes() -> Iterator[None]:
    """Processes begin as copies of one that has loaded PyTorch, which takes seconds, and has computed nothing."""
    with pytest.MonkeyPatch.context() as patched:
        if SERVER in torch.multiprocessing.get_all_start_methods():
            context = torch.multiprocessing.get_context(SERVER)
            context.set_forkserver_preload(LOADED)
            patched.setattr("hba.executors.executor.CONTEXT", context)
        yield


@pytest.fixture
def benchmarks_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCHMARKS)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[dict[str, Operation]]:
    """The operations that the test registers, by name: none at first, and forgotten after it.

    So are the modules of operations files in the test's folder.
    """
    own: dict[str, Operation] = {}
    monkeypatch.setattr("hba.operations.registration._registered", own)
    monkeypatch.setattr("hba.regularization.groups._registered", {})
    yield own
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def machines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machines]:
    pytest.importorskip("ray", reason="needs the extra cluster")
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    # Where machines import what this process imports.
    here = [str(Path(hba.__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(here))
    made = Machines()
    try:
        yield made
    finally:
        made.all.shutdown()
