"""How the magnitude of an image is drawn from that of the policy."""

import pytest
import torch
from own_operations import gamma
from plain_rows import plain_row
from random_inputs import seeded
from scipy import stats
from torch import Tensor

from hba.operations import OPERATIONS, STAGED, Operation
from hba.operations.drawing import AROUND, DRAWINGS, FIXED, SIGN, UP_TO
from hba.policy.draw import draw_with_trace
from hba.policy.player import draw_for_one
from hba.policy.space import SearchSpace

N_IMAGES = 4_000
TWINS = {
    "Rotation": "Rotate",
    "BrightnessJitter": "Brightness",
    "ContrastJitter": "Contrast",
    "Saturation": "Color",
}


def magnitudes_of(
    drawing: str, stage: str, identity: float, magnitude: float
) -> Tensor:
    """Of a batch, and as many of single images, (2, N_IMAGES)."""
    operation = Operation(
        "Power", gamma, (0.0, 100.0), identity=identity, drawing=drawing, stage=stage
    )
    count = (0.0, 1.0) if stage == "walk" else (1.0,)
    space = SearchSpace((operation,), 1, count)
    values = torch.tensor([1.0, magnitude])
    batch, _ = draw_with_trace(space, values, N_IMAGES, seeded(1))
    row = plain_row(space, values)
    generator = seeded(2)
    singles = [draw_for_one(row, generator)[0].magnitude for _ in range(N_IMAGES)]
    return torch.stack([batch.magnitudes[:, 0], torch.tensor(singles)])


@pytest.mark.parametrize("stage", ["walk", "photometric"])
@pytest.mark.parametrize("drawing", DRAWINGS)
def test_each_drawing_has_its_distribution_in_every_stage(
    drawing: str, stage: str
) -> None:
    for identity, magnitude in ((0.0, 30.0), (1.0, 0.5), (100.0, 40.0)):
        for drawn in magnitudes_of(drawing, stage, identity, magnitude).numpy():
            if drawing == FIXED:
                assert (drawn == magnitude).all()
            elif drawing == SIGN:
                assert set(drawn.tolist()) == {magnitude, -magnitude}
                n_negative = int((drawn < 0).sum())
                assert stats.binomtest(n_negative, N_IMAGES, 0.5).pvalue > 1e-4
            else:
                ends = {
                    AROUND: (identity - magnitude, identity + magnitude),
                    UP_TO: (identity, magnitude),
                }[drawing]
                uniform = stats.uniform(min(ends), max(ends) - min(ends))
                assert stats.kstest(drawn, uniform.cdf).pvalue > 1e-4


def test_uses_of_an_operation_compute_the_same_pixels() -> None:
    images = torch.rand(5, 3, 9, 7, generator=seeded(3))
    for use, name in TWINS.items():
        magnitudes = torch.tensor([0.4, 0.9, 1.0, 1.3, 1.9])
        fill = torch.tensor([0.1, 0.5, 0.9])
        expected = OPERATIONS[name](images, magnitudes, fill=fill)
        assert torch.equal(STAGED[use](images, magnitudes, fill=fill), expected)
