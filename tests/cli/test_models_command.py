"""hba models: the networks as a table."""

import pytest
from commands import run

from hba.models import MODELS, PATTERNS


@pytest.fixture(scope="module")
def printed() -> str:
    result = run("models")
    assert (result.exit_code, result.stderr) == (0, ""), repr(result.exception) + result.stderr
    return result.stdout


def test_every_named_network_has_a_row_with_counts_and_shapes(printed: str) -> None:
    cells = [[cell.strip() for cell in line.strip("│").split("│")] for line in printed.splitlines()]
    table = {row[0]: row[1:] for row in cells if len(row) > 1 and row[0]}
    assert list(table) == list(MODELS)
    assert table["wrn-10-1"] == ["0.08 M", "-", "2x3x32x32", "2x10", "any"]
    assert table["resnet-18"] == ["11.69 M", "11.7 M, torchvision", "2x3x224x224", "2x1000", "any"]
    assert table["alexnet"][-1] == "first-conv, conv,"
    assert table["alexnet-stn"][:2] == ["23.27 M", "23.3 M, Bae and"]
    assert table["mlp"] == ["6.58 M", "-", "2x3x32x32", "2x10", "all, every"]


def test_the_names_that_follow_a_pattern_are_told(printed: str) -> None:
    text = " ".join(printed.split())
    assert f"--model also takes any {', '.join(PATTERNS)}, and timm:<name>" in text
    assert "wrn-<depth>-<width>, shake-shake-26-2x<width>d," in text
    assert "alexnet-stn-<width>, vgg-16-stn-<width>, simple-cnn-<width>, mlp-<width>," in text
