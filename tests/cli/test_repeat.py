"""The command that a report gives does the run again: read as it would be typed, it has the run's settings."""

import json
import shlex
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from commands import command_of, make_images
from hba.cli.options import given
from search_problems import SMALL_SETTINGS, small_data
from torch import Tensor

import hba
from hba.algorithms import LambdaSteps
from hba.config.evaluation import EvaluationConfig
from hba.policy_search.config import SearchConfig
from hba.regularization import groups
from hba.regularization.hyperparameter import Hyperparameter
from hba.regularization.regularizer import Regularizer
from hba.report.repeat import evaluation_command, search_command
from hba.report.run import Run
from hba.schedule.schedule import Schedule

TINY: dict[str, Any] = {"model": "wrn-10-1", "epochs": 1, "batch_size": 8, "image_size": 8, "device": "cpu"}
ARGUMENTS = (
    "preset",
    "out",
    "resume",
    "paper",
    "schedule",
    "against",
    "jobs",
    "cluster",
    "gpus_per_training",
    "allow_seen",
    "explain",
    "as_json",
    "tensorboard",
    "budget_seconds",
    "config",
)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_images(tmp_path_factory.mktemp("repeat") / "my images", n_images=20)


def typed(command: str) -> dict[str, Any]:
    """What the command line makes of the words."""
    program, name, *words = shlex.split(command)
    assert program == "hba"
    with command_of(name).make_context(name, words) as context:
        assert isinstance(context, click.Context)
        return given(context.params)


def settings_typed(command: str) -> dict[str, Any]:
    return {name: value for name, value in typed(command).items() if name not in ARGUMENTS}


def repeated(command: str) -> SearchConfig:
    return SearchConfig.from_preset(settings_typed(command)).resolved()


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"baseline": "auto", "flip": False, "seed": 3, "operations": ("Rotate", "Color"), "fill": (0.5,)},
        {"baseline_like": "cifar10", "algorithm": "hba", "trust_radius": 0.5, "epochs": 2},
        {"algorithm": "population", "split_seed": 2, "space": "pba", "interpolation": "bilinear", "skip_broken": True},
        {"algorithm": "delta-stn", "warm_up_epochs": 0, "optimizer": "sgd-classical", "sigma_entropy": 0.01},
        {"algorithm": "hba", "learning_rate_schedule": "plateau", "plateau_epochs": 2, "sigma_entropy": 0.01},
        {"lambda_betas": (0.9, 0.99), "warm_up_epochs": 1, "epochs": 2, "cutout_size": 3, "color_jitter": 0.1},
    ],
)
def test_the_command_of_a_search_has_its_settings(settings: dict[str, Any], images: Path, tmp_path: Path) -> None:
    result = hba.search(images, out=tmp_path, **{**TINY, **settings})
    assert result.schedule is not None
    command = search_command(result.schedule)
    assert command is not None
    stored = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert json.loads(json.dumps(repeated(command).flat())) == stored
    assert command in (tmp_path / "report.html").read_text(encoding="utf-8").replace("&#39;", "'")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"data": "digits"}, "hba search digits"),
        ({"data": "digits", "epochs": 60, "seed": 1}, "hba search digits --epochs 60 --seed 1"),
        ({"data": "cifar10"}, "hba search cifar10"),
        ({"data": "svhn", "flip": True}, "hba search svhn --flip"),
        ({"data": "svhn", "algorithm": "stn"}, "hba search svhn --algorithm stn"),
        (
            {"data": "svhn", "algorithm": "stn", "lambda_learning_rate": 0.02},
            "hba search svhn --algorithm stn --lambda-learning-rate 0.02",
        ),
    ],
)
def test_a_command_says_no_more_than_it_has_to(settings: dict[str, Any], words: str) -> None:
    config = SearchConfig.from_preset(settings).resolved()
    space = config.search_space()
    lowest = np.array([[min(ends) for ends in space.ranges]])
    assert search_command(Schedule(space, lowest, provenance={"settings": config.flat()})) == words
    assert repeated(words) == config


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"batch_size": 64}, "hba search digits --batch-size 64"),
        ({"val_batch_size": None}, "hba search digits --val-batch-size 100"),
        ({"val_batch_size": "half", "algorithm": "hba"}, "hba search digits --algorithm hba --val-batch-size 50"),
        ({"algorithm": "hba"}, "hba search digits --algorithm hba"),
    ],
)
def test_a_command_says_how_many_images_are_validated_at_once(settings: dict[str, Any], words: str) -> None:
    """Searches of older versions took as many as are trained on, where the settings said nothing else."""
    config = SearchConfig.from_preset({"data": "digits", **settings}).resolved()
    lowest = np.array([[min(ends) for ends in config.search_space().ranges]])
    assert search_command(Schedule(config.search_space(), lowest, provenance={"settings": config.flat()})) == words
    algorithm, again = config.algorithm, repeated(words).algorithm
    assert isinstance(algorithm, LambdaSteps)
    assert isinstance(again, LambdaSteps)
    assert algorithm.validated_at_once(config.batch_size) == again.validated_at_once(config.batch_size)


@pytest.mark.parametrize("init", ["randaugment", "fraction"])
def test_the_command_of_a_search_from_a_schedule_names_it(init: str) -> None:
    """Versions before kept another init beside it, which has no effect."""
    config = SearchConfig.from_preset({"data": "digits", "init_from": "digits"}).resolved()
    lowest = np.array([[min(ends) for ends in config.search_space().ranges]])
    settings = {**config.flat(), "init": init}
    command = search_command(Schedule(config.search_space(), lowest, provenance={"settings": settings}))
    assert command == "hba search digits --init-from digits"
    assert repeated(command) == config
    config = config.changed({"init_from": hba.load_policy("digits")})
    assert search_command(Schedule(config.search_space(), lowest, provenance={"settings": config.flat()})) is None


@pytest.mark.parametrize("unknown", ["quarter", [1], {"a": 1}])
def test_what_no_search_has_had_makes_no_traceback(unknown: Any) -> None:
    config = SearchConfig.from_preset({"data": "digits"}).resolved()
    lowest = np.array([[min(ends) for ends in config.search_space().ranges]])
    settings = {**config.flat(), "val_batch_size": unknown}
    command = search_command(Schedule(config.search_space(), lowest, provenance={"settings": settings}))
    assert command is None or "--val-batch-size" in command


def test_images_in_memory_have_no_command() -> None:
    in_memory = hba.search(small_data(), **{**SMALL_SETTINGS, "epochs": 1, "train_steps": 1})  # type: ignore[arg-type]
    assert in_memory.schedule is not None
    assert search_command(in_memory.schedule) is None


@pytest.mark.parametrize("own", ["model", "space", "algorithm", "settings"])
def test_what_only_python_can_give_has_no_command(own: str) -> None:
    """As the checkpointer notes it: None in the place of the setting, and an algorithm of one's own by its name."""
    config = SearchConfig.from_preset({"data": "digits"}).resolved()
    settings = {**config.flat(), own: "mine" if own == "algorithm" else None}
    space = config.search_space()
    lowest = np.array([[min(ends) for ends in space.ranges]])
    provenance = {} if own == "settings" else {"settings": settings}
    assert search_command(Schedule(space, lowest, provenance=provenance)) is None


@pytest.mark.parametrize(
    "settings", [{"algorithm": "stn", "sigma_entropy": None}, {"algorithm": "hba", "warm_up_epochs": None}]
)
def test_none_in_the_place_of_a_default_has_no_command(settings: dict[str, Any]) -> None:
    config = SearchConfig.from_preset({"data": "digits", **settings}).resolved()
    lowest = np.array([[min(ends) for ends in config.search_space().ranges]])
    assert search_command(Schedule(config.search_space(), lowest, provenance={"settings": config.flat()})) is None


def test_the_command_of_an_evaluation_has_its_settings_and_rows(images: Path, tmp_path: Path) -> None:
    hba.search(images, out=tmp_path / "run", **TINY)
    changed = {"epochs": 2, "seeds": 1, "flip": True, "learning_rate": 0.01, "spread": 0.5, "device": "cpu"}
    hba.evaluate(tmp_path / "run", against=("none", "random"), out=tmp_path / "eval", **changed)  # type: ignore[arg-type]
    run = Run.read(tmp_path / "eval")
    assert run.evaluation is not None
    command = evaluation_command(run.folder, run.evaluation)
    assert command is not None
    words = typed(command)
    assert words["schedule"] == str(tmp_path / "eval" / "schedule.json")
    assert words["against"] == "none,random"
    kept = hba.load_policy(words["schedule"])
    searched = kept.provenance["settings"]
    again = EvaluationConfig.like_search(searched, settings_typed(command))
    stored = json.loads((tmp_path / "eval" / "results.json").read_text(encoding="utf-8"))["settings"]
    assert json.loads(again.model_dump_json()) == stored
    assert set(kept.spread.flatten().tolist()) == {0.0, 0.5}


@pytest.mark.parametrize("split_seed", [0, 1])
def test_the_command_of_an_evaluation_on_seen_images_allows_them_too(
    split_seed: int, images: Path, tmp_path: Path
) -> None:
    hba.search(images, out=tmp_path / "run", **TINY)
    changed: dict[str, Any] = {"epochs": 1, "seeds": 1, "device": "cpu", "split_seed": split_seed}
    hba.evaluate(tmp_path / "run", out=tmp_path / "eval", allow_seen=True, **changed)
    run = Run.read(tmp_path / "eval")
    assert run.evaluation is not None
    command = evaluation_command(run.folder, run.evaluation)
    assert command is not None
    assert typed(command)["allow_seen"] == (split_seed == 1)


def test_the_command_of_a_search_of_an_own_regularizer_asks_for_its_file(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dimmed(pixels: Tensor, generator: object, *, share: Tensor) -> Tensor:
        return pixels * (1 - share[:, None, None, None])

    monkeypatch.setattr(groups, "_registered", {})
    strength = Hyperparameter("dimming.share", 0.0, 0.5, 0.1)
    groups.register_regularizer(Regularizer("dimming", (strength,), "pixels", dimmed))
    result = hba.search(images, tune="dimming", out=tmp_path, **TINY)
    assert result.schedule is not None
    command = search_command(result.schedule)
    assert command is not None
    assert " --tune dimming " in command
    assert command.endswith(" --operations-file FILE")
    assert search_command(hba.load_policy(tmp_path)) == command
