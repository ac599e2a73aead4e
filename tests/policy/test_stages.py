"""The draw of operations outside the walk."""

import pytest
import torch
from plain_rows import plain_row
from random_inputs import seeded
from torch import Tensor

from hba.algorithms.scores import AugmentedBatch, expected_score
from hba.errors import SettingsError
from hba.operations import OPERATIONS, STAGED
from hba.packed import apply_to_all
from hba.policy.draw import apply_operations, draw_with_trace
from hba.policy.player import draw_for_one
from hba.policy.space import SearchSpace

N_IMAGES = 10_000
WALK = tuple(OPERATIONS[name] for name in ("Rotate", "Invert", "Brightness"))
STAGES = tuple(
    STAGED[name] for name in ("PaddedCrop", "HorizontalFlip", "CutMix", "ResizedCrop")
)
SPACE = SearchSpace((*STAGES, *WALK), 2, (0.2, 0.3, 0.5), searches_count=True)


def row(space: SearchSpace, **magnitudes: float) -> Tensor:
    values = space.decode(space.initial(0.3))
    for name, value in magnitudes.items():
        values[space.names.index(name.replace("_", "."))] = value
    return values


def test_columns_are_in_the_order_of_stages_and_without_copies_outside_the_walk() -> (
    None
):
    crops = ["ResizedCrop.probability", "ResizedCrop.magnitude"]
    assert [*SPACE.names[:1], *SPACE.names[3:5]] == [
        "HorizontalFlip.probability",
        *crops,
    ]
    assert SPACE.names[-4:] == (
        *(f"CutMix.{quantity}" for quantity in ("probability", "magnitude")),
        "count.1.probability",
        "count.2.probability",
    )
    assert [slot.prefix for slot in SPACE.slots][:5] == [
        "HorizontalFlip",
        "PaddedCrop",
        "ResizedCrop",
        "Rotate.1",
        "Rotate.2",
    ]
    assert SPACE.walk_slots == slice(3, 9)
    assert [operation.name for operation in SPACE.mixing] == ["CutMix"]


def test_each_fires_by_itself_as_often_as_its_probability_says() -> None:
    values = row(
        SPACE,
        HorizontalFlip_probability=0.5,
        PaddedCrop_probability=0.2,
        ResizedCrop_probability=0.9,
    )
    sample, trace = draw_with_trace(SPACE, values, N_IMAGES, seeded(1))
    before = sample.slots[:, :3] >= 0
    assert before.double().mean(0).tolist() == pytest.approx([0.5, 0.2, 0.9], abs=0.015)
    assert torch.equal(before, trace.fired[:, :3])
    assert trace.visited[:, :3].all()
    assert abs(torch.corrcoef(before.T.double()) - torch.eye(3)).max() < 0.03
    places = sample.positions[:, :3].flatten()
    assert (places >= 0).all()
    assert (places < 1).all()
    assert abs(places.mean() - 0.5) < 0.01


def test_the_walk_is_drawn_as_without_other_stages() -> None:
    alone = SearchSpace(WALK, 2, (0.2, 0.3, 0.5), searches_count=True)
    values = row(SPACE)
    columns = [SPACE.names.index(name) for name in alone.names]
    for spread in (None, 0.5):
        widths = None if spread is None else torch.full((SPACE.n,), spread)
        sample, trace = draw_with_trace(SPACE, values, 500, seeded(2), widths)
        of_alone = None if widths is None else widths[columns]
        expected, of_walk = draw_with_trace(
            alone, values[columns], 500, seeded(2), of_alone
        )
        slots = torch.where(expected.slots < 0, -1, expected.slots + 3)
        assert torch.equal(sample.slots[:, 3:5], slots)
        assert torch.equal(sample.positions[:, 3:5, :2], expected.positions)
        assert torch.equal(trace.visited[:, 3:9], of_walk.visited)
        assert torch.equal(trace.count, of_walk.count)


def test_a_single_image_takes_operations_with_different_counts_of_random_numbers() -> (
    None
):
    space = SearchSpace(
        (STAGED["Perspective"], STAGED["Saturation"]), count_probabilities=(1.0,)
    )
    values = torch.tensor([1.0, 0.5, 1.0, 0.5])
    image = torch.rand(1, 3, 8, 8)
    drawn = draw_for_one(plain_row(space, values), seeded(1))
    of_batch = apply_operations(
        space,
        draw_with_trace(space, values, 1, seeded(1))[0],
        image,
        torch.zeros(3),
    )
    assert torch.allclose(
        apply_to_all(drawn, image, torch.zeros(3)), of_batch, atol=1e-5
    )


def test_the_score_of_a_flip_is_the_derivative_of_what_it_is_worth() -> None:
    """A reward of 1 for a flip: its expectation p has the derivative p (1 - p) by the
    logit, and none by others.
    """
    values = row(SPACE, HorizontalFlip_probability=0.3)
    _, trace = draw_with_trace(SPACE, values, N_IMAGES, seeded(4))
    rows = values.expand(N_IMAGES, -1)
    batch = AugmentedBatch(
        torch.empty(0), torch.empty(0), trace, rows, torch.zeros_like(rows), 1.0
    )
    gradient = expected_score(SPACE, batch, trace.fired[:, 0].float())
    assert float(gradient[0]) == pytest.approx(0.3 * 0.7, abs=0.01)
    assert (
        abs(gradient[[SPACE.names.index("PaddedCrop.probability"), -4, -3]]).max()
        < 0.015
    )


def test_a_space_of_flips_alone_needs_no_walk() -> None:
    space = SearchSpace((STAGED["HorizontalFlip"],), count_probabilities=(1.0,))
    sample, _ = draw_with_trace(space, torch.tensor([1.0]), 3)
    assert sample.slots.tolist() == [[0]] * 3
    with pytest.raises(SettingsError, match="slots"):
        SearchSpace((STAGED["HorizontalFlip"],))
