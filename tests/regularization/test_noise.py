"""Input dropout and input noise against the moments of their distributions."""

import numpy as np
import torch
from torch import Tensor

from hba.regularization.on_images import input_dropout, input_noise

N = 200_000
RATES = (0.1, 0.4, 0.75)
VALUES = (-1.5, 0.2, 3.0)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def one_value_each() -> Tensor:
    """Three images, of one value each."""
    return torch.tensor(VALUES)[:, None, None, None].expand(-1, 2, 500, N // 1000)


def test_dropout_keeps_the_mean_and_has_the_variance_of_its_rate() -> None:
    result = input_dropout(one_value_each(), seeded(), rate=torch.tensor(RATES)).double().flatten(1).numpy()
    for image, value, rate in zip(result, VALUES, RATES, strict=True):
        deviation = abs(value) * (rate / (1 - rate)) ** 0.5
        np.testing.assert_allclose(image.mean(), value, atol=5 * deviation / N**0.5)
        np.testing.assert_allclose(image.std(), deviation, rtol=0.02)
        np.testing.assert_allclose((image == 0).mean(), rate, atol=0.006)
        np.testing.assert_allclose(image[image != 0], value / (1 - rate), rtol=1e-6)


def test_each_number_is_dropped_by_itself() -> None:
    """Neither with its neighbour nor with the other channels of its pixel."""
    dropped = input_dropout(torch.ones(1, 3, 300, 300), seeded(1), rate=torch.tensor([0.4]))[0] == 0
    for shifted in (dropped.roll(1, 0), dropped.roll(1, 1), dropped.roll(1, 2)):
        np.testing.assert_allclose((dropped & shifted).double().mean(), 0.16, atol=0.005)


def test_noise_keeps_the_mean_and_grows_with_the_number() -> None:
    deviations = (0.05, 0.3, 0.15)
    result = input_noise(one_value_each(), seeded(3), deviation=torch.tensor(deviations)).double().flatten(1).numpy()
    for image, value, deviation in zip(result, VALUES, deviations, strict=True):
        expected = abs(value) * deviation
        np.testing.assert_allclose(image.mean(), value, atol=5 * expected / N**0.5)
        np.testing.assert_allclose(image.std(), expected, rtol=0.01)
