"""One process and several find the same, but for the order of sums: every algorithm and
response, in double precision.

It is one test, because processes that start take longer than all that they do.
"""

from pathlib import Path

import pytest
import torch
from several_processes import CASES, EVALUATION, Found, all_cases, shared_by

TOLERANCE = 1e-11
OF_LAMBDA = 1e-9
"""lambda is far from 0, and Adam divides by small numbers."""
ROUNDED = 2e-6
"""Of the schedule's values, and of metrics whose sums are in single precision."""


@pytest.mark.slow
@pytest.mark.parametrize("n_processes", [2, 4])
def test_several_processes_find_what_one_finds(
    n_processes: int, tmp_path: Path
) -> None:
    # Not in this process, which would keep constants in double precision.
    (alone,) = shared_by(1, all_cases, tmp_path / "one")
    shared, *others = shared_by(n_processes, all_cases, tmp_path / "several")
    for other in others:
        for name, found in shared.items():
            assert all(torch.equal(found[part], other[name][part]) for part in found), (
                name
            )
    for case in CASES:
        differences = _differences(alone[case], shared[case])
        assert differences.pop("lam") < OF_LAMBDA, case
        assert max(differences.pop("values"), differences.pop("metrics")) < ROUNDED, (
            case
        )
        assert max(differences.values()) < TOLERANCE, case
        # A case that lambda never moved in would show nothing.
        assert not torch.equal(alone[case]["values"][0], alone[case]["values"][-1]), (
            case
        )
    differences = _differences(alone[EVALUATION], shared[EVALUATION])
    assert differences["losses"] < TOLERANCE
    assert differences["errors"] == 0
    losses = alone[EVALUATION]["losses"].flatten()
    assert len(losses.unique()) == len(losses), (
        "all rows have augmentations of their own"
    )


def _differences(one: Found, other: Found) -> dict[str, float]:
    assert one.keys() == other.keys()
    return {name: float((one[name] - other[name]).abs().max()) for name in one}
