"""What is said of probes, for planted numbers and for what comes from elsewhere."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from hba.policy_search.probes import PROBE_COLUMNS, probes_in, probes_of, what_probes_say

NOT_KNOWN = "Whether the moves of the policy helped was not tried out: that takes two probes or more."
HELPED = "The moves of the policy helped for some steps: "


def probes(*realized: float | None, predicted: float | None = -0.5) -> list[dict[str, float | None]]:
    return [
        {
            "epoch": number,
            "predicted_change": predicted,
            "realized_change": change,
            "signal_to_noise": 0.1,
            "saturated_percent": 0.0,
        }
        for number, change in enumerate(realized, start=1)
    ]


@pytest.mark.parametrize(
    ("realized", "beginning"),
    [
        ((-0.2, -0.25, -0.15, -0.22), HELPED),
        ((0.2, 0.25, 0.15, 0.22), "The moves of the policy did harm for some steps: "),
        ((-0.2, 0.25, -0.15, 0.12), "Short trainings do not tell whether the moves of the policy helped: "),
        # The mean is well below zero, but two numbers say little.
        ((-0.1, -0.3), "Short trainings do not tell whether the moves of the policy helped: "),
        ((0.0, 0.0), "Short trainings do not tell whether the moves of the policy helped: "),
    ],
)
def test_the_interval_of_the_realized_changes_decides(realized: tuple[float, ...], beginning: str) -> None:
    expected = stats.ttest_1samp(realized, 0.0).confidence_interval(0.95) if any(realized) else (0.0, 0.0)
    sentence = what_probes_say(probes(*realized))
    assert sentence.startswith(
        f"{beginning}in {len(realized)} short trainings they changed the validation loss by {np.mean(realized):+.4f} "
        f"on average (below zero is better; 95 % interval {expected[0]:+.4f} to {expected[1]:+.4f}). "
    )
    assert sentence.endswith("compare it with none in whole trainings (hba evaluate).")


@pytest.mark.parametrize("realized", [(), (-0.5,)])
def test_fewer_than_two_probes_say_nothing(realized: tuple[float, ...]) -> None:
    assert what_probes_say(probes(*realized)) == NOT_KNOWN


def test_where_a_short_training_came_to_nothing_no_signal_is_claimed() -> None:
    """A realized change that is not finite is kept as None: the moves may have done harm without measure."""
    assert what_probes_say(probes(-0.2, -0.21, -0.22)).startswith(HELPED)
    assert what_probes_say(probes(-0.2, None, -0.21, -0.22)) == (
        "Whether the moves of the policy helped is not known: the validation loss of 1 of 4 short trainings is not "
        "finite."
    )


def test_probes_are_kept_with_six_digits_and_without_what_json_has_no_word_for() -> None:
    row = {"epoch": 4, "train_loss": 1.0, "seconds": 2.0, **dict.fromkeys(PROBE_COLUMNS[1:])}
    probed = {
        **row,
        "predicted_change": -0.123456789,
        "realized_change": 1234567.89,
        "signal_to_noise": float("nan"),
        "saturated_percent": float("inf"),
    }
    assert probes_of([row, probed]) == [
        {
            "epoch": 4,
            "predicted_change": -0.123457,
            "realized_change": 1234570.0,
            "signal_to_noise": None,
            "saturated_percent": None,
        }
    ]


@pytest.mark.parametrize("found", [None, 3, "probes", {}, {"epoch": 1}, True])
def test_what_is_no_list_of_probes_is_none(found: Any) -> None:
    assert probes_in({"probes": found}) == []
    assert probes_in({}) == []


@pytest.mark.parametrize(
    "damaged",
    [
        *[None, 3, [], "x", {"epoch": "one"}, {"realized_change": True}, {"epoch": [1]}],
        *[{"realized_change": float("nan")}, {"predicted_change": float("inf")}, {"realized_change": 10**400}],
        *[{"realized_change": 1e308}, {"signal_to_noise": -1e308}],
    ],
)
def test_of_a_damaged_list_the_sound_probes_are_left(damaged: Any) -> None:
    sound = probes(-0.2, -0.3)
    broken = {**sound[0], **damaged} if isinstance(damaged, dict) else damaged
    assert probes_in({"probes": [sound[0], broken, sound[1]]}) == sound


@pytest.mark.parametrize("missing", PROBE_COLUMNS)
def test_a_probe_that_lacks_a_number_is_none(missing: str) -> None:
    sound = probes(-0.2, -0.3, -0.4)
    broken = [{name: value for name, value in probe.items() if name != missing} for probe in sound]
    assert probes_in({"probes": [sound[0], *broken, {}]}) == sound[:1]
    assert what_probes_say(probes_in({"probes": broken})) == NOT_KNOWN
