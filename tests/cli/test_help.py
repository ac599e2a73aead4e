"""The help of a command with many options: sections, choices, and defaults that are true."""

import re
from typing import Any

import click
import pytest
from commands import command_of, run
from hba.cli.main import COMMANDS
from hba.cli.sections import FIRST, SECTIONS, section_of

from hba.algorithms import ALGORITHMS, Lookahead
from hba.config.evaluation import EvaluationConfig
from hba.config.presets import DEFAULT_PRESETS
from hba.policy_search.config import SearchConfig

OPTION = re.compile(r"^  (--[a-z-]+)", re.MULTILINE)
FOLDER = "some/images"


def help_of(command: str, flag: str = "--help-all") -> dict[str, str]:
    """By option, its text without line breaks."""
    parts = OPTION.split(run(command, flag).stdout)
    return {name: " ".join(text.split()) for name, text in zip(parts[1::2], parts[2::2], strict=True)}


def shown_default(command: str, setting: str) -> str | None:
    found = re.findall(r"\[default: (.*?)\](?: |$)", help_of(command)["--" + setting.replace("_", "-")])
    # Lines are broken after hyphens too.
    return found[0].replace("- ", "-") if found else None


def as_typed(value: Any) -> str:
    if isinstance(value, bool):
        return "on" if value else "off"
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_a_help(command: str) -> None:
    shown = run(command, "--help")
    assert shown.exit_code == 0
    assert shown.stdout.startswith(f"Usage: main {command} ")


def test_every_default_of_a_search_that_is_shown_is_the_one_that_is_taken() -> None:
    taken = {data: SearchConfig.from_preset({"data": data}) for data in (*DEFAULT_PRESETS, "fashionmnist", FOLDER)}
    texts = help_of("search")
    flat = {data: config.model_dump() | config.algorithm.model_dump() for data, config in taken.items()}
    for name in set(SearchConfig.model_fields) - {"data", "algorithm"} | set(Lookahead.model_fields):
        default = shown_default("search", name)
        values = {data: config[name] for data, config in flat.items()}
        option = texts["--" + name.replace("_", "-")]
        assert default, f"{name} shows no default: {option}"
        if default.startswith("by dataset, else "):
            assert len(set(values.values())) > 1, name
            default = default.removeprefix("by dataset, else ")
        else:
            assert len(set(values.values())) == 1, name
        # Of a setting that several algorithms have, the default algorithm's comes first.
        default = default.partition("; ")[0]
        if values[FOLDER] is None:
            # In words, of what the data or another setting decide.
            assert default not in ("on", "off", "None", "True", "False"), name
        else:
            assert default == as_typed(values[FOLDER]), name


def test_no_default_of_an_evaluation_is_a_truth_by_accident() -> None:
    for name, field in EvaluationConfig.model_fields.items():
        if name not in ("data", "val_size"):
            default = shown_default("evaluate", name)
            assert default not in ("None", "True", "False")
            assert (default in ("on", "off")) == (isinstance(field.default, bool) and default != "as in the search")
    assert shown_default("evaluate", "flip") == "as in the search"
    assert shown_default("evaluate", "skip_broken") == "as in the search"


def test_what_is_one_of_some_words_lists_them() -> None:
    shown = run("search", "--help-all").stdout
    assert "--interpolation [nearest|bilinear]" in shown
    assert "--sharing [first-bn|bn|first-conv|conv|conv+bn|all|every]" in shown
    squeezed = "".join(shown.split())
    assert "digits,cifar10,cifar100,svhn,svhn-full,fashionmnist,imagenet.Datasetwhosebaseline" in squeezed
    for option in command_of("search").params:
        if isinstance(option.type, click.Choice):
            for choice in option.type.choices:
                assert "".join(str(choice).split()) in squeezed


@pytest.mark.parametrize("command", ["search", "evaluate"])
def test_help_stands_in_sections_that_fit_80_columns(command: str) -> None:
    lines = run(command, "--help-all").stdout.splitlines()
    assert max(map(len, lines[lines.index("Data:") :])) <= 80
    titles = [line.removesuffix(":") for line in lines if re.fullmatch(r"[A-Z].*:", line)]
    assert titles == [title for title in SECTIONS if title in titles]
    assert titles[:3] == ["Data", "Network and training", "Baseline augmentation"]
    assert titles[-1] == "Run and output"
    options = [option for option in command_of(command).params if isinstance(option, click.Option)]
    assert {section_of(option) for option in options} <= set(titles)
    assert set(help_of(command)) >= {option.opts[0] for option in options}


OPTION_OF = {"budget_seconds": "--budget"}
"""Where the value has a unit and the option has not, because it is typed with it."""


@pytest.mark.parametrize("command", FIRST)
def test_help_lists_the_ten_options_that_people_need_first_and_says_how_to_see_the_others(command: str) -> None:
    assert len(set(FIRST[command])) == 10
    shown = help_of(command, "--help")
    assert set(shown) == {OPTION_OF.get(name, "--" + name.replace("_", "-")) for name in (*FIRST[command], "help_all")}
    everything = help_of(command)
    assert set(shown) < set(everything)
    (said,) = re.findall(rf"`main {command} --help-all` lists all (\d+) options\.", run(command, "--help").stdout)
    assert int(said) == len({*everything, "--help"})


def test_every_name_of_a_section_is_an_option_of_a_search() -> None:
    names = [name for names in SECTIONS.values() for name in names]
    known = (parameter.name for command in ("search", "search-text") for parameter in command_of(command).params)
    assert set(names) <= {*known}
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_help_after_an_algorithm_is_that_of_the_algorithm(name: str) -> None:
    shown = set(OPTION.findall(run("search", "--algorithm", name, "--help-all").stdout))
    every = {f"--{setting.replace('_', '-')}" for kind in ALGORITHMS.values() for setting in kind.model_fields}
    own = {f"--{setting.replace('_', '-')}" for setting in ALGORITHMS[name].model_fields}
    assert shown & every == own
    assert {"--algorithm", "--epochs", "--out"} <= shown
