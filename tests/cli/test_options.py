"""Options made from settings, and the help that lists them."""

import re
from typing import Any

import click
import pytest
from commands import command_of, refusal_of, run
from hba.cli.help import COMMON
from hba.cli.main import COMMANDS
from hba.cli.options import FLAGS, duration

import hba
from hba.algorithms import ALGORITHMS
from hba.config.evaluation import EvaluationConfig
from hba.config.presets import DEFAULT_PRESETS
from hba.errors import SettingsError
from hba.policy_evaluation import BASELINES
from hba.policy_search.config import SearchConfig

FOLDER = "some/images"
pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")


def options_in(*arguments: str) -> dict[str, str]:
    """By option, its text without line breaks."""
    parts = re.split(r"^  (-[a-z-]+)", run(*arguments).stdout, flags=re.MULTILINE)
    return {
        name: " ".join(description.split()).replace("- ", "-")
        for name, description in zip(parts[1::2], parts[2::2], strict=True)
    }


def option_of(setting: str) -> str:
    return "--" + FLAGS.get(setting, setting).replace("_", "-")


def test_every_command_is_listed_and_has_help_and_so_has_every_baseline() -> None:
    listed = run("--help").stdout
    for command in COMMANDS:
        assert f"\n  {command} " in listed
        for flag in ("-h", "--help"):
            assert run(command, flag).stdout.startswith(f"Usage: main {command} ")
    assert run("--version").stdout.split()[-1] == hba.__version__
    explained = re.findall(r"^ +(\S+) ", run("evaluate", "--help").stdout, re.MULTILINE)
    assert {*BASELINES} <= {*explained}


@pytest.mark.parametrize("command", ["search", "evaluate", "search-text"])
def test_help_lists_common_options_and_help_all_more(command: str) -> None:
    common = options_in(command, "--help")
    everything = options_in(command, "--help-all")
    assert set(common) < set(everything) | {"--budget"}
    shown = {option_of(name).removesuffix("-seconds") for name in COMMON[command]}
    assert set(common) == shown | {"-h", "--help-all"}
    assert f"{command} --help-all`" in run(command, "--help").stdout


def test_help_after_an_algorithm_lists_its_options_with_its_defaults() -> None:
    algorithm_options = {
        option_of(name)
        for algorithm in ALGORITHMS.values()
        for name in algorithm.model_fields
    }
    assert not algorithm_options & set(options_in("search", "--help-all"))
    for name, algorithm in ALGORITHMS.items():
        shown = options_in("search", "--algorithm", name, "--help-all")
        able = algorithm.model_fields.keys() - {*algorithm.idle}
        assert set(shown) == {option_of(setting) for setting in able} | {
            "--algorithm",
            "--help-all",
        }
    assert shown["--warm-up-epochs"].endswith(
        f"[default: {ALGORITHMS['delta-stn'].model_fields['warm_up_epochs'].default}]"
    )


def test_every_default_that_is_shown_is_the_one_that_is_taken() -> None:
    datasets = (*DEFAULT_PRESETS, "fashionmnist", FOLDER)
    configs = {
        data: SearchConfig.from_preset({"data": data, "algorithm": "lookahead"})
        for data in datasets
    }
    flat = {
        data: config.model_dump() | config.algorithm.model_dump()
        for data, config in configs.items()
    }
    texts = options_in("search", "--help-all") | options_in(
        "search", "--algorithm", "lookahead", "--help-all"
    )
    wrong = []
    for name in flat[FOLDER].keys() - {"data", "algorithm", "tune"}:
        (default,) = re.findall(
            r"\[default: (.*?)\](?: |$)", texts[option_of(name)]
        ) or [None]
        values = {str(config[name]) for config in flat.values()}
        assert default, f"{name} shows no default"
        if default.startswith(("by dataset, else ", "the dataset's own, else ")) != (
            len(values) > 1
        ):
            wrong.append(name)
        value = flat[FOLDER][name]
        typed = "on" if value is True else "off" if value is False else str(value)
        typed = ",".join(map(str, value)) if isinstance(value, tuple) else typed
        # A default of None stands there in words.
        if (default.removeprefix("by dataset, else ") == typed) != (value is not None):
            wrong.append(name)
    assert wrong == []


VALUES: dict[str, Any] = {
    "image_size": 40, "train_size": 300, "val_size": 100, "split_seed": 7,
    "data_root": "else where", "download": True, "skip_broken": True,
    "model": "resnet-18", "epochs": 12, "learning_rate": 0.125, "flip": False,
    "crop_padding": 0,
    "sharing": "conv+bn", "val_steps": 0, "seed": 4294967295, "space": "pba",
    "operations": "-Rotate,-Color", "start": "Invert=0.5", "ranges": "ShearX=0:0.1",
    "fill": "0.25,0.5,1", "algorithm": "population", "weight_sigma": 0.25,
    "baseline_like": "svhn", "learning_rate_schedule": "plateau",
    "lambda_betas": "0.5,0.75", "levels": "-5,1000.5", "init_from": "digits",
    "pretrained": "weights.pth", "freeze": "2", "fast": True, "val_batch_size": "half",
    "tune": "augmentation,input-dropout", "label_column": "label",
}  # fmt: skip


def option_words(values: dict[str, Any]) -> list[str]:
    options = []
    for name, value in values.items():
        flag = option_of(name)
        options += (
            [flag if value else f"--no-{flag[2:]}"]
            if isinstance(value, bool)
            else [flag, str(value)]
        )
    return options


def passed_on(
    monkeypatch: pytest.MonkeyPatch, command: str, *arguments: str
) -> dict[str, Any]:
    """What the command line hands to the library."""
    seen: list[dict[str, Any]] = []

    def note(*positional: Any, **settings: Any) -> None:
        seen.append(settings)
        raise SettingsError("noted")

    monkeypatch.setattr(f"hba.{command}", note)
    assert refusal_of(command, *arguments) == "noted"
    return {
        name: value
        for name, value in seen[0].items()
        if name not in ("out", "callback", "against")
    }


def test_every_setting_is_an_option_and_its_value_arrives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fields = {
        name for algorithm in ALGORITHMS.values() for name in algorithm.model_fields
    } | SearchConfig.model_fields.keys()
    options = {option.name for option in command_of("search").params}
    assert fields <= options
    assert set(EvaluationConfig.model_fields) - {"val_size"} <= {
        parameter.name for parameter in command_of("evaluate").params
    }
    # With a folder, the command does not check the settings, some of which exclude each
    # other.
    arguments = passed_on(
        monkeypatch, "search", "digits", "--out", "new", *option_words(VALUES)
    )
    expected = {**VALUES, "resume": False, "paper": False, "jobs": None}
    assert arguments == expected
    assert {name: type(value) for name, value in arguments.items()} == {
        name: type(v) for name, v in expected.items()
    }
    assert passed_on(monkeypatch, "search", "digits") == {
        "resume": False,
        "paper": False,
        "jobs": None,
    }
    flags = {"jobs": None, "resume": False, "allow_seen": False, "keep_network": False}
    assert passed_on(
        monkeypatch, "evaluate", "digits", "--seeds", "5", "--spread", "0"
    ) == {
        **flags,
        "seeds": 5,
        "spread": 0,
    }
    assert passed_on(monkeypatch, "evaluate", "digits") == flags


def test_a_time_has_units() -> None:
    for typed, seconds in {
        "90s": 90,
        "20m": 1200,
        "1h30m": 5400,
        "1.5h": 5400,
        "1h2m3s": 3723,
    }.items():
        assert duration(typed) == seconds
    for typed in ("", "90", "0s", "m", "-5m", "30m1h", "1m 30s", "1d", "soon"):
        with pytest.raises(click.BadParameter):
            duration(typed)
