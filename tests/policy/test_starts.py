"""Where a search begins: RandAugment's policy against torchvision's own, and starts
that have a gradient.
"""

import itertools
import math

import pytest
import torch
from own_operations import GAMMA
from random_inputs import seeded
from torchvision.transforms import InterpolationMode, RandAugment

from hba.errors import SettingsError
from hba.operations import OPERATIONS, Operation
from hba.operations.drawing import SIGN
from hba.policy.draw import draw_with_trace
from hba.policy.space import SearchSpace
from hba.policy.spaces import (
    LEAST_PROBABILITY,
    SPACES,
    of_row,
    randaugment,
    search_space,
    started,
)

SIDE = 1000
N_DRAWS = 40_000
NOT_IN_RANDAUGMENT = {"Invert", "Cutout"}
TONES = Operation("Tones", torch.nn.Identity(), (3.0, -1.0), "tones", 0.0)
"""Both ways from the identity, and its range descends."""
LEVEL = Operation("Level", torch.nn.Identity(), (3.0, 5.0), "levels")
OWN = SearchSpace((GAMMA, TONES, LEVEL, OPERATIONS["Rotate"]))
NEVER_MORE_THAN_ONE = SearchSpace(
    count_probabilities=(0.5, 0.5, 0.0, 0.0), searches_count=True
)
SPACES_TO_START_IN = (
    *SPACES.values(),
    search_space(searches_count=True),
    search_space("pba", searches_count=True),
    SearchSpace(copies=1),
    SearchSpace(
        copies=3, count_probabilities=(0.0, 0.0, 0.0, 1.0), searches_count=True
    ),
    SearchSpace((OPERATIONS["Rotate"].with_range((7.0, 7.0)), OPERATIONS["Color"])),
    OWN,
    NEVER_MORE_THAN_ONE,
)


def start_of(space: SearchSpace) -> dict[str, float]:
    return dict(
        zip(
            space.names, space.decode(randaugment(space).double()).tolist(), strict=True
        )
    )


def test_operations_and_magnitudes_are_those_of_torchvision() -> None:
    """Enhancers, which have a sign there, go both ways from the identity."""
    transform = RandAugment(interpolation=InterpolationMode.NEAREST)
    table = transform._augmentation_space(transform.num_magnitude_bins, (SIDE, SIDE))
    start = start_of(SearchSpace())
    assert set(OPERATIONS) - (set(table) - {"Identity"}) == NOT_IN_RANDAUGMENT
    for name, operation in OPERATIONS.items():
        expected = LEAST_PROBABILITY if name in NOT_IN_RANDAUGMENT else 0.5
        assert [
            start[f"{name}.{copy}.probability"] for copy in (1, 2)
        ] == pytest.approx([expected] * 2)
        if name in NOT_IN_RANDAUGMENT or operation.magnitude_range is None:
            continue
        rows, signed = table[name]
        magnitude = float(rows[transform.magnitude]) / (
            SIDE if name.startswith("Translate") else 1
        )
        both_ways = signed and operation.drawing != SIGN
        magnitudes = [1 + magnitude, 1 - magnitude] if both_ways else [magnitude] * 2
        assert [start[f"{name}.{copy}.magnitude"] for copy in (1, 2)] == pytest.approx(
            magnitudes, rel=1e-3
        ), name
    assert start["Cutout.2.magnitude"] == pytest.approx(0.3 * 0.2)


def test_k_is_two_but_for_the_operation_that_does_nothing() -> None:
    n = 14
    space = search_space(searches_count=True)
    first, second, third = randaugment(space)[-3:].double().sigmoid().tolist()
    # Two draws of 14 with replacement: how many of them are not Identity.
    two = (1 - 1 / n) ** 2
    none = 1 / n**2
    assert second == pytest.approx(two / (1 - none), abs=1e-6)
    assert torch.tensor(first).logit().item() == pytest.approx(3.0, abs=1e-4), "clamped"
    assert third == pytest.approx(LEAST_PROBABILITY)
    *_, trace = draw_with_trace(
        space,
        space.decode(randaugment(space)),
        N_DRAWS,
        seeded(0),
    )
    shares = (trace.count.flatten().bincount(minlength=4) / N_DRAWS).tolist()
    expected = [
        1 - first,
        first * (1 - second),
        first * second * (1 - third),
        first * second * third,
    ]
    assert shares == pytest.approx(expected, abs=0.01)


def test_every_start_is_finite_and_within_reach() -> None:
    for space in SPACES_TO_START_IN:
        for start in (randaugment(space), space.initial(), space.initial(0.5)):
            assert (start.shape, start.dtype) == ((space.n,), torch.float32)
            assert start.isfinite().all()
            assert (start.abs() <= 3).all()
    assert NEVER_MORE_THAN_ONE.initial(0.5)[-3:].tolist() == pytest.approx(
        [0.0, -3.0, -3.0]
    )


def test_other_ranges_and_own_operations() -> None:
    start = start_of(SPACES["pba"])
    nearest = torch.tensor(-3.0).sigmoid().item()
    assert start["Posterize.1.magnitude"] == pytest.approx(4 - 4 * nearest), (
        "bits from 4 to 0, not 7"
    )
    assert start["Solarize.1.magnitude"] == pytest.approx(178.5)
    assert start["Contrast.2.magnitude"] == pytest.approx(0.73)
    started_values = start_of(OWN)
    assert started_values["Tones.1.probability"] == pytest.approx(LEAST_PROBABILITY)
    assert [
        started_values[f"Tones.{copy}.magnitude"] for copy in (1, 2)
    ] == pytest.approx([0.3 * 3.0, -0.3])
    assert [
        started_values[f"Power.{copy}.magnitude"] for copy in (1, 2)
    ] == pytest.approx([1 + 0.3, 1 - 0.3 * 0.5])
    assert started_values["Level.1.magnitude"] == pytest.approx(4.0), (
        "in the middle without an identity"
    )


def test_k_begins_at_the_probabilities_of_the_space() -> None:
    for probabilities in ((0.2, 0.3, 0.5), (0.2, 0.3, 0.4, 0.1), (0.9, 0.05, 0.05)):
        space = SearchSpace(count_probabilities=probabilities, searches_count=True)
        logits = space.initial(0.5)
        at_least = [
            1.0,
            *logits[-space.max_count :].double().sigmoid().cumprod(0).tolist(),
            0.0,
        ]
        shares = [before - after for before, after in itertools.pairwise(at_least)]
        assert shares == pytest.approx(list(probabilities), abs=1e-6)


def row_start(space: SearchSpace, row: dict[str, float]) -> dict[str, float]:
    logits = of_row(space, row)
    assert (logits.abs() <= 3).all()
    return dict(zip(space.names, space.decode(logits.double()).tolist(), strict=True))


def test_a_row_of_a_schedule_is_taken_by_name_and_clamped() -> None:
    same = search_space(searches_count=True)
    row = dict(
        zip(
            same.names,
            same.decode(torch.linspace(-2.9, 2.9, same.n).double()).tolist(),
            strict=True,
        )
    )
    assert row_start(same, row) == pytest.approx(row, rel=1e-5)
    space = search_space(
        operations=["Posterize", "Rotate", "Invert", "Cutout"], searches_count=True
    )
    row = {
        "Rotate.1.probability": 0.75,
        "Rotate.1.magnitude": 135.0,
        "Color.1.probability": 0.3,
        "Posterize.1.probability": 0.25,
        "Posterize.1.magnitude": 5.0,
        "Posterize.2.probability": 0.0,
        "Posterize.2.magnitude": 2.0,
        "count.1.probability": 0.875,
        "count.2.probability": 0.25,
    }
    start = row_start(space, row)
    end = torch.tensor(3.0).sigmoid().item()
    # The only copy stands for both.
    assert [start[f"Rotate.{copy}.probability"] for copy in (1, 2)] == pytest.approx(
        [0.75, 0.75]
    )
    assert [start[f"Rotate.{copy}.magnitude"] for copy in (1, 2)] == pytest.approx(
        [30 * end] * 2
    )
    assert [start[f"Posterize.{copy}.magnitude"] for copy in (1, 2)] == pytest.approx(
        [5.0, 2.0]
    )
    assert [start[f"Posterize.{copy}.probability"] for copy in (1, 2)] == pytest.approx(
        [0.25, 1 - end]
    )
    assert start["Invert.2.probability"] == pytest.approx(LEAST_PROBABILITY)
    assert start["Cutout.1.magnitude"] == pytest.approx(0.3 * 0.2)
    counts = [start[f"count.{k}.probability"] for k in (1, 2, 3)]
    assert counts == pytest.approx([0.875, 0.25, LEAST_PROBABILITY])
    descending = row_start(
        SPACES["pba"], {"Posterize.1.probability": 0.5, "Posterize.1.magnitude": 7.0}
    )
    assert descending["Posterize.1.magnitude"] == pytest.approx(4 - 4 * (1 - end))
    with pytest.raises(SettingsError, match="Rotate"):
        of_row(
            search_space(operations=["Rotate"]),
            {"Invert.1.probability": 0.5, "count.1.probability": 0.5},
        )
    assert math.isclose(start["Invert.1.probability"], LEAST_PROBABILITY, rel_tol=1e-5)


def test_a_start_of_some_operations_replaces_theirs() -> None:
    space = search_space("recipe", ranges={"Posterize": (8.0, 4.0)})
    end = torch.tensor(3.0).sigmoid().item()
    before = randaugment(space)
    replaced = {
        "HorizontalFlip": 0.5,
        "VerticalFlip.probability": 0.0,
        "ResizedCrop.magnitude": 0.6,
        "CutMix": 1.0,
        "Rotate.magnitude": 12.0,
        "Posterize": 0.7,
        "Posterize.magnitude": 5.0,
    }
    logits = started(space, before, replaced)
    start = dict(zip(space.names, space.decode(logits.double()).tolist(), strict=True))
    expected = {
        "HorizontalFlip.probability": 0.5,
        "VerticalFlip.probability": 1 - end,
        "ResizedCrop.magnitude": 0.6,
        "CutMix.probability": end,
        **{f"Rotate.{copy}.magnitude": 12.0 for copy in (1, 2)},
        **{f"Posterize.{copy}.probability": 0.7 for copy in (1, 2)},
        **{f"Posterize.{copy}.magnitude": 5.0 for copy in (1, 2)},
    }
    assert {name: start[name] for name in expected} == pytest.approx(expected, rel=1e-5)
    is_other = [name not in expected for name in space.names]
    assert torch.equal(logits[is_other], before[is_other])
    for name, value, message in (
        ("Rotatee", 0.5, "did you mean Rotate"),
        (
            "HorizontalFlip",
            1.5,
            r"HorizontalFlip.probability must lie in \[0, 1\], got 1.5",
        ),
        ("Rotate.magnitude", 31.0, r"Rotate.magnitude must lie in \[0, 30\], got 31"),
        ("Posterize.magnitude", 3.0, r"\[4, 8\]"),
        ("HorizontalFlip.magnitude", 0.5, "HorizontalFlip has probability, got"),
        ("Rotate.1.magnitude", 0.5, "probability and magnitude, got"),
        ("Mixup.magnitude", 1.1, "Mixup.magnitude"),
    ):
        with pytest.raises(SettingsError, match=message):
            started(space, before, {name: value})
