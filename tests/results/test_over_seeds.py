"""Searches that differ by their seed: means, deviations and intervals by hand, and what
is said of them.
"""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hba.errors import RunError
from hba.operations import OPERATIONS
from hba.policy.space import SearchSpace
from hba.results.over_seeds import OverSeeds
from hba.schedule.schedule import Schedule

NAMES = ("Invert", "Equalize", "AutoContrast")
SPACE = SearchSpace(
    tuple(OPERATIONS[name] for name in NAMES), copies=1, count_probabilities=(0.0, 1.0)
)


def schedule(*last: float) -> Schedule:
    """From probabilities of a half to these."""
    return Schedule(
        SPACE,
        np.array([[0.5, 0.5, 0.5], list(last)]),
        provenance={"epochs_finished": 2},
    )


UP = {
    0: schedule(0.6, 0.5, 0.2),
    1: schedule(0.7, 0.5, 0.3),
    2: schedule(0.8, 0.4, 0.1),
}


def test_means_deviations_and_intervals_are_those_of_a_calculator() -> None:
    over_seeds = OverSeeds.of(UP)
    invert = {operation.name: operation for operation in over_seeds.operations}[
        "Invert"
    ]
    assert invert.probability.mean == pytest.approx(0.7)
    assert invert.probability.std == pytest.approx(0.1)
    assert invert.probability_moved.mean == pytest.approx(0.2)
    # Student's t of two degrees of freedom: 4.302653.
    half = 4.302653 * 0.1 / math.sqrt(3)
    assert invert.probability_moved.interval == pytest.approx(
        (0.2 - half, 0.2 + half), abs=1e-6
    )
    assert not invert.moved_alike
    assert [
        operation.name for operation in over_seeds.operations if operation.moved_alike
    ] == ["AutoContrast"]
    assert [operation.name for operation in over_seeds.operations] == [
        "Invert",
        "Equalize",
        "AutoContrast",
    ], "by images, most first"
    # One operation an image, of a random order: those that fire share it.
    p = 0.6
    q = 0.5
    r = 0.2
    alone = p * ((1 - q) * (1 - r) + (q * (1 - r) + (1 - q) * r) / 2 + q * r / 3)
    assert invert.share.each[0] == pytest.approx(alone)


def test_agreement_is_one_for_the_same_order_and_minus_a_half_for_turned_ones() -> None:
    assert OverSeeds.of(
        {0: schedule(0.6, 0.5, 0.2), 1: schedule(0.9, 0.6, 0.1)}
    ).agreement == pytest.approx(1)
    turned = {
        0: schedule(0.6, 0.5, 0.4),
        1: schedule(0.5, 0.4, 0.6),
        2: schedule(0.4, 0.6, 0.5),
    }
    assert OverSeeds.of(turned).agreement == pytest.approx(-0.5)
    still = {0: schedule(0.5, 0.5, 0.5), 1: schedule(0.9, 0.6, 0.1)}
    assert OverSeeds.of(still).agreement is None


def test_other_spaces_and_single_schedules_cannot_be_put_together(
    tmp_path: Path,
) -> None:
    other = Schedule(
        SearchSpace((OPERATIONS["Invert"],), copies=1, count_probabilities=(0.0, 1.0)),
        np.array([[0.5]]),
    )
    for another in (other, Schedule(SPACE, np.array([[0.5, 0.5, 0.5]]))):
        with pytest.raises(
            RunError, match="the same search space and the same number of epochs"
        ):
            OverSeeds.of({0: UP[0], 1: another})
    (tmp_path / "seed-0").mkdir()
    UP[0].save(tmp_path / "seed-0" / "policy.json")
    with pytest.raises(
        RunError, match="must hold two searches or more that have ended, but has 1"
    ):
        OverSeeds.read(tmp_path)


def test_what_has_not_ended_is_left_out_and_said_to_be(tmp_path: Path) -> None:
    for seed, epochs in enumerate((2, 2, 5)):
        (tmp_path / f"seed-{seed}").mkdir()
        search = replace(
            UP[seed], provenance={"settings": {"seed": seed, "epochs": epochs}}
        )
        search.save(tmp_path / f"seed-{seed}" / "policy.json")
    over_seeds = OverSeeds.read(tmp_path)
    assert (sorted(over_seeds.schedules), over_seeds.left_out) == ([0, 1], ("seed-2",))
    assert over_seeds.sentences[0] == "Left out, because they have not ended: seed-2."
