"""hba contest."""

import json
from pathlib import Path

import pytest
from commands import refusal_of, said

from hba.own_training.ledger import LEDGER_NAME

FILE = """
import torch
from my_neighbour import NUMBER

def train(transform, seed, effort):
    torch.manual_seed(seed)
    image = torch.zeros(3, 8, 8, dtype=torch.uint8)
    image[:, :, :3] = 255
    return [float(transform(image).float().mean()) for _ in range(NUMBER)]
"""


@pytest.fixture
def training_file(tmp_path: Path) -> Path:
    path = tmp_path / "my_training.py"
    path.write_text(FILE, encoding="utf-8")
    (tmp_path / "my_neighbour.py").write_text("NUMBER = 20", encoding="utf-8")
    return path


def test_the_command_runs_a_function_of_a_file(
    tmp_path: Path, training_file: Path
) -> None:
    out = tmp_path / "out"
    arguments = [f"{training_file}:train", "--budget", "60s", "--policies", "flip"]
    lines = said("contest", *arguments, "--out", str(out))
    assert any("score" in line for line in lines)
    ledger = json.loads((out / LEDGER_NAME).read_text(encoding="utf-8"))
    assert set(ledger["definitions"]) == {"none", "randaugment", "flip"}
    assert (out / "policy.json").exists()
    page = (out / "report.html").read_text(encoding="utf-8")
    assert ledger["chosen"] in page
    said("report", str(out))


def test_a_function_must_be_named(training_file: Path) -> None:
    budget = ("--budget", "60s")
    assert "function" in refusal_of("contest", str(training_file), *budget)
    assert "learn" in refusal_of("contest", f"{training_file}:learn", *budget)
