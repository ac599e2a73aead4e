"""Benchmarks: pages are what the stored records make, and a run that is stored is not run again."""

import shutil
from pathlib import Path

import pytest
from benchmark_modules import BENCHMARKS, module
from click.testing import CliRunner

pytestmark = pytest.mark.usefixtures("benchmarks_can_be_imported")
DOCS = BENCHMARKS.parent / "docs"
PAGES = {
    "search_quality": "search-quality",
    "reproduce": "reproduction",
    "speed": "speed",
    "gpu": "speed",
    "joint": "regularization",
}
"""The pages that the command `page` of each script writes, or whose table it fills in."""


def output_of(script: str, *arguments: str) -> str:
    result = CliRunner().invoke(module(script).main, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return str(result.output)


def test_every_script_has_help() -> None:
    scripts = {path.stem for path in BENCHMARKS.glob("*.py")}
    assert scripts == set(PAGES)
    for script in scripts:
        assert "Usage" in output_of(script, "--help")


def test_pages_are_what_the_records_make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = {}
    for script, page in PAGES.items():
        folder = tmp_path / script
        folder.mkdir()
        shutil.copy(DOCS / f"{page}.md", folder)
        monkeypatch.setattr(module(script), "DOCS", folder)
        output_of(script, "page")
        written[script] = (folder / f"{page}.md").read_text(encoding="utf-8")
    differ = [script for script, page in PAGES.items() if written[script] != (DOCS / f"{page}.md").read_text("utf-8")]
    assert differ == []


def test_the_readme_has_the_table_of_the_records() -> None:
    text = (BENCHMARKS.parent / "README.md").read_text(encoding="utf-8")
    table = text.split("<!-- results -->")[1].split("<!-- /results -->")[0]
    assert table.strip() == output_of("search_quality", "readme").strip()


def test_a_sentence_that_the_records_contradict_is_refused() -> None:
    pages = module("common.pages")
    assert pages.only_while(True, "It is so.") == pages.only_while(None, "It is so.") == "It is so."
    with pytest.raises(pages.ClaimError, match="It is so"):
        pages.only_while(False, "It is so.")


def test_a_stored_run_is_not_run_again(tmp_path: Path) -> None:
    records = module("common.records")
    given = ["planted", "--problems", "rotated", "--epochs", "1", "--jobs", "1", "--results", str(tmp_path)]
    given += ["--work", str(tmp_path), "--candidates", module("quality.candidates").DEFAULT]
    assert "1 of 1 runs to do" in output_of("search_quality", *given, "--seeds", "1")
    before = (tmp_path / "planted.jsonl").read_bytes()
    again = output_of("search_quality", *given, "--seeds", "2")
    assert "1 of 2 runs to do" in again
    assert (tmp_path / "planted.jsonl").read_bytes().startswith(before)
    kept = records.store_of(tmp_path, "planted").by_key().values()
    assert sorted(one.run.seed for one in kept) == [0, 1]
    assert len({one.run.digest for one in kept}) == 1
    # A record that is written and read again has the same key.
    for one in kept:
        assert records.Record.from_line(one.as_line()) == one


def test_records_of_the_repository_belong_to_the_settings_of_today() -> None:
    """Otherwise the commands that pages show would run everything again."""
    search_quality = output_of("search_quality", "verdict", "--dry-run")
    joint = output_of("joint", "verdict", "--bed", "digits", "--rows", "joint,augmentation,drawn", "--dry-run")
    assert search_quality.startswith("0 of 90 runs to do")
    assert joint.startswith("0 of 24 runs to do")
