"""`hba show`, `hba apply` and `hba policies`: what is found, as tables and pictures."""

import dataclasses
import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from commands import make_images, refusal_of, run, small_schedule
from hba.cli.show import schedule_table
from PIL import Image
from rich.console import Console
from test_commands import said

import hba
from hba.data.reading import Levels, read_image
from hba.operations import OPERATIONS
from hba.policy.space import SearchSpace
from hba.schedule.schedule import Schedule

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
    # Of images, though it is called as a shipped schedule.
    Path("digits").mkdir()
    lines = said(run("show", argument, *options))
    assert lines[-1] == f"Picture: {picture}"
    assert [path.as_posix() for path in Path().rglob("*.png")] == [picture]
    width, height = png_size(Path(picture))
    assert width > height > 200


def rows_of(lines: list[str]) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines if line.startswith("│")]


def test_show_prints_each_operation_at_its_key_epochs() -> None:
    small_schedule().save("a.json")
    lines = said(run("show", "a.json"))
    assert lines[0].strip() == "a.json: 2 epochs, strongest last epoch first"
    # Strengths in the last epoch: 0.75 24/30 of Rotate, 0.125 of Invert. Of 100 images, 20 may get nothing and 30 one
    # operation. Rotate fires for 75; for 0.75 x 0.125 of all Invert fires too, and is first for half of them.
    rotated = 0.5 * 0.75 + 0.3 * (0.75 - 0.75 * 0.125 / 2)
    inverted = 0.5 * 0.125 + 0.3 * (0.125 - 0.75 * 0.125 / 2)
    assert rows_of(lines) == [
        ["Rotate", "0.25", "0.75", f"{100 * rotated:.1f} %", "3", "24"],
        ["Invert", "0.50", "0.12", f"{100 * inverted:.1f} %", "-", "-"],
    ]
    none = 0.2 + 0.8 * 0.25 * 0.875
    below = lines[next(number for number, line in enumerate(lines) if line.startswith("└")) + 1 :]
    assert below[0].startswith("prob.: how often an operation fires when its turn comes. images: the share of images")
    assert "copies" not in below[0]
    assert below[1] == (
        f"An image gets at most 2 operations, {rotated + inverted:.2f} on average; "
        f"{100 * none:.0f} % of the images get none."
    )
    assert below[2] == "Magnitudes are in degrees: Rotate."


def test_show_names_the_spread_of_each_kind() -> None:
    schedule = small_schedule()
    dataclasses.replace(schedule, spread=np.array([[0.0, 1.0, 0.5], [0.25, 1.0, 0.5]])).save("a.json")
    schedule.with_spread(0.75, probabilities=False).save("b.json")
    schedule.save("c.json")
    both, magnitudes, none = (said(run("show", f"{name}.json")) for name in "abc")
    assert any(line.startswith("Spread: magnitudes 1, probabilities 0 to 0.5. Every image draws") for line in both)
    assert any(line.startswith("Spread: magnitudes 0.75. Every image draws") for line in magnitudes)
    assert not any("pread" in line for line in none)


def test_show_says_how_many_operations_images_get_where_that_is_searched() -> None:
    space = SearchSpace((OPERATIONS["Invert"], OPERATIONS["Equalize"]), copies=1, searches_count=True)
    Schedule(space, np.array([[1.0, 1.0, 0.8, 0.5], [1.0, 1.0, 0.9, 0.2]])).save("a.json")
    lines = said(run("show", "a.json"))
    expected = "get 0 / 1 / 2: 20 / 40 / 40 % in epoch 1, 10 / 72 / 18 % in epoch 2."
    assert any(line.endswith(expected) for line in lines)
    assert any(line.endswith("1.08 on average; 10 % of the images get none.") for line in lines)


def test_show_says_what_changed_most_and_by_how_many_policy_steps() -> None:
    small_schedule(settings={"initial_fraction": 0.5}, policy_steps=9).save("a.json")
    lines = said(run("show", "a.json"))
    start = lines.index("After 2 epochs and 9 policy steps, changed most:")
    assert [line.split("  ")[1] for line in lines[start + 2 : start + 4]] == ["Invert", "Rotate"]
    assert "0.50 -> 0.12" in lines[start + 2]
    assert "0.50 -> 0.75  15 -> 24 degrees" in lines[start + 3]


def test_show_tells_magnitudes_on_both_sides_of_doing_nothing_copy_by_copy() -> None:
    space = SearchSpace((OPERATIONS["Rotate"], OPERATIONS["Brightness"]), copies=2)
    row = [0.5, 12.0, 0.5, 18.0, 0.5, 1.45, 0.7, 0.62]
    Schedule(space, np.array([row]), provenance={"settings": {"init": "randaugment"}}).save("a.json")
    lines = said(run("show", "a.json"))
    note = "(means over each operation's 2 copies, or one number for each copy)"
    start = lines.index(f"After 1 epochs, changed most {note}:")
    assert "  Rotate      0.50 -> 0.50  9 -> 15 degrees  " in lines[start + 2]
    assert "  Brightness  0.50 -> 0.60  1.27, 0.73 -> 1.45, 0.62 PIL enhancement factor  " in lines[start + 3]
    first, second = rows_of(lines)[:2]
    assert [first[index] for index in (0, 1, 3)] == ["Brightness", "0.60", "1.45"]
    assert second == ["", "", "", "0.62"]


def test_show_of_a_search_that_was_too_short_says_so() -> None:
    settings = {"train_steps": 4, "val_steps": 1, "warm_up_epochs": 0, "lambda_learning_rate": 0.03, "epochs": 12}
    small_schedule(settings=settings, steps_per_epoch=2, epochs_finished=12).save("a.json")
    assert any(line.startswith("6 policy steps are too few: ") for line in said(run("show", "a.json")))


@pytest.mark.parametrize("name", ["digits", "a.json"])
def test_a_table_of_80_columns_tells_all_operations_apart(name: str) -> None:
    long = hba.Operation("NameOfTwentyTwoLetters", torch.nn.Identity(), (0.0, 1.0), "unit", 0.0)
    own = SearchSpace((OPERATIONS["TranslateX"], OPERATIONS["TranslateY"], long))
    schedule = hba.load_policy("digits") if name == "digits" else Schedule(own, np.full((2000, own.n), 0.1234567))
    printed = io.StringIO()
    Console(file=printed, width=80).print(schedule_table(name, schedule))
    lines = printed.getvalue().splitlines()
    assert all(len(line) <= 80 for line in lines)
    assert sorted(row[0] for row in rows_of(lines) if row[0]) == sorted(one.name for one in schedule.space.operations)
    assert "…" not in printed.getvalue()


def test_show_says_what_the_error_of_the_search_network_is_and_is_not() -> None:
    small_schedule(epochs_finished=2, val_error_percent=12.5).save("a.json")
    assert said(run("show", "a.json"))[-2] == (
        "Validation error of the search network: 12.50 % after epoch 2. It is not that of a training with the schedule."
    )


@pytest.mark.parametrize("found", [None, "12.5", True, [12.5], -1.0, 1e9, float("nan")])
def test_show_says_nothing_of_an_error_that_is_none(found: object) -> None:
    small_schedule(epochs_finished=2, val_error_percent=found).save("a.json")
    assert "Validation error" not in run("show", "a.json").output


def test_apply_writes_a_grid_that_the_seed_decides() -> None:
    small_schedule().save("a.json")
    make_images(Path("images"), 1)
    sizes, files = [], []
    for number, options in enumerate((["--seed", "1"], ["--seed", "1"], ["--seed", "2"], ["--copies", "2"])):
        picture = f"{number}.png"
        result = run("apply", "a.json", "images/cats/0.png", "images/dogs/0.png", "--out", picture, *options)
        counted, shares, says = said(result)
        assert counted == "An image gets at most 2 operations, 0.67 on average; 38 % of the images get none."
        assert shares == "Share of images: Rotate 58.6 %, Invert 8.6 %"
        assert says == f"Picture: {picture}"
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


def test_apply_shows_some_images_of_a_folder_from_all_of_its_classes(monkeypatch: pytest.MonkeyPatch) -> None:
    small_schedule().save("a.json")
    make_images(Path("images"), 20, classes=("ants", "bees", "cats"))
    hidden = Path("images/.thumbnails/0.png")
    hidden.parent.mkdir()
    hidden.write_bytes(b"not an image")
    Path("images/notes.txt").write_text("mine")
    read: list[Path] = []

    def record(path: Path, size: int, levels: Levels | None) -> torch.Tensor:
        read.append(path)
        return read_image(path, size, levels)

    monkeypatch.setattr("hba.cli.apply.read_image", record)
    lines = said(run("apply", "a.json", "images", "--out", "b.png"))
    assert lines[0] == "6 of the 60 images in images"
    assert len(set(read)) == 6
    assert [path.parent.name for path in read] == ["ants", "ants", "bees", "bees", "cats", "cats"]
    assert png_size(Path("b.png"))[1] > 0
    read.clear()
    assert "images in" not in said(run("apply", "a.json", "images/ants/3.png", "--out", "b.png"))[0]
    assert read == [Path("images/ants/3.png")]


def test_apply_to_a_folder_without_images_is_one_line() -> None:
    small_schedule().save("a.json")
    Path("empty").mkdir()
    message = refusal_of("apply", "a.json", "empty", "--out", "b.png")
    assert message == "the folder empty holds no images; name image files, or a folder that has some"


def test_show_as_json_says_what_the_table_says_and_draws_nothing() -> None:
    small_schedule(dataset="animals").save("a.json")
    found = json.loads(run("show", "a.json", "--json").stdout)
    assert (found["epochs"], found["at_epochs"], found["provenance"]) == (2, [1, 2], {"dataset": "animals"})
    rotate, invert = found["operations"]
    assert (rotate["name"], rotate["unit"], invert["name"]) == ("Rotate", "degrees", "Invert")
    assert (rotate["probability"], rotate["magnitude"], invert["magnitude"]) == ([0.25, 0.75], [3.0, 24.0], None)
    # Of two slots, a limit of two in half of the images and of one in 0.3: 0.75 less where Invert came first.
    assert rotate["share_of_images"][1] == pytest.approx(0.75 * (0.5 + 0.3 * (1 - 0.125 / 2)))
    assert sum(found["images_with_0_1_2_operations"][0]) == pytest.approx(1)
    assert list(Path().glob("*.png")) == []


def test_show_as_json_draws_where_it_is_told_to() -> None:
    small_schedule().save("a.json")
    assert json.loads(run("show", "a.json", "--json", "--out", "b.png").stdout)["epochs"] == 2
    assert png_size(Path("b.png"))
