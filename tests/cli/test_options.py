"""Options made from settings, and what a user's mistake looks like: one line, exit code 2, nothing written."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from click.testing import CliRunner, Result
from hba.cli import main
from PIL import Image
from pydantic.fields import FieldInfo

import hba
from hba.algorithms import ALGORITHMS
from hba.config.evaluation import EvaluationConfig
from hba.errors import SettingsError
from hba.operations import OPERATIONS
from hba.policy.space import SearchSpace
from hba.policy_search.config import SearchConfig
from hba.schedule.schedule import Schedule

COMMANDS = ("search", "evaluate", "show", "apply", "operations", "policies", "import")
SMALL = ("--epochs", "2", "--batch-size", "8", "--model", "wrn-10-1", "--image-size", "8", "--device", "cpu")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, list(arguments))


def command_of(name: str) -> click.Command:
    """The command of that name, which is imported now."""
    found = main.get_command(click.Context(main), name)
    assert found is not None, name
    return found


def refusal_of(*arguments: str) -> str:
    """The one line with which the command ends, without its start."""
    result = run(*arguments)
    assert isinstance(result.exception, SystemExit), repr(result.exception)
    assert result.exit_code == 2
    assert result.stdout == ""
    (line,) = result.stderr.splitlines()
    assert line.startswith("hba: error: ")
    return line.removeprefix("hba: error: ")


def usage_error_of(*arguments: str) -> str:
    """The last line of click's own message."""
    result = run(*arguments)
    assert (type(result.exception), result.exit_code, result.stdout) == (SystemExit, 2, "")
    assert "Traceback" not in result.stderr
    return result.stderr.splitlines()[-1]


def make_images(folder: Path, n_images: int = 12, classes: tuple[str, ...] = ("cats", "dogs"), seed: int = 0) -> Path:
    """A folder of images, 16x12 and noisy, each class of a colour of its own."""
    random = np.random.default_rng(seed)
    for label, name in enumerate(classes):
        (folder / name).mkdir(parents=True)
        for number in range(n_images):
            levels = random.integers(0, 100, (12, 16, 3), dtype=np.uint8)
            levels[..., label % 3] += 150
            Image.fromarray(levels).save(folder / name / f"{number}.png")
    return folder


def small_schedule(**provenance: Any) -> Schedule:
    """Two epochs of Rotate and Invert."""
    space = SearchSpace((OPERATIONS["Rotate"], OPERATIONS["Invert"]), copies=1)
    return Schedule(space, np.array([[0.25, 3.0, 0.5], [0.75, 24.0, 0.125]]), provenance=provenance)


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_every_command_has_help(command: str, flag: str) -> None:
    result = run(command, flag)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith(f"Usage: main {command} ")


def test_the_group_lists_its_commands_and_its_version() -> None:
    listed = run("--help").stdout
    assert all(f"\n  {command} " in listed for command in COMMANDS)
    assert run("--version").stdout.split()[-1] == hba.__version__


def options_of(command: str) -> dict[str, click.Option]:
    return {name: option for option in command_of(command).params if isinstance(option, click.Option)
            for name in option.opts}  # fmt: skip


OWN_OPTIONS = {
    "search": {"--preset", "--out", "--resume", "--paper", "--operations-file"},
    "evaluate": {"--against", "--preset", "--out", "--resume", "--jobs", "--allow-seen", "--operations-file"},
}

NO_OPTIONS = {("search", "data"), ("evaluate", "data"), ("evaluate", "val_size")}
"""The data are an argument, and an evaluation has no validation split."""


FIELDS: dict[str, dict[str, FieldInfo]] = {
    "search": {
        **{name: field for kind in ALGORITHMS.values() for name, field in kind.model_fields.items()},
        **SearchConfig.model_fields,
    },
    "evaluate": EvaluationConfig.model_fields,
}


@pytest.mark.parametrize("command", FIELDS)
def test_each_setting_is_an_option_of_the_same_name_with_its_text_as_help(command: str) -> None:
    options, fields = options_of(command), FIELDS[command]
    named = [name for name in fields if (command, name) not in NO_OPTIONS]
    expected = {"--" + name.replace("_", "-") for name in named}
    assert set(options) == expected | OWN_OPTIONS[command]
    shown = " ".join(run(command, "--help").stdout.split())
    for name in named:
        description = fields[name].description
        assert f"--{name.replace('_', '-')} " in shown
        assert description
        # Help is broken into lines, also behind a hyphen; a default in words stands in brackets.
        text, _, default = description.partition("; ")
        assert squeezed(text) in squeezed(shown)
        if command == "search" and fields[name].default is None:
            assert squeezed(default.partition(". For ")[0]) in squeezed(shown)


def squeezed(text: str) -> str:
    return re.sub(r"[\s.;\[_-]|default:|by dataset, else", "", text)


SEARCH_VALUES: dict[str, Any] = {
    "image_size": 40, "train_size": 300, "val_size": 100, "split_seed": 7, "data_root": "else where", "download": True,
    "skip_broken": True, "model": "resnet-18", "epochs": 12, "batch_size": 33, "learning_rate": 0.125,
    "weight_decay": 0.0, "flip": False, "crop_padding": 0, "cutout_size": 6, "device": "cpu", "sharing": "conv+bn",
    "lambda_learning_rate": 1e-3, "train_steps": 5, "val_steps": 0, "sigma": 0.5, "calibrate": False,
    "validate_every": 3, "seed": 4294967295, "space": "pba", "operations": "Rotate,Color", "interpolation": "bilinear",
    "fill": "0.25,0.5,1", "classes": "some.txt", "algorithm": "population", "population_size": 11,
    "weight_sigma": 0.25, "batched_members": False, "baseline_like": "svhn", "learning_rate_schedule": "step",
    "random_resized_crop": True, "color_jitter": 0.3, "pca_jitter": 0.05, "stream": True, "workers": 3,
    "response": "centered", "response_weight_decay": 0.0, "initial_fraction": 0.75, "warm_up_epochs": 6,
    "lambda_betas": "0.5,0.75", "trust_radius": 0.375, "logit_bound": 5.5, "val_batch_size": 44, "val_batches": 7,
    "val_statistics": "batch", "sigma_end": 0.0, "reward_draws": 5, "reward_limit": 2.5, "probes": 0,
    "levels": "-5,1000.5", "baseline": "auto", "horizon_steps": 9,
}  # fmt: skip
EVALUATION_FIELDS = set(EvaluationConfig.model_fields) - {"data", "val_size"}
EVALUATION_VALUES = {name: value for name, value in SEARCH_VALUES.items() if name in EVALUATION_FIELDS}


def as_options(values: dict[str, Any]) -> list[str]:
    options = []
    for name, value in values.items():
        dashed = name.replace("_", "-")
        options += [f"--{'' if value else 'no-'}{dashed}"] if isinstance(value, bool) else [f"--{dashed}", str(value)]
    return options


def settings_passed_on(monkeypatch: pytest.MonkeyPatch, command: str, *arguments: str) -> dict[str, Any]:
    """What the command line hands to the library."""
    seen: list[dict[str, Any]] = []

    def note(*positional: Any, **settings: Any) -> None:
        seen.append(settings)
        raise SettingsError("noted")

    monkeypatch.setattr(f"hba.{command}", note)
    assert refusal_of(command, *arguments) == "noted"
    return {name: value for name, value in seen[0].items() if name not in ("out", "observer")}


def test_values_of_all_options_arrive_with_their_types(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(SEARCH_VALUES) == set(FIELDS["search"]) - {"data"}
    # Without a folder, the command itself looks at the settings, of which some do not go together.
    passed_on = settings_passed_on(monkeypatch, "search", "digits", "--out", "new", *as_options(SEARCH_VALUES))
    expected = {**SEARCH_VALUES, "preset": None, "resume": False, "paper": False}
    assert passed_on == expected
    assert {name: type(value) for name, value in passed_on.items()} == {n: type(v) for n, v in expected.items()}
    values = {**EVALUATION_VALUES, "seeds": 5}
    assert set(values) == EVALUATION_FIELDS
    passed_on = settings_passed_on(monkeypatch, "evaluate", "digits", "--against", "a, b ,none", *as_options(values))
    own = {"preset": None, "resume": False, "jobs": None, "allow_seen": False}
    assert passed_on == {**values, "against": ["a", "b", "none"], **own}


def test_what_is_not_given_is_left_to_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings_passed_on(monkeypatch, "search", "digits") == {"preset": None, "resume": False, "paper": False}
    assert settings_passed_on(monkeypatch, "search", "digits", "--paper")["paper"] is True
    assert settings_passed_on(monkeypatch, "evaluate", "digits") == {
        "against": ["none"], "preset": None, "resume": False, "jobs": None, "allow_seen": False,
    }  # fmt: skip


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
        (["--fill", "0.1,0.2"], "--fill must be 1 or 3 numbers in [0, 1], separated by commas, got '0.1,0.2'"),
        (["--fill", "red"], "--fill must be 1 or 3 numbers in [0, 1], separated by commas, got 'red'"),
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
        (["--resume"], "--resume needs --out, the folder of the run to go on with"),
        (["--resume", "--out", "a", "--preset", "digits"], "--resume keeps the settings of the run; leave --preset"),
        (
            ["--resume", "--out", "a", "--paper"],
            "--resume keeps the settings of the run; leave --preset and --paper away",
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
            "'conv+bn', 'all'; did you mean first-bn?",
        ),
        (["search", "--space", "faa"], "Error: Invalid value for '--space': 'faa' is not one of 'hba', 'pba'."),
        (["search", "--epoch", "3"], "Error: No such option '--epoch'; did you mean --epochs?"),
        (["search", "--pretrained"], "Error: No such option '--pretrained', nor one like it."),
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
            "images is a file; give a folder with one sub-folder of images for",
        ),
        (too_few_dogs, "the class 'dogs' of {folder} has 2 image(s), but needs at least 3, one each for training, val"),
        (empty_class, "the class 'birds' of {folder} has 0 image(s), but needs at least 3, one each for training, val"),
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
    assert message == f"{tmp_path / 'images' / 'val'} has the class 'birds', which the training images do not have"


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
        (["show", "digts"], "no schedule file digts; did you mean digits? Shipped ones: digits"),
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
