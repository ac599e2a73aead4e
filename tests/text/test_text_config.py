"""Settings of searches on text."""

from typing import Any

import pytest

from hba.algorithms import DeltaSelfTuning, SelfTuning
from hba.algorithms.algorithm import Algorithm
from hba.text.config import TEXT_ALGORITHMS

ON_TEXT: dict[str, tuple[type[Algorithm], dict[str, Any]]] = {
    "stn": (
        SelfTuning,
        {
            "sigma": 1.0,
            "sigma_entropy": None,
            "warm_up_epochs": 1,
            "lambda_learning_rate": 0.01,
        },
    ),
    "delta-stn": (DeltaSelfTuning, {"warm_up_epochs": 1}),
}


@pytest.mark.parametrize("name", ON_TEXT)
def test_an_algorithm_keeps_its_settings_on_images_but_those_of_its_text_experiment(
    name: str,
) -> None:
    on_images, on_text = ON_TEXT[name]
    assert TEXT_ALGORITHMS[name]().model_dump() == {
        **on_images().model_dump(),
        **on_text,
    }
