"""`hba show`, `hba apply` and `hba policies`: what is found, as tables and pictures."""

import json
from pathlib import Path

import pytest
from PIL import Image
from test_commands import said
from test_options import make_images, run, small_schedule

from hba.probes import PROBE_COLUMNS, moved_by

POLICIES = Path(__file__).parents[2] / "policies"


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def png_size(path: Path) -> tuple[int, int]:
    with Image.open(path) as image:
        image.load()
        assert image.format == "PNG"
        return image.size


@pytest.mark.parametrize(
    ("argument", "options", "picture"),
    [
        ("a.json", [], "a.png"),
        ("run", [], "run/policy.png"),
        ("run/policy.json", [], "run/policy.png"),
        ("digits", [], "digits.png"),
        ("a.json", ["--out", "new/b.png"], "new/b.png"),
    ],
)
def test_show_draws_a_picture_beside_the_schedule(argument: str, options: list[str], picture: str) -> None:
    small_schedule().save("a.json")
    small_schedule().save("run/policy.json")
    lines = said(run("show", argument, *options))
    assert lines[-1] == f"Picture: {picture}"
    assert [path.as_posix() for path in Path().rglob("*.png")] == [picture]
    width, height = png_size(Path(picture))
    assert width > height > 200


def test_show_prints_each_operation_at_its_key_epochs() -> None:
    small_schedule().save("a.json")
    lines = said(run("show", "a.json"))
    assert lines[0].strip().startswith("a.json: 2 epochs; means over 1 copies")
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines if line.startswith("│")]
    # Strengths in the last epoch: 0.75 24/30 of Rotate, 0.125 of Invert.
    assert rows == [["Rotate", "0.25", "0.75", "3", "24", "degrees"], ["Invert", "0.50", "0.12", "-", "-", "-"]]


def test_show_prints_the_probes_of_the_search_and_what_they_say() -> None:
    numbers = [(1, -0.02, -0.25, None, 1.5), (2, -0.04, -0.5, 0.125, 0.0)]
    probes = [dict(zip(PROBE_COLUMNS, row, strict=True)) for row in numbers]
    small_schedule(probes=probes).save("a.json")
    lines = said(run("show", "a.json"))
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines if line.startswith("│")]
    assert rows[2:] == [["1", "-0.02", "-0.25", "-", "1.5"], ["2", "-0.04", "-0.5", "0.125", "0"]]
    assert lines[-2] == moved_by(probes)


def test_apply_writes_a_grid_that_the_seed_decides() -> None:
    small_schedule().save("a.json")
    make_images(Path("images"), 1)
    sizes, files = [], []
    for number, options in enumerate((["--seed", "1"], ["--seed", "1"], ["--seed", "2"], ["--copies", "2"])):
        picture = f"{number}.png"
        result = run("apply", "a.json", "images/cats/0.png", "images/dogs/0.png", "--out", picture, *options)
        assert said(result) == [f"Picture: {picture}"]
        sizes.append(png_size(Path(picture)))
        files.append(Path(picture).read_bytes())
    assert files[0] == files[1] != files[2]
    # Nine cells in a row, or three.
    assert sizes[0][0] == pytest.approx(3 * sizes[3][0], rel=0.05)
    assert sizes[0][1] == sizes[3][1]


def test_apply_takes_the_last_epoch_unless_told_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    small_schedule(image_size=24).save("a.json")
    make_images(Path("images"), 1)
    drawn: list[tuple[int, int, tuple[int, ...]]] = []
    monkeypatch.setattr(
        "hba.cli.apply.draw_augmented",
        lambda schedule, images, path, *, epoch, n_copies, seed: drawn.append((epoch, n_copies, images[0].shape)),
    )
    said(run("apply", "a.json", "images/cats/0.png", "--out", "b.png"))
    said(run("apply", "a.json", "images/cats/0.png", "--out", "b.png", "--epoch", "1", "--image-size", "40"))
    assert drawn == [(1, 8, (3, 24, 24)), (0, 8, (3, 40, 40))]


def test_policies_lists_the_shipped_schedules_with_their_origin() -> None:
    lines = said(run("policies"))
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in lines if line.startswith("│")]
    expected = []
    for path in sorted(POLICIES.glob("*.json")):
        content = json.loads(path.read_text(encoding="utf-8"))
        origin = content["provenance"]
        error, seconds = f"{origin['val_error_percent']:.2f} %", str(origin["wall_seconds"])
        expected.append([path.stem, origin["dataset"], origin["model"], str(content["epochs"]), error, seconds])
    assert rows == expected
    assert rows
