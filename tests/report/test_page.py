"""report.html: it is well formed and whole by itself, and its numbers are those of the
run's files.
"""

import base64
import csv
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from report_pages import EVIL, TUNES, StrictPage, check_page
from search_problems import SMALL_SETTINGS, StopAfter, small_data
from torchvision.transforms.v2 import functional as TF
from tuned_schedules import staged

import hba
from hba.errors import HbaWarning, RunError
from hba.report.page import report_at_the_end
from hba.report.samples import SAMPLES_NAME, Samples
from hba.results.compare import SCHEDULES
from hba.results.evaluation import read_results
from hba.schedule.pictures import augmented_copies
from hba.schedule.summary import copies_of, reach


def page_in(folder: Path) -> StrictPage:
    return check_page((folder / "report.html").read_text(encoding="utf-8"))


def labels_of(page: StrictPage) -> str:
    return " | ".join(
        str(attributes.get("aria-label")) for attributes in page.attributes_of("svg")
    )


def test_the_ends_of_curves_are_those_of_the_files(searched: Path) -> None:
    labels = labels_of(page_in(searched))
    schedule = hba.load_policy(searched)
    with (searched / "metrics.csv").open(encoding="utf-8") as file:
        last = list(csv.DictReader(file))[-1]
    assert f"training {float(last['train_loss']):.3f} after epoch 5" in labels
    assert f"validation {float(last['val_error_percent']):.2f} after epoch 5" in labels
    for operation in schedule.space.operations:
        first, final = (
            copies_of(schedule, operation, "probability")[epoch].mean()
            for epoch in (0, -1)
        )
        ends = (
            f"{first:.2f}"
            if f"{first:.2f}" == f"{final:.2f}"
            else f"{first:.2f} → {final:.2f}"
        )
        assert f"{operation.name} over 5 epochs: probability {ends}" in labels


def test_the_images_are_those_of_apply(searched: Path) -> None:
    schedule = hba.load_policy(searched)
    samples = Samples.load(searched / SAMPLES_NAME)
    rows = augmented_copies(schedule, samples.images[:6], epoch=4, n_copies=1, seed=0)
    expected = [(copies[0][0] * 255).round().byte() for copies in rows]
    pictures = page_in(searched).pictures()[-6:]
    for picture, pixels in zip(pictures, expected, strict=True):
        assert torch.equal(TF.pil_to_tensor(picture), pixels)
    shares = reach(schedule, 4).shares
    alternatives = [
        str(attributes["alt"]).split(",")[0]
        for attributes in page_in(searched).attributes_of("img")
    ]
    shown = list(dict.fromkeys(name for name in alternatives if name in shares))
    assert shown == sorted(shown, key=lambda name: -shares[name])
    assert all((name in shown) == (share > 0.03) for name, share in shares.items())


def test_names_from_data_are_text_and_nothing_else(
    searched: Path, evaluated: Path
) -> None:
    for folder in (searched, evaluated):
        page = page_in(folder)
        alternatives = " ".join(
            str(attributes["alt"]) for attributes in page.attributes_of("img")
        )
        assert EVIL[0] in page.text
        assert EVIL[0] in alternatives
        assert "\\udcff" in alternatives
        assert "alert(1)" not in " ".join(name for name, _ in page.tags)


def test_a_search_has_its_facts_settings_and_commands(searched: Path) -> None:
    page = page_in(searched)
    settings = json.loads((searched / "config.json").read_text(encoding="utf-8"))
    for text in (
        "lookahead in 5 epochs",
        f"all {len(settings)} settings",
        "24 training, 16 validation",
    ):
        assert text in page.text


@pytest.mark.usefixtures("figures_are_drawn")
def test_the_same_files_give_the_same_page(tuned: Path) -> None:
    report = hba.write_report(tuned / "both")
    before = report.read_bytes()
    assert hba.write_report(str(tuned / "both")) == report
    assert report.read_bytes() == before


def test_an_evaluation_has_its_table_and_its_answer(evaluated: Path) -> None:
    page = page_in(evaluated)
    results = json.loads((evaluated / "results.json").read_text(encoding="utf-8"))
    answer = read_results(evaluated / "results.json").answer
    assert answer is not None
    sentence = answer.sentence.partition(": ")[2]
    assert page.text.index(sentence) < page.text.index(page.headings(2)[0]), (
        "the answer comes first"
    )
    table = page.table_with("test error, %")
    for shown, row in zip(table[1:], results["rows"], strict=True):
        assert shown[:2] == [row["name"], f"{row['mean']:.2f}"]
        assert shown[3].split() == [
            f"{error:.2f}" for error in row["test_error_percent"]
        ]
        minus = row["schedule_minus_row"]
        if minus and minus["interval"]:
            assert shown[4] == "{:+.2f} ({:+.2f} to {:+.2f})".format(
                minus["mean"], *minus["interval"]
            )
    assert "What the policy does" in page.headings(2), "what was evaluated is kept"


def test_both_in_one_folder_are_on_one_page(
    searched: Path, evaluated: Path, tmp_path: Path
) -> None:
    for folder in (searched, evaluated):
        for name in (
            "policy.json",
            "metrics.csv",
            "config.json",
            "results.json",
            SAMPLES_NAME,
        ):
            if (folder / name).exists():
                (tmp_path / name).write_bytes((folder / name).read_bytes())
    hba.write_report(tmp_path)
    headings = [
        page_in(folder).headings(2) for folder in (tmp_path, searched, evaluated)
    ]
    assert set(headings[0]) == {*headings[1], *headings[2]}


@pytest.mark.usefixtures("figures_are_drawn")
def test_regularizers_have_a_part_beside_operations_and_alone(tuned: Path) -> None:
    for name in TUNES:
        hba.write_report(tuned / name)
        page = page_in(tuned / name)
        schedule = hba.load_policy(tuned / name)
        values = dict(
            zip(schedule.space.names, schedule.values.T.tolist(), strict=True)
        )
        table = page.table_with("began at")
        assert [row[0] for row in table[1:]] == [
            regularizer.name for regularizer in schedule.space.regularizers
        ]
        for row in table[1:]:
            assert [float(cell) for cell in row[2:5]] == pytest.approx(
                values[row[0]], rel=5e-3, abs=1e-9
            )
            assert row[0] in labels_of(page) or row[0].split(".")[0] in labels_of(page)
        assert ("An image gets" in page.text) == (name == "both")
        assert all(len(table) >= 2 for table in page.tables), "no table is empty"


@pytest.mark.usefixtures("figures_are_drawn")
def test_stages_and_mixing_are_named(tmp_path: Path) -> None:
    staged().save(tmp_path / "policy.json")
    hba.write_report(tmp_path)
    page = page_in(tmp_path)
    assert all(
        words in page.text
        for words in ("symmetry", "crop", "walk", "mixing", "37.5 % of batches")
    )
    assert "CutMix over 2 epochs: probability 0.50, alpha 0.5 → 1" in labels_of(page)
    assert ["CutMix", "37.5 % of batches  (0.50, 1)"] in map(
        list, hba.compare(tmp_path).tables()[SCHEDULES].rows
    )


@pytest.mark.usefixtures("figures_are_drawn")
def test_stopped_and_short_searches_are_drawn_too(tmp_path: Path) -> None:
    settings: dict[str, Any] = {**SMALL_SETTINGS, "epochs": 4}
    hba.search(
        small_data(), out=tmp_path / "stopped", callback=StopAfter(7), **settings
    )
    assert "It stopped after 2 of 4 epochs." in page_in(tmp_path / "stopped").text
    hba.load_policy("digits").only(0).save(tmp_path / "one" / "policy.json")
    (tmp_path / "one" / "metrics.csv").write_text(
        "epoch,train_loss,val_loss\n", encoding="utf-8"
    )
    hba.write_report(tmp_path / "one")
    assert "Loss over epochs" not in labels_of(page_in(tmp_path / "one"))


def test_broken_files_are_named(tmp_path: Path) -> None:
    schedule = hba.load_policy("digits").only(0).text()
    for name, content in (
        ("metrics.csv", "epoch,train_loss\n1,many\n"),
        ("config.json", "{"),
        ("config.json", "[]"),
        ("results.json", "{}"),
        (SAMPLES_NAME, "no image"),
    ):
        for file in tmp_path.iterdir():
            file.unlink()
        (tmp_path / "policy.json").write_text(schedule, encoding="utf-8")
        (tmp_path / name).write_text(content, encoding="utf-8")
        with pytest.raises(RunError, match=name):
            hba.write_report(tmp_path)
    (tmp_path / SAMPLES_NAME).unlink()
    (tmp_path / "policy.json").unlink()
    with pytest.raises(RunError, match=r"neither policy\.json nor results\.json"):
        hba.write_report(tmp_path)


def test_any_error_of_a_report_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(data: object) -> dict[str, Samples]:
        raise ZeroDivisionError("division\nby zero")

    monkeypatch.setattr(Samples, "of", fail)
    hba.load_policy("digits").only(0).save(tmp_path / "policy.json")
    with pytest.warns(HbaWarning, match=r"^no report was written: division; "):
        assert report_at_the_end(tmp_path, small_data()) is None


def results_of(
    folder: Path, n_classes: int, confusion: list[dict[int, dict[int, int]]]
) -> StrictPage:
    """The page of an evaluation of 2 seeds in which `none` is right throughout, and
    `mine` as planted.
    """
    right = {label: {label: 10} for label in range(n_classes)}
    n_images = 10 * n_classes
    no_mistakes = base64.b64encode(bytes(math.ceil(n_images / 8))).decode()
    rows = [
        {"name": name, "definition": "", "seeds": [0, 1], "test_error_percent": errors,
         "mean": 1.5, "std": 0.7, "confusion": counts, "wrong": [no_mistakes] * 2,
         "test_loss": {"nats": [None, None]}}
        for name, counts, errors in (
            ("mine", confusion, [1.0, 2.0]), ("final", confusion, [1.0, 2.0]),
            ("none", [right, None], [0.5, 0.6]),
        )
    ]  # fmt: skip
    content = {
        "settings": {"epochs": 1, "model": "m", "data": "d"}, "rows": rows,
        "class_names": [f"<i>{label}" for label in range(n_classes)],
        "train_images": 1, "test_images": n_images, "skipped_images": 0,
        "fingerprints": {}, "device": "cpu", "device_name": "", "n_threads": 1,
        "python": "3", "packages": {},
    }  # fmt: skip
    (folder / "results.json").write_text(json.dumps(content), encoding="utf-8")
    hba.write_report(folder)
    return page_in(folder)


def test_confusions_are_the_shares_over_all_seeds(tmp_path: Path) -> None:
    planted = [
        {0: {0: 7, 1: 3}, 1: {1: 10}, 2: {0: 1, 2: 9}},
        {0: {0: 6, 1: 4}, 1: {1: 10}, 2: {0: 2, 2: 8}},
    ]
    page = results_of(tmp_path, 3, planted)
    # As in the table of all numbers, the difference is the first row minus the other
    # one.
    assert re.search(r"none mine is 0\.9\d? points higher", page.text)
    assert page.table_with("taken for") == [
        ["class", "taken for", "mine", "none"],
        ["<i>0", "<i>1", "35.0 %", "0.0 %"],
        ["<i>2", "<i>0", "15.0 %", "0.0 %"],
    ]
    assert page.table_with("true class")[1:] == [
        ["<i>0", "<i>1", "<i>2"],
        ["<i>0", "20", "65", "35", ""],
        ["<i>1", "20", "", "100", ""],
        ["<i>2", "20", "15", "", "85"],
    ]
    assert not [table for table in page.tables if "balanced error" in table[0]], (
        "classes are even"
    )


def test_many_classes_are_a_table_of_pairs_and_uneven_ones_have_a_balanced_error(
    tmp_path: Path,
) -> None:
    planted = [{label: {0: 1, label: 1 + 10 * (label == 3)} for label in range(13)}]
    page = results_of(tmp_path, 13, [*planted, None])  # type: ignore[list-item]
    assert not [table for table in page.tables if "true class" in table[0]]
    assert ["<i>1", "<i>0", "50.0 %", "0.0 %"] in page.table_with("taken for")
    (balanced,) = [table for table in page.tables if "balanced error" in table[0]]
    assert [row[-1] for row in balanced[1:]] == ["42.9 %", "0.0 %", "42.9 %"]
