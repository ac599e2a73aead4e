"""hba prepare, and searches on what it has made."""

import json
from pathlib import Path

import pytest
from commands import make_images, refusal_of, run


def test_images_are_prepared_searched_and_evaluated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_images(tmp_path / "animals")
    (tmp_path / "animals" / "cats" / "notes.txt").write_text("no image")
    prepared = run("prepare", "animals", "--out", "animals.hba", "--image-size", "8")
    assert prepared.exit_code == 0, prepared.output
    assert prepared.stdout.splitlines() == [
        "Prepared: 24 images in train; 2 classes, 8 pixels a side, 0.0 MB",
        f"Left out: 1 file, the first is {tmp_path / 'animals' / 'cats' / 'notes.txt'}",
        "Next:",
        "  hba search animals.hba",
    ]
    small = ["--epochs", "2", "--batch-size", "8", "--model", "wrn-10-1", "--device", "cpu"]
    searched = run("search", "animals.hba", *small, "--stream", "--workers", "1")
    assert searched.exit_code == 0, searched.output
    assert f"images were prepared from {tmp_path / 'animals'}" in searched.stdout
    config = json.loads((tmp_path / "runs" / "animals-1" / "config.json").read_text())
    assert (config["data"], config["image_size"]) == (str(tmp_path / "animals.hba"), 8)
    # On the data themselves: the same test images, of which the search has seen none.
    for data in ("animals.hba", "animals"):
        evaluated = run("evaluate", "runs/animals-1", data, "--seeds", "1", "--jobs", "1")
        assert evaluated.exit_code == 0, evaluated.output
    resumed = run("search", "--out", "runs/animals-1", "--resume", "--epochs", "3")
    assert resumed.exit_code == 0, resumed.output


def test_mistakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    make_images(tmp_path / "animals")
    (tmp_path / "file").touch()
    assert refusal_of("prepare", "animals", "--out", "file") == "--out must be a folder, but file is a file"
    assert "add --resume" not in refusal_of("prepare", "animals", "--out", "animals")
    assert refusal_of("prepare", "digits", "--out", "a", "--label-column", "b").startswith("--label-column has no")
    assert not (tmp_path / "a").exists()
    assert run("prepare", "animals", "--out", "animals.hba", "--image-size", "8").exit_code == 0
    assert "give the image size" in refusal_of("search", "animals.hba", "--image-size", "16")
    for command in (["apply", "digits", "animals.hba", "--out", "a.png"], ["prepare", "animals.hba", "--out", "b"]):
        refusal_of(*command)
