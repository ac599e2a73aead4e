"""What the documentation shows of the operations is what the program has."""

import re
from pathlib import Path

import pytest
import torch

from hba.operations import find_operation
from hba.operations.from_file import load_operations_file
from hba.policy.magnitude_table import HEADINGS, as_markdown, magnitude_table
from hba.policy.spaces import SPACES

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- operations: begin -->", "<!-- operations: end -->"


def blocks_of(text: str) -> list[str]:
    return [block.strip("\n") for block in re.findall(f"{re.escape(BEGIN)}(.*?){re.escape(END)}", text, re.DOTALL)]


@pytest.mark.parametrize(("file", "spaces"), [("README.md", ["hba"]), ("docs/operations.md", ["hba", "pba"])])
def test_the_tables_of_operations_are_the_generated_ones(file: str, spaces: list[str]) -> None:
    """`hba operations --space NAME --markdown` prints what has to stand between the markers."""
    text = (ROOT / file).read_text(encoding="utf-8")
    assert text.count(BEGIN) == text.count(END) == len(spaces)
    assert blocks_of(text) == [as_markdown(HEADINGS, magnitude_table(SPACES[name])) for name in spaces]


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("file", ["README.md", "docs/operations.md"])
def test_the_example_of_an_own_operation_works_as_a_file(file: str, tmp_path: Path) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    examples = [code for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "register_operation(" in code]
    assert len(examples) == 1
    (tmp_path / "example.py").write_text(examples[0], encoding="utf-8")
    (operation,) = load_operations_file(tmp_path / "example.py")
    assert find_operation("Gamma") is operation
    images = torch.rand(2, 3, 4, 4)
    changed = operation(images, torch.tensor([1.0, 2.0]))
    torch.testing.assert_close(changed, torch.stack([images[0], images[1] ** 2]))
    assert operation.strength(1.0) == 0
