"""Searches that start from pretrained weights: what stays as it was, and that they are
resumed with the same.
"""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from pretrained_networks import (
    HEAD,
    MEAN,
    SETTINGS,
    STD,
    names_that_differ,
    pretrained,
    weights_file,
)
from search_problems import StopAfter, small_data, small_images

import hba
from hba.policy_search.config import SearchConfig
from hba.policy_search.context import ImageSearchContext

OF_LAYER4 = {name for name in pretrained().state_dict() if name.startswith("layer4")}


def run(weights: Path, out: Path | None = None, **settings: Any) -> hba.SearchResult:
    return hba.search(
        small_data(), out=out, **{**SETTINGS, "pretrained": weights, **settings}
    )


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return weights_file(tmp_path_factory.mktemp("weights"))


@pytest.mark.parametrize(
    ("freeze", "expected"),
    [("all-but-head", HEAD), ("none", set(pretrained().state_dict()))],
)
def test_only_what_is_not_frozen_differs_after_a_search(
    freeze: Any, expected: set[str], weights: Path
) -> None:
    assert (
        names_that_differ(run(weights, freeze=freeze, epochs=1).network, pretrained())
        == expected
    )


def test_images_are_standardised_as_the_weights_want_it_or_as_is_asked_for(
    weights: Path,
) -> None:
    data = small_data()
    pixels = small_images(24, seed=0).images.numpy() / 255
    statistics = [pixels.mean(axis=(0, 2, 3)), pixels.std(axis=(0, 2, 3))]
    cases: list[tuple[dict[str, Any], Any]] = [
        ({}, [MEAN, STD]),
        ({"standardize_by": "images"}, statistics),
    ]
    for settings, expected in cases:
        config = SearchConfig.make(
            {**SETTINGS, "data": "small", "pretrained": weights, **settings}
        )
        context = ImageSearchContext.of(config, data, start=config.network_start())
        prepared = context.problem.preprocessing
        np.testing.assert_allclose(
            [prepared.mean.flatten(), prepared.std.flatten()], expected, rtol=1e-4
        )


RESUMED: dict[str, Any] = {
    "freeze": 4,
    "optimizer": "adamw",
    "learning_rate": 0.001,
    "learning_rate_warm_up_epochs": 1,
    "epochs": 3,
    "space": "hba",
    "train_steps": 1,
}


@pytest.mark.slow
def test_a_stopped_search_ends_as_one_that_was_not(
    weights: Path, tmp_path: Path
) -> None:
    """With AdamW, its averages and the warm-up as they were, and what was frozen still
    is.
    """
    assert not run(weights, tmp_path, callback=StopAfter(3), **RESUMED).finished
    result = hba.search(small_data(), out=tmp_path, resume=True)
    whole = run(weights, **RESUMED)
    assert result.schedule is not None
    assert whole.schedule is not None
    assert np.array_equal(result.schedule.values, whole.schedule.values)
    assert all(
        torch.equal(tensor, whole.network.state_dict()[name])
        for name, tensor in result.network.state_dict().items()
    )
    assert names_that_differ(result.network, pretrained()) == OF_LAYER4 | HEAD
    sha = sha256(weights.read_bytes()).hexdigest()
    assert result.schedule.provenance["pretrained"] == {
        "sha256": sha,
        "mean": MEAN,
        "std": STD,
    }
    assert any(sha[:12] in note for note in result.notes)
    settings = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert (settings["pretrained"], settings["freeze"]) == (str(weights), "4")
