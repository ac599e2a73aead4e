"""--pretrained with a file, without one, and where it stands before DATA; what a search from weights says."""

from pathlib import Path
from typing import Any

import pytest
from commands import make_images, refusal_of, run
from pretrained_networks import MODEL, weights_file

from hba.errors import SettingsError

SMALL = ("--epochs", "1", "--batch-size", "8", "--model", MODEL, "--image-size", "32", "--device", "cpu")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("words", "pretrained"),
    [
        (("digits", "--pretrained"), "timm"),
        (("digits", "--pretrained", "--epochs", "3"), "timm"),
        (("digits", "--pretrained", "w.pth"), "w.pth"),
        (("--pretrained", "w.pth", "digits"), "w.pth"),
        (("digits", "--pretrained=none"), "none"),
        (("digits",), None),
    ],
)
@pytest.mark.parametrize("command", ["search", "evaluate"])
def test_without_a_file_it_is_timm(
    command: str, words: tuple[str, ...], pretrained: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def note(*given: Any, **settings: Any) -> None:
        seen.append((given, settings))
        raise SettingsError("noted")

    monkeypatch.setattr(f"hba.{command}", note)
    assert refusal_of(command, *words, "--out", "new") == "noted"
    ((given, settings),) = seen
    assert (given[0], settings.get("pretrained")) == ("digits", pretrained)


def test_a_folder_in_the_place_of_the_file_is_told(tmp_path: Path) -> None:
    make_images(tmp_path / "pets", n_images=2)
    words = ("search", "--pretrained", "pets", "--model", MODEL, "--epochs", "1", "--image-size", "32")
    assert refusal_of(*words) == (
        f"--pretrained must be a file of weights, and {tmp_path / 'pets'} is a folder; for timm's weights, write "
        "`timm`, or put the images first"
    )


def test_a_search_and_an_evaluation_from_a_file_say_so(tmp_path: Path) -> None:
    make_images(tmp_path / "pets", n_images=8)
    weights = weights_file(tmp_path)
    searched = run("search", "pets", *SMALL, "--pretrained", "weights.pth", "--freeze", "all-but-head", "--out", "run")
    assert searched.exit_code == 0, searched.output
    assert f"Pretrained weights: {weights} (SHA-256 " in searched.stdout
    evaluated = run("evaluate", "run/policy.json", "--seeds", "1", "--jobs", "1", "--out", "evaluation")
    assert evaluated.exit_code == 0, evaluated.output
    assert f"Pretrained weights: {weights} (SHA-256 " in evaluated.stdout
    explained = run("evaluate", "run/policy.json", "--explain").stdout
    assert "all-but-head" in explained
