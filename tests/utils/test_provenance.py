"""What is noted about the machine that made a result."""

import platform
from importlib.metadata import version
from pathlib import Path

import pytest
import torch

import hba
from hba.utils.provenance import environment

CPU = torch.device("cpu")


def test_the_processor_goes_by_its_model_where_the_system_tells_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Path, "read_text", lambda *_, **__: "processor\t: 0\nmodel name\t: Some CPU 7 @ 3 GHz\nflags\t: a"
    )
    assert environment(CPU)["device_name"] == "Some CPU 7 @ 3 GHz"


@pytest.mark.parametrize("text", ["processor\t: 0\n", None])
def test_elsewhere_it_goes_by_its_architecture(text: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: object, **__: object) -> str:
        if text is None:
            raise FileNotFoundError
        return text

    monkeypatch.setattr(Path, "read_text", read)
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: "riscv64")
    assert environment(CPU)["device_name"] == "riscv64"


def test_versions_and_threads_are_those_that_compute() -> None:
    found = environment(CPU)
    assert found["packages"]["torch"] == version("torch")
    assert found["packages"]["hba-augment"] == hba.__version__
    assert found["n_threads"] == torch.get_num_threads()
    assert found["python"] == platform.python_version()
    assert found["device"] == "cpu"
