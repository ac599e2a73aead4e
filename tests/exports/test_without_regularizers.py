"""Exports of a schedule with regularizers: what they do is what they do without, and they say what is left out."""

import ast
import dataclasses
import json

import numpy as np
import pytest
from PIL import Image
from tuned_schedules import alone, both

import hba
from hba.errors import SettingsError
from hba.exports import TARGETS, check
from hba.schedule.schedule import Schedule

OTHERS = [name for name in TARGETS if name != "json"]
LEFT_OUT = (
    "Left out: dropout.fc1, weight_decay, cutout.length, cutout.holes; schedule.regularization(epoch) has their values."
)


def chosen(to: str, schedule: Schedule) -> Schedule:
    return schedule.averaged() if to == "albumentations" else schedule


@pytest.mark.parametrize("to", ["torchvision", "timm", "kornia"])
def test_the_head_of_a_file_names_what_is_left_out(to: str) -> None:
    text, without = hba.export(both(), to), hba.export(both().without_regularizers(), to)
    head, head_without = (ast.get_docstring(ast.parse(one)) or "" for one in (text, without))
    assert LEFT_OUT in head.splitlines()
    assert "Left out" not in head_without
    assert text.replace(f"\n{LEFT_OUT}\n", "", 1) == without, "nothing else differs"


def test_a_pipeline_is_that_of_the_operations() -> None:
    exported = [hba.export(one.averaged(), "albumentations") for one in (both(), both().without_regularizers())]
    assert exported[0] == exported[1]


def test_one_pipeline_holds_a_policy_beside_which_regularizers_change() -> None:
    values = np.tile(both().values[-1], (3, 1))
    expected = hba.export(Schedule(both().space, values), "albumentations")
    values[0, -1] = 0
    assert hba.export(Schedule(both().space, values), "albumentations") == expected
    values[0, 0] = 0
    with pytest.raises(SettingsError, match="does not change over epochs"):
        hba.export(Schedule(both().space, values), "albumentations")


@pytest.mark.parametrize("to", TARGETS)
def test_a_check_compares_what_is_taken(to: str) -> None:
    schedule = chosen(to, both())
    image = Image.effect_noise((16, 16), 80).convert("RGB")
    names = [one.what for one in check(hba.export(schedule, to), to, schedule, [image])]
    assert names
    assert not [name for name in names if "dropout" in name]


def test_json_has_all() -> None:
    for schedule in (both(), alone()):
        assert json.loads(hba.export(schedule, "json")) == json.loads(schedule.text())


@pytest.mark.parametrize("to", OTHERS)
def test_regularizers_alone_are_refused_in_one_line(to: str) -> None:
    with pytest.raises(
        SettingsError, match=f"^{to} takes operations, and the schedule has regularizers alone"
    ) as raised:
        hba.export(chosen(to, alone()), to)
    assert len(str(raised.value).splitlines()) == 1


@pytest.mark.parametrize("to", ["torchvision", "kornia"])
def test_a_name_cannot_end_the_docstring(to: str) -> None:
    evil = 'dropout."""\nimport os\n"""\\'
    space = both().space
    regularizers = (dataclasses.replace(space.regularizers[0], name=evil), *space.regularizers[1:])
    schedule = dataclasses.replace(both(), space=dataclasses.replace(space, regularizers=regularizers))
    module = ast.parse(hba.export(schedule, to))
    head = ast.get_docstring(module) or ""
    assert "dropout.????import os?????, weight_decay" in head
    assert not [node for node in module.body if isinstance(node, ast.Import) and node.names[0].name == "os"]
