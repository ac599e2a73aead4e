"""A search that was killed or moved goes on to the same bits, and is not resumed as
another one.
"""

import json
import os
import shutil
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from search_problems import (
    StopAfter,
    WithDropout,
    small_data,
    small_images,
    small_settings,
)

import hba
from hba.data import SearchData
from hba.errors import DataError, RunError, SettingsError
from hba.executors.executor import CONTEXT
from hba.policy_search import trainer

SETTINGS: dict[str, Any] = {
    "learning_rate": 0.002,
    "reward_derivative": "difference",
    "epochs": 4,
}


def run(out: Path | None = None, data: Any = None, **settings: Any) -> hba.SearchResult:
    options = (
        {"device": "cpu", **settings}
        if settings.get("resume")
        else small_settings(**settings)
    )
    return hba.search(data or small_data(), out=out, **options)


def values_of(result: hba.SearchResult) -> np.ndarray:
    assert result.schedule is not None
    return result.schedule.values


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Amid the third of four epochs."""
    out = tmp_path_factory.mktemp("stopped") / "run"
    result = run(out, network=WithDropout(), callback=StopAfter(7), **SETTINGS)
    assert len(result.metrics) == 2
    return out


def test_what_does_not_go_with_the_run_is_refused_and_changes_nothing(
    stopped: Path, tmp_path: Path
) -> None:
    out = shutil.copytree(stopped, tmp_path / "run")
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    other = SearchData(
        "small", ("left", "right"), small_images(24, seed=5), small_images(16, seed=1)
    )
    changed = WithDropout()
    changed.dropout.p = 0.25
    cases: list[tuple[dict[str, Any], str]] = [
        ({"data": other, "network": WithDropout()}, "images or their split changed"),
        ({"network": changed}, "structure of the network changed"),
        ({"network": WithDropout(), "epochs": 2}, "epochs"),
        ({"network": WithDropout(), "epochs": 5}, "epochs"),
        ({"network": WithDropout(), "sigma": 0.3}, "sigma"),
        ({"network": WithDropout(), "space": hba.SearchSpace()}, "space"),
        ({}, "network"),
    ]
    for options, word in cases:
        with pytest.raises((RunError, SettingsError), match=word) as raised:
            run(out, resume=True, **options)
        assert len(str(raised.value).splitlines()) == 1
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before
    for content in (b"broken", before["checkpoint.pt"][:-1000]):
        (out / "checkpoint.pt").write_bytes(content)
        with pytest.raises(RunError, match=r"checkpoint\.pt cannot be read"):
            run(out, network=WithDropout(), resume=True)


def test_two_searches_in_one_folder_are_refused(tmp_path: Path) -> None:
    class Second(hba.SearchCallback):
        """Begins a search in the same folder while the first is at work."""

        def epoch_done(self, metrics: Any) -> None:
            for settings in ({"resume": True}, {}):
                with pytest.raises(RunError, match=r"at work in|already holds"):
                    run(tmp_path, **settings)

    assert run(tmp_path, callback=Second(), epochs=1).finished


def search_to_the_end(out: Path, settings: dict[str, Any]) -> None:
    # A save after every epoch makes it likely that a kill hits one.
    trainer.SAVE_EVERY_SECONDS = 0.0
    # Sums over several threads round otherwise than sums in one.
    torch.set_num_threads(1)
    if (out / "config.json").exists():
        hba.search(small_data(), out=out, resume=True)
    else:
        hba.search(small_data(), out=out, **settings)


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_a_search_that_is_killed_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    settings = small_settings(epochs=12)
    process = CONTEXT.Process(  # type: ignore[attr-defined]
        target=search_to_the_end, args=(tmp_path / "run", settings)
    )
    process.start()
    while not (tmp_path / "run" / "policy.json").exists():
        assert process.exitcode is None
        time.sleep(0.002)
    os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    search_to_the_end(tmp_path / "run", settings)
    expected = values_of(hba.search(small_data(), **settings))
    assert np.array_equal(hba.load_policy(tmp_path / "run").values, expected)
    assert not list((tmp_path / "run").glob("*.part"))


def test_a_run_goes_on_where_its_images_have_moved(tmp_path: Path) -> None:
    there = tmp_path / "there"
    out = tmp_path / "run"
    images = small_images(40, seed=0)
    for number, (image, label) in enumerate(
        zip(images.images, images.labels.tolist(), strict=True)
    ):
        path = there / str(label) / f"{number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image.permute(1, 2, 0).numpy()).save(path)
    settings: dict[str, Any] = small_settings(
        image_size=8, val_size=10, stream=True, workers=0
    )
    whole = hba.search(there, **settings)
    hba.search(there, out=out, callback=StopAfter(4), **settings)
    here = Path(shutil.move(there, tmp_path / "here"))
    with pytest.raises(DataError, match=str(there)):
        hba.search(out=out, resume=True)
    resumed = hba.search(here, out=out, resume=True)
    assert np.array_equal(values_of(resumed), values_of(whole))
    assert json.loads((out / "config.json").read_text())["data"] == str(here)
