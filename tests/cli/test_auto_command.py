"""hba auto as a command: what it prints, what it leaves, and how predict agrees with its test."""

import json
from pathlib import Path

import pytest
from commands import SMALL, make_images, refusal_of, run, said

import hba

AUTO = (*SMALL, "--budget", "10m", "--jobs", "1", "--seeds", "2")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of images with a broken file, and the run of hba auto on it."""
    folder = tmp_path_factory.mktemp("auto")
    for number, (split, n) in enumerate({"train": 20, "test": 8}.items()):
        make_images(folder / "animals" / split, n, seed=number)
    (folder / "animals" / "train" / "cats" / "broken.png").write_text("nothing")
    lines = said("auto", str(folder / "animals"), "--out", str(folder / "run"), *AUTO)
    (folder / "lines.json").write_text(json.dumps(lines))
    return folder


def test_it_prints_the_answer_leaves_its_network_and_resumes_to_the_same(place: Path) -> None:
    lines, record = (
        json.loads((place / "lines.json").read_text()),
        json.loads((place / "run" / "auto.json").read_text()),
    )
    assert record["answer"] in lines
    assert str(place / "animals") in record["command"]
    for name in ("policy.json", "pipeline.py", "network.pt", "report.html"):
        assert (place / "run" / name).exists()
        assert any(str(place / "run" / name) in line for line in lines)
    assert "broken.png" in (place / "run" / "left_out.csv").read_text()

    # The network has the error of the test on the test images.
    network, record = hba.load_network(place / "run"), json.loads((place / "run" / "auto.json").read_text())
    results = json.loads((place / "run" / "evaluation" / "results.json").read_text())
    files = sorted((place / "animals" / "test").glob("*/*.png"))
    shown = json.loads(run("predict", str(place / "run"), *map(str, files), "--json").stdout)
    wrong = sum(one["class"] != Path(one["image"]).parent.name for one in shown["images"])
    (row,) = (row for row in results["rows"] if row["name"] == record["chosen"])
    assert 100 * wrong / len(files) == pytest.approx(row["test_error_percent"][0])
    assert network.info.policy == record["chosen"]

    # A finished run is resumed to the same answer, and not overwritten.
    before = json.loads((place / "run" / "auto.json").read_text())
    said("auto", "--out", str(place / "run"), "--resume")
    after = json.loads((place / "run" / "auto.json").read_text())
    assert {**after, "spent": 0, "notes": []} == {**before, "spent": 0, "notes": []}
    assert "--resume" in refusal_of("auto", str(place / "animals"), "--out", str(place / "run"), *AUTO)
    assert "--resume needs --out" in refusal_of("auto", "--resume")
