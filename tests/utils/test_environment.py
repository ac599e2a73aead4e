"""Optional packages, devices, versions and progress bars: what differs from machine to
machine.
"""

import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats
from search_problems import small_data, small_settings
from torch import Tensor

import hba
from hba.errors import SettingsError
from hba.utils.devices import environment, find_device
from hba.utils.imports import import_extra
from hba.utils.progress import ProgressBar, shows_progress
from hba.utils.tensors import device_constant
from hba.utils.text import CONFIDENCE, interval_of_mean

CPU = torch.device("cpu")


def test_a_missing_package_is_named_with_the_command_that_installs_it() -> None:
    with pytest.raises(
        SettingsError, match=r"no_such_thing: pip install pandas pyarrow$"
    ):
        import_extra("no_such_thing", "tables", "counting")


def test_the_environment_is_that_which_computes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    description = environment(CPU)
    assert description["packages"]["torch"] == version("torch")
    assert description["packages"]["hba-augment"] == hba.__version__
    assert (description["n_threads"], description["device"]) == (
        torch.get_num_threads(),
        "cpu",
    )
    monkeypatch.setattr(
        Path,
        "read_text",
        lambda *_, **__: "processor\t: 0\nmodel name\t: Some CPU 7\nflags\t: a",
    )
    assert environment(CPU)["device_name"] == "Some CPU 7"


def test_a_device_is_found_by_name_or_refused() -> None:
    assert find_device("cpu") == CPU
    missing = () if torch.backends.mps.is_available() else ("mps",)
    for name in ("tpu-9", "meta", "gpu", "cuda:99", "mps:0", *missing):
        with pytest.raises(SettingsError, match=name):
            find_device(name)


class UntraceableKey(list[int]):
    """Hashable for Python; torch.compile cannot trace its hash."""

    __hash__ = object.__hash__  # type: ignore[assignment]


def test_a_device_constant_is_made_once_and_compiled_programs_make_their_own() -> None:
    @device_constant
    def ones(count: int, _: object = None) -> Tensor:
        return torch.ones(count)

    assert ones(2) is ones(2)
    ones(2, UntraceableKey())

    def plus_one(numbers: Tensor) -> Tensor:
        return numbers + ones(3)

    torch.compiler.reset()
    result = torch.compile(plus_one, fullgraph=True, backend="eager")(torch.zeros(3))
    torch.compiler.reset()
    assert result.tolist() == [1.0, 1.0, 1.0]


def test_an_interval_is_that_of_scipys_t_test() -> None:
    for count in (2, 3, 10, 100):
        values = np.random.default_rng(count).normal(2.0, 3.0, count)
        expected = stats.ttest_1samp(values, 0.0).confidence_interval(CONFIDENCE)
        assert interval_of_mean(values.tolist()) == pytest.approx(
            (expected.low, expected.high)
        )
    # Student's t with one degree of freedom is Cauchy's distribution: its quantile at
    # 0.975 is tan(0.475 pi).
    half = np.tan(0.475 * np.pi)
    assert interval_of_mean([1.0, 3.0]) == pytest.approx((2 - half, 2 + half))
    assert interval_of_mean([0.5] * 4) == (0.5, 0.5)


class Noting(hba.SearchCallback):
    def __init__(self) -> None:
        self.n_steps = 0

    def step_done(self, step: int) -> None:
        self.n_steps += 1

    def stop_requested(self) -> bool:
        return self.n_steps == 3


def test_progress_is_silent_without_a_terminal_and_calls_your_callback(
    capfd: pytest.CaptureFixture[str],
) -> None:
    callback = Noting()
    assert not hba.search(
        small_data(), progress=True, callback=callback, **small_settings()
    ).finished
    assert callback.n_steps == 3
    assert capfd.readouterr() == ("", "")


def test_a_bar_shows_the_work_and_goes_away_after_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("FORCE_COLOR", "1")

    class Bar(hba.SearchCallback, ProgressBar):
        pass

    @shows_progress(Bar)
    def work(*, callback: Any = None, progress: bool = False) -> None:
        callback.show_work("working", 1, 4, "pieces")
        callback.say("a line")
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work(progress=True)
    shown = capsys.readouterr().err
    assert "working" in shown
    assert "25%" in shown
    assert "a line" in shown
