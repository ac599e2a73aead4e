"""What an evaluation says of the search: test images that it has seen, data that
changed, a search that was stopped.
"""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import hba
from hba.data import EvaluationData, LabelledImages, SearchData
from hba.errors import DataError, SettingsError
from hba.policy_evaluation.callbacks import EvaluationPlan
from hba.schedule.schedule import Schedule
from hba.training.metrics import Measured
from hba.training.trainer import Trained

SMALL: dict[str, Any] = {
    "model": "wrn-10-1",
    "image_size": 8,
    "batch_size": 8,
    "device": "cpu",
}


def write_images(
    folder: Path,
    classes: tuple[str, ...] = ("cat", "dog"),
    n_images: int = 12,
    seed: int = 0,
) -> Path:
    random = np.random.default_rng(seed)
    for name in classes:
        (folder / name).mkdir(parents=True, exist_ok=True)
        for number in range(n_images):
            levels = random.integers(0, 256, (8, 8, 3), dtype=np.uint8)
            Image.fromarray(levels).save(folder / name / f"{seed}-{number}.png")
    return folder


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Schedule]:
    """A folder and a schedule that was searched on it."""
    folder = write_images(tmp_path_factory.mktemp("searched") / "photos")
    schedule = hba.search(folder, epochs=1, **SMALL).schedule
    assert schedule is not None
    return folder, schedule


@pytest.fixture(autouse=True)
def trainings_end_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "hba.policy_evaluation.evaluation.train",
        lambda *_: Trained(nn.Identity(), Measured(0.0, 25.0)),
    )


class Plans(hba.EvaluationCallback):
    plan: EvaluationPlan

    def planned(self, plan: EvaluationPlan) -> None:
        self.plan = plan


def evaluate(
    schedule: Schedule, data: Any = None, **settings: Any
) -> tuple[hba.EvaluationResult, EvaluationPlan]:
    callback = Plans()
    settings = {
        "device": "cpu",
        "baseline": "none",
        "seeds": 1,
        "epochs": 1,
        "against": "none",
        **settings,
    }
    return hba.evaluate(schedule, data, callback=callback, **settings), callback.plan


def refusal(schedule: Schedule, data: Any = None, **settings: Any) -> str:
    with pytest.raises(SettingsError) as raised:
        evaluate(schedule, data, **settings)
    return str(raised.value)


def test_a_folder_that_only_moved_is_the_same_data(
    searched: tuple[Path, Schedule], tmp_path: Path
) -> None:
    shutil.copytree(searched[0], tmp_path / "moved")
    result, plan = evaluate(searched[1], tmp_path / "moved")
    assert result.searched[0].test_images_seen == 0
    assert len(plan.notes) == 1
    assert str(searched[0].resolve()) in plan.notes[0]


def test_with_leave_it_goes_on_and_says_so_everywhere(
    searched: tuple[Path, Schedule], tmp_path: Path
) -> None:
    message = refusal(searched[1], split_seed=1)
    assert " of the 5 test images" in message
    assert "--allow-seen" in message
    result, plan = evaluate(
        searched[1], split_seed=1, allow_seen=True, out=tmp_path / "run"
    )
    (row,) = result.searched
    assert row.test_images_seen
    warning = (
        f"The search of schedule has seen {row.test_images_seen} of the 5 test images:"
        " its error on them is too low"
    )
    assert plan.notes == result.warnings == (warning,)
    assert f"{warning}." in str(result.answer)
    content = json.loads(
        (tmp_path / "run" / "results.json").read_text(encoding="utf-8")
    )
    assert content["searched"][0]["test_images_seen"] == row.test_images_seen
    assert warning in content["answer"]["sentence"]


def test_a_schedule_that_stands_against_it_is_asked_too(
    searched: tuple[Path, Schedule], tmp_path: Path
) -> None:
    searched[1].save(tmp_path / "theirs.json")
    own_schedule = Schedule(searched[1].space, searched[1].values)
    message = refusal(
        own_schedule,
        searched[0],
        against=[str(tmp_path / "theirs.json")],
        split_seed=1,
        image_size=8,
    )
    assert "search of theirs has seen " in message


def test_other_data_and_no_baseline_augmentation_are_noted(
    searched: tuple[Path, Schedule], tmp_path: Path
) -> None:
    _, schedule = searched
    other_images = write_images(tmp_path / "others", ("frog", "horse"), seed=3)
    for data, options, named in (
        (None, {}, []),
        (other_images, {"split_seed": 5}, ["as in the search"]),
        (None, {"baseline": None}, ["--baseline auto"]),
    ):
        result, plan = evaluate(schedule, data, **options)
        assert [
            words in note for words, note in zip(named, plan.notes, strict=True)
        ] == [True] * len(named)
        assert result.warnings == ()
    gone = {
        **schedule.provenance,
        "settings": {**schedule.provenance["settings"], "data": str(tmp_path / "gone")},
    }
    with pytest.raises(DataError, match="gone"):
        evaluate(Schedule(schedule.space, schedule.values, schedule.fill, gone))


def test_digits_whose_file_has_no_images_are_compared_by_the_search_s_settings() -> (
    None
):
    digits = hba.load_policy("digits")
    assert digits.provenance.get("images_seen") is None
    n_seen = int(refusal(digits, split_seed=3).partition("has seen ")[2].split()[0])
    # The search has 700 of 1,797; of 1,097 others, that many are expected, with a
    # deviation of 10.
    assert n_seen == pytest.approx(1097 * 700 / 1797, abs=60)
    assert evaluate(digits)[0].searched[0].test_images_seen == 0


def memory(n_images: int, seed: int) -> LabelledImages:
    generator = torch.Generator().manual_seed(seed)
    return LabelledImages(
        torch.randint(0, 256, (n_images, 3, 8, 8), generator=generator).to(torch.uint8),
        torch.arange(n_images) % 2,
    )


def test_images_in_memory_are_compared_by_their_pixels() -> None:
    train = memory(24, 0)
    val = memory(8, 1)
    test = memory(8, 2)
    classes = ("a", "b")
    schedule = hba.search(
        SearchData("mine", classes, train, val),
        model="wrn-10-1",
        batch_size=8,
        device="cpu",
        epochs=1,
    ).schedule
    assert schedule is not None
    assert (
        evaluate(schedule, EvaluationData("mine", classes, train, test))[0]
        .searched[0]
        .test_images_seen
        == 0
    )
    assert "has seen 8 of the 8 test images" in refusal(
        schedule, EvaluationData("mine", classes, train, val)
    )
    assert "has seen 8 of the 8 test images" in refusal(
        schedule, EvaluationData("other", classes, train, val)
    )
