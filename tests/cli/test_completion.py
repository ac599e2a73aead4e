"""What a shell proposes when the Tab key is pressed."""

import pytest
from click.shell_completion import ShellComplete
from hba.cli import main
from hba.cli.main import COMMANDS

from hba.config.presets import EVALUATION_PRESETS, SEARCH_PRESETS


def proposed(*words: str) -> list[tuple[str, str]]:
    """Kind and text of what is proposed for the last of the words after `hba`."""
    completion = ShellComplete(main, {}, "hba", "_HBA_COMPLETE")
    return [(item.type, item.value) for item in completion.get_completions(list(words[:-1]), words[-1])]


def plain(*names: str) -> list[tuple[str, str]]:
    return [("plain", name) for name in names]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["sear"], plain("search", "search-text")),
        (["search", "--lambda-l"], plain("--lambda-learning-rate")),
        (["search", "cif"], [*plain("cifar10", "cifar100"), ("file", "cif")]),
        (["search", "--model", "wrn-4"], plain("wrn-40-2")),
        (["search", "--device", ""], plain("auto", "cpu", "cuda")),
        (["search", "--space", ""], plain("hba", "pba")),
        (["search", "--interpolation", "b"], plain("bilinear")),
        (["search", "--operations", "Shear"], plain("ShearX", "ShearY")),
        (["search", "--operations", "Rotate,Co"], plain("Rotate,Contrast", "Rotate,Color")),
        (["search", "--classes", "im"], [*plain("imagenet-120"), ("file", "im")]),
        (["search", "--data-root", "somewhere"], [("dir", "somewhere")]),
        (["search", "--out", "runs/"], [("file", "runs/")]),
        (["search", "--preset", ""], plain(*SEARCH_PRESETS)),
        (["evaluate", "digits", "--preset", ""], plain(*EVALUATION_PRESETS)),
        (["evaluate", "dig"], [*plain("digits"), ("file", "dig")]),
        (["show", "dig"], [*plain("digits"), ("file", "dig")]),
        (["apply", "digits", "a"], [("file", "a")]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) and isinstance(value[0], str) else "",
)
def test_choices_names_and_paths_are_completed(words: list[str], expected: list[tuple[str, str]]) -> None:
    assert proposed(*words) == expected


def test_every_command_is_completed() -> None:
    assert {name for _, name in proposed("")} == set(COMMANDS)
