"""Commands on searches and schedules that tune regularizers, beside operations and alone."""

import json
from pathlib import Path

import pytest
from commands import SMALL, make_images, refusal_of, run
from test_commands import said
from test_show_and_apply import png_size, rows_of
from tuned_schedules import alone, both, of_affine

import hba

IN_NATURAL_UNITS = [
    ["dropout.fc1", "0.05", "0.05", "0.1", "0.31", ""],
    ["weight_decay", "0.0005", "0.0005", "0.001", "0.01", ""],
    ["cutout.length", "4", "4", "5", "6.25", "pixels"],
    ["cutout.holes", "1", "1", "1.5", "2", ""],
]


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_show_prints_a_table_of_regularizers_below_that_of_operations() -> None:
    both().save("a.json")
    lines = said(run("show", "a.json"))
    assert lines[0].strip() == "a.json: 3 epochs, strongest last epoch first"
    rows = rows_of(lines)
    assert [row[0] for row in rows[:2]] == ["Rotate", "Invert"]
    assert rows[2:] == IN_NATURAL_UNITS
    assert "Rounded to whole numbers where they act: cutout.length, cutout.holes." in lines
    assert any(line.startswith("An image gets at most 1 operation") for line in lines)
    assert "  dropout.fc1    0.05 -> 0.31" in lines
    assert png_size(Path("a.png"))[0] > 800


def test_show_of_regularizers_alone_says_nothing_of_operations() -> None:
    alone().save("a.json")
    result = run("show", "a.json")
    lines = said(result)
    assert lines[0].strip() == "a.json: 3 epochs, regularizers"
    assert rows_of(lines) == IN_NATURAL_UNITS
    assert not [word for word in ("operation", "prob.", "spread", "image gets") if word in result.stdout]
    assert "  weight_decay   0.0005 -> 0.01" in lines
    assert png_size(Path("a.png"))[0] > 800


@pytest.mark.parametrize("has_operations", [True, False])
def test_show_as_json_has_ranges_and_values_of_regularizers(has_operations: bool) -> None:
    (both() if has_operations else alone()).save("a.json")
    found = json.loads(run("show", "a.json", "--json").stdout)
    assert [one["name"] for one in found["operations"]] == (["Rotate", "Invert"] if has_operations else [])
    dropout, decay, length, holes = found["regularizers"]
    assert dropout == {
        "name": "dropout.fc1", "low": 0.0, "high": 0.95, "initial": 0.05, "scale": "linear", "whole": False,
        "unit": None, "began": 0.05, "value": [0.05, 0.1, 0.31],
    }  # fmt: skip
    assert (decay["scale"], decay["value"]) == ("log", [5e-4, 1e-3, 1e-2])
    assert (length["unit"], length["whole"], holes["value"]) == ("pixels", True, [1, 1.5, 2])


def test_apply_names_what_no_picture_shows() -> None:
    both().save("a.json")
    make_images(Path("images"), 1)
    lines = said(run("apply", "a.json", "images/cats/0.png", "--out", "b.png"))
    assert lines[0].startswith("An image gets at most 1 operation")
    assert lines[2] == "Not shown, because they act elsewhere: dropout.fc1, weight_decay, cutout.length, cutout.holes"
    assert png_size(Path("b.png"))


def test_apply_shows_regularizers_that_act_on_pixels() -> None:
    of_affine(degrees=30.0).save("a.json")
    make_images(Path("images"), 1)
    assert said(run("apply", "a.json", "images/cats/0.png", "--out", "b.png")) == ["Picture: b.png"]
    assert png_size(Path("b.png"))


def test_apply_of_nothing_that_a_picture_shows_is_one_line() -> None:
    alone().save("a.json")
    make_images(Path("images"), 1)
    assert refusal_of("apply", "a.json", "images/cats/0.png", "--out", "b.png") == (
        "the schedule has nothing that changes pixels, only dropout.fc1, weight_decay, cutout.length and 1 more; "
        "hba show has their values"
    )
    assert not Path("b.png").exists()


@pytest.mark.parametrize("to", ["torchvision", "timm", "kornia", "albumentations"])
def test_export_says_what_it_leaves_out(to: str) -> None:
    both().save("a.json")
    lines = said(
        run("export", "a.json", "--to", to, "--average", "--out", "policy.py" if to != "albumentations" else "b")
    )
    assert lines[1] == (
        "Left out: dropout.fc1, weight_decay, cutout.length, cutout.holes; schedule.regularization(epoch) has their "
        "values"
    )
    alone().save("b.json")
    assert refusal_of("export", "b.json", "--to", to, "--out", "policy2.py") == (
        f"{to} takes operations, and the schedule has regularizers alone: export it to json, or take their values from "
        "schedule.regularization(epoch)"
    )


def test_export_to_json_leaves_nothing_out() -> None:
    for schedule in (both(), alone()):
        schedule.save("a.json")
        lines = said(run("export", "a.json", "--to", "json", "--out", "b.json"))
        assert not [line for line in lines if line.startswith("Left out")]
        assert hba.load_policy("b.json").space == schedule.space


@pytest.fixture
def images() -> Path:
    return make_images(Path("images"))


@pytest.mark.parametrize(
    ("tune", "planned"),
    [
        ("weight-decay,label-smoothing", "tuned: weight_decay 0.0005, label_smoothing 0.05"),
        ("augmentation,cutout", "tuned: 15 operations; cutout.length 1, cutout.holes 1"),
    ],
)
def test_a_search_says_what_is_tuned_and_what_came_of_it(tune: str, planned: str, images: Path) -> None:
    lines = said(run("search", str(images), "--tune", tune, "--out", "run", "--weight-decay", "0.0005", *SMALL))
    assert planned in lines
    start = next(number for number, line in enumerate(lines) if line.lower().endswith("regularizers:"))
    schedule = hba.load_policy("run")
    for line, one in zip(lines[start + 1 :], schedule.space.regularizers, strict=False):
        name, change = line.split(maxsplit=1)
        last = schedule.values[-1][schedule.space.names.index(one.name)]
        assert name == one.name
        assert change.startswith(f"{one.initial:.3g} -> {last:.3g}")
    assert any(line.startswith("An image gets at most") for line in lines) == ("augmentation" in tune)
    epochs = [line for line in lines if line.startswith("epoch ")]
    shown = [f"{one.name} " for one in schedule.space.regularizers][:2]
    assert all(name in line for line in epochs for name in shown)
    assert "Report: " in "\n".join(lines)
