"""Options made from settings."""

import re
from pathlib import Path
from typing import Any

import click
import pytest
from commands import command_of, refusal_of, run
from pydantic.fields import FieldInfo

import hba
from hba.algorithms import ALGORITHMS
from hba.config.evaluation import EvaluationConfig
from hba.errors import SettingsError
from hba.policy_search.config import SearchConfig
from hba.utils.settings import DefaultText

COMMANDS = ("search", "evaluate", "show", "apply", "operations", "policies", "import")


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


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
    "search": {
        "--preset",
        "--out",
        "--resume",
        "--paper",
        "--tensorboard",
        "--operations-file",
        "--budget",
        "--config",
        "--seeds",
        "--jobs",
        "--cluster",
    },
    "evaluate": {
        "--against",
        "--preset",
        "--out",
        "--resume",
        "--jobs",
        "--cluster",
        "--gpus-per-training",
        "--allow-seen",
        "--json",
        "--explain",
        "--config",
        "--tensorboard",
        "--operations-file",
    },
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
    shown = " ".join(run(command, "--help-all").stdout.split())
    for name in named:
        field = fields[name]
        assert f"--{name.replace('_', '-')} " in shown
        assert field.description
        assert squeezed(field.description) in squeezed(shown)
        if command == "search" and field.default is None:
            (words,) = [mark.words for mark in field.metadata if isinstance(mark, DefaultText)]
            # Behind it stand the defaults of other algorithms, or it is one of those.
            assert re.search(rf"\[default:[^]]*{re.escape(squeezed(words))}[;\]]", squeezed(shown))


def squeezed(text: str) -> str:
    """Help is broken into lines, also after a hyphen."""
    return re.sub(r"[\s_-]|by dataset, else", "", text)


SEARCH_VALUES: dict[str, Any] = {
    "image_size": 40, "train_size": 300, "val_size": 100, "split_seed": 7, "data_root": "else where", "download": True,
    "skip_broken": True, "model": "resnet-18", "epochs": 12, "batch_size": 33, "learning_rate": 0.125,
    "weight_decay": 0.0, "flip": False, "crop_padding": 0, "cutout_size": 6, "device": "cpu", "sharing": "conv+bn",
    "lambda_learning_rate": 1e-3, "train_steps": 5, "val_steps": 0, "sigma": 0.5, "calibrate": False,
    "validate_every": 3, "seed": 4294967295, "space": "pba", "operations": "Rotate,Color", "interpolation": "bilinear",
    "fill": "0.25,0.5,1", "classes": "some.txt", "algorithm": "population", "population_size": 11,
    "weight_sigma": 0.25, "batched_members": False, "baseline_like": "svhn", "learning_rate_schedule": "plateau",
    "plateau_epochs": 7, "lambda_optimizer": "rmsprop", "sigma_entropy": 0.0625,
    "random_resized_crop": True, "color_jitter": 0.3, "pca_jitter": 0.05, "stream": True, "workers": 3,
    "response": "centered", "response_weight_decay": 0.0, "initial_fraction": 0.75, "warm_up_epochs": 6,
    "lambda_betas": "0.5,0.75", "trust_radius": 0.375, "logit_bound": 5.5, "val_batch_size": 44, "val_batches": 7,
    "val_statistics": "batch", "sigma_end": 0.0, "reward_draws": 5, "reward_limit": 2.5, "probes": 6,
    "reward_derivative": "difference",
    "path_column": "where", "label_column": "what", "label_separator": "|", "split_column": "none",
    "levels": "-5,1000.5", "baseline": "auto", "horizon_steps": 9,
    "init": "randaugment", "init_from": "digits", "count": "searched", "spread_over": "magnitudes",
    "spread_share": 0.25,
    "pretrained": "weights.pth", "freeze": "all-but-head", "standardize_by": "images", "optimizer": "adamw",
    "learning_rate_warm_up_epochs": 2, "fast": True,
    "strength_learning_rate": 0.0625, "search_spread": True, "divergence_weight": 0.125,
    "tune": "augmentation,cutout",
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
    return {name: value for name, value in seen[0].items() if name not in ("out", "callback")}


def test_values_of_all_options_arrive_with_their_types(monkeypatch: pytest.MonkeyPatch) -> None:
    assert set(SEARCH_VALUES) == set(FIELDS["search"]) - {"data"}
    # Without a folder, the command itself looks at the settings, of which some do not go together.
    passed_on = settings_passed_on(monkeypatch, "search", "digits", "--out", "new", *as_options(SEARCH_VALUES))
    expected = {**SEARCH_VALUES, "preset": None, "resume": False, "paper": False}
    assert passed_on == expected
    assert {name: type(value) for name, value in passed_on.items()} == {n: type(v) for n, v in expected.items()}
    values = {**EVALUATION_VALUES, "seeds": 5, "first_seed": 3, "spread": 0.25}
    assert set(values) == EVALUATION_FIELDS
    passed_on = settings_passed_on(monkeypatch, "evaluate", "digits", "--against", "a, b ,none", *as_options(values))
    own = {"preset": None, "resume": False, "jobs": None, "cluster": None, "gpus_per_training": 1, "allow_seen": False}
    assert passed_on == {**values, "against": ["a", "b", "none"], **own}


def test_a_word_can_stand_instead_of_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    passed_on = settings_passed_on(monkeypatch, "search", "digits", "--val-batch-size", "half")
    assert passed_on["val_batch_size"] == "half"
    for option, word, rule in (
        ("--val-batch-size", "halff", "is not a whole number, nor half (validation images of a batch)."),
        ("--batch-size", "half", "is not a whole number (images per step)."),
    ):
        assert f"'{word}' {rule}" in " ".join(run("search", "digits", option, word).stderr.split())
    message = refusal_of("search", "digits", "--val-batch-size", "0")
    assert message == "--val-batch-size must be at least 1 or 'half', got 0"


def test_what_is_not_given_is_left_to_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    assert settings_passed_on(monkeypatch, "search", "digits") == {"preset": None, "resume": False, "paper": False}
    assert settings_passed_on(monkeypatch, "search", "digits", "--paper")["paper"] is True
    assert settings_passed_on(monkeypatch, "evaluate", "digits") == {
        "against": ["none"], "preset": None, "resume": False, "jobs": None, "cluster": None,
        "gpus_per_training": 1, "allow_seen": False,
    }  # fmt: skip
