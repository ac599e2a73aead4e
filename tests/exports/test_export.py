"""What files for all libraries have in common: exact recipes, checked names."""

import ast
import dataclasses
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from exported import augmented, module_of, pictures, schedule_of
from torchvision.transforms.v2 import functional as TF
from tuned_schedules import alone, both

import hba
from hba.errors import ScheduleError, SettingsError
from hba.exports import TARGETS
from hba.schedule.recipes import RECIPES

N_SEEDS = 8
LEFT_OUT = (
    "Left out: dropout.fc1, weight_decay, label_smoothing, input_dropout.rate; "
    "schedule.regularization(epoch) has their values."
)


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_are_exported_exactly(name: str) -> None:
    schedule = hba.load_policy(name)
    transform = module_of(hba.export(schedule, "torchvision")).transform()
    policy = module_of(hba.export(schedule, "kornia")).policy()
    own_transform = schedule.transform()
    own_policy = schedule.policy(schedule.epochs - 1)
    for image in pictures():
        for seed in range(N_SEEDS):
            expected = augmented(own_transform, image, seed)
            assert augmented(transform, image, seed).tobytes() == expected.tobytes()
        batch = (TF.pil_to_tensor(image)[None] / 255).repeat(N_SEEDS, 1, 1, 1)
        expected_batch = augmented(own_policy, batch, 0)
        assert torch.equal(augmented(policy, batch, 0), expected_batch)
    pipeline = json.loads(hba.export(schedule, "albumentations"))
    assert pipeline["transform"]["__class_fullname__"] == "Compose"


def test_a_policy_that_augments_nothing_is_the_shortest_file() -> None:
    for to in TARGETS:
        lengths = {name: len(hba.export(name, to)) for name in RECIPES}
        assert min(lengths, key=lengths.__getitem__) == "none"


def test_an_unknown_target_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(SettingsError, match="did you mean torchvision"):
        hba.export("digits", "torchvison")


def test_regularizers_are_left_out_and_named() -> None:
    for to in TARGETS:
        schedule = both().averaged() if to == "albumentations" else both()
        text = hba.export(schedule, to)
        if to == "json":
            assert json.loads(text) == json.loads(schedule.text())
            continue
        without = hba.export(schedule.without_regularizers(), to)
        assert text.replace(f"\n{LEFT_OUT}\n", "", 1) == without, "nothing else differs"
        if to != "albumentations":
            assert LEFT_OUT in (ast.get_docstring(ast.parse(text)) or "").splitlines()
        with pytest.raises(ScheduleError, match="no operations"):
            hba.export(alone().averaged() if to == "albumentations" else alone(), to)


def test_a_name_cannot_end_the_docstring() -> None:
    evil = 'dropout."""\nimport os\n"""\\'
    space = both().space
    regularizers = (
        dataclasses.replace(space.regularizers[0], name=evil),
        *space.regularizers[1:],
    )
    schedule = dataclasses.replace(
        both(), space=dataclasses.replace(space, regularizers=regularizers)
    )
    for to in ("torchvision", "kornia"):
        module = ast.parse(hba.export(schedule, to))
        assert "dropout.????import os?????, weight_decay" in (
            ast.get_docstring(module) or ""
        )
        assert not [
            node
            for node in module.body
            if isinstance(node, ast.Import) and node.names[0].name == "os"
        ]


def test_no_path_of_the_machine_is_in_a_file() -> None:
    settings = {
        "data": "/home/me/animals",
        "classes": "/home/me/classes.txt",
        "init_from": {"name": "/home/me/a.json"},
    }
    seen = {"keys": "/9j/4AAQ"}
    origin = {
        "algorithm": "race",
        "dataset": "/home/me/animals/train",
        "settings": settings,
        "images_seen": seen,
    }
    schedule = dataclasses.replace(schedule_of("hba").only(0), provenance=origin)
    for to in TARGETS:
        text = hba.export(schedule, to)
        assert "home" not in text
        assert "animals" in text or to == "albumentations"
        assert to != "json" or json.loads(text)["provenance"]["images_seen"] == seen


@pytest.mark.parametrize("to", ["torchvision", "kornia"])
def test_a_file_says_that_it_is_generated_and_passes_a_user_s_strict_checks(
    to: str, tmp_path: Path
) -> None:
    file = tmp_path / "augment.py"
    head = hba.export(schedule_of("stages"), to, file).splitlines()[0]
    assert "@generated" in head
    assert hba.__version__ in head
    for check_of in (["check", "--select", "ALL"], ["format", "--check"]):
        command = [
            sys.executable,
            "-m",
            "ruff",
            *check_of,
            "--isolated",
            "--no-cache",
            str(file),
        ]
        subprocess.run(command, check=True, capture_output=True)
    assert "@generated" in hba.export("overhead", "albumentations")[:40]


@pytest.mark.parametrize(
    "name", ["torch", "kornia", "PIL", "copy", "random", "sympy", "class", "my-policy"]
)
def test_a_file_that_would_hide_a_module_is_refused(name: str, tmp_path: Path) -> None:
    """Of Python, or of a library, also one that only PyTorch needs; and names that
    cannot be imported.
    """
    for to in ("torchvision", "kornia"):
        with pytest.raises(SettingsError, match=name):
            hba.export("overhead", to, tmp_path / f"{name}.py")
    assert not [*tmp_path.iterdir()]
    hba.export("overhead", "json", tmp_path / f"{name}.json")


def test_masks_are_for_files_that_move_them() -> None:
    with pytest.raises(SettingsError, match="mask_fill"):
        hba.export("overhead", "json", mask_fill=255)
