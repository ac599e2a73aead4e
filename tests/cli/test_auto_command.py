"""hba auto as a command: what it prints, what it leaves, and how predict agrees with
its test.
"""

import json
from pathlib import Path

import pytest
from commands import SMALL, make_images, refusal_of, run, said

import hba

AUTO = (
    *SMALL,
    *("--model", "simple-cnn-4", "--budget", "4m", "--jobs", "1", "--seeds", "2"),
)


def test_it_prints_the_answer_leaves_its_network_and_resumes_to_the_same(
    tmp_path: Path,
) -> None:
    """On a folder of images with a broken file."""
    for number, (split, n_images) in enumerate({"train": 20, "test": 8}.items()):
        make_images(tmp_path / "animals" / split, n_images, seed=number)
    (tmp_path / "animals" / "train" / "cats" / "broken.png").write_text("nothing")
    out = tmp_path / "run"
    lines = said("auto", str(tmp_path / "animals"), "--out", str(out), *AUTO)
    record = json.loads((out / "auto.json").read_text())
    (answer,) = [line for line in lines if line.startswith("Use ")]
    assert str(tmp_path / "animals") in record["command"]
    for name in ("policy.json", "pipeline.py", "network.pt", "report.html"):
        assert (out / name).exists()
        assert any(str(out / name) in line for line in lines)
    assert "broken.png" in (out / "left_out.csv").read_text()

    # The network has the error of the test on the test images.
    results = json.loads((out / "evaluation" / "results.json").read_text())
    files = sorted((tmp_path / "animals" / "test").glob("*/*.png"))
    shown = json.loads(run("predict", str(out), *map(str, files), "--json").stdout)
    wrong = sum(
        image["class"] != Path(image["image"]).parent.name for image in shown["images"]
    )
    (row,) = (row for row in results["rows"] if row["name"] == record["chosen"])
    assert 100 * wrong / len(files) == pytest.approx(row["test_error_percent"][0])
    assert hba.load_network(out).info.policy == record["chosen"]

    # A finished run is resumed to the same answer, and not overwritten.
    assert answer in said("auto", "--out", str(out), "--resume")
    after = json.loads((out / "auto.json").read_text())
    assert {**after, "spent": 0, "notes": []} == {**record, "spent": 0, "notes": []}
    assert "--resume" in refusal_of(
        "auto", str(tmp_path / "animals"), "--out", str(out), *AUTO
    )
    assert "--resume needs --out" in refusal_of("auto", "--resume")
