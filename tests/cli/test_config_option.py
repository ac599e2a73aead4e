"""A new search with the settings of an earlier one: as if they were typed again."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import SMALL, make_images, refusal_of, run
from test_commands import said

import hba

LIKE = ("--config", "first")


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with images and a search on them."""
    place = tmp_path_factory.mktemp("earlier")
    make_images(place / "pets")
    make_images(place / "others", seed=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        options = (
            "--flip",
            "--crop-padding",
            "2",
            "--seed",
            "7",
            "--reward-draws",
            "2",
            "--operations",
            "Rotate,Color",
        )
        said(run("search", "pets", "--out", "first", *SMALL, *options))
    return place


@pytest.fixture(autouse=True)
def in_its_folder(earlier: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(earlier / "first", tmp_path / "first")
    monkeypatch.chdir(tmp_path)


def settings(folder: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(folder, "config.json").read_text(encoding="utf-8"))
    return found


@pytest.mark.parametrize("named", ["first", "first/config.json"])
def test_the_same_settings_find_the_same_schedule(named: str) -> None:
    """On the same device; the batch size is larger than there are images, as it was."""
    said(run("search", "--config", named, "--device", "cpu"))
    assert Path("runs/pets-1/config.json").read_bytes() == Path("first/config.json").read_bytes()
    np.testing.assert_array_equal(hba.load_policy("runs/pets-1").values, hba.load_policy("first").values)


def test_neither_the_folder_nor_the_device_nor_the_state_is_taken_over() -> None:
    changed = {**settings("first"), "device": "cuda:99"}
    Path("first/config.json").write_text(json.dumps(changed), encoding="utf-8")
    lines = said(run("search", *LIKE, "--out", "second", "--epochs", "1"))
    assert lines[2].startswith("1 epoch, ")
    assert settings("second") == {**changed, "device": "auto", "epochs": 1}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("--seed", "8", "--epochs", "1"), {"seed": 8, "epochs": 1}),
        (("--baseline", "none", "--epochs", "1"), {"baseline": "none", "flip": False, "crop_padding": 0, "epochs": 1}),
        (("--image-size", "16", "--epochs", "1"), {"image_size": 16, "crop_padding": 4, "epochs": 1}),
        (
            ("--optimizer", "adamw", "--epochs", "1"),
            {"optimizer": "adamw", "learning_rate": 0.001, "weight_decay": 0.05, "epochs": 1},
        ),
        (("--init", "randaugment", "--epochs", "1"), {"init": "randaugment", "epochs": 1}),
    ],
)
def test_what_is_given_wins_with_all_that_goes_with_it(given: tuple[str, ...], expected: dict[str, Any]) -> None:
    said(run("search", *LIKE, "--out", "second", "--device", "cpu", *given))
    assert settings("second") == {**settings("first"), **expected}


def test_another_algorithm_has_its_own_settings() -> None:
    said(run("search", *LIKE, "--out", "second", "--algorithm", "population", "--epochs", "1", "--device", "cpu"))
    found = settings("second")
    assert (found["algorithm"], found["initial_fraction"]) == ("population", 0.05)
    assert (found["seed"], found["operations"], found["flip"]) == (7, ["Rotate", "Color"], True)
    assert "reward_draws" not in found


def test_other_data_are_searched_with_the_same_settings(earlier: Path) -> None:
    said(run("search", str(earlier / "others"), *LIKE, "--device", "cpu", "--epochs", "1"))
    assert settings("runs/others-1") == {**settings("first"), "data": str(earlier / "others"), "epochs": 1}


def test_the_settings_of_another_version_are_read_as_for_a_resumed_run() -> None:
    old = settings("first")
    for name in ("count", "strength_learning_rate", "divergence_weight", "spread_over", "spread_share", "levels"):
        del old[name]
    Path("old.json").write_text(json.dumps(old), encoding="utf-8")
    said(run("search", "--config", "old.json", "--out", "second", "--epochs", "1"))
    assert (settings("second")["count"], settings("second")["strength_learning_rate"]) == ("fixed", 0.0)
    Path("new.json").write_text(json.dumps({**old, "flavour": 1}), encoding="utf-8")
    assert refusal_of("search", "--config", "new.json") == (
        "--config must be the config.json of a search, or its folder; new.json cannot be read: there is no setting "
        "flavour"
    )


@pytest.mark.parametrize("content", [None, "", "[]", "{", '{"epochs": "many"}', '{"rows": []}'])
def test_an_unknown_or_broken_file_is_refused_in_one_line(content: str | None) -> None:
    if content is not None:
        Path("other.json").write_text(content, encoding="utf-8")
    message = refusal_of("search", "--config", "other.json")
    assert message.startswith(
        "--config must be the config.json of a search, or its folder; other.json cannot be read: "
    )


def test_a_run_in_a_network_of_ones_own_cannot_be_repeated_by_a_file_alone() -> None:
    policy = json.loads(Path("first/policy.json").read_text(encoding="utf-8"))
    policy["provenance"]["settings"]["model"] = None
    Path("first/policy.json").write_text(json.dumps(policy), encoding="utf-8")
    message = refusal_of("search", *LIKE)
    assert message == (
        "the search of first/config.json had a network of its own, which no file has; give network in Python, or "
        "choose another model"
    )
    said(run("search", *LIKE, "--out", "second", "--model", "wrn-10-1", "--epochs", "1"))


def test_images_that_are_gone_must_be_named() -> None:
    changed = {**settings("first"), "data": "/nowhere/pets"}
    Path("first/config.json").write_text(json.dumps(changed), encoding="utf-8")
    assert refusal_of("search", *LIKE, "--out", "second") == (
        "the images of first/config.json are no longer in /nowhere/pets; name the data to search on, as in "
        "hba search DIR --config first/config.json"
    )


@pytest.mark.parametrize(
    ("options", "name"),
    [
        (("--preset", "digits", "--out", "second"), "preset"),
        (("--paper", "--out", "second"), "paper"),
        (("--resume", "--out", "first"), "resume"),
    ],
)
def test_other_sources_of_settings_exclude_it(options: tuple[str, ...], name: str) -> None:
    message = refusal_of("search", *LIKE, *options)
    assert message == f"--config must stand without {name}: it has all settings of an earlier run"


EVALUATE = ("evaluate", "first/policy.json", "--jobs", "1")


@pytest.fixture(scope="module")
def results(earlier: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The text of results.json of an evaluation with settings of its own."""
    out = tmp_path_factory.mktemp("evaluation") / "run"
    options = ("--seeds", "2", "--epochs", "1", "--learning-rate", "0.01", "--spread", "0.5", "--jobs", "1")
    said(run("evaluate", str(earlier / "first"), "--out", str(out), "--device", "cpu", *options))
    return (out / "results.json").read_text(encoding="utf-8")


@pytest.fixture
def evaluated(results: str) -> dict[str, Any]:
    Path("evaluated").mkdir()
    Path("evaluated/results.json").write_text(results, encoding="utf-8")
    found: dict[str, Any] = json.loads(results)
    return found


@pytest.mark.parametrize("named", ["evaluated", "evaluated/results.json"])
def test_an_evaluation_with_the_same_settings_has_the_same_errors(named: str, evaluated: dict[str, Any]) -> None:
    said(run(*EVALUATE, "--config", named, "--out", "again", "--device", "cpu"))
    again = json.loads(Path("again/results.json").read_text(encoding="utf-8"))
    assert again["settings"] == evaluated["settings"]
    errors = [[row["test_error_percent"] for row in one["rows"]] for one in (again, evaluated)]
    assert errors[0] == errors[1]


def test_an_evaluation_is_told_what_wins_and_explains_it(evaluated: dict[str, Any]) -> None:
    evaluated["settings"]["device"] = "cuda:99"
    Path("evaluated/results.json").write_text(json.dumps(evaluated), encoding="utf-8")
    found = hba.policy_evaluation.explain("first", config="evaluated", seeds=1, optimizer="adamw")
    assert found["seeds"] == (1, "given")
    assert found["epochs"] == (1, "earlier evaluation")
    assert found["learning_rate"] == (0.001, "default")
    assert found["device"] == ("auto", "default")
    assert found["spread"] == (0.5, "earlier evaluation")


@pytest.mark.parametrize("content", [None, "", "[]", "{}", '{"settings": {"flavour": 1}}'])
def test_an_unknown_or_broken_file_of_an_evaluation_is_refused(content: str | None) -> None:
    if content is not None:
        Path("other.json").write_text(content, encoding="utf-8")
    message = refusal_of(*EVALUATE, "--config", "other.json")
    assert message.startswith("--config must be the results.json of an evaluation, or its folder; other.json cannot be")


@pytest.mark.usefixtures("evaluated")
def test_an_evaluation_has_its_settings_from_one_place() -> None:
    message = refusal_of(*EVALUATE, "--config", "evaluated", "--preset", "digits")
    assert message == "--config must stand without preset: it has all settings of an earlier run"


def test_an_evaluation_by_the_settings_of_another_is_resumed_by_its_own_command(evaluated: dict[str, Any]) -> None:
    command = (*EVALUATE, "--config", "evaluated", "--out", "again", "--device", "cpu")
    said(run(*command))
    first = Path("again/results.json").read_text(encoding="utf-8")
    said(run(*command, "--resume"))
    assert Path("again/results.json").read_text(encoding="utf-8") == first
    said(run(*command, "--resume", "--seeds", "3"))
    again = json.loads(Path("again/results.json").read_text(encoding="utf-8"))
    assert [row["seeds"] for row in again["rows"]] == [[0, 1, 2]] * len(evaluated["rows"])
    assert "epochs" in refusal_of(*command, "--resume", "--epochs", "2")
