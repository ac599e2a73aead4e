"""Benchmarks: pages are what the stored records make, and a run that is stored is not run again."""

import shutil
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner
from documents import ROOT, text_of

pytestmark = pytest.mark.usefixtures("benchmarks_can_be_imported")
DOCS = ROOT / "docs"
PAGES = {
    "search_quality": "search-quality",
    "reproduce": "reproduction",
    "speed": "speed",
    "gpu": "speed",
    "joint": "regularization",
}
"""The pages that the command `page` of each script writes, or whose table it fills in."""


def output_of(script: str, *arguments: str) -> str:
    result = CliRunner().invoke(import_module(script).main, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return str(result.output)


def test_pages_are_what_the_records_make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = {}
    for script, page in PAGES.items():
        folder = tmp_path / script
        folder.mkdir()
        shutil.copy(DOCS / f"{page}.md", folder)
        monkeypatch.setattr(import_module(script), "DOCS", folder)
        output_of(script, "page")
        written[script] = (folder / f"{page}.md").read_text(encoding="utf-8")
    differ = [script for script, page in PAGES.items() if written[script] != (DOCS / f"{page}.md").read_text("utf-8")]
    assert differ == []


def test_the_readme_has_the_table_of_the_records() -> None:
    table = text_of("README.md").split("<!-- results -->")[1].split("<!-- /results -->")[0]
    assert table.strip() == output_of("search_quality", "readme").strip()


def test_records_of_the_repository_belong_to_the_settings_of_today() -> None:
    """Otherwise the commands that pages show would run everything again."""
    search_quality = output_of("search_quality", "verdict", "--dry-run")
    joint = output_of("joint", "verdict", "--bed", "digits", "--rows", "joint,augmentation,drawn", "--dry-run")
    assert search_quality.startswith("0 of 90 runs to do")
    assert joint.startswith("0 of 24 runs to do")
