"""Regularizers of a schedule in summaries, in what takes operations alone, and in pictures."""

import dataclasses
import itertools
import pickle
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from test_pictures import figures, lines_of
from tuned_schedules import DROPOUT, NAMES, OTHERS, POLICY, alone, both, of_affine

from hba.errors import LeftOutWarning, ScheduleError
from hba.policy.space import SearchSpace
from hba.policy.spaces import without_operations
from hba.regularization.groups import REGULARIZERS
from hba.regularization.regularizer import Hyperparameter
from hba.schedule.pictures import augmented_copies, draw_schedule, is_seen
from hba.schedule.schedule import Schedule
from hba.schedule.summary import (
    changes,
    left_out,
    not_on_pixels,
    of_one_range,
    on_pixels,
    reach,
    summarize,
    summarize_regularizers,
)

__all__ = ["figures"]
EITHER = pytest.mark.parametrize("schedule", [both(), alone()], ids=["both", "alone"])


@EITHER
def test_each_regularizer_has_its_values_and_where_the_space_begins(schedule: Schedule) -> None:
    found = summarize_regularizers(schedule)
    assert tuple(one.hyperparameter.name for one in found) == NAMES
    for one, values, began in zip(found, np.array(OTHERS).T, (0.05, 5e-4, 4, 1), strict=True):
        assert one.values == tuple(values)
        assert one.began == began
    assert summarize_regularizers(both().without_regularizers()) == ()


def test_values_on_a_log_scale_are_stretched_and_averaged_by_their_logarithms() -> None:
    space = without_operations(
        (Hyperparameter("weight_decay", 1e-6, 0.1, 1e-3, "log"), *alone().space.regularizers[:1])
    )
    schedule = Schedule(space, np.array([[1e-5, 0.1], [1e-3, 0.3]]))
    np.testing.assert_allclose(schedule.stretched(3).values, [[1e-5, 0.1], [1e-4, 0.2], [1e-3, 0.3]])
    np.testing.assert_allclose(schedule.averaged().values, [[1e-4, 0.2]])
    assert np.array_equal(schedule.stretched(2).values, schedule.values)


def test_a_search_that_began_elsewhere_says_so() -> None:
    row = {"Rotate.1.probability": 0.5, "dropout.fc1": 0.4, "weight_decay": 1e-3}
    settings = {"init_from": {"schedule": "earlier", "values": row}}
    began = {one.hyperparameter.name: one.began for one in summarize_regularizers(both(settings=settings))}
    assert began == {"dropout.fc1": 0.4, "weight_decay": 0.001, "cutout.length": 4, "cutout.holes": 1}


def test_a_move_is_a_share_of_the_range_of_logarithms_on_a_log_scale() -> None:
    sizes = [one.size for one in summarize_regularizers(both())]
    # From 5e-4 to 1e-2, of the five decades of 1e-6 to 0.1.
    assert sizes == pytest.approx([0.26 / 0.95, np.log10(20) / 5, 2.25 / 24, 1 / 4])


def test_groups_are_those_that_are_tuned_together_and_axes_those_of_one_range() -> None:
    jitter = REGULARIZERS["jitter"].hyperparameters
    space = SearchSpace((), count_probabilities=(1.0,), regularizers=(DROPOUT, *jitter))
    summaries = summarize_regularizers(Schedule(space, np.full((2, 5), 0.25)))
    # The hue's range is half of the others'.
    assert [[one.hyperparameter.own_name for one in together] for together in of_one_range(summaries)] == [
        ["fc1"],
        ["brightness", "contrast", "saturation"],
        ["hue"],
    ]


def test_what_is_said_of_operations_is_what_is_said_without_regularizers() -> None:
    with_them, without = both(spread=0.5), both(spread=0.5).without_regularizers()
    assert reach(with_them, 2) == reach(without, 2)
    assert summarize(with_them, (0, 1, 2)) == summarize(without, (0, 1, 2))
    assert changes(with_them, 2) == changes(without, 2)
    assert (reach(alone(), 0).per_image, reach(alone(), 0).shares, changes(alone(), 2)) == (0, {}, [])


def test_a_regularizer_has_no_spread() -> None:
    schedule = both(spread=0.5)
    expected = [0.5, 0.5, 0.5, 0, 0, 0, 0]
    np.testing.assert_array_equal(schedule.spread, [expected] * 3)
    np.testing.assert_array_equal(both(spread=[[0.5]] * 3).spread, [expected] * 3)
    np.testing.assert_array_equal(both().with_spread(0.5).spread, [expected] * 3)
    np.testing.assert_array_equal(schedule.stretched(2).spread, [expected] * 2)
    assert not alone().with_spread(0.5).spread.any()
    for row in ([0.5] * 7, [0, 0, 0, 0, 0.1, 0, 0]):
        with pytest.raises(ScheduleError, match=r"spread of \S+ must be 0, because a regularizer is the same"):
            both(spread=row)


def test_transform_and_policy_have_the_operations_alone_and_say_what_they_leave_out() -> None:
    schedule, said = both(spread=0.5), r"leaves out dropout\.fc1, weight_decay, cutout\.length, cutout\.holes: schedule"
    with pytest.warns(LeftOutWarning, match=rf"^transform\(\) {said}") as warned:
        transform = schedule.transform()
    assert warned[0].filename == __file__, "the caller is told"
    with pytest.warns(LeftOutWarning, match=rf"^policy\(epoch\) {said}"):
        policy = schedule.policy(1)
    assert policy.space == transform.schedule.space == schedule.without_regularizers().space
    assert policy.values.tolist() == POLICY[1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedule.without_regularizers().transform()
        schedule.without_regularizers().policy(1)


def test_regularizers_alone_augment_nothing() -> None:
    for refused in (alone().transform, lambda: alone().policy(0), alone().without_regularizers):
        with pytest.raises(ScheduleError, match="the schedule has regularizers alone and no operations") as raised:
            refused()
        assert len(str(raised.value).splitlines()) == 1


def test_what_is_left_out_is_named_and_its_place_too() -> None:
    assert left_out(both().space) == (
        "dropout.fc1, weight_decay, cutout.length, cutout.holes; schedule.regularization(epoch) has their values"
    )
    assert left_out(both().space, most=1).startswith("dropout.fc1 and 3 more; ")


@EITHER
def test_a_schedule_tells_how_many_it_has_and_can_be_pickled(schedule: Schedule) -> None:
    n_operations = len(schedule.space.operations)
    assert repr(schedule) == f"Schedule(epochs=3, operations={n_operations}, regularizers=4, n={schedule.space.n})"
    assert pickle.loads(pickle.dumps(schedule)).values.tobytes() == schedule.values.tobytes()


def test_each_axis_has_the_numbers_of_its_regularizers(tmp_path: Path, figures: list[Any]) -> None:
    draw_schedule(both(), tmp_path / "a.png")
    draw_schedule(alone(), tmp_path / "b.png")
    names = ["dropout.fc1", "weight_decay", "cutout.length", "cutout.holes"]
    for figure in figures:
        drawn = {axes.get_title(): axes for axes in figure.axes if axes.lines}
        assert set(names) <= set(drawn)
        for name, values in zip(names, np.array(OTHERS).T, strict=True):
            assert lines_of(drawn[name]) == [([1, 2, 3], values.tolist())]
        assert drawn["weight_decay"].get_yscale() == "log"
        assert drawn["weight_decay"].get_ylim() == pytest.approx((1e-6, 0.1))
        assert drawn["cutout.length"].get_yscale() == "linear"
        assert drawn["cutout.length"].get_ylabel() == "pixels"
        assert drawn["dropout.fc1"].get_ylim()[0] <= 0 < 0.95 <= drawn["dropout.fc1"].get_ylim()[1]
    titles = [figure.get_suptitle() for figure in figures]
    assert "probability" in titles[0]
    assert titles[1] == "Schedule: regularizers per epoch"


def test_dropouts_of_one_network_share_an_axis_and_are_named(tmp_path: Path, figures: list[Any]) -> None:
    dropouts = tuple(dataclasses.replace(DROPOUT, name=f"dropout.block{n}") for n in range(13))
    space = SearchSpace((), count_probabilities=(1.0,), regularizers=dropouts)
    draw_schedule(Schedule(space, np.full((1, 13), 0.25)), tmp_path / "a.png")
    (axes,) = [axes for axes in figures[0].axes if axes.lines]
    assert axes.get_title() == "dropout"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == [f"block{n}" for n in range(13)]
    styles = [(line.get_alpha(), line.get_linestyle()) for line in axes.lines]
    assert all(one != other for one, other in itertools.combinations(styles, 2))


def test_pictures_show_what_acts_on_pixels_and_name_it() -> None:
    image = torch.randint(0, 256, (3, 20, 20), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    (copies,) = augmented_copies(of_affine(), [image], epoch=0, n_copies=2, seed=0)
    assert [copy.made_by for copy in copies] == ["affine", "affine"]
    assert all(torch.equal(copy.image, image.float() / 255) for copy in copies)
    (copies,) = augmented_copies(of_affine(translate=0.25), [image], epoch=0, n_copies=20, seed=0)
    found = set()
    for copy in copies:
        shift = next(at for at in itertools.product(range(-5, 6), repeat=2) if is_shifted(copy.image, image, *at))
        found.add(shift)
    assert len(found) > 5, "every copy has a shift of its own"


def is_shifted(found: torch.Tensor, image: torch.Tensor, right: int, down: int) -> bool:
    """Whether it is the image, moved by so many pixels, with the fill of of_affine where that uncovers."""
    height, width = image.shape[1:]
    expected = torch.tensor([0.25, 0.5, 0.75])[:, None, None].expand(3, height, width).clone()
    y, x = slice(max(0, down), height + min(0, down)), slice(max(0, right), width + min(0, right))
    from_y, from_x = slice(max(0, -down), height - max(0, down)), slice(max(0, -right), width - max(0, right))
    expected[:, y, x] = image.float()[:, from_y, from_x] / 255
    return bool(torch.allclose(found, expected, atol=1e-6))


def test_operations_of_a_picture_are_drawn_as_without_regularizers() -> None:
    image = torch.randint(0, 256, (3, 16, 16), generator=torch.Generator().manual_seed(0)).to(torch.uint8)
    schedules = (both(), both().without_regularizers())
    (one,), (other,) = (list(augmented_copies(each, [image], epoch=2, n_copies=9, seed=3)) for each in schedules)
    assert [copy.made_by for copy in one] == [copy.made_by for copy in other]
    assert all(torch.equal(a.image, b.image) for a, b in zip(one, other, strict=True))


def test_it_is_known_what_a_picture_can_show() -> None:
    assert [is_seen(one.space) for one in (both(), alone(), of_affine())] == [True, False, True]
    assert (on_pixels(both().space), not_on_pixels(both().space)) == ((), NAMES)
    assert (on_pixels(of_affine().space), not_on_pixels(of_affine().space)) == (("affine",), ())
