"""hba search-text and hba evaluate-text, and what the other commands make of a run on text."""

import json
import shutil
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from commands import make_images, refusal_of, run, usage_error_of
from hba.cli import main
from test_commands import said
from test_show_and_apply import png_size

import hba
from hba.text.evaluation import TextEvaluationProgress

SMALL = (
    *("--vocabulary-size", "12", "--width", "4", "--layers", "2", "--sequence-length", "5", "--batch-size", "4"),
    *("--epochs", "2", "--learning-rate", "5", "--device", "cpu"),
)
NAMES = ("dropout.words", "dropout.input", "dropout.hidden", "dropout.output", "dropout.weights")
RUN_FILES = {".lock", "policy.json", "config.json", "metrics.csv", "checkpoint.pt"}


def write_texts(folder: Path, names: Sequence[str] = ("train", "valid", "test")) -> Path:
    """50 lines of five words and their end, in each file."""
    folder.mkdir(parents=True)
    for number, name in enumerate(names):
        lines = [" ".join("abcdefghij"[(3 * word + line + number) % 10] for word in range(5)) for line in range(50)]
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The folder of a search, and what it said."""
    folder = tmp_path_factory.mktemp("made")
    write_texts(folder / "texts")
    arguments = ["search-text", str(folder / "texts"), "--out", str(folder / "run"), "--warm-up-epochs", "0", *SMALL]
    return folder, said(CliRunner().invoke(main, arguments))


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(made: tuple[Path, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a copy of the run, and of its text."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(made[0] / "run", "run")
    shutil.copytree(made[0] / "texts", "texts")


def test_a_search_says_what_it_does_and_what_it_found(made: tuple[Path, list[str]]) -> None:
    folder, lines = made
    schedule = hba.load_policy(folder / "run")
    assert lines[0] == (
        "Text: 300 words in train.txt, 300 words in valid.txt; the model knows 12 words, 0.0 % of train.txt, "
        "0.0 % of valid.txt are others"
    )
    assert lines[2] == "Search: 2 epochs of 14 steps, 14 steps of lambda"
    assert lines[3].startswith("Tuned: dropout.words 0.05, dropout.input 0.05, ")
    assert [line.split(":")[0] for line in lines[4:6]] == ["epoch 1/2", "epoch 2/2"]
    for line, name in zip(lines[6:13], schedule.space.names, strict=True):
        first, last = (schedule.regularization(epoch)[name] for epoch in (0, 1))
        assert line.split(maxsplit=1) == [name, f"0.05 at the start, {first:.3g} after epoch 1, {last:.3g} in the end"]
    assert lines[-1] == f"  hba evaluate-text {folder / 'run' / 'policy.json'}"
    assert {path.name for path in (folder / "run").iterdir()} == RUN_FILES


def test_an_evaluation_follows_as_the_search_says(made: tuple[Path, list[str]]) -> None:
    command = made[1][-1].split()[1:]
    lines = said(run(*command, "--seeds", "2", "--out", "evaluation", "--against", "none,final"))
    done = [f"{name}, seed {seed}: test perplexity" for seed in range(2) for name in ("schedule", "none", "final")]
    assert [line.rpartition(" ")[0] for line in lines[:6]] == done
    assert [line.split()[:2] for line in lines[6:9]] == [[name, "perplexity"] for name in ("schedule", "none", "final")]
    assert [line.split(":")[0] for line in lines[9:11]] == ["schedule - none", "schedule - final"]
    assert lines[11:] == ["Results: evaluation/results.json"]
    assert len(json.loads(Path("evaluation/results.json").read_text(encoding="utf-8"))["trainings"]) == 6
    resumed = said(run(*command, "--seeds", "3", "--out", "evaluation", "--against", "none,final", "--resume"))
    assert [line.rpartition(" ")[0] for line in resumed if "seed 0" in line or "seed 1" in line] == []
    assert len([line for line in resumed if ", seed 2: " in line]) == 3


def test_a_search_is_resumed_with_more_epochs() -> None:
    lines = said(run("search-text", "texts", "--out", "run", "--resume", "--epochs", "3"))
    assert lines[2] == "Search: 3 epochs, 2 of them done of 14 steps, 21 steps of lambda"
    assert next(line for line in lines if line.startswith("epoch ")).startswith("epoch 3/3: ")
    assert hba.load_policy("run").epochs == 3


def test_a_search_without_out_makes_a_folder_of_its_own() -> None:
    said(run("search-text", "texts", *SMALL, "--tune", "dropout.output", "--algorithm", "delta-stn"))
    (made,) = Path("runs").iterdir()
    assert hba.load_policy(made).space.names == ("dropout.output",)


def test_show_draws_the_run() -> None:
    lines = said(run("show", "run"))
    assert lines[0].strip() == "run: 2 epochs, regularizers"
    assert all(any(f"│ {name} " in line for line in lines) for name in NAMES)
    assert png_size(Path("run/policy.png"))[0] > 800
    assert [one["name"] for one in json.loads(run("show", "run", "--json").stdout)["regularizers"]][:5] == [*NAMES]


def test_report_writes_the_page_of_the_run() -> None:
    assert said(run("report", "run")) == ["Report: run/report.html"]
    assert "activation" in Path("run/report.html").read_text(encoding="utf-8")


def test_the_page_of_a_run_on_text_names_the_evaluation_of_text() -> None:
    run("report", "run")
    page = Path("run/report.html").read_text(encoding="utf-8")
    assert "hba evaluate-text run/policy.json" in page
    assert "hba evaluate run/policy.json" not in page


def test_the_page_of_a_run_on_text_does_not_say_that_no_command_does_it_again() -> None:
    run("report", "run")
    assert "No command does it again" not in Path("run/report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("command", ["report", "compare"])
def test_the_results_of_an_evaluation_on_text_are_said_to_be_of_text(command: str) -> None:
    said(run("evaluate-text", "run/policy.json", "--seeds", "1", "--against", "none", "--out", "evaluation"))
    assert refusal_of(command, "evaluation").startswith(
        "evaluation/results.json is of language models: hba evaluate-text POLICY --out evaluation --resume shows it"
    )


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_evaluation_keeps_what_has_ended_and_says_how_it_goes_on(
    by: signal.Signals, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = TextEvaluationProgress.training_done

    def stop(self: TextEvaluationProgress, name: str, seed: int, loss: Any) -> None:
        done(self, name, seed, loss)
        signal.raise_signal(by)

    command = ("evaluate-text", "run/policy.json", "--seeds", "2", "--against", "none")
    with monkeypatch.context() as patched:
        patched.setattr(TextEvaluationProgress, "training_done", stop)
        stopped = run(*command)
    assert stopped.exit_code != 0
    assert "Traceback" not in stopped.output
    again = "the same command with --out runs/evaluate-1 --resume does the others"
    assert f"trainings that ended: 1, in runs/evaluate-1/results.json; {again}" in stopped.stderr
    lines = said(run(*command, "--out", "runs/evaluate-1", "--resume"))
    assert lines[-1] == "Results: runs/evaluate-1/results.json"
    assert said(run(*command))[1:-1] == lines[:-1]
    assert Path("runs/evaluate-2/results.json").exists()


def test_a_model_that_is_worse_than_guessing_is_said_to_be() -> None:
    lines = said(run("search-text", "texts", *SMALL, "--learning-rate", "40", "--clip-norm", "9", "--out", "steep"))
    vocabulary = next(line for line in lines if line.startswith("Text: ")).split("knows ")[1].split()[0]
    told = f"That is worse than guessing among {vocabulary} words, which has {vocabulary}; lower --learning-rate."
    assert told in lines
    slow = said(run("search-text", "texts", *SMALL, "--learning-rate", "0.5", "--out", "slow"))
    assert not [line for line in slow if "guessing" in line]


def test_settings_are_named_as_on_the_command_line_where_a_text_is_too_short() -> None:
    assert refusal_of("search-text", "texts", "--batch-size", "2000").endswith(
        "lower --batch-size or --sequence-length"
    )


def test_compare_shows_the_run() -> None:
    lines = said(run("compare", "run"))
    assert any("dropout.words" in line for line in lines)


def test_a_run_on_text_is_exported_to_json_alone() -> None:
    said(run("export", "run", "--to", "json", "--out", "b.json"))
    assert hba.load_policy("b.json").space == hba.load_policy("run").space
    for to in ("torchvision", "timm", "kornia", "albumentations"):
        assert refusal_of("export", "run", "--to", to, "--out", "policy.py").startswith(
            f"{to} takes operations, and the schedule has regularizers alone: "
        )


def test_no_picture_shows_a_run_on_text() -> None:
    make_images(Path("images"), 1)
    assert refusal_of("apply", "run", "images/cats/0.png", "--out", "b.png").startswith(
        "the schedule has nothing that changes pixels, only dropout.words, dropout.input, dropout.hidden and 4 more"
    )


def test_a_run_on_text_is_not_evaluated_on_images() -> None:
    make_images(Path("images"))
    for data in ([], ["images"]):
        assert refusal_of("evaluate", "run", *data, "--seeds", "1", "--epochs", "1", "--device", "cpu")


def test_a_run_on_text_is_not_resumed_as_one_on_images() -> None:
    assert refusal_of("search", "--out", "run", "--resume").startswith("run/config.json cannot be read: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "DATA must be named: a folder with train.txt, valid.txt and test.txt"),
        (["--resume"], "--resume needs --out, the folder of the run to resume"),
        (["nowhere"], "there must be a folder with train.txt, valid.txt, test.txt, got "),
        (["images"], "there is no train.txt in "),
        (["texts", "--out", "run"], "run already holds a run: add --resume to resume it, or choose another --out"),
        (["--out", "run", "--resume", "--width", "5"], "a resumed run keeps its settings; run has width 4 (given 5)"),
        (["--out", "new", "--resume"], "new holds no run to resume: there is no config.json in it"),
        (["texts", "--epochs", "0"], "--epochs must be at least 1, got 0"),
        (["texts", "--epochs", "1"], "--warm-up-epochs must leave epochs for lambda steps, got 1 of 1 epochs"),
        (["texts", "--vocabulary-size", "2"], "--vocabulary-size must be at least 3, got 2"),
        (["texts", "--device", "tpu-9"], "--device must be auto, cpu, cuda or cuda:<number>, got 'tpu-9'"),
        (["texts", "--tune", "dropout.letters"], "--tune: "),
        (["texts"], "valid.txt must have at least 2840 words for 40 columns of 70 words and one more, got 300"),
        ([*("texts", "--learning-rate", "1e38", "--out", "new"), *SMALL[:-4]], "the loss of epoch 1 is not finite"),
    ],
)
def test_a_mistake_in_a_search_is_one_line(arguments: list[str], message: str) -> None:
    make_images(Path("images"), 1)
    if "1e38" not in arguments:
        assert refusal_of("search-text", *arguments).startswith(message)
        return
    result = run("search-text", *arguments)
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert result.stderr.startswith(f"hba: error: {message}")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.json"], "no schedule file nowhere.json"),
        (
            ["digits"],
            "a language model has no ShearX: give a schedule that hba search-text has found; for images there",
        ),
        (["run", "nowhere"], "there must be a folder with train.txt, valid.txt, test.txt, got "),
        (["run", "untested"], "there is no test.txt in "),
        (["run", "--against", "nothing"], "--against: unknown rival 'nothing'; known: none, start, static, final"),
        (["run", "--resume"], "--resume needs --out, the folder of the evaluation to resume"),
        (["run", "--resume", "--out", "new"], "new holds no evaluation to resume: there is no results.json in it"),
        (["run", "--seeds", "0"], "--seeds must be at least 1, got 0"),
        (
            ["run", "--batch-size", "60"],
            "train.txt must have at least 360 words for 60 columns of 5 words",
        ),
        (["run", "--learning-rate", "1e38"], "the loss of epoch 1 is not finite; try a learning rate below 1e+38"),
    ],
)
def test_a_mistake_in_an_evaluation_is_one_line(arguments: list[str], message: str) -> None:
    write_texts(Path("untested"), ("train", "valid"))
    assert refusal_of("evaluate-text", *arguments).startswith(message)


def test_settings_of_images_are_no_options_of_text() -> None:
    for option in ("--init", "--operations", "--model"):
        assert usage_error_of("search-text", "texts", option, "1").startswith(f"Error: No such option '{option}'")
    assert usage_error_of("search-text", "texts", "--algorithm", "hba").startswith(
        "Error: Invalid value for '--algorithm': 'hba' is not one of 'stn', 'delta-stn'"
    )
    assert usage_error_of("evaluate-text") == "Error: Missing argument 'SCHEDULE'."
