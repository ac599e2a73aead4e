"""Where a search begins: RandAugment's policy against torchvision's own, and starts that can be told to move."""

import itertools
import math

import pytest
import torch
from own_operations import GAMMA
from torch import Tensor
from torchvision.transforms import InterpolationMode, RandAugment

from hba.errors import SettingsError
from hba.operations import OPERATIONS, Operation
from hba.policy.draw import draw_with_trace
from hba.policy.space import SearchSpace
from hba.policy.spaces import SPACES, search_space
from hba.policy.starts import LEAST_PROBABILITY, at_fraction, of_row, randaugment, strong_end

SIDE = 1000
N_DRAWS = 40_000
NOT_IN_RANDAUGMENT = {"Invert", "Cutout"}
TONES = Operation("Tones", torch.nn.Identity(), (3.0, -1.0), "tones", 0.0)
"""Both ways from doing nothing, and its range descends."""
LEVEL = Operation("Level", torch.nn.Identity(), (3.0, 5.0), "levels")
SPACES_TO_START_IN = {
    "hba": SearchSpace(),
    "pba": SPACES["pba"],
    "counted": search_space(searches_count=True),
    "counted pba": search_space("pba", searches_count=True),
    "one copy": SearchSpace(copies=1),
    "three copies": SearchSpace(copies=3, count_probabilities=(0.0, 0.0, 0.0, 1.0), searches_count=True),
    "at most one": SearchSpace(count_probabilities=(0.5, 0.5), searches_count=True),
    "own": SearchSpace((GAMMA, TONES, LEVEL, OPERATIONS["Rotate"])),
    "one magnitude": SearchSpace((OPERATIONS["Rotate"].with_range((7.0, 7.0)), OPERATIONS["Color"])),
    "never more than one": SearchSpace(count_probabilities=(0.5, 0.5, 0.0, 0.0), searches_count=True),
}


def torchvision_magnitudes() -> dict[str, tuple[float, bool]]:
    """At its default magnitude, in hba's units; and whether it has a sign."""
    transform = RandAugment(interpolation=InterpolationMode.NEAREST)
    table = transform._augmentation_space(transform.num_magnitude_bins, (SIDE, SIDE))
    found = {
        name: (float(rows[transform.magnitude]) if rows.ndim else math.nan, signed)
        for name, (rows, signed) in table.items()
    }
    return {
        name: (magnitude / SIDE if name.startswith("Translate") else magnitude, signed)
        for name, (magnitude, signed) in found.items()
    }


def start_of(space: SearchSpace) -> dict[str, float]:
    return dict(space.named(space.decode(randaugment(space).double())))


def test_the_magnitudes_are_those_of_torchvision_both_ways_from_the_identity() -> None:
    table, start = torchvision_magnitudes(), start_of(SearchSpace())
    compared = 0
    for name, (magnitude, signed) in table.items():
        if math.isnan(magnitude) or name == "Identity":
            continue
        operation = OPERATIONS[name]
        found = [start[f"{name}.{copy}.magnitude"] for copy in (1, 2)]
        both_ways = signed and not operation.signed
        expected = [1 + magnitude, 1 - magnitude] if both_ways else [magnitude, magnitude]
        assert found == pytest.approx(expected, rel=1e-3), name
        compared += 1
    assert compared == 11


def test_torchvision_has_no_operation_more_and_all_of_its_are_equally_likely() -> None:
    names = set(torchvision_magnitudes()) - {"Identity"}
    assert set(OPERATIONS) - names == NOT_IN_RANDAUGMENT
    start = start_of(SearchSpace())
    for name in OPERATIONS:
        expected = LEAST_PROBABILITY if name in NOT_IN_RANDAUGMENT else 0.5
        assert [start[f"{name}.{copy}.probability"] for copy in (1, 2)] == pytest.approx([expected] * 2)


def test_cutout_begins_at_its_share_of_the_range() -> None:
    assert start_of(SearchSpace())["Cutout.2.magnitude"] == pytest.approx(0.3 * 0.2)


def test_k_is_two_but_for_the_operation_that_does_nothing() -> None:
    n = len(torchvision_magnitudes())
    assert n == 14
    space = search_space(searches_count=True)
    first, second, third = randaugment(space)[-3:].double().sigmoid().tolist()
    # Two draws of 14 with replacement: how many of them are not Identity.
    two, none = (1 - 1 / n) ** 2, 1 / n**2
    assert second == pytest.approx(two / (1 - none), abs=1e-6)
    # What is as good as certain, or never happens there, is held where it can still be moved.
    assert torch.tensor(first).logit().item() == pytest.approx(3.0, abs=1e-4)
    assert first < 1 - none
    assert third == pytest.approx(LEAST_PROBABILITY)
    *_, walk = draw_with_trace(space, space.decode(randaugment(space)), N_DRAWS, torch.Generator().manual_seed(0))
    shares = (walk.count.flatten().bincount(minlength=4) / N_DRAWS).tolist()
    expected = [1 - first, first * (1 - second), first * second * (1 - third), first * second * third]
    assert shares == pytest.approx(expected, abs=0.01)


@pytest.mark.parametrize("name", SPACES_TO_START_IN)
def test_every_start_is_finite_and_within_reach(name: str) -> None:
    space = SPACES_TO_START_IN[name]
    for start in (randaugment(space), at_fraction(space, 0.05), at_fraction(space, 0.5)):
        assert start.shape == (space.n,)
        assert start.dtype == torch.float32
        assert start.isfinite().all()
        assert (start.abs() <= 3).all()


def test_a_certain_number_of_operations_begins_where_it_can_be_moved() -> None:
    space = SPACES_TO_START_IN["never more than one"]
    assert at_fraction(space, 0.5)[-3:].tolist() == pytest.approx([0.0, -3.0, -3.0])
    assert torch.isneginf(space.initial(0.5)[-2:]).all()


def test_a_fraction_of_0_is_the_beginning_of_every_range() -> None:
    space = search_space(searches_count=True)
    low = torch.tensor(space.ranges)[:, 0]
    assert torch.equal(space.decode(at_fraction(space, 0.0))[:-3], low[:-3])


def test_what_other_ranges_have_no_room_for_begins_at_the_nearest_they_have() -> None:
    start = start_of(SPACES["pba"])
    nearest = torch.tensor(-3.0).sigmoid().item()
    assert start["Posterize.1.magnitude"] == pytest.approx(4 - 4 * nearest), "bits from 4 to 0, not 7"
    assert start["Solarize.1.magnitude"] == pytest.approx(178.5)
    assert start["TranslateX.1.magnitude"] == pytest.approx(150 / 331 * 0.3, rel=1e-3)
    assert start["Contrast.2.magnitude"] == pytest.approx(0.73)


def test_own_operations_begin_rare_and_mild() -> None:
    start = start_of(SPACES_TO_START_IN["own"])
    assert start["Tones.1.probability"] == pytest.approx(LEAST_PROBABILITY)
    assert [start[f"Tones.{copy}.magnitude"] for copy in (1, 2)] == pytest.approx([0.3 * 3.0, -0.3])
    assert [start[f"Gamma.{copy}.magnitude"] for copy in (1, 2)] == pytest.approx([1 + 0.3, 1 - 0.3 * 0.5])
    assert start["Level.1.magnitude"] == pytest.approx(4.0), "in the middle, where nobody knows what does nothing"


@pytest.mark.parametrize(
    ("magnitude_range", "identity", "ends"),
    [
        ((0.0, 30.0), 0.0, (30.0, 30.0)),
        ((0.0, 255.0), 256.0, (0.0, 0.0)),
        ((4.0, 0.0), 8.0, (0.0, 0.0)),
        ((0.1, 1.9), 1.0, (1.9, 0.1)),
        ((1.9, 0.1), 1.0, (1.9, 0.1)),
        ((0.1, 1.9), None, (None, None)),
    ],
)
def test_the_strong_end_is_away_from_doing_nothing(
    magnitude_range: tuple[float, float], identity: float | None, ends: tuple[float | None, float | None]
) -> None:
    operation = Operation("Any", torch.nn.Identity(), magnitude_range, "units", identity)
    assert (strong_end(operation, 0), strong_end(operation, 1)) == ends
    assert strong_end(operation, 2) == ends[0]


def count_of(space: SearchSpace, logits: Tensor) -> list[float]:
    """Probabilities of K, from those of one more."""
    at_least = [1.0, *logits[-space.max_count :].double().sigmoid().cumprod(0).tolist(), 0.0]
    return [before - after for before, after in itertools.pairwise(at_least)]


@pytest.mark.parametrize(
    "probabilities",
    [
        (0.2, 0.3, 0.5), (0.2, 0.3, 0.4, 0.1), (0.5, 0.5), (1.0, 0.0, 0.0), (0.5, 0.5, 0.0, 0.0),
        (0.1, 0.2, 0.7, 0.0, 0.0), (0.0, 0.0, 1.0), (0.3, 0.3, 0.4, 0.0), (0.0, 1.0, 0.0),
    ],
)  # fmt: skip
def test_k_begins_at_the_probabilities_of_the_space(probabilities: tuple[float, ...]) -> None:
    space = SearchSpace(count_probabilities=probabilities, searches_count=True)
    logits = space.initial(0.5)
    assert not logits.isnan().any()
    assert count_of(space, logits) == pytest.approx(list(probabilities), abs=1e-6)
    assert torch.equal(logits[: -space.max_count], torch.zeros(space.n - space.max_count))


def test_a_search_of_k_needs_a_k_to_search() -> None:
    with pytest.raises(SettingsError, match="count_probabilities"):
        SearchSpace(count_probabilities=(1.0,), searches_count=True)


@pytest.mark.parametrize(
    ("names", "expected"), [(["Rotate"], (0.2, 0.3, 0.5)), (["Rotate", "Invert"], (0.2, 0.3, 0.4, 0.1))]
)
def test_a_searched_k_is_at_most_the_number_of_slots(names: list[str], expected: tuple[float, ...]) -> None:
    space = search_space("hba", names, searches_count=True)
    assert space.count_probabilities == pytest.approx(expected)
    assert space.names[-space.max_count :] == tuple(f"count.{k}.probability" for k in range(1, len(expected)))


def row_start(space: SearchSpace, row: dict[str, float]) -> dict[str, float]:
    logits = of_row(space, row)
    assert (logits.abs() <= 3).all()
    return dict(space.named(space.decode(logits.double())))


def test_a_search_begins_at_a_row_of_the_same_space_as_far_as_it_can_be_moved() -> None:
    space = search_space(searches_count=True)
    row = dict(space.named(space.decode(torch.linspace(-2.9, 2.9, space.n).double())))
    assert row_start(space, row) == pytest.approx(row, rel=1e-5)
    certain = {name: (0.0 if name.startswith("Rotate") else value) for name, value in row.items()}
    assert row_start(space, certain)["Rotate.1.probability"] == pytest.approx(torch.tensor(-3.0).sigmoid().item())


def test_a_row_of_another_space_is_taken_by_name_and_clamped() -> None:
    space = search_space(operations=["Posterize", "Rotate", "Invert", "Cutout"], searches_count=True)
    row = {
        **{"Rotate.1.probability": 0.75, "Rotate.1.magnitude": 135.0, "Color.1.probability": 0.3},
        **{"Posterize.1.probability": 0.25, "Posterize.1.magnitude": 5.0},
        **{"Posterize.2.probability": 0.5, "Posterize.2.magnitude": 2.0},
        **{"count.1.probability": 0.875, "count.2.probability": 0.25},
    }
    start = row_start(space, row)
    # The only copy stands for both.
    assert [start[f"Rotate.{copy}.probability"] for copy in (1, 2)] == pytest.approx([0.75, 0.75])
    nearest = 30 * torch.tensor(3.0).sigmoid().item()
    assert [start[f"Rotate.{copy}.magnitude"] for copy in (1, 2)] == pytest.approx([nearest, nearest])
    assert [start[f"Posterize.{copy}.magnitude"] for copy in (1, 2)] == pytest.approx([5.0, 2.0])
    assert [start[f"Posterize.{copy}.probability"] for copy in (1, 2)] == pytest.approx([0.25, 0.5])
    for name in ("Invert", "Cutout"):
        assert start[f"{name}.2.probability"] == pytest.approx(LEAST_PROBABILITY)
    assert start["Cutout.1.magnitude"] == pytest.approx(0.3 * 0.2)
    counts = [start[f"count.{k}.probability"] for k in (1, 2, 3)]
    assert counts == pytest.approx([0.875, 0.25, LEAST_PROBABILITY])


def test_a_row_for_a_descending_range_and_without_a_search_of_k() -> None:
    start = row_start(SPACES["pba"], {"Posterize.1.probability": 0.5, "Posterize.1.magnitude": 7.0})
    assert start["Posterize.1.magnitude"] == pytest.approx(4 - 4 * torch.tensor(-3.0).sigmoid().item())
    assert not any(name.startswith("count") for name in start)


def test_a_row_without_any_of_the_operations_is_no_start() -> None:
    space = search_space(operations=["Rotate"])
    with pytest.raises(SettingsError, match=r"^the schedule to begin at must have one of the operations Rotate, but"):
        of_row(space, {"Invert.1.probability": 0.5, "count.1.probability": 0.5})
