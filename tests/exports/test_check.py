"""The check of exported files finds what differs, by how much, and where."""

import pytest
from exported import SPACES, pictures, schedule_of

import hba
from hba.errors import ScheduleError, SettingsError
from hba.exports import TARGETS, check
from hba.exports.compared import WHOLE, Checked
from hba.schedule.schedule import Schedule

PIXEL_EXACT = [to for to in TARGETS if to not in ("kornia", "albumentations")]


@pytest.mark.parametrize("to", PIXEL_EXACT)
@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("spread", ["magnitudes", "by row"])
def test_what_is_exported_is_exact(spread: str, space: str, to: str) -> None:
    schedule = schedule_of(space, spread, epochs=101)
    found = check(hba.export(schedule, to), to, schedule, pictures())
    assert all(one.is_exact and one.n for one in found)
    if to != "json":
        assert [one.what for one in found] == [*(one.name for one in schedule.space.operations), WHOLE]


@pytest.mark.parametrize("space", ["hba", "bilinear"])
def test_batches_are_exact_but_for_pil_s_rounding_and_that_is_said(space: str) -> None:
    schedule = schedule_of(space, "magnitudes", epochs=3)
    found = {one.what: one for one in check(hba.export(schedule, "kornia"), "kornia", schedule, pictures())}
    rounded = {name for name, one in found.items() if not one.is_exact}
    enhancers, moves = {"Contrast", "Color", "Brightness", "Sharpness"}, {"ShearX", "ShearY", "Rotate"}
    assert rounded == enhancers | ({*moves, "TranslateX", "TranslateY"} if space == "bilinear" else set())
    assert all(found[name].largest == 1 and "fractions of a grey level" in found[name].said for name in rounded)


def albumentations_check(schedule: Schedule) -> dict[str, Checked]:
    pytest.importorskip("albumentations")
    text = hba.export(schedule, "albumentations")
    return {one.what: one for one in check(text, "albumentations", schedule, pictures())}


def test_what_albumentations_does_otherwise_is_said_of_each_operation() -> None:
    found = albumentations_check(schedule_of("hba", "magnitudes").only(1))
    exact = {name for name, one in found.items() if one.is_exact}
    assert exact == {"Invert", "Solarize", "Posterize", "Brightness"}
    assert all(one.said for one in found.values() if not one.is_exact)
    assert all(name in ("Cutout", WHOLE) for name, one in found.items() if not one.n)
    assert max(found[name].largest for name in ("AutoContrast", "Color", "Contrast")) <= 2


def test_an_operation_that_differs_is_told_by_name_and_by_how_much() -> None:
    schedule = schedule_of("hba")
    text = hba.export(schedule, "torchvision").replace("ImageOps.invert(", "ImageOps.solarize(")
    text = text.replace('"Invert": Operation(ImageOps.invert)', '"Invert": Operation(ImageOps.mirror)')
    by_name = {one.what: one for one in check(text, "torchvision", schedule, pictures())}
    assert {name for name, one in by_name.items() if not one.is_exact} == {"Invert", WHOLE}
    assert by_name["Invert"].largest > 100
    assert 0 < by_name["Invert"].mean < by_name["Invert"].largest


def test_a_draw_that_differs_is_told_though_all_operations_agree() -> None:
    schedule = schedule_of("hba")
    text = hba.export(schedule, "torchvision").replace("at < chance", "at >= chance")
    assert [one.what for one in check(text, "torchvision", schedule, pictures()) if not one.is_exact] == [WHOLE]


def test_a_schedule_file_with_other_numbers_is_refused() -> None:
    schedule = schedule_of("one slot")
    number = repr(float(schedule.values[0, 1]))
    with pytest.raises(ScheduleError, match="another schedule"):
        check(hba.export(schedule, "json").replace(number, "1.0"), "json", schedule, pictures())


def test_a_check_without_images_is_refused() -> None:
    schedule = schedule_of("one slot")
    with pytest.raises(SettingsError, match="at least one image"):
        check(hba.export(schedule, "json"), "json", schedule, [])


def test_a_target_that_is_not_known_is_refused_with_those_that_are() -> None:
    with pytest.raises(SettingsError, match="unknown target 'torchvison'; did you mean torchvision"):
        hba.export("digits", "torchvison")
