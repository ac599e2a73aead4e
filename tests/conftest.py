"""Settings for all tests.

Fixtures import what they need, because pytest-xdist loads this file before it starts
the processes that run tests, and loading PyTorch and hba takes seconds.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

if TYPE_CHECKING:
    from markupsafe import Markup
    from ray_machines import Machines

    from hba.operations import Operation

# Several processes share the cores; threads that spin while they wait would take them
# from the others. PyTorch reads it when it is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# The same examples everywhere, however long they take.
hypothesis.settings.register_profile(
    "hba",
    deadline=None,
    derandomize=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("hba")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--renew-snapshots",
        action="store_true",
        help="write the texts of today into tests/snapshots",
    )


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Networks this small only wait for each other's threads; one is several times
    faster on busy cores.
    """
    import torch

    torch.set_num_threads(1)


def frame(draw: object, description: str, width: float, height: float) -> Markup:
    """In the place of `figures.svg`: a figure with its description and nothing else."""
    from markupsafe import Markup, escape

    return Markup(f'<svg role="img" aria-label="{escape(description)}"></svg>')


@pytest.fixture(autouse=True, scope="session")
def pages_are_quick() -> Iterator[Callable[..., Markup]]:
    """Figures take most of the time of a small run; few tests look at them.

    Its value is the function that draws them.
    """
    from hba.report import figures

    draw = figures.svg
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(figures, "svg", frame)
        yield draw


@pytest.fixture
def figures_are_drawn(
    monkeypatch: pytest.MonkeyPatch, pages_are_quick: Callable[..., Markup]
) -> None:
    monkeypatch.setattr("hba.report.figures.svg", pages_are_quick)


@pytest.fixture
def double_precision(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """For comparisons of several steps, which carry the rounding of single precision
    far.
    """
    import torch

    monkeypatch.setattr("hba.utils.tensors.PRECISION", "float64")
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.fixture
def no_process_is_left() -> Iterator[None]:
    """Of those that a test has started; libraries that other tests use keep some for
    later.
    """
    before = set(multiprocessing.active_children())
    yield
    assert set(multiprocessing.active_children()) <= before


@pytest.fixture
def benchmarks_can_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "benchmarks")


@pytest.fixture
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def registered(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[dict[str, Operation]]:
    """The operations that the test registers, by name: none at first, and forgotten
    after it.

    So are the modules of operations files in the test's folder.
    """
    from hba.regularization import groups

    operations: dict[str, Operation] = {}
    monkeypatch.setattr("hba.operations.registration._registered", operations)
    monkeypatch.setattr(groups, "REGULARIZERS", dict(groups.REGULARIZERS))
    yield operations
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def machines(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machines]:
    pytest.importorskip("ray", reason="needs the extra cluster")
    from ray_machines import Machines

    import hba

    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    # Where machines import what this process imports.
    here = [
        str(Path(hba.__file__).parents[1]),
        *filter(None, [os.environ.get("PYTHONPATH")]),
    ]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(here))
    cluster = Machines()
    try:
        yield cluster
    finally:
        cluster.all.shutdown()


@pytest.fixture(scope="session")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A search on classes whose names try to get out of their place."""
    from report_pages import EVIL
    from search_problems import SMALL_SETTINGS, small_images

    import hba
    from hba.data import SearchData

    folder = tmp_path_factory.mktemp("search")
    data = SearchData(
        "<b>data</b>", EVIL, small_images(24, seed=0), small_images(16, seed=1)
    )
    settings: dict[str, Any] = {**SMALL_SETTINGS, "epochs": 5, "validate_every": 2}
    assert hba.search(data, out=folder, **settings).report == folder / "report.html"
    return folder


@pytest.fixture(scope="session")
def evaluated(tmp_path_factory: pytest.TempPathFactory, searched: Path) -> Path:
    """An evaluation of that search."""
    from report_pages import EVIL
    from small_trainings import tiny_data

    import hba
    from hba.data import EvaluationData

    folder = tmp_path_factory.mktemp("evaluation")
    tiny = tiny_data()
    data = EvaluationData("tiny", EVIL, tiny.train, tiny.test)
    settings: dict[str, Any] = {
        "model": "wrn-10-1",
        "epochs": 1,
        "batch_size": 20,
        "device": "cpu",
        "seeds": 2,
    }
    result = hba.evaluate(
        searched, data, against=("none", "start"), out=folder, **settings
    )
    assert result.report == folder / "report.html"
    return folder


@pytest.fixture(scope="session")
def tuned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A search of one operation and regularizers, `both`, and one of regularizers
    `alone`.
    """
    from report_pages import TUNES
    from search_problems import SMALL_SETTINGS, WithDropout, small_data

    import hba

    folder = tmp_path_factory.mktemp("tuned")
    for name, tune in TUNES.items():
        operations = {"operations": ("Rotate",)} if name == "both" else {}
        settings: dict[str, Any] = {
            **SMALL_SETTINGS,
            "algorithm": "joint",
            **operations,
        }
        hba.search(
            small_data(),
            tune=tune,
            network=WithDropout(),
            out=folder / name,
            **settings,
        )
    return folder
