"""The tables of prepared images and of what processes send."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from benchmark_modules import module
from test_benchmark_records import record_of

from hba.distributed.collectives import process_group

pytestmark = pytest.mark.usefixtures("benchmarks_can_be_imported")


def of(kind: str, number: int, **results: Any) -> Any:
    settings = {"images": 20_000, "image_size": 224, "batch_size": 100}
    return record_of(module("common.records").Run(kind, "jpegs", settings, number), **results)


def test_the_table_has_both_kinds() -> None:
    names = ("images_per_second", "first_quarter_megabytes", "last_quarter_megabytes", "seconds_to_resume")
    records = [
        of("images.hba", number, **dict.fromkeys(names, 10.0 + number), prepared_per_second=200.0) for number in (0, 2)
    ] + [of("images", 0, **dict.fromkeys(names, 1.0))]
    lines = module("prepared").table_of(records).splitlines()
    assert lines[2].startswith("| decoded in every pass | 1.0 | 1.0 |")
    assert lines[3].startswith("| prepared, mapped | 11.0 ± 1.4 |")
    assert lines[-1] == "Prepared at 200 images a second."


def test_jpegs_are_written_in_classes(tmp_path: Path) -> None:
    module("prepared").write_jpegs(tmp_path / "images", 12)
    files = sorted((tmp_path / "images").rglob("*.jpg"))
    assert [len(list(folder.iterdir())) for folder in sorted((tmp_path / "images").iterdir())] == [2, 2] + [1] * 8
    assert all(30_000 < file.stat().st_size < 200_000 for file in files)


@pytest.mark.parametrize("program", ["prepared", "messages"])
def test_the_pages_have_the_tables_of_what_is_kept(program: str) -> None:
    records, bench = module("common.records"), module(program)
    kept = list(records.store_of(records.RESULTS, bench.QUESTION).by_key().values())
    name = {"prepared": "datasets-and-presets", "messages": "scale"}[program]
    text = (records.DOCS / f"{name}.md").read_text(encoding="utf-8")
    assert module("common.pages").placed(text, bench.MARK, bench.table_of(kept)) == text


def test_messages_and_bytes_are_counted_and_nothing_is_left_behind(tmp_path: Path) -> None:
    before = dist.all_reduce
    store = f"file://{tmp_path / 'store'}"
    with process_group("gloo", init_method=store, rank=0, world_size=1), module("messages").counting() as sent:
        dist.all_reduce(torch.zeros(10))
        dist.all_gather([torch.empty(3, dtype=torch.float64)], torch.zeros(3, dtype=torch.float64))
    assert dict(sent) == {"messages": 2, "bytes": 40 + 24}
    assert dist.all_reduce is before


def test_lambda_steps_are_told_from_the_others() -> None:
    steps = module("messages").Steps(module("messages").Sent(), train_steps=2)
    for step in range(1, 7):
        steps.sent.update({"messages": 5 if step % 2 else 8, "bytes": 100 if step % 2 else 130})
        steps.step_done(step)
    expected = {"training_messages": 5, "training_bytes": 100, "lambda_messages": 3, "lambda_bytes": 30}
    assert steps.found() == expected
