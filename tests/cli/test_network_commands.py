"""hba train and hba predict."""

import io
import itertools
import json
import shutil
from pathlib import Path

import pytest
from commands import SMALL, make_images, refusal_of, rows_in, run, said
from hba.cli.terminal import print_table
from rich.console import Console

import hba


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of images with all three splits, and one of the network that hba train
    leaves.
    """
    folder = tmp_path_factory.mktemp("trained")
    for number, (split, n_images) in enumerate(
        {"train": 12, "val": 3, "test": 6}.items()
    ):
        make_images(folder / "animals" / split, n_images, seed=number)
    lines = said(
        "train",
        "overhead",
        str(folder / "animals"),
        "--out",
        str(folder / "run"),
        "--seed",
        "5",
        *SMALL,
    )
    assert (
        lines[-1]
        == f"Network: {folder / 'run' / 'network.pt'}; `hba predict {folder / 'run'}"
        " IMAGE` uses it"
    )
    return folder


def test_train_leaves_all_files_and_resumes(trained: Path) -> None:
    assert json.loads((trained / "run" / "results.json").read_text(encoding="utf-8"))[
        "train_images"
    ] == 2 * (12 + 3)
    names = {file.name for file in (trained / "run").iterdir()}
    assert names >= {
        "network.pt",
        "network.json",
        "policy.json",
        "pipeline.py",
        "results.json",
        "report.html",
    }
    network = hba.load_network(trained / "run")
    assert (network.info.policy, network.info.seed, network.classes) == (
        "overhead",
        5,
        ("cats", "dogs"),
    )
    again = (
        "train",
        "overhead",
        str(trained / "animals"),
        "--out",
        str(trained / "run"),
        "--seed",
        "5",
        *SMALL,
    )
    assert "exists already: add --resume" in refusal_of(*again)
    assert "trainings: 0 and 1 that are kept" in said(*again, "--resume")[2]


def test_predict_prints_what_the_network_finds_and_lists_what_cannot_be_read(
    trained: Path, tmp_path: Path
) -> None:
    network = hba.load_network(trained / "run")
    folder = trained / "animals" / "test" / "dogs"
    files = sorted(folder.iterdir())
    expected = network.predict(files)
    (tmp_path / "broken.png").write_text("nothing")
    done = run(
        "predict", str(trained / "run"), str(folder), str(tmp_path / "broken.png")
    )
    assert done.exit_code == 2, "a file that was named"
    assert (
        done.stderr
        == f"left out: {tmp_path / 'broken.png'} (it is not an image of a format that"
        " is read)\n"
    )
    shown = json.loads(
        run(
            "predict",
            str(trained / "run"),
            str(folder),
            str(tmp_path / "broken.png"),
            "--json",
        ).stdout
    )
    assert [image["image"] for image in shown["images"]] == [
        str(file) for file in files
    ]
    assert [
        [*image["probabilities"].values()] for image in shown["images"]
    ] == expected.tolist()
    assert [left_out["path"] for left_out in shown["left_out"]] == [
        str(tmp_path / "broken.png")
    ]
    best, other = (
        network.classes[number] for number in expected[0].argsort(descending=True)
    )
    (row,) = rows_in(
        said("predict", str(trained / "run" / "network.pt"), str(files[0]))
    )
    assert row == [
        str(files[0]),
        best,
        f"{expected[0].max():.3f}",
        f"{other} {expected[0].min():.3f}",
    ]
    for name in ("a.heic", "no ending", "notes.txt"):
        (tmp_path / "new" / name).parent.mkdir(exist_ok=True)
        shutil.copy(files[0], tmp_path / "new" / name)
    shutil.copy(files[0], tmp_path / "new" / "b.png")
    done = run("predict", str(trained / "run"), str(tmp_path / "new"))
    assert done.exit_code == 0
    assert [
        name in done.stderr for name in ("a.heic", "no ending", "notes.txt", "b.png")
    ] == [True, True, True, False]
    assert shown["images"][0]["class"] == best


def test_every_row_of_a_table_has_all_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a terminal, long names lose their beginning; elsewhere, nothing is wrapped."""
    long = f"{'deep/' * 20}one.png"
    rows = [
        (long, "red fox", "0.75", "dog 0.25"),
        ("two.png", "dog", "1.00", "cat 0.00"),
    ]
    for width, is_terminal in itertools.product((20, 60, 100, 200), (True, False)):
        shown = io.StringIO()
        wide_console = Console(
            file=shown,
            force_terminal=is_terminal,
            width=width,
            color_system=None,
            soft_wrap=not is_terminal,
        )
        monkeypatch.setattr(
            "hba.cli.terminal.console", lambda wide_console=wide_console: wide_console
        )
        print_table(("image", "class", "probability", "next best"), rows)
        lines = shown.getvalue().splitlines()
        words = " ".join(itertools.chain(*zip(*rows_in(lines), strict=True))).split()
        assert {
            "red",
            "fox",
            "0.75",
            "dog",
            "0.25",
            "two.png",
            "1.00",
            "cat",
            "0.00",
        } <= {*words}
        (name,) = [word for word in words if word.endswith("/one.png")]
        assert name == long or (is_terminal and name.startswith("…"))
        assert (
            max(map(len, lines)) <= width
            if is_terminal and width >= 60
            else len(rows_in(lines)) >= 2
        )
        assert is_terminal or len(rows_in(lines)) == 2


def test_predict_without_a_network_or_an_image_is_refused(
    trained: Path, tmp_path: Path
) -> None:
    assert "has no network.pt" in refusal_of(
        "predict", str(trained / "animals"), "cat.png"
    )
    assert "cannot read the file" in refusal_of(
        "predict", str(trained / "run"), str(tmp_path / "cat.png")
    )
    assert "cannot read any of 0 files; name" in refusal_of(
        "predict", str(trained / "run"), str(tmp_path)
    )
