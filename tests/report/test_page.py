"""report.html: it is well formed and whole by itself, and its numbers are those of the run's files."""

import csv
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from report_pages import StrictPage, check_page
from search_problems import SMALL_SETTINGS, StopAfter, small_data, small_images
from small_trainings import tiny_data
from torchvision.transforms.v2 import functional as TF

import hba
from hba.data import EvaluationData, SearchData
from hba.errors import RunError
from hba.report.samples import SAMPLES_NAME, Samples
from hba.schedule.pictures import augmented_copies
from hba.schedule.summary import applied_per_image, numbers_applied

EVIL = ("<script>alert(1)</script>", "\"><img src=x onerror='alert(2)'> & \udcff")
GOLDEN_RUN = Path(__file__).parents[1] / "golden" / "run-0.1.0"


def page_in(folder: Path) -> StrictPage:
    return check_page((folder / "report.html").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A search on classes whose names try to get out of their place."""
    folder = tmp_path_factory.mktemp("search")
    data = SearchData("<b>data</b>", EVIL, small_images(24, seed=0), small_images(16, seed=1))
    settings: dict[str, Any] = {**SMALL_SETTINGS, "epochs": 5, "validate_every": 2}
    result = hba.search(data, out=folder, **settings)
    assert result.report == folder / "report.html"
    return folder


@pytest.fixture(scope="module")
def evaluated(tmp_path_factory: pytest.TempPathFactory, searched: Path) -> Path:
    folder = tmp_path_factory.mktemp("evaluation")
    tiny = tiny_data()
    data = EvaluationData("tiny", EVIL, tiny.train, tiny.test)
    settings = {"model": "wrn-10-1", "epochs": 1, "batch_size": 20, "device": "cpu", "seeds": 2}
    result = hba.evaluate(searched, data, against=("none", "random"), out=folder, **settings)  # type: ignore[arg-type]
    assert result.report == folder / "report.html"
    return folder


def test_the_losses_are_those_of_the_metrics(searched: Path) -> None:
    with (searched / "metrics.csv").open(encoding="utf-8") as file:
        rows = {row["epoch"]: row for row in csv.DictReader(file)}
    page = page_in(searched)
    told = [table for table in page.tables if table[0] == ["epoch", "training", "validation"]]
    assert len(told) == 2
    for table, ending in zip(told, ("loss", "error_percent"), strict=True):
        assert [row[0] for row in table[1:]] == ["1", "2", "4", "5"], "those that were validated"
        for epoch, training, validation in table[1:]:
            assert float(training) == pytest.approx(float(rows[epoch][f"train_{ending}"]), rel=1e-5)
            assert float(validation) == pytest.approx(float(rows[epoch][f"val_{ending}"]), rel=1e-5)


def test_the_numbers_of_the_curves_are_those_of_the_schedule(searched: Path) -> None:
    content = json.loads((searched / "policy.json").read_text(encoding="utf-8"))
    values = dict(zip(content["hyperparameters"], np.array(content["values"]).T, strict=True))
    table = page_in(searched).table_with("quantity")
    assert table[0] == ["operation", "quantity", *(f"epoch {epoch}" for epoch in range(1, 6))]
    found = {}
    for operation, quantity, *numbers in table[1:]:
        kind, copy = re.fullmatch(r"(probability|magnitude).*, copy (\d)", quantity).groups()  # type: ignore[union-attr]
        found[f"{operation}.{copy}.{kind}"] = [float(number) for number in numbers]
    policy = {name: rows for name, rows in values.items() if not name.startswith("count.")}
    assert found.keys() == policy.keys()
    for name, rows in policy.items():
        assert found[name] == pytest.approx(rows, rel=1e-5), name


def test_the_shares_are_those_of_all_walks(searched: Path) -> None:
    page, schedule = page_in(searched), hba.load_policy(searched)
    epochs = [f"epoch {epoch}" for epoch in range(1, 6)]
    operations, numbers = (table for table in page.tables if table[0] == ["", *epochs])
    for column, epoch in enumerate(range(5), start=1):
        applied = applied_per_image(schedule, epoch)
        total = sum(applied.values())
        told = {row[0]: row[column] for row in operations[1:]}
        assert told == {name: f"{100 * count / total:.1f} %" for name, count in applied.items()}
        shares = [f"{100 * share:.1f} %" for share in numbers_applied(schedule, epoch)]
        assert [row[column] for row in numbers[1:]] == shares


def test_the_pictures_are_those_of_apply(searched: Path) -> None:
    page, schedule = page_in(searched), hba.load_policy(searched)
    samples = Samples.load(searched / SAMPLES_NAME)
    expected = list(samples.images)
    for epoch in (0, 2, 4):
        rows = augmented_copies(schedule, samples.images, epoch=epoch, n_copies=3, seed=0)
        expected += [(copy.image * 255).round().byte() for row in rows for copy in row]
    found = [TF.pil_to_tensor(picture) for picture in page.pictures()]
    assert len(found) == len(expected) == 4 + 3 * 4 * 3
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


def test_names_from_data_are_text_and_nothing_else(searched: Path, evaluated: Path) -> None:
    for folder in (searched, evaluated):
        page = page_in(folder)
        alternatives = " ".join(str(attributes["alt"]) for attributes in page.attributes_of("img"))
        assert EVIL[0] in page.text
        assert f"{EVIL[0]}, as it is" in alternatives
        assert "\\udcff, as it is" in alternatives
        assert "alert(1)" not in " ".join(name for name, _ in page.tags)
    assert "Augmentation schedule for b>" in page_in(searched).text


def test_a_search_tells_what_show_says_of_it_and_its_settings(searched: Path) -> None:
    page, settings = page_in(searched), json.loads((searched / "config.json").read_text(encoding="utf-8"))
    assert "Found by lookahead in 5 epochs" in page.text
    assert "It is not that of a training with the schedule." in page.text
    assert f"All {len(settings)} settings" in page.text
    assert "No command does it again: it was begun from Python" in page.text
    assert "24 training, 16 validation" in page.text
    assert re.search(r"versions hba-augment \S+, torch ", page.text)


def test_an_evaluation_tells_its_table_and_its_verdict(evaluated: Path) -> None:
    page, results = page_in(evaluated), json.loads((evaluated / "results.json").read_text(encoding="utf-8"))
    assert results["verdict"].removeprefix("Verdict: ")[1:].split(". ")[0] in page.text
    table = page.table_with("each seed")
    assert [row[0] for row in table[1:]] == [row["name"] for row in results["rows"]]
    for told, row in zip(table[1:], results["rows"], strict=True):
        assert told[1] == f"{row['mean']:.2f} %"
        assert told[4].split() == [f"{error:.2f}" for error in row["test_error_percent"]]
        minus = row["schedule_minus_row"]
        assert told[5].startswith(f"{minus['mean']:+.2f}" if minus else "")
        if minus and minus["interval"]:
            assert told[5].endswith("({:+.2f} to {:+.2f})".format(*minus["interval"]))
    assert results["wall_seconds"] > 0
    assert "Each operation over the epochs." in page.text, "what was evaluated is kept"


def test_both_in_one_folder_are_told_on_one_page(searched: Path, evaluated: Path, tmp_path: Path) -> None:
    for folder in (searched, evaluated):
        for name in ("policy.json", "metrics.csv", "config.json", "results.json", SAMPLES_NAME):
            if (folder / name).exists():
                (tmp_path / name).write_bytes((folder / name).read_bytes())
    hba.write_report(tmp_path)
    page = page_in(tmp_path)
    assert [heading for heading in ("The comparison", "What the schedule does", "The search") if heading in page.text]
    assert len(page.attributes_of("h2")) == 7


def test_the_same_files_give_the_same_page(searched: Path) -> None:
    before = (searched / "report.html").read_bytes()
    assert hba.write_report(str(searched)) == searched / "report.html"
    assert (searched / "report.html").read_bytes() == before


def test_a_run_of_version_0_1_0_has_a_report_without_what_it_did_not_keep(tmp_path: Path) -> None:
    for file in GOLDEN_RUN.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    hba.write_report(tmp_path)
    page = page_in(tmp_path)
    assert "Each operation over the epochs." in page.text
    assert page.attributes_of("img") == []


def test_a_stopped_search_has_one_too(tmp_path: Path) -> None:
    settings: dict[str, Any] = {**SMALL_SETTINGS, "epochs": 4}
    result = hba.search(small_data(), out=tmp_path, callback=StopAfter(7), **settings)
    assert result.report == tmp_path / "report.html"
    assert "It stopped after 2 of 4 epochs." in page_in(tmp_path).text


def test_one_epoch_and_no_validation_are_drawn_too(tmp_path: Path) -> None:
    hba.search(small_data(), out=tmp_path, **{**SMALL_SETTINGS, "epochs": 1})  # type: ignore[arg-type]
    assert "stays at" in " ".join(str(one.get("aria-label")) for one in page_in(tmp_path).attributes_of("svg"))
    (tmp_path / "metrics.csv").write_text("epoch,train_loss,val_loss\n", encoding="utf-8")
    hba.write_report(tmp_path)
    assert "How the search went" not in page_in(tmp_path).text


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("metrics.csv", "epoch,train_loss\n1,many\n", "metrics.csv cannot be read as numbers"),
        ("metrics.csv", "epoch,train_loss\nnan,1\n", "an epoch must be a whole number from 1 on, got nan"),
        ("metrics.csv", "epoch,train_loss\ninf,1\n", "an epoch must be a whole number from 1 on, got inf"),
        ("config.json", "{", "config.json cannot be read"),
        ("config.json", "[]", "config.json must hold settings by name"),
        ("results.json", "{}", "results.json is not what an evaluation writes"),
    ],
)
def test_a_broken_file_is_named(name: str, content: str, said: str, searched: Path, tmp_path: Path) -> None:
    (tmp_path / "policy.json").write_bytes((searched / "policy.json").read_bytes())
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(RunError, match=re.escape(said)):
        hba.write_report(tmp_path)


def test_a_folder_without_a_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"must be the folder of a search or an evaluation, but it has neither"):
        hba.write_report(tmp_path)
