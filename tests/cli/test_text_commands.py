"""hba search-text and hba evaluate-text, and what the other commands do with a run on
text.
"""

import json
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from commands import run, said

import hba

SMALL = (
    *(
        "--vocabulary-size",
        "12",
        "--width",
        "4",
        "--layers",
        "2",
        "--sequence-length",
        "5",
        "--batch-size",
        "4",
    ),
    *("--epochs", "2", "--learning-rate", "5", "--device", "cpu"),
)


def write_texts(folder: Path) -> Path:
    """50 lines of five words and their end, in each file."""
    folder.mkdir(parents=True)
    for number, name in enumerate(("train", "valid", "test")):
        lines = [
            " ".join("abcdefghij"[(3 * word + line + number) % 10] for word in range(5))
            for line in range(50)
        ]
        (folder / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def finished_search(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """The folder of a search, and what it printed."""
    folder = tmp_path_factory.mktemp("made")
    write_texts(folder / "texts")
    words = (
        "search-text",
        str(folder / "texts"),
        "--out",
        str(folder / "run"),
        "--warm-up-epochs",
        "0",
        *SMALL,
    )
    return folder, said(*words)


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(
    finished_search: tuple[Path, list[str]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a copy of the run, and of its text."""
    monkeypatch.chdir(tmp_path)
    shutil.copytree(finished_search[0] / "run", "run")
    shutil.copytree(finished_search[0] / "texts", "texts")


def test_a_search_prints_its_plan_and_what_it_found(
    finished_search: tuple[Path, list[str]],
) -> None:
    folder, lines = finished_search
    names = hba.load_policy(folder / "run").space.names
    assert any("2 epochs of 14 steps" in line for line in lines)
    assert [line.split(":")[0] for line in lines if line.startswith("epoch ")] == [
        "epoch 1/2",
        "epoch 2/2",
    ]
    assert all(any(line.split()[:1] == [name] for line in lines) for name in names)
    assert lines[-1] == f"  hba evaluate-text {folder / 'run' / 'policy.json'}"


def test_a_search_is_resumed_shown_reported_and_compared() -> None:
    said("search-text", "texts", "--out", "run", "--resume")
    assert hba.load_policy("run").epochs == 2
    assert (
        "width" in run("search-text", "--out", "run", "--resume", "--width", "5").stderr
    )
    assert said("show", "run")[-1] == "Picture: run/policy.png"
    assert said("report", "run") == ["Report: run/report.html"]
    assert "hba evaluate-text policy.json" in Path("run/report.html").read_text(
        encoding="utf-8"
    )
    assert any("dropout.words" in line for line in said("compare", "run"))
    said("export", "run", "--to", "json", "--out", "b.json")
    for line in (
        "export run --to kornia --out c.py",
        "search --out run --resume",
        "evaluate run --seeds 1",
    ):
        assert run(*line.split()).exit_code == 2


def test_an_interrupted_evaluation_is_resumed_with_more_seeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from hba.cli.evaluate import PrintsTrainings

    done = PrintsTrainings.ended

    def stop(self: PrintsTrainings, *arguments: Any) -> None:
        done(self, *arguments)
        signal.raise_signal(signal.SIGTERM)

    command = ("evaluate-text", "run/policy.json", "--against", "none,final")
    with monkeypatch.context() as patched:
        patched.setattr(PrintsTrainings, "ended", stop)
        stopped = run(*command, "--seeds", "2")
    assert (stopped.exit_code, "--out runs/evaluate-1 --resume" in stopped.stderr) == (
        130,
        True,
    )
    lines = said(*command, "--seeds", "2", "--out", "runs/evaluate-1", "--resume")
    assert len([line for line in lines if ", seed " in line]) == 5
    assert (
        len(
            json.loads(
                Path("runs/evaluate-1/results.json").read_text(encoding="utf-8")
            )["trainings"]
        )
        == 6
    )
    for name in ("report", "compare"):
        assert "evaluation of images" in run(name, "runs/evaluate-1").stderr


def test_mistakes_are_one_line_that_names_them() -> None:
    failures = []
    for line, named in (
        ("search-text texts --batch-size 2000", "batch_size"),
        ("search-text texts --out run", "--resume"),
        ("search-text --out new --resume", "new"),
        ("evaluate-text run nowhere", "nowhere"),
    ):
        result = run(*line.split())
        if (
            result.exit_code != 2
            or named not in result.stderr
            or len(result.stderr.splitlines()) != 1
        ):
            failures.append((line, result.output))
    assert failures == []
