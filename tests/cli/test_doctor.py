"""hba doctor: what a report of an error needs, and a search that works."""

import importlib
import re
from typing import Any

import numpy as np
import pytest
import torch
from commands import refusal_of, run

import hba
from hba.policy_search import self_test as module
from hba.schedule.schedule import Schedule
from hba.utils.imports import optional_packages
from hba.utils.provenance import VERSION

# hba.cli.doctor is the command; its module is found by its path.
command = importlib.import_module("hba.cli.doctor")


def test_it_says_what_is_installed_and_that_a_search_works() -> None:
    result = run("doctor", "--device", "cpu")
    assert result.exit_code == 0, result.output
    n_extras = len(optional_packages())
    first, packages, *others, tested = result.output.splitlines()
    optional, cpu = others[:n_extras], others[n_extras]
    assert first.startswith(f"hba {VERSION}, Python 3.")
    assert f"torch {torch.__version__.partition('+')[0]}" in packages
    assert [line.partition("]")[0] for line in optional] == [f"optional, [{extra}" for extra in optional_packages()]
    assert re.fullmatch(r"optional, \[timm\]: timm (is not installed \(.*\)|[\d.]+\S*)", optional[0])
    assert re.fullmatch(r"cpu: .+, 1 thread", cpu)
    assert tested.startswith("self-test on cpu: ok, a search of 8 epochs on the embedded digits")
    assert re.search(r"found the same \(\d+ s; \d+\.\d steps/s\)$", tested)


def test_a_package_that_is_missing_is_named_with_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "optional_packages", lambda: {"tables": ("numpy", "no-such-thing")})
    assert run("doctor", "--device", "cpu").output.splitlines()[2] == (
        f"optional, [tables]: numpy {np.__version__}, no-such-thing is not installed "
        "(pip install 'hba-augment[tables]')"
    )


def test_a_device_that_is_not_there_is_one_line() -> None:
    assert "tpu" in refusal_of("doctor", "--device", "tpu")


def test_a_resumed_search_that_finds_something_else_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(*given: Any, resume: bool = False, **settings: Any) -> hba.SearchResult:
        result = hba.search(*given, resume=resume, **settings)
        if resume and result.schedule is not None:
            other = Schedule(result.schedule.space, np.nextafter(result.schedule.values, 0.5))
            object.__setattr__(result, "schedule", other)
        return result

    monkeypatch.setattr(module, "search", careless)
    message = run("doctor", "--device", "cpu").stderr
    assert "hba: error: a search that was resumed found another schedule" in message
