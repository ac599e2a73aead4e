"""What a user's mistake looks like: one line, exit code 2, nothing written."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from commands import SMALL, make_images, refusal_of, run, small_schedule, usage_error_of
from PIL import Image


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--epochs", "0"], "--epochs must be at least 1, got 0"),
        (["--model", "resnet-7"], "unknown model 'resnet-7'; did you mean resnet-50? Known: wrn-40-2, wrn-28-10"),
        (["--model", "wrn-11-1"], "--model 'wrn-11-1': a wide ResNet needs depth 10, 16, 22"),
        (["--device", "tpu-9"], "--device must be auto, cpu, cuda or cuda:<number>, got 'tpu-9'"),
        (["--device", "meta"], "--device must be auto, cpu, cuda or cuda:<number>, got 'meta'"),
        (["--learning-rate", "nan"], "--learning-rate must be a finite number, got nan"),
        (["--image-size", "4"], "--image-size must be at least 8, got 4"),
        (["--train-size", "5"], "the training size must lie between 10, one image for each class, and "),
        (["--train-size", "500", "--val-size", "500"], "training and validation sizes must add up to at most the 700"),
        (["--val-size", "1797"], "training and validation sizes must add up to at most the 700 images that digits has"),
        (["--operations", "Rotate,Swirl"], "unknown operation 'Swirl'; known: ShearX, "),
        (["--operations", "Rotate,Rotate"], "--operations must be at least one and each named once, got ['Rotate', "),
        (["--operations", ","], "--operations must have more entries (at least 1), got ','"),
        (["--fill", "0.1,0.2"], "a fill of 2 numbers is for images of 2 channels, got 3; give one number for all"),
        (
            ["--fill", "red"],
            "--fill must be numbers in [0, 1], one for all channels or one for each, separated by commas, got 'red'",
        ),
        (["--operations", "rotate"], "unknown operation 'rotate'; did you mean Rotate? Known: ShearX, "),
        (["--model", "efficientnet_b0"], "unknown model 'efficientnet_b0'; did you mean timm:efficientnet_b0? Known: "),
        (["--model", "resnet50"], "unknown model 'resnet50'; did you mean resnet-50 or timm:resnet50? Known: "),
        (["--device", "gpu"], "--device must be auto, cpu, cuda or cuda:<number>, got 'gpu'; did you mean cuda?"),
        (["--batch-size", "201"], "--batch-size must be at most 200, the number of training images, got 201"),
        (["--preset", "digit"], "unknown preset 'digit'; did you mean digits? Known: digits, "),
        (
            ["--paper", "--algorithm", "lookahead"],
            "--algorithm must be the paper's (one of hba, fixed-noise, hyper-population, population) for a search as "
            "in the paper, got 'lookahead'",
        ),
        (
            ["--population-size", "7", "--algorithm", "population"],
            "every member must get the same number of images of a batch, got --batch-size 100 for --population-size 7",
        ),
        (["--operations-file", "nowhere.py"], "no operations file nowhere.py"),
        (["--resume"], "--resume needs --out, the folder of the run to resume"),
        (["--resume", "--out", "a", "--preset", "digits"], "--resume keeps the settings of the run; remove --preset"),
        (
            ["--resume", "--out", "a", "--paper"],
            "--resume keeps the settings of the run; remove --preset and --paper",
        ),
        (["--resume", "--out", "nowhere"], "nowhere holds no run to resume: there is no config.json in it"),
    ],
)
def test_a_setting_that_cannot_be_is_refused_by_name(arguments: list[str], message: str, tmp_path: Path) -> None:
    refusal = refusal_of("search", "digits", *arguments)
    assert refusal.startswith(message)
    assert refusal.count("got ") <= 1
    assert list(tmp_path.iterdir()) == [], "nothing was written"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["search", "--epochs", "x"],
            "Error: Invalid value for '--epochs': 'x' is not a whole number (passes over the training images).",
        ),
        (
            ["search", "--val-size", "0.2"],
            "Error: Invalid value for '--val-size': '0.2' is not a whole number (number of validation images).",
        ),
        (
            ["search", "--interpolation", "bicubic"],
            "Error: Invalid value for '--interpolation': 'bicubic' is not one of 'nearest', 'bilinear'.",
        ),
        (
            ["search", "--sharing", "firstbn"],
            "Error: Invalid value for '--sharing': 'firstbn' is not one of 'first-bn', 'bn', 'first-conv', 'conv', "
            "'conv+bn', 'all', 'every'; did you mean first-bn?",
        ),
        (["search", "--space", "faa"], "Error: Invalid value for '--space': 'faa' is not one of 'hba', 'pba'."),
        (["search", "--epoch", "3"], "Error: No such option '--epoch'; did you mean --epochs?"),
        (["search", "--momentum"], "Error: No such option '--momentum', nor one like it."),
        (["search", "--preset", "mine"], "hba: error: unknown preset 'mine'; known: digits, "),
        (["search", "--sigma"], "Error: Option '--sigma' requires an argument."),
        (["search", "--nonsense", "1"], "Error: No such option '--nonsense', nor one like it."),
        (["search", "a", "b"], "Error: Got unexpected extra argument"),
        (["nonsense"], "Error: No such command 'nonsense'."),
        (["evaluate"], "Error: Missing argument 'SCHEDULE'."),
        (["show"], "Error: Missing argument 'SCHEDULE'."),
        (["apply", "digits", "a.png"], "Error: Missing option '--out'."),
        (["apply", "digits", "--out", "b.png"], "Error: Missing argument 'IMAGES...'."),
        (["apply", "digits", "a.png", "--out", "b.png", "--copies", "0"], "Error: Invalid value for '--copies'"),
    ],
)
def test_what_click_cannot_read_is_a_usage_error(arguments: list[str], message: str) -> None:
    assert usage_error_of(*arguments).startswith(message)


def only(*names: str) -> Callable[[Path], object]:
    def make(folder: Path) -> None:
        for name in names:
            (folder / name).mkdir(parents=True)

    return make


def too_few_dogs(folder: Path) -> None:
    make_images(folder)
    for number in range(2, 12):
        (folder / "dogs" / f"{number}.png").unlink()


def empty_class(folder: Path) -> None:
    make_images(folder)
    (folder / "birds").mkdir()


@pytest.mark.parametrize("command", [["search"], ["evaluate", "digits"]], ids=["search", "evaluate"])
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda folder: None, "no such folder or dataset: images; datasets: digits, cifar10, cifar100, svhn, "),
        (only("."), "{folder} has no classes: it must hold one sub-folder of images for each class"),
        (only(".git"), "{folder} has no classes: "),
        (lambda folder: make_images(folder.parent, 3, ("images",)), "{folder} has no classes: "),
        (
            lambda folder: make_images(folder, 9, ("cats",)),
            "{folder} has one class only, 'cats': add a sub-folder of images for another",
        ),
        (only("cats", "dogs"), "{folder} holds no images that can be read; use .png, .jpg, .tif"),
        (
            lambda folder: folder.write_text("a file"),
            "{folder} is a file; give a folder with one sub-folder of images for",
        ),
        (too_few_dogs, "the class 'dogs' of {folder} has 2 images, but needs at least 3, one each for training, val"),
        (empty_class, "the class 'birds' of {folder} has 0 images, but needs at least 3, one each for training, val"),
    ],
    ids=["no folder", "empty", "hidden", "images only", "one class", "no images", "a file", "too few", "empty class"],
)
def test_images_that_cannot_be_used_are_refused(
    make: Callable[[Path], object], message: str, command: list[str], tmp_path: Path
) -> None:
    make(tmp_path / "images")
    before = sorted(tmp_path.rglob("*"))
    assert refusal_of(*command, "images", *SMALL).startswith(message.format(folder=tmp_path / "images"))
    assert sorted(tmp_path.rglob("*")) == before, "nothing was written"


def test_validation_images_of_a_class_that_training_lacks_are_refused(tmp_path: Path) -> None:
    make_images(tmp_path / "images" / "train")
    make_images(tmp_path / "images" / "val", 3, ("cats", "birds"))
    message = refusal_of("search", "images", *SMALL)
    val = tmp_path / "images" / "val"
    assert message == (
        f"{val} has the class 'birds', which the training images do not have; rename it, or move it away"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        # Of 24 images, round(24 / 5) = 5 are for the test, and of the 19 others round(19 / 5) = 4 for validation.
        (["--train-size", "16"], "training and validation sizes must add up to at most the 19 images that"),
        (["--val-size", "18"], "the validation size must lie between 2, one image for each class, and 17, which"),
        (["--train-size", "1"], "the training size must lie between 2, one image for each class, and 15, which"),
    ],
)
def test_sizes_that_do_not_fit_a_folder_are_refused(options: list[str], message: str, tmp_path: Path) -> None:
    make_images(tmp_path / "images")
    assert refusal_of("search", "images", *SMALL, *options).startswith(message)
    assert not (tmp_path / "runs").exists()


def test_a_download_into_a_folder_of_images_is_refused(tmp_path: Path) -> None:
    make_images(tmp_path / "images")
    message = refusal_of("search", "images", "--download", *SMALL)
    assert message == f"--download has no effect on {tmp_path / 'images'}, a folder of images; omit it"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["search", "cifr10"], "no such folder or dataset: cifr10; did you mean cifar10? Datasets: digits, "),
        (["show", "digts"], "no schedule file digts; did you mean digits? Shipped ones: cifar10-copy, digits"),
        (["evaluate", "digits", "--against", "radnom"], "no schedule file radnom; did you mean random? Shipped ones: "),
        (["evaluate", "digits", "--jobs", "0", *SMALL], "--jobs must be at least 1, got 0"),
    ],
)
def test_a_misspelt_name_is_told_what_was_probably_meant(arguments: list[str], message: str) -> None:
    assert run(*arguments).stderr.startswith(f"hba: error: {message}")


def test_paths_keep_their_names(tmp_path: Path) -> None:
    (tmp_path / "image_size").mkdir()
    message = refusal_of("search", "--resume", "--out", "image_size/val_size.d")
    assert message.startswith("image_size/val_size.d holds no run to resume")


def test_a_dataset_that_is_not_there_is_refused_with_the_remedy(tmp_path: Path) -> None:
    message = refusal_of("search", "cifar10", "--data-root", str(tmp_path / "nowhere"), *SMALL)
    assert message.startswith(f"cifar10 is not in {tmp_path / 'nowhere'} (")
    assert message.endswith("give its place with --data-root, or use --download")


BROKEN = {"text.json": b"not a schedule", "list.json": b"[1, 2]", "other.json": b'{"format": "other"}',
          "empty.json": b"", "bytes.json": bytes(range(256))}  # fmt: skip


@pytest.mark.parametrize("command", [["show"], ["evaluate"], ["apply", "a.png", "--out", "b.png"]], ids=lambda c: c[0])
@pytest.mark.parametrize("name", [*BROKEN, "nowhere.json", "folder"])
def test_what_is_no_schedule_is_refused_by_its_file(name: str, command: list[str], tmp_path: Path) -> None:
    if name in BROKEN:
        (tmp_path / name).write_bytes(BROKEN[name])
    (tmp_path / "folder").mkdir()
    message = refusal_of(command[0], name, *command[1:])
    assert name in message
    assert "schedule" in message
    assert not (tmp_path / "runs").exists()
    assert not list(tmp_path.glob("*.png"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.png"], "cannot read the image nowhere.png: "),
        (["broken.png"], "cannot read the image broken.png: "),
        (["."], "cannot read the image broken.png: "),
        (["a.png", "--epoch", "0"], "--epoch must lie in [1, 2], got 0"),
        (["a.png", "--epoch", "3"], "--epoch must lie in [1, 2], got 3"),
    ],
)
def test_what_apply_cannot_do_is_refused(arguments: list[str], message: str, tmp_path: Path) -> None:
    small_schedule().save("a.json")
    Image.new("RGB", (9, 9)).save("a.png")
    Path("broken.png").write_bytes(b"\x89PNG")
    assert refusal_of("apply", "a.json", "--out", "b.png", *arguments).startswith(message)
    assert not (tmp_path / "b.png").exists()


def test_a_seed_that_no_generator_takes_is_no_crash() -> None:
    small_schedule().save("a.json")
    Image.new("RGB", (9, 9)).save("a.png")
    result = run("apply", "a.json", "a.png", "--out", "b.png", "--seed", "1" + 20 * "0")
    assert (type(result.exception), result.exit_code) == (SystemExit, 2), repr(result.exception)


@pytest.mark.parametrize("provenance", [{"settings": None, "image_size": None}, {"settings": "lost", "dataset": 3}])
def test_provenance_that_hba_did_not_write_is_no_crash(provenance: dict[str, Any]) -> None:
    small_schedule(**provenance).save("a.json")
    Image.new("RGB", (9, 9)).save("a.png")
    make_images(Path("images"))
    for arguments in (["show", "a.json"], ["apply", "a.json", "a.png", "--out", "b.png"],
                      ["evaluate", "a.json", "images", "--seeds", "1", *SMALL]):  # fmt: skip
        result = run(*arguments)
        assert result.exit_code == 0 or result.stderr.startswith("hba: error: "), repr(result.exception)


def test_a_range_of_one_magnitude_is_no_crash() -> None:
    small_schedule().save("a.json")
    content = json.loads(Path("a.json").read_text())
    content["space"]["operations"][0]["magnitude_range"] = [0.0, 0.0]
    content["values"] = [[0.5, 0.0, 0.5]] * 2
    Path("a.json").write_text(json.dumps(content))
    result = run("show", "a.json")
    assert result.exit_code == 0 or result.stderr.startswith("hba: error: "), repr(result.exception)


def test_in_a_process_of_its_own_a_mistake_is_one_line_too() -> None:
    program = [sys.executable, "-c", "from hba.cli import main; main()"]
    done = subprocess.run([*program, "search", "nowhere"], capture_output=True, text=True, timeout=100, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("hba: error: no such folder or dataset: nowhere; ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("given", [["hba"], {"name": "hba"}, 3, None])
def test_an_algorithm_that_is_no_name_is_refused(given: Any) -> None:
    Path("config.json").write_text(json.dumps({"algorithm": given}), encoding="utf-8")
    message = refusal_of("search", "--config", "config.json")
    assert message.endswith(f"config.json cannot be read: --algorithm must be a name, got {given!r}")


def test_a_provenance_with_numbers_that_json_has_not_is_printed() -> None:
    small_schedule(val_loss=1.5).save("a.json")
    text = Path("a.json").read_text().replace('"val_loss": 1.5', '"val_loss": [NaN, -Infinity, 0.5]')
    Path("a.json").write_text(text)
    result = run("show", "a.json", "--json")
    assert result.exit_code == 0, repr(result.exception)
    assert json.loads(result.stdout)["provenance"]["val_loss"] == [None, None, 0.5]


@pytest.mark.parametrize("more", [(), ("--seeds", "2")], ids=["one", "several seeds"])
@pytest.mark.parametrize("out", ["images", "images/run"])
def test_a_run_among_its_images_is_refused(out: str, more: tuple[str, ...], tmp_path: Path) -> None:
    """Its own pictures would count as images."""
    make_images(tmp_path / "images")
    folder = tmp_path / "images"
    assert refusal_of("search", "images", "--out", out, *more, *SMALL) == (
        f"--out must not lie among the images in {folder}, got {tmp_path / out}; choose another folder"
    )
    assert {path.name for path in folder.iterdir()} <= {"cats", "dogs", ".lock"}, "nothing that is read is left there"


@pytest.mark.parametrize("command", [("show", "digits"), ("apply", "digits", "images")])
def test_a_picture_under_another_ending_is_refused(command: tuple[str, ...], tmp_path: Path) -> None:
    make_images(tmp_path / "images")
    assert refusal_of(*command, "--out", "a.jpg") == "--out must end in .png, which is what is written, got a.jpg"


def test_a_folder_of_several_seeds_is_told_apart_from_a_run(tmp_path: Path) -> None:
    (tmp_path / "several" / "seed-3").mkdir(parents=True)
    for command in (("report", "several"), ("search", "--config", "several"), ("evaluate", "several")):
        assert (
            refusal_of(*command) == "several holds searches of several seeds; name one of them, such as several/seed-3"
        )
