"""The check of exported files finds what differs; regularizers are left out, and named."""

import ast
import dataclasses
import json

import pytest
from exported import pictures, schedule_of
from PIL import Image
from tuned_schedules import alone, both

import hba
from hba.errors import ScheduleError, SettingsError
from hba.exports import TARGETS, check
from hba.exports.check import WHOLE, Checked
from hba.schedule.schedule import Schedule

LEFT_OUT = (
    "Left out: dropout.fc1, weight_decay, cutout.length, cutout.holes; schedule.regularization(epoch) has their values."
)


def checked(text: str, to: str, schedule: Schedule) -> dict[str, Checked]:
    return {one.what: one for one in check(text, to, schedule, pictures())}


def test_what_is_exported_is_exact() -> None:
    for space, spread, to in (
        ("hba", "magnitudes", "torchvision"),
        ("pba", "none", "json"),
        ("bilinear", "magnitudes", "kornia"),
        ("one slot", "by row", "timm"),
    ):
        schedule = schedule_of(space, spread)
        found = checked(hba.export(schedule, to), to, schedule)
        assert all(one.is_exact for one in found.values()), space
        if to != "json":
            assert list(found) == [*(one.name for one in schedule.space.operations), WHOLE]


def test_what_albumentations_does_otherwise_is_found() -> None:
    pytest.importorskip("albumentations")
    schedule = schedule_of("hba", "magnitudes").only(1)
    found = checked(hba.export(schedule, "albumentations"), "albumentations", schedule)
    assert {name for name, one in found.items() if one.is_exact} == {"Invert", "Solarize", "Posterize", "Brightness"}
    assert all(one.said or one.is_exact for one in found.values())
    assert [name for name, one in found.items() if not one.n] == ["Cutout", WHOLE]
    assert max(found[name].largest for name in ("AutoContrast", "Color", "Contrast")) <= 2


def test_what_differs_is_found() -> None:
    schedule = schedule_of("pba")
    text = hba.export(schedule, "torchvision")
    found = checked(text.replace("Operation(ImageOps.invert)", "Operation(ImageOps.mirror)"), "torchvision", schedule)
    assert [name for name, one in found.items() if not one.is_exact] == [WHOLE]
    assert found[WHOLE].largest > 50
    one_slot = schedule_of("one slot")
    number = repr(float(one_slot.values[0, 1]))
    with pytest.raises(ScheduleError, match="another schedule"):
        check(hba.export(one_slot, "json").replace(number, "1.0"), "json", one_slot, pictures())
    with pytest.raises(SettingsError, match="did you mean torchvision"):
        hba.export("digits", "torchvison")


def test_regularizers_are_left_out_and_named() -> None:
    image = Image.effect_noise((16, 16), 80).convert("RGB")
    for to in TARGETS:
        schedule = both().averaged() if to == "albumentations" else both()
        text = hba.export(schedule, to)
        assert not [one.what for one in check(text, to, schedule, [image]) if "dropout" in one.what]
        if to == "json":
            assert json.loads(text) == json.loads(schedule.text())
            continue
        without = hba.export(schedule.without_regularizers(), to)
        assert text.replace(f"\n{LEFT_OUT}\n", "", 1) == without, "nothing else differs"
        if to != "albumentations":
            assert LEFT_OUT in (ast.get_docstring(ast.parse(text)) or "").splitlines()
        with pytest.raises(SettingsError, match="regularizers alone"):
            hba.export(alone().averaged() if to == "albumentations" else alone(), to)


def test_a_name_cannot_end_the_docstring() -> None:
    evil = 'dropout."""\nimport os\n"""\\'
    space = both().space
    regularizers = (dataclasses.replace(space.regularizers[0], name=evil), *space.regularizers[1:])
    schedule = dataclasses.replace(both(), space=dataclasses.replace(space, regularizers=regularizers))
    for to in ("torchvision", "kornia"):
        module = ast.parse(hba.export(schedule, to))
        assert "dropout.????import os?????, weight_decay" in (ast.get_docstring(module) or "")
        assert not [node for node in module.body if isinstance(node, ast.Import) and node.names[0].name == "os"]
