"""The plan of hba auto: what the time of a search is taken for."""

from typing import Any

import pytest

from hba.policy_choice.settings import search_cost


@pytest.mark.parametrize(
    ("settings", "budget", "n_jobs", "trainings"),
    [
        # A quarter of the epochs, to test symmetries.
        ({}, 600.0, 1, 0.25),
        ({"price": 1.6}, 600.0, 1, 1.8),
        ({"operations": ("-Hue",)}, 600.0, 1, 1.8),
        ({"price": 1.6}, 600.0, 2, 1.2),
        # From an hour on, the strength is tuned, unless the user decides.
        ({}, 7200.0, 2, 1.35),
        ({"tunes_strength": False}, 7200.0, 2, 0.25),
        ({"price": 1.6, "tunes_strength": True}, 600.0, 1, 2.9),
        ({"algorithm": "lookahead"}, 600.0, 2, 4.0),
    ],
)
def test_the_algorithm_and_its_settings_say_what_a_search_costs(
    settings: dict[str, Any], budget: float, n_jobs: int, trainings: float
) -> None:
    """In whole trainings, as docs/settings.md has them."""
    cost = search_cost({**settings, "data": "digits"}, budget, n_jobs)
    assert cost == pytest.approx(trainings)
