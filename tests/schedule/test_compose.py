"""Composed policies apply the operations of both, with the values of each."""

import dataclasses

import numpy as np
import pytest

from hba.operations import OPERATIONS
from hba.policy.class_moves import ClassMoves
from hba.policy.space import SearchSpace
from hba.policy.spaces import SPACES
from hba.schedule.compose import halved, joined, symmetries_of, with_symmetries
from hba.schedule.recipes import RECIPES
from hba.schedule.schedule import Schedule
from hba.schedule.summary import reach


def values_of(schedule: Schedule) -> dict[str, float]:
    return dict(zip(schedule.space.names, schedule.values[-1].tolist(), strict=True))


def test_a_crop_joined_with_randaugment_is_the_recipe_of_both() -> None:
    crop, walk, both = (
        RECIPES[name].make() for name in ("crop", "randaugment", "oriented")
    )
    for composed in (joined(crop, walk), joined(walk, crop)):
        assert composed.space == both.space
        assert np.array_equal(composed.values, both.values)
        assert np.array_equal(composed.spread, both.spread)


def test_the_second_replaces_what_both_have() -> None:
    small, large = RECIPES["three-augment"].make(), RECIPES["crop"].make()
    composed = joined(small, large)
    assert values_of(composed)["PaddedCrop.magnitude"] == 1 / 8
    assert values_of(composed)["Saturation.magnitude"] == pytest.approx(0.3)
    light, strong = (
        RECIPES[name].make() for name in ("randaugment-light", "randaugment")
    )
    assert np.array_equal(joined(light, strong).values, strong.values)


def test_every_epoch_gets_the_operations_of_the_second() -> None:
    crop = RECIPES["crop"].make()
    two_epochs = dataclasses.replace(crop, values=np.array([[1.0, 0.1], [0.5, 0.2]]))
    composed = joined(two_epochs, RECIPES["flip"].make())
    assert composed.epochs == 2
    columns = [composed.space.names.index(name) for name in crop.space.names]
    assert np.array_equal(composed.values[:, columns], two_epochs.values)
    flips = composed.values[:, composed.space.names.index("HorizontalFlip.probability")]
    assert flips.tolist() == [0.5, 0.5]


def test_operations_that_are_never_applied_are_left_out() -> None:
    composed = joined(RECIPES["none"].make(), RECIPES["crop"].make())
    assert composed.space.names == RECIPES["crop"].make().space.names


def test_symmetries_of_a_search_come_with_their_classes() -> None:
    moves = ClassMoves(("a", "b"), (("HorizontalFlip", ((1, 0),)),))
    space = dataclasses.replace(SPACES["recipe"], class_moves=moves)
    values = np.zeros((1, space.n))
    searched = Schedule(space, np.clip(values, *np.sort(np.array(space.ranges).T, 0)))
    assert symmetries_of(searched) == {}
    flipped = searched.values.copy()
    flipped[0, space.names.index("HorizontalFlip.probability")] = 0.5
    searched = dataclasses.replace(searched, values=flipped)
    assert symmetries_of(searched) == {"HorizontalFlip": 0.5}
    recipe = with_symmetries(RECIPES["trivialaugment"].make(), searched)
    assert recipe.space.class_moves == moves
    assert np.array_equal(
        recipe.without("HorizontalFlip").values,
        RECIPES["trivialaugment"].make().values,
    )


@pytest.mark.parametrize("name", ["overhead", "photo", "resized-crop", "three-augment"])
def test_half_of_the_images_get_an_operation_and_all_get_symmetries(name: str) -> None:
    recipe = RECIPES[name].make()
    symmetries = {operation.name for operation in recipe.space.symmetries}
    before, after = (reach(schedule, 0).shares for schedule in (recipe, halved(recipe)))
    for operation, share in before.items():
        kept = 1.0 if operation in symmetries else 0.5
        assert after[operation] == pytest.approx(kept * share, abs=1e-6)


def test_numbers_of_operations_that_are_not_searched_are_halved_too() -> None:
    space = SearchSpace((OPERATIONS["Invert"],), 2, (0.2, 0.3, 0.5))
    schedule = Schedule(space, np.array([[0.4, 0.6]]))
    assert halved(schedule).space.count_probabilities == pytest.approx(
        (0.6, 0.15, 0.25)
    )
    assert np.array_equal(halved(schedule).values, schedule.values)
