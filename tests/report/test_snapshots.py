"""What people read of a run, as somebody has approved it: the page, `hba show`, and the
answer of `hba auto`.

`pytest tests/report/test_snapshots.py --renew-snapshots` writes the texts of today. All
numbers are planted, so that they are the same on every machine.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hba.cli import main
from report_pages import check_page
from tuned_schedules import staged

import hba
from hba.policy_choice.extent import Extent
from hba.policy_choice.phases import PHASES
from hba.policy_choice.record import AutoRecord

SNAPSHOTS = Path(__file__).parents[1] / "snapshots"
Compare = Callable[[str, str], None]
ROWS = {
    "photo": [10.0, 12.0, 11.0],
    "none": [20.0, 24.0, 19.0],
    "randaugment": [12.0, 11.0, 14.0],
}
"""Test errors of three seeds, in per cent."""
RECORD = AutoRecord(
    data="pets",
    n_images=400,
    counts={"cats": 200, "dogs": 200},
    settings={"data": "pets", "model": "wrn-10-1", "image_size": 16, "epochs": 20},
    has_given_epochs=False,
    of_test={},
    budget_seconds=300.0,
    n_jobs=1,
    extent=Extent(rows=3, seeds=1, test_seeds=3),
    training_seconds=4.0,
    plan=("At most 5 min", "400 images with 2 classes"),
    command="hba auto pets --budget 5m",
    spent=250.0,
    test_seeds=3,
    rows=(
        {
            "name": "photo",
            "losses": {"0": 0.25},
            "errors": {"0": 9.0},
            "dropped_after": None,
        },
        {
            "name": "none",
            "losses": {"0": 0.5},
            "errors": {"0": 19.0},
            "dropped_after": 1,
        },
    ),
    chosen="photo",
    image_ms=1.5,
    ended=tuple(phase.name for phase in PHASES),
)


@pytest.fixture
def compare(request: pytest.FixtureRequest) -> Compare:
    """Compares a text with the approved one of that name."""

    def compare_or_renew(name: str, text: str) -> None:
        file = SNAPSHOTS / f"{name}.txt"
        if request.config.getoption("--renew-snapshots"):
            file.write_text(text, encoding="utf-8")
        assert text == file.read_text(encoding="utf-8")

    return compare_or_renew


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder `run` of a run of hba auto that has ended."""
    monkeypatch.chdir(tmp_path)
    folder = Path("run")
    provenance: dict[str, Any] = {
        "algorithm": "lookahead",
        "class_names": ["cats", "dogs"],
        "dataset": "pets",
        "epochs_finished": 2,
        "settings": {"epochs": 2, "algorithm": "lookahead"},
        "train_images": 300,
        "val_images": 100,
        "val_error_percent": 12.5,
        "val_loss": 0.5,
    }
    staged(**provenance).save(folder / "search" / "policy.json")
    rows = [
        {
            "name": name,
            "definition": name,
            "seeds": [0, 1, 2],
            "test_error_percent": errors,
            "test_loss": {"nats": [None] * len(errors)},
            "confusion": [None] * len(errors),
            "wrong": [None] * len(errors),
        }
        for name, errors in ROWS.items()
    ]
    results = {
        "rows": rows,
        "settings": {"data": "pets", "epochs": 20, "model": "wrn-10-1"},
        "class_names": ["cats", "dogs"],
        "train_images": 400,
        "test_images": 100,
        "skipped_images": 0,
        "fingerprints": {},
        "device": "cpu",
        "device_name": "a processor",
        "n_threads": 1,
        "python": "3.11",
        "packages": {},
        "wall_seconds": 60.0,
    }
    (folder / "evaluation").mkdir()
    (folder / "evaluation" / "results.json").write_text(json.dumps(results), "utf-8")
    RECORD.save(folder)
    return folder


def lines_of(*words: str) -> str:
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    return "".join(f"{line.rstrip()}\n" for line in result.stdout.splitlines())


def test_the_page_of_a_run(run: Path, compare: Compare) -> None:
    page = check_page(hba.write_report(run).read_text("utf-8"))
    texts = (" ".join(text.split()) for text in page.texts)
    lines = "".join(f"{text}\n" for text in texts if text)
    compare("page", lines.replace(hba.__version__, "VERSION"))


def test_what_show_prints(
    run: Path, compare: Compare, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hba.cli.show.draw_schedule", lambda schedule, path: None)
    compare("show", lines_of("show", "run/search"))


def test_what_auto_answers(run: Path, compare: Compare) -> None:
    compare("auto", lines_of("auto", "--out", "run", "--resume"))
