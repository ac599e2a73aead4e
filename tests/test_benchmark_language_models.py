"""Language models in the benchmarks: their text, what is run, and the table."""

import math
import tomllib
from pathlib import Path
from typing import Any

import pytest
from benchmark_modules import BENCHMARKS, module

from hba.errors import SettingsError
from hba.policy_evaluation.paired import PairedDifference

pytestmark = pytest.mark.usefixtures("benchmarks_can_be_imported")
TINY: dict[str, Any] = {
    "first_seed": 3,
    "seeds": 1,
    "rates": (0.1, 0.5),
    "words": {"train": 300, "valid": 150, "test": 150},
    "settings": {
        "vocabulary_size": 12,
        "width": 4,
        "layers": 1,
        "sequence_length": 5,
        "batch_size": 4,
        "epochs": 2,
    },
    "learning_rates": {"training": 2.0, "stn": 1.0, "delta-stn": 3.0},
}


def write_source(folder: Path) -> Path:
    folder.mkdir()
    for part, n_lines in (("valid", 100), ("test", 120)):
        lines = [" ".join(f"{part}{(7 * line + word) % 9}" for word in range(4)) for line in range(n_lines)]
        (folder / f"{part}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def tasks_in(tmp_path: Path) -> list[Any]:
    tasks, texts = module("language_models.tasks"), module("language_models.texts")
    plan = tasks.Plan.make(TINY)
    text = texts.write_parts(write_source(tmp_path / "source"), plan.words, tmp_path / "text")
    found: list[Any] = tasks.tasks_of(plan, text, "cpu", tmp_path / "work")
    return found


def test_parts_of_the_text_do_not_overlap(tmp_path: Path) -> None:
    texts = module("language_models.texts")
    source = write_source(tmp_path / "source")
    folder = texts.write_parts(source, TINY["words"], tmp_path / "text")
    lines = {part: (folder / f"{part}.txt").read_text(encoding="utf-8").splitlines() for part in TINY["words"]}
    # Four words and the end of the line are five.
    assert {part: 5 * len(found) for part, found in lines.items()} == TINY["words"]
    of_test = (source / "test.txt").read_text(encoding="utf-8").splitlines()
    assert lines["valid"] + lines["test"] == of_test[:60]
    assert lines["train"] == (source / "valid.txt").read_text(encoding="utf-8").splitlines()[:60]


def test_where_the_text_is_must_be_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HBA_DATA", raising=False)
    with pytest.raises(SettingsError, match="--data must name the folder"):
        module("language_models.texts").source(None)


def test_all_rows_are_run_and_kept_and_stand_in_the_table(tmp_path: Path) -> None:
    records, running = module("common.records"), module("common.running")
    store = records.store_of(tmp_path / "results", "language-model")
    tasks = tasks_in(tmp_path)
    found = running.carry_out(tasks, store, "cpu", 1, False)
    assert len({task.run.key for task in tasks}) == len(found) == 2 * 3 + 2
    assert {one.run.seed for one in found} == {3}
    by_name = {one.run.name: one for one in found}
    # A replay learns at the rate of trainings, and with the schedule of its search.
    assert by_name["delta-stn"].run.settings["learning_rate"] == 3.0
    assert by_name["delta-stn-replay"].run.settings["learning_rate"] == 2.0
    assert by_name["delta-stn-replay"].run.further["search"] == by_name["delta-stn"].run.digest
    table = module("language_models.page").table_of(found)
    assert table.count("\n") == 1 + len(by_name)
    fixed = [one.results for one in found if one.run.name == "fixed"]
    best = min(fixed, key=lambda losses: losses["val_loss"])
    assert f"| {math.exp(best['test_loss']):.1f} |" in table.splitlines()[-1]


def test_the_table_in_the_documentation_is_that_of_the_records() -> None:
    records, page = module("common.records"), module("language_models.page")
    text = (records.DOCS / "language-models.md").read_text(encoding="utf-8")
    kept = list(records.store_of(records.RESULTS, "language-model").by_key().values())
    assert module("common.pages").placed(text, page.MARK, page.table_of(kept)) == text


def test_the_records_are_of_the_plan() -> None:
    records, tasks = module("common.records"), module("language_models.tasks")
    plan = tasks.Plan.make(tomllib.loads((BENCHMARKS / "language_models" / "plan.toml").read_text(encoding="utf-8")))
    planned = {task.run.key for task in tasks.tasks_of(plan, Path("TEXT"), "cpu", Path("runs"))}
    assert set(records.store_of(records.RESULTS, "language-model").by_key()) <= planned


def test_what_the_page_says_of_the_table_is_what_the_records_show() -> None:
    records, page = module("common.records"), module("language_models.page")
    found = page.losses_of(list(records.store_of(records.RESULTS, "language-model").by_key().values()))

    def interval(row: str) -> tuple[float, float]:
        own, others = ({seed: one["test_loss"] for seed, one in found[name].items()} for name in (row, "fixed"))
        less = PairedDifference.of(own, others)
        assert less is not None
        assert less.interval is not None
        return less.interval

    for row in ("stn-replay", "stn-final"):
        low, high = interval(row)
        assert low < 0 < high
    for row in ("stn", "delta-stn-replay", "delta-stn-final"):
        assert interval(row)[0] > 0
    for name in ("stn", "delta-stn"):
        replayed = found[f"{name}-replay"]
        assert len(replayed) == 3
        assert all(found[name][seed]["test_loss"] > one["test_loss"] for seed, one in replayed.items())
