"""More epochs for a run that was begun with fewer, and a run whose images have moved."""

import dataclasses
import json
import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from search_problems import SMALL_SETTINGS, StopAfter, small_data, small_images, small_settings
from search_steps import algorithm_of, begun, step

import hba
from hba.errors import DataError, RunError, SettingsError
from hba.policy_search.history import History, extend_epochs

RATE = 0.02


class Told(hba.SearchCallback):
    def __init__(self) -> None:
        self.plans: list[hba.SearchPlan] = []

    def planned(self, plan: hba.SearchPlan) -> None:
        self.plans.append(plan)


def run(out: Path | None, **settings: Any) -> hba.SearchResult:
    if settings.get("resume"):
        settings = {"device": "cpu", **settings}
    else:
        settings = small_settings(**{"learning_rate": RATE, **settings})
    return hba.search(small_data(), out=out, **settings)


def values_of(result: hba.SearchResult) -> np.ndarray:
    assert result.schedule is not None
    return result.schedule.values


def cosine(step: int, total: int) -> float:
    return RATE * (1 + math.cos(math.pi * step / total)) / 2


def drops(step: int, total: int) -> float:
    return RATE * 0.1 ** sum(step >= ninths * total // 9 for ninths in (3, 6, 8))


@pytest.mark.parametrize("algorithm", ["lookahead", "delta-stn"])
@pytest.mark.parametrize(("schedule", "rate"), [("cosine", cosine), ("step", drops)])
def test_the_rate_of_each_step_after_is_that_of_the_longer_search_to_the_last_bit(
    algorithm: str, schedule: str, rate: Any
) -> None:
    settings: dict[str, Any] = {"algorithm": algorithm, "learning_rate": RATE, "learning_rate_schedule": schedule}
    _, whole = begun(**settings, epochs=6)
    task, state = begun(**settings, epochs=3)
    longer = dataclasses.replace(task, config=task.config.model_copy(update={"epochs": 6}))
    step(task, state, 5)
    assert state.learner.learning_rate == pytest.approx(rate(5, 9))
    optimizer, whole_schedule = whole.learner.optimizer, whole.learner.schedule
    for _ in range(5):
        optimizer.step()
        whole_schedule.step()
    assert extend_epochs(longer, state, History(3)) is not None
    for number in range(5, 18):
        assert state.learner.learning_rate == whole.learner.learning_rate
        assert [group["lr"] for group in state.learner.optimizer.param_groups] == [
            group["lr"] for group in optimizer.param_groups
        ]
        assert state.learner.learning_rate == pytest.approx(rate(number, 18), abs=1e-9)
        step(task, state)
        optimizer.step()
        whole_schedule.step()


def test_the_noise_goes_on_by_the_longer_line() -> None:
    task, state = begun(epochs=3, sigma=1.0, sigma_end=0.1)
    step(task, state, 6)
    assert algorithm_of(task).sigma_now(task, state) == pytest.approx(1 - 0.9 * 6 / 9)
    afterwards = begun(epochs=9, sigma=1.0, sigma_end=0.1)[0]
    extend_epochs(afterwards, state, History(3))
    assert algorithm_of(afterwards).sigma_now(afterwards, state) == pytest.approx(1 - 0.9 * 6 / 27)


def policy_steps_of(result: hba.SearchResult) -> int:
    assert result.schedule is not None
    found: int = result.schedule.provenance["policy_steps"]
    return found


def test_a_search_lengthened_in_its_warm_up_warms_up_for_half_of_its_new_epochs(tmp_path: Path) -> None:
    first = run(tmp_path, warm_up_epochs=None, epochs=4, callback=StopAfter(5))
    assert policy_steps_of(first) == 0
    told = Told()
    longer = values_of(run(tmp_path, epochs=8, resume=True, callback=told))
    (plan,) = told.plans
    assert plan.policy_steps == 6
    assert (longer[:4] == longer[0]).all()
    assert (longer[4] != longer[3]).any()


@pytest.mark.parametrize("algorithm", ["lookahead", "population"])
def test_a_lengthened_run_that_is_stopped_goes_on_to_the_same_end(algorithm: str, tmp_path: Path) -> None:
    ends = []
    for name, n_steps in (("at once", 99), ("stopped", 4)):
        run(tmp_path / name, algorithm=algorithm, callback=StopAfter(4))
        run(tmp_path / name, algorithm=algorithm, resume=True, epochs=5, callback=StopAfter(n_steps))
        ends.append(run(tmp_path / name, algorithm=algorithm, resume=True))
    np.testing.assert_array_equal(values_of(ends[0]), values_of(ends[1]))
    assert [len(end.schedule.provenance["lengthened"]) for end in ends if end.schedule] == [1, 1]
    assert ends[0].metrics[-1]["epoch"] == ends[1].metrics[-1]["epoch"] == 5


def test_fewer_epochs_are_refused_and_change_nothing(tmp_path: Path) -> None:
    run(tmp_path, callback=StopAfter(4))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(SettingsError, match="epochs"):
        run(tmp_path, resume=True, epochs=2)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def write_images(folder: Path) -> Path:
    for part, images in (("train", small_images(24, seed=0)), ("val", small_images(16, seed=1))):
        for number, (image, label) in enumerate(zip(images.images, images.labels.tolist(), strict=True)):
            path = folder / part / str(label) / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image.permute(1, 2, 0).numpy()).save(path)
    return folder


def on_files(data: Path | None, out: Path | None, **settings: Any) -> hba.SearchResult:
    own: dict[str, Any] = {} if settings.get("resume") else {**SMALL_SETTINGS, "image_size": 8}
    return hba.search(data, out=out, **own, **settings)


@pytest.mark.parametrize("stream", [False, True])
def test_a_run_goes_on_where_its_images_have_moved(stream: bool, tmp_path: Path) -> None:
    there = write_images(tmp_path / "there")
    whole = on_files(there, None, stream=stream, workers=0)
    on_files(there, tmp_path / "run", stream=stream, workers=0, callback=StopAfter(4))
    here = Path(shutil.move(there, tmp_path / "here"))
    shutil.move(tmp_path / "run", tmp_path / "moved run")
    with pytest.raises(DataError) as raised:
        on_files(None, tmp_path / "moved run", resume=True)
    assert str(there) in str(raised.value)
    resumed = on_files(here, tmp_path / "moved run", resume=True, workers=1)
    np.testing.assert_array_equal(values_of(resumed), values_of(whole))
    settings = json.loads((tmp_path / "moved run" / "config.json").read_text())
    assert (settings["data"], settings["workers"]) == (str(here), 1)
    assert resumed.schedule is not None
    assert resumed.schedule.provenance["dataset"] == resumed.schedule.provenance["settings"]["data"] == str(here)


def test_a_run_does_not_go_on_with_other_images_in_another_place(tmp_path: Path) -> None:
    on_files(write_images(tmp_path / "there"), tmp_path / "run", callback=StopAfter(4))
    other = write_images(tmp_path / "other")
    before = (tmp_path / "run" / "config.json").read_bytes()
    Image.fromarray(np.zeros((8, 8, 3), dtype=np.uint8)).save(other / "train" / "0" / "0.png")
    with pytest.raises(RunError, match="the images or their split changed since"):
        on_files(other, tmp_path / "run", resume=True)
    assert (tmp_path / "run" / "config.json").read_bytes() == before
