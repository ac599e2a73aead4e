"""The check of exported files finds what differs, by how much, and where."""

import numpy as np
import pytest
from exported import SPACES, pictures, schedule_of
from PIL import Image

import hba
from hba.errors import ScheduleError, SettingsError
from hba.exports import TARGETS, check
from hba.exports.compared import WHOLE, Checked
from hba.policy.space import SearchSpace
from hba.policy.spaces import search_space
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
    assert all(one.n for one in found.values())
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


def inverted_with(probability: float) -> Schedule:
    return Schedule(SearchSpace((hba.OPERATIONS["Invert"],), 1, (0.0, 1.0)), np.array([[probability]]))


def test_means_over_draws_tell_one_probability_from_another() -> None:
    """A level x is 255 - x with the probability p, so means differ by 0.6 |255 - 2x| where p does by 0.6."""
    pytest.importorskip("albumentations")
    schedule, image = inverted_with(0.2), pictures()[0]
    texts = {p: hba.export(inverted_with(p), "albumentations") for p in (0.2, 0.8)}
    same, other = (
        next(one for one in check(texts[p], "albumentations", schedule, [image]) if one.what == WHOLE) for p in texts
    )
    levels = np.asarray(image).astype(float)
    lengths = np.abs(255 - 2 * levels)
    assert other.mean == pytest.approx(0.6 * lengths.mean(), rel=0.2)
    # Of two means over 200 draws, five standard errors of a share of 0.2.
    assert same.mean < 5 * np.sqrt(2 * 0.2 * 0.8 / 200) * lengths.mean()
    assert "means over 200 draws" in same.said
    assert not same.is_exact


def test_cutout_that_stays_inside_covers_the_middle_more_often() -> None:
    """Half of a span of s pixels about a place in n falls outside at a border: there hba covers less, albumentations
    covers each border pixel at one place of n - s + 1.
    """
    pytest.importorskip("albumentations")
    schedule = Schedule(search_space(operations=["Cutout"]), np.array([[0.5, 0.1, 0.5, 0.1]]))
    white = Image.new("RGB", (40, 40), (255, 255, 255))
    text = hba.export(schedule, "albumentations")
    cutout = next(one for one in check(text, "albumentations", schedule, [white]) if one.what == "Cutout")
    assert cutout.n > 1
    assert 0 < cutout.mean < cutout.largest < 255
