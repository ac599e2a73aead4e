"""The commands at work: what they write, what they print, and what can be done next."""

import csv
import json
import re
import shlex
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from click.testing import CliRunner, Result
from commands import SMALL, make_images, refusal_of, run
from hba.cli import main

import hba
from hba.algorithms import Hypergradient
from hba.config.evaluation import EvaluationConfig
from hba.errors import DataError, DivergedError
from hba.models import build_model
from hba.policy_search.config import SearchConfig
from hba.schedule.summary import reach
from hba.training.metrics import Measured
from hba.training.trainer import Trained

POLICIES = Path(__file__).parents[2] / "policies"
RUN_FILES = {"policy.json", "config.json", "metrics.csv", "checkpoint.pt", "report.html", "sample_images.png"}
NOT_PLAIN = re.compile(r"[\x1b\r\x08]|[\u2801-\u28ff]|\d/s\b|\d%")
"""Escape codes, carriage returns, spinners, rates and shares of a progress bar."""


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Result, Path]:
    """A search on a folder of 24 images, and where it was."""
    folder = tmp_path_factory.mktemp("searched")
    make_images(folder / "images")
    arguments = ["search", str(folder / "images"), "--out", str(folder / "run"), "--seed", "3", *SMALL]
    return CliRunner().invoke(main, [*arguments, "--train-steps", "2"]), folder


def said(result: Result) -> list[str]:
    """The lines of a command that went well and printed plain lines only."""
    assert (result.exit_code, result.stderr) == (0, ""), repr(result.exception) + result.stderr
    assert not NOT_PLAIN.search(result.stdout)
    return result.stdout.splitlines()


def n_parameters(model: str, n_classes: int) -> int:
    return sum(parameter.numel() for parameter in build_model(model, n_classes, 0).parameters())


def test_a_search_prints_a_line_per_epoch_and_what_it_found(searched: tuple[Result, Path]) -> None:
    images, network, length, baseline, note, few_images, *lines = said(searched[0])
    assert images == (
        "15 training and 4 validation images of 2 classes: cats, dogs; 5 test images are kept for hba evaluate"
    )
    assert network == (
        f"wrn-10-1, {n_parameters('wrn-10-1', 2):,} parameters, images of 8x8, on cpu (1 thread); in "
        f"{searched[1] / 'run'}"
    )
    assert length == "2 epochs, each of 1 step on 8 images; 1 policy step"
    assert baseline.startswith("Baseline augmentation: none")
    assert note.startswith("1 policy step is too few: ")
    assert few_images.startswith("4 validation images of 2 classes are too few to tell")
    # 24 images, of which 5 are for the test and 4 for validation: one batch of 8 an epoch, and a lambda step after 2.
    for epoch in (1, 2):
        pattern = rf"epoch {epoch}/2: train loss \d\.\d{{3}}, validation error \d+\.\d\d % \(epoch {epoch}\)"
        assert re.fullmatch(pattern, lines[epoch - 1])
    assert lines[2].startswith("After 2 epochs and 1 policy step, changed most (means over each operation's 2 copies")
    assert lines[3].split() == ["probability", "magnitude", "share", "of", "images"]
    schedule = hba.load_policy(searched[1] / "run")
    for line in lines[4:9]:
        name, probability, share = re.findall(r"^  (\w+) +0\.50 -> (\d\.\d\d) .* (\d+\.\d) %$", line)[0]
        columns = [index for index, column in enumerate(schedule.space.names) if column.startswith(f"{name}.")]
        first_copy, second_copy = schedule.values[-1][columns[0]], schedule.values[-1][columns[len(columns) // 2]]
        assert float(probability) == pytest.approx((first_copy + second_copy) / 2, abs=0.0051)
        assert float(share) == pytest.approx(100 * reach(schedule, 1).shares[name], abs=0.051)
    assert re.match(r"An image gets at most 3 operations, \d\.\d\d on average; ", lines[9])
    assert lines[10].startswith("Spread: magnitudes ")
    with (searched[1] / "run" / "metrics.csv").open(encoding="utf-8", newline="") as file:
        errors = [float(row["val_error_percent"]) for row in csv.DictReader(file)]
    assert lines[11] == (
        f"Validation error of the search network: {errors[0]:.2f} % after epoch 1, {errors[1]:.2f} % after epoch 2. "
        "It is not that of a training with the schedule."
    )
    assert lines[12] == note
    assert len(lines) == 17


@pytest.mark.parametrize(
    ("train_steps", "rate", "said_of_it"),
    [
        (3, "0.03", "No policy step comes in so few training steps: "),
        (2, "0.03", "1 policy step is too few: "),
        (2, "1", "1 policy step is few: "),
    ],
)
def test_a_search_that_is_too_short_says_so(train_steps: int, rate: str, said_of_it: str) -> None:
    make_images(Path("images"))
    options = ["--train-steps", str(train_steps), "--lambda-learning-rate", rate]
    lines = said(run("search", "images", "--out", "run", *SMALL, *options))
    # Before it begins, and at its end.
    assert [line.split(": ")[0] + ": " for line in lines if "use about" in line] == 2 * [said_of_it]
    values = hba.load_policy("run").values
    assert np.array_equal(values[0], values[-1]) == (train_steps == 3)
    assert sum("changed most" in line for line in lines) == (train_steps == 2)


def test_a_search_and_show_name_the_spread_of_what_was_found() -> None:
    make_images(Path("images"))
    searched = said(run("search", "images", "--out", "run", *SMALL, "--sigma", "0.5", "--spread-over", "magnitudes"))
    (spread,) = (line for line in searched if line.startswith("Spread: "))
    assert spread.startswith("Spread: magnitudes 0.25. Every image draws numbers of its own around the schedule's; ")
    assert spread in said(run("show", "run"))


def test_a_search_leaves_four_files_with_its_settings_and_numbers(searched: tuple[Result, Path]) -> None:
    out = searched[1] / "run"
    # A slow machine saves twice.
    assert {path.name for path in out.iterdir()} - {"checkpoint_before.pt", ".lock"} == RUN_FILES
    settings = json.loads((out / "config.json").read_text(encoding="utf-8"))
    assert settings["data"] == str(searched[1] / "images")
    assert [settings[name] for name in ("epochs", "batch_size", "model", "image_size", "seed")] == [
        2, 8, "wrn-10-1", 8, 3,
    ]  # fmt: skip
    assert SearchConfig.make(settings).flat() == settings
    schedule = json.loads((out / "policy.json").read_text(encoding="utf-8"))
    origin = schedule["provenance"]
    assert (schedule["epochs"], len(schedule["values"])) == (2, 2)
    assert (origin["dataset"], origin["class_names"]) == (settings["data"], ["cats", "dogs"])
    assert (origin["train_images"], origin["val_images"], origin["image_size"]) == (15, 4, 8)
    assert origin["settings"] == settings
    with (out / "metrics.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["epoch"] for row in rows] == ["1", "2"]
    printed = [line for line in searched[0].stdout.splitlines() if line.startswith("epoch ")]
    for line, row in zip(printed, rows, strict=True):
        expected = (
            f"train loss {float(row['train_loss']):.3f}, validation error {float(row['val_error_percent']):.2f} %"
        )
        assert line == f"epoch {row['epoch']}/2: {expected} (epoch {row['epoch']})"


def test_a_search_as_in_the_paper_has_its_settings(searched: tuple[Result, Path]) -> None:
    said(run("search", str(searched[1] / "images"), "--out", "run", "--paper", "--sigma", "0.5", *SMALL))
    settings = json.loads(Path("run/config.json").read_text(encoding="utf-8"))
    # Of the options, --train-steps is among the small ones.
    assert SearchConfig.make(settings).algorithm == Hypergradient(sigma=0.5, train_steps=settings["train_steps"])
    origin = hba.load_policy("run").provenance
    assert origin["algorithm"] == "hba"
    assert origin["settings"] == settings


def test_the_printed_next_command_evaluates_what_was_found(searched: tuple[Result, Path]) -> None:
    result, folder = searched
    *_, says, command = result.stdout.splitlines()
    assert says == "Next, see whether it helps:"
    program, *arguments = shlex.split(command)
    assert program == "hba"
    assert arguments == ["evaluate", str(folder / "run" / "policy.json")]
    counted, network, trainings, baseline, *lines = said(run(*arguments, "--seeds", "2"))
    assert counted == "19 training and 5 test images of 2 classes: cats, dogs"
    assert network == "wrn-10-1 on cpu, 8x8 pixels, 2 epochs of 2 steps"
    assert trainings == "trainings: 4 (run, none; 2 seeds); results in runs/evaluate-1/results.json"
    assert "--baseline auto adds flip and crop" in baseline
    content = json.loads(Path("runs/evaluate-1/results.json").read_text(encoding="utf-8"))
    assert (content["train_images"], content["test_images"]) == (19, 5)
    assert EvaluationConfig.make(content["settings"]).model_dump() == content["settings"]
    assert [content["settings"][name] for name in ("epochs", "batch_size", "model", "image_size", "seeds")] == [
        2, 8, "wrn-10-1", 8, 2,
    ]  # fmt: skip
    errors = {row["name"]: row["test_error_percent"] for row in content["rows"]}
    assert list(errors) == ["run", "none"]
    assert lines[:4] == [
        f"{name}, seed {seed}: test error {errors[name][seed]:.2f} %" for seed in (0, 1) for name in ("run", "none")
    ]
    for row in content["rows"]:
        (table_row,) = [line for line in lines if re.match(rf"│ {row['name']} ", line)]
        assert f" {row['mean']:.2f} % " in table_row
        assert f" {row['std']:.2f} % " in table_row
    assert lines[-2:] == ["Results: runs/evaluate-1/results.json", "Report: runs/evaluate-1/report.html"]


@pytest.mark.parametrize("name", ["a b", "it's", "run [red]", "run [/red]", "x:smile:y"])
def test_paths_are_printed_as_they_are(searched: tuple[Result, Path], name: str, tmp_path: Path) -> None:
    images, out = searched[1] / "images", tmp_path / name
    lines = said(run("search", str(images), "--out", str(out), *SMALL, "--epochs", "1"))
    assert shlex.split(lines[-1])[-1] == str(out / "policy.json")
    assert any(line.startswith(f"Schedule: {out / 'policy.json'} (") for line in lines)
    lines = said(run("show", str(out)))
    assert lines[-1] == f"Picture: {out / 'policy.png'}"
    assert lines[0].strip().startswith(f"{out}: 1 epoch,")


def test_runs_are_numbered_where_no_folder_is_given(tmp_path: Path) -> None:
    make_images(tmp_path / "pets")
    for number in (1, 2):
        lines = said(run("search", "pets", *SMALL, "--epochs", "1"))
        assert lines[-1] == f"  hba evaluate runs/pets-{number}/policy.json"
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {"pets-1", "pets-2"}


def test_a_long_search_prints_few_lines(searched: tuple[Result, Path]) -> None:
    lines = said(run("search", str(searched[1] / "images"), "--out", "long", *SMALL, "--epochs", "35"))
    epochs = [int(re.findall(r"^epoch (\d+)/35: ", line)[0]) for line in lines if line.startswith("epoch ")]
    assert epochs == list(range(3, 36, 3))


def test_a_folder_with_a_run_is_refused_and_kept(searched: tuple[Result, Path]) -> None:
    images, out = str(searched[1] / "images"), searched[1] / "run"
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    message = refusal_of("search", images, "--out", str(out), *SMALL)
    assert message == f"{out} already holds a run: add --resume to resume it, or choose another --out"
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (["--learning-rate", "0.5"], {"--learning-rate 0.05 (given 0.5)"}),
        (["--skip-broken"], {"--skip-broken False (given True)"}),
        (["--seed", "4", "--model", "wrn-16-2"], {"seed 3 (given 4)", "model 'wrn-10-1' (given 'wrn-16-2')"}),
    ],
)
def test_resuming_with_other_settings_is_refused_by_name(
    searched: tuple[Result, Path], options: list[str], named: set[str]
) -> None:
    out = searched[1] / "run"
    message = refusal_of("search", "--out", str(out), "--resume", *options)
    before, differences = message.split(" has ")
    assert before == f"a resumed run keeps its settings; {out}"
    assert set(differences.split(", ")) == named


def test_a_finished_run_can_be_resumed_with_the_same_settings(searched: tuple[Result, Path]) -> None:
    policy = searched[1] / "run" / "policy.json"
    before = hba.load_policy(policy).values
    said(run("search", str(searched[1] / "images"), "--out", str(searched[1] / "run"), "--resume", *SMALL))
    np.testing.assert_array_equal(hba.load_policy(policy).values, before)


@pytest.mark.parametrize("file", ["config.json", "checkpoint.pt"])
def test_a_broken_run_is_refused_by_its_file(searched: tuple[Result, Path], file: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert run("search", str(searched[1] / "images"), "--out", str(out), *SMALL).exit_code == 0
    (out / file).write_bytes(b"broken")
    # Of a slow machine, which saves twice.
    (out / "checkpoint_before.pt").unlink(missing_ok=True)
    message = refusal_in(run("search", "--out", str(out), "--resume"))
    assert message.startswith(f"{out / file} cannot be read")


def refusal_in(result: Result) -> str:
    """The one line with which a command ends that may have printed some progress."""
    assert (type(result.exception), result.exit_code) == (SystemExit, 2), repr(result.exception)
    (line,) = result.stderr.splitlines()
    assert line.startswith("hba: error: ")
    return line.removeprefix("hba: error: ")


@pytest.mark.parametrize("command", [["search"], ["evaluate", "digits"]], ids=["search", "evaluate"])
def test_a_file_in_the_place_of_the_run_folder_is_refused(searched: tuple[Result, Path], command: list[str]) -> None:
    Path("a file").write_text("mine")
    message = refusal_in(run(*command, str(searched[1] / "images"), "--out", "a file", *SMALL))
    assert message == "cannot write into a file: File exists; choose another --out"
    assert Path("a file").read_text() == "mine"


def test_ctrl_c_ends_a_search_after_its_step_and_the_printed_command_goes_on(
    searched: tuple[Result, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    images = str(searched[1] / "images")
    handler = signal.getsignal(signal.SIGINT)
    with monkeypatch.context() as patch:
        patch.setattr("hba.cli.search._Terminal.step_done", lambda *_: signal.raise_signal(signal.SIGINT))
        result = run("search", images, "--out", "run", "--seed", "3", *SMALL, "--train-steps", "2")
    assert (result.exit_code, result.stderr) == (130, "")
    says, command = result.stdout.splitlines()[-2:]
    assert says == "Stopped after 1 epoch; resume with:"
    assert signal.getsignal(signal.SIGINT) is handler
    assert hba.load_policy("run").epochs == 1
    said(run(*shlex.split(command)[1:]))
    assert signal.getsignal(signal.SIGINT) is handler
    np.testing.assert_array_equal(hba.load_policy("run").values, hba.load_policy(searched[1] / "run").values)


def test_ctrl_c_in_an_evaluation_keeps_the_trainings_that_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = iter([12.5])

    def trained(*_: object) -> Trained:
        for error in errors:
            return Trained(torch.nn.Identity(), Measured(0.0, error))
        raise KeyboardInterrupt

    monkeypatch.setattr("hba.policy_evaluation.jobs.train", trained)
    counted = (
        "700 training and 1,097 test images of 10 classes: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9\n"
        "wrn-10-1 on cpu, 16x16 pixels, 1 epoch of 7 steps\n"
        "trainings: 6 (digits, none; 3 seeds); results in {}/results.json\n"
    )
    result = run("evaluate", "digits", "--out", "out", "--epochs", "1")
    assert (result.exit_code, result.stdout) == (130, f"{counted.format('out')}digits, seed 0: test error 12.50 %\n")
    says = "trainings that ended: 1, in out/results.json; the same command with --out out --resume does the others"
    assert result.stderr.split("\n") == [says, "", "stopped", ""]
    assert json.loads(Path("out/results.json").read_text())["rows"][0]["test_error_percent"] == [12.5]
    result = run("evaluate", "digits", "--out", "other", "--epochs", "1")
    assert (result.exit_code, result.stdout, result.stderr.strip()) == (130, counted.format("other"), "stopped")


def test_a_training_that_diverged_is_not_promised_to_end_when_resumed(monkeypatch: pytest.MonkeyPatch) -> None:
    errors = iter([12.5])

    def trained(*_: object) -> Trained:
        for error in errors:
            return Trained(torch.nn.Identity(), Measured(0.0, error))
        raise DivergedError("the loss is not finite")

    monkeypatch.setattr("hba.policy_evaluation.jobs.train", trained)
    result = run("evaluate", "digits", "--out", "out", "--epochs", "1")
    kept, message, _ = result.stderr.split("\n")
    assert kept == (
        "trainings that ended: 1, in out/results.json; resuming would fail again at the same training: start "
        "anew with another --out"
    )
    assert message == "hba: error: none, seed 0: the loss is not finite"


def test_a_training_that_diverges_is_one_line(searched: tuple[Result, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    # On a busy machine an epoch may last so long that it is saved.
    monkeypatch.setattr("hba.policy_search.checkpoint.SAVE_EVERY_SECONDS", 1e9)
    images, options = str(searched[1] / "images"), ["--learning-rate", "1e30", *SMALL]
    remedy = "try a learning rate below 1e+30"
    # The first step's loss is that of the network as it was made; each epoch of this search has one step.
    message = refusal_in(run("search", images, "--out", "run", *options))
    assert message == f"the loss of epoch 2 is not finite; the 1 epochs before it are in run/policy.json; {remedy}"
    assert hba.load_policy("run").epochs == 1
    kept = Path("run/policy.json").read_text()
    message = refusal_in(run("search", images, "--out", "run", *SMALL))
    assert message == "run already holds a schedule, policy.json: choose another --out"
    assert Path("run/policy.json").read_text() == kept
    message = refusal_in(run("evaluate", "digits", images, "--out", "results", *options))
    assert message == f"digits, seed 0: the loss of epoch 1 is not finite; {remedy}"


@pytest.mark.parametrize("kind", ["empty", "text", "cut off"])
def test_a_broken_image_is_named_and_can_be_skipped(kind: str, tmp_path: Path) -> None:
    make_images(tmp_path / "images" / "train")
    make_images(tmp_path / "images" / "test", 3, seed=1)
    broken = tmp_path / "images" / "train" / "dogs" / "7.png"
    broken.write_bytes({"empty": b"", "text": b"no image", "cut off": broken.read_bytes()[:300]}[kind])
    message = refusal_of("search", "images", "--out", "run", *SMALL)
    assert message.startswith(f"cannot read the image {broken} (")
    assert message.endswith("; mend or remove it, or use --skip-broken")
    assert not Path("run").exists()
    said(run("search", "images", "--out", "run", "--skip-broken", *SMALL))
    origin = hba.load_policy("run").provenance
    assert (origin["skipped_images"], origin["train_images"] + origin["val_images"]) == (1, 23)
    said(run("evaluate", "run", "--seeds", "1", "--out", "evaluated"))
    content = json.loads(Path("evaluated/results.json").read_text())
    assert (content["train_images"], content["test_images"]) == (23, 6)


def test_a_broken_image_leaves_no_reader_threads_behind(tmp_path: Path) -> None:
    make_images(tmp_path / "images" / "train")
    make_images(tmp_path / "images" / "test", 3)
    (tmp_path / "images" / "train" / "cats" / "0.png").write_bytes(b"no image")
    before = set(threading.enumerate())
    with pytest.raises(DataError) as raised:
        hba.search(tmp_path / "images", image_size=8)
    # The error holds on to the reading; were it ended by the garbage collector, that could wait for itself for ever.
    assert set(threading.enumerate()) <= before, str(raised.value)
