"""hba.auto on planted images: what it chooses, what it leaves, how it stops and
resumes.
"""

import shlex
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
import torch
from hba.cli.auto import auto as auto_command
from hba.cli.main import main
from small_trainings import two_sides
from torch import nn

import hba
from hba.errors import HbaError, HbaWarning, RunError, SettingsError
from hba.policy_choice import plan, run as run_module
from hba.policy_choice.auto import finished
from hba.policy_choice.callbacks import AutoCallback
from hba.policy_choice.phases import PHASES
from hba.policy_choice.plan import unset
from hba.policy_choice.record import AutoRecord
from hba.policy_choice.rows import is_searched
from hba.policy_choice.run import AutoRun
from hba.policy_search import timing
from hba.policy_search.config import SearchConfig
from hba.results.answer import words_of
from hba.schedule.recipes import RECIPES
from hba.training import checkpoint

SETTINGS: dict[str, Any] = {
    "model": "simple-cnn-4",
    "image_size": 8,
    "epochs": 4,
    "batch_size": 20,
    "learning_rate": 0.02,
    "fast": False,
    "smaller": 1.0,
    "seeds": 2,
}
BUDGET = 290.0
"""More than is needed, so that no clock decides, and too little for network.onnx, which
takes long to write.
"""


@pytest.fixture(autouse=True, scope="module")
def few_steps_are_timed() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(timing, "MOST_STEPS", 3)
        yield


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images whose classes a horizontal flip exchanges."""
    file = tmp_path_factory.mktemp("sides") / "sides.npz"
    train = two_sides(80, seed=0)
    test = two_sides(40, seed=1)
    arrays: dict[str, Any] = {}
    for name, split in (("train", train), ("test", test)):
        arrays |= {
            f"{name}_images": split.images.permute(0, 2, 3, 1).numpy(),
            f"{name}_labels": split.labels.numpy(),
        }
    np.savez(file, **arrays)
    return file


@pytest.fixture(scope="module")
def run(images: Path, tmp_path_factory: pytest.TempPathFactory) -> hba.AutoResult:
    return hba.auto(
        images,
        out=tmp_path_factory.mktemp("auto") / "run",
        budget_seconds=BUDGET,
        jobs=1,
        **SETTINGS,
    )


def numbers(result: hba.AutoResult) -> Any:
    """All that an uninterrupted run and a resumed one must share."""
    assert result.results is not None
    rows = [
        (row.name, row.test_error_percent, row.test_loss) for row in result.results.rows
    ]
    return result.chosen, result.policy.values.tolist(), rows, result.record.rows


def test_a_flip_that_exchanges_the_classes_is_in_no_recipe(
    run: hba.AutoResult,
) -> None:
    assert run.finished
    assert {"none", "randaugment"} <= {row["name"] for row in run.record.rows}
    assert not {"photo", "overhead"} & {row["name"] for row in run.record.rows}
    for policy in (run.policy, hba.load_policy(run.folder / "search")):
        names = policy.space.names
        flips = [
            policy.values[:, names.index(name)].max()
            for name in names
            if name == "HorizontalFlip.probability"
        ]
        moves = policy.space.class_moves
        by_class = {} if moves is None else moves.names()
        if "HorizontalFlip" in by_class:
            assert by_class["HorizontalFlip"] == [{"0": "1", "1": "0"}]
        else:
            assert max(flips, default=0.0) == 0.0
    assert run.results is not None
    assert run.results.rows[0].name == run.chosen
    assert {row.name for row in run.results.rows} == {run.chosen, "none", "randaugment"}


def test_the_chosen_row_has_the_least_loss_of_those_with_all_seeds(
    run: hba.AutoResult,
) -> None:
    losses_by_row = {row["name"]: row["losses"] for row in run.record.rows}
    most = max(map(len, losses_by_row.values()))
    means = {
        name: np.mean([*losses.values()])
        for name, losses in losses_by_row.items()
        if len(losses) == most
    }
    best = min(means, key=lambda name: means[name])
    # What was searched gives way to a recipe that is as good.
    assert run.chosen == best or is_searched(best)


def test_groups_are_added_to_the_row_with_the_lowest_loss_of_the_first_seed(
    run: hba.AutoResult,
) -> None:
    losses = {row["name"]: row["losses"]["0"] for row in run.record.rows}
    recipes = [name for name in losses if not is_searched(name)]
    first_added = next(name for name in losses if is_searched(name))
    assert first_added.split("+")[0] == min(recipes, key=lambda name: losses[name])


def test_the_answer_of_trainings_with_few_epochs_has_a_caveat(
    run: hba.AutoResult,
) -> None:
    assert run.results is not None
    assert f"{SETTINGS['epochs']} epochs" in run.answer


def test_the_answer_says_what_a_recipe_does(
    run: hba.AutoResult, tmp_path: Path
) -> None:
    shutil.copytree(run.folder, tmp_path / "run")
    run.record.model_copy(update={"chosen": "photo"}).save(tmp_path / "run")
    assert RECIPES["photo"].text in hba.auto(out=tmp_path / "run", resume=True).answer


def test_the_run_leaves_a_policy_a_network_a_pipeline_and_a_page(
    run: hba.AutoResult,
) -> None:
    files = {path.name for path in run.folder.iterdir()}
    assert {
        "auto.json",
        "policy.json",
        "pipeline.py",
        "report.html",
        "search",
        "evaluation",
        "contest.json",
    } <= files
    assert hba.load_policy(run.folder).values.tolist() == run.policy.values.tolist()
    assert (run.folder / "search" / "report.html").exists()
    assert (run.folder / "network.pt").exists()
    assert run.answer.startswith(f"Use {words_of(run.chosen)}")
    assert hba.load_network(run.folder).info.policy == run.chosen


@pytest.mark.parametrize(
    "error",
    [RunError("no space left"), OSError(28, "No space left"), KeyboardInterrupt()],
)
@pytest.mark.parametrize("function_name", ["write_policy", "copy_file", "write_report"])
def test_a_file_that_cannot_be_written_costs_neither_the_answer_nor_the_other_files(
    run: hba.AutoResult,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    function_name: str,
    error: BaseException,
) -> None:
    folder = tmp_path / "run"
    shutil.copytree(run.folder, folder)
    files = {
        "write_policy": "policy.json",
        "copy_file": "network.pt",
        "write_report": "report.html",
    }
    for name in files.values():
        (folder / name).unlink()

    def fail(*_: Any) -> None:
        raise error

    monkeypatch.setattr(sys.modules[finished.__module__], function_name, fail)
    with pytest.warns(HbaWarning, match="--resume"):
        finished_run = finished(AutoRun(folder, run.record, AutoCallback(), PHASES))
    assert finished_run.answer == run.answer
    assert {name for name in files.values() if not (folder / name).exists()} == {
        files[function_name]
    }


def test_a_policy_that_is_a_recipe_is_still_one_when_loaded(
    run: hba.AutoResult,
) -> None:
    """It trains with the mean colour of the images, as the row of that name does."""
    again = hba.load_policy(run.folder)
    assert ("recipe" in again.provenance) == (run.chosen in RECIPES)
    assert again.fill == hba.load_policy(run.folder / "search").fill


class Stops(AutoCallback):
    """Raises after so many calls."""

    def __init__(self, after: int, error: type[BaseException]) -> None:
        self.left = after
        self.error = error

    def advanced(self, phase: str, done: float, total: float) -> None:
        self.left -= 1
        if self.left == 0:
            raise self.error


class Killed(Exception):
    """Stands for a kill, after which nothing is done any more."""


def n_calls(images: Path, folder: Path) -> int:
    counter = Stops(10**9, Killed)
    hba.auto(
        images, out=folder, budget_seconds=BUDGET, jobs=1, callback=counter, **SETTINGS
    )
    return 10**9 - counter.left


@pytest.mark.slow
def test_a_run_that_is_killed_anywhere_has_the_same_answer_after_it_resumes(
    images: Path, run: hba.AutoResult, tmp_path: Path
) -> None:
    total = n_calls(images, tmp_path / "counted")
    random = np.random.default_rng(0)
    for number in range(8):
        folder = tmp_path / f"{number}"
        kills = 0
        options: dict[str, Any] = {
            **SETTINGS,
            "resume": False,
            "budget_seconds": BUDGET,
            "jobs": 1,
        }
        while True:
            try:
                callback = Stops(
                    int(random.integers(1, total)) if kills < 3 else 10**9, Killed
                )
                resumed = hba.auto(images, out=folder, callback=callback, **options)
                break
            except Killed:
                kills += 1
                options = {"resume": True}
        assert numbers(resumed) == numbers(run)


@pytest.mark.slow
def test_a_training_of_the_contest_goes_on_from_its_checkpoint(
    images: Path, run: hba.AutoResult, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", 0.0)
    seen: list[str] = []

    class KillsInContest(AutoCallback):
        def advanced(self, phase: str, done: float, total: float) -> None:
            seen.append(phase)
            if seen.count("contest") == 7:
                raise Killed

    options: dict[str, Any] = {
        "budget_seconds": BUDGET,
        "jobs": 1,
        "callback": KillsInContest(),
    }
    with pytest.raises(Killed):
        hba.auto(images, out=tmp_path / "run", **options, **SETTINGS)
    assert [*(tmp_path / "run" / "contest").rglob("*.pt")]
    assert numbers(hba.auto(images, out=tmp_path / "run", resume=True)) == numbers(run)


class Clock:
    """In the place of the module time: a second passes at each call of the callback."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now


def test_killed_phases_count_their_time_and_a_resumed_run_keeps_to_its_budget(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    folder = tmp_path / "run"
    monkeypatch.setattr(run_module, "time", clock)
    monkeypatch.setattr(plan, "time", clock)
    monkeypatch.setattr(run_module, "SAVE_EVERY_SECONDS", 0.01)
    options: dict[str, Any] = {
        **SETTINGS,
        "budget_seconds": BUDGET,
        "jobs": 1,
        "data": images,
    }
    for phase in ("search", "contest", "test"):

        class Kills(AutoCallback):
            left = 3

            def advanced(
                self, phase: str, done: float, total: float, of: str = phase
            ) -> None:
                clock.now += 1
                self.left -= phase == of
                if not self.left:
                    # Until the thread that saves the time has come to it.
                    while AutoRecord.read(folder).spent < clock.now:
                        time.sleep(0.01)
                    raise Killed

        with pytest.raises(Killed):
            hba.auto(out=folder, callback=Kills(), **options)
        assert AutoRecord.read(folder).spent == clock.now
        options = {"resume": True}
    # No time is left: the test ends once it has a training of each row.
    resumed = hba.auto(out=folder, resume=True, budget_seconds=clock.now)
    assert resumed.results is not None
    assert {len(row.seeds) for row in resumed.results.rows} == {1}


def test_the_record_of_a_run_keeps_names_that_are_no_text(
    run: hba.AutoResult, tmp_path: Path
) -> None:
    changes = {
        "data": "/images\udcff",
        "counts": {"caf\udce9": 2},
        "settings": {"data_root": "\udcff"},
    }
    record = run.record.model_copy(update=changes)
    record.save(tmp_path)
    assert AutoRecord.read(tmp_path) == record


def test_a_run_without_a_plan_begins_again(images: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError):
        hba.auto(out=tmp_path / "run", resume=True)
    assert not (tmp_path / "run").exists()
    options: dict[str, Any] = {
        "budget_seconds": BUDGET,
        "jobs": 1,
        "callback": Stops(1, Killed),
    }
    with pytest.warns(HbaWarning), pytest.raises(Killed):
        hba.auto(images, out=tmp_path / "run", resume=True, **options, **SETTINGS)
    assert AutoRecord.read(tmp_path / "run").budget_seconds == BUDGET


def test_ctrl_c_ends_a_search_and_the_answer_is_from_what_there_is(
    images: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "run"
    settings = {**SETTINGS, "epochs": 2}
    n_steps = 0

    class Interrupts(AutoCallback):
        def advanced(self, phase: str, done: float, total: float) -> None:
            nonlocal n_steps
            n_steps += phase == "search"
            if phase == "search" and n_steps == 2:
                raise KeyboardInterrupt

    result = hba.auto(
        images,
        out=folder,
        budget_seconds=BUDGET,
        jobs=1,
        callback=Interrupts(),
        **settings,
    )
    assert (result.finished, result.record.stopped) == (True, ("search",))
    assert result.answer
    assert result.policy.epochs >= 1
    assert (folder / "policy.json").exists()
    assert (folder / "report.html").exists()


@pytest.mark.slow
def test_ctrl_c_in_the_contest_keeps_what_its_seeds_have_chosen(
    images: Path, tmp_path: Path
) -> None:
    class Interrupts(AutoCallback):
        def said(self, line: str) -> None:
            if line.startswith("Contest on validation images, seed 1"):
                raise KeyboardInterrupt

    options: dict[str, Any] = {
        "budget_seconds": 700.0,  # enough for two seeds of the contest
        "jobs": 1,
        "callback": Interrupts(),
    }
    result = hba.auto(
        images, out=tmp_path / "run", **options, **{**SETTINGS, "epochs": 2}
    )
    losses = {row["name"]: row["losses"]["0"] for row in result.record.rows}
    best = min(losses, key=lambda name: losses[name])
    assert result.record.stopped == ("contest",)
    assert result.chosen == best or best == "search"
    assert result.results is not None
    assert result.results.rows[0].name == result.chosen


def test_a_run_in_memory_with_a_network_of_ones_own(tmp_path: Path) -> None:
    def pairs(seed: int) -> list[Any]:
        split = two_sides(40, seed)
        return [
            (image, int(label))
            for image, label in zip(split.images, split.labels, strict=True)
        ]

    layers = (
        nn.Conv2d(3, 4, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(16, 2),
    )
    settings = {
        **{name: value for name, value in SETTINGS.items() if name != "model"},
        "epochs": 2,
    }
    options: dict[str, Any] = {
        "budget_seconds": BUDGET,
        "jobs": 1,
        "network": nn.Sequential(*layers),
    }
    result = hba.auto((pairs(0), pairs(1)), out=tmp_path / "run", **options, **settings)
    assert result.finished
    assert result.answer.startswith("Use ")


def write_images(
    folder: Path, classes: int, n_images: int, draw: Callable[[int], np.ndarray]
) -> None:
    from PIL import Image

    for label in range(classes):
        place = folder / f"class{label}"
        place.mkdir(parents=True)
        for number in range(n_images):
            Image.fromarray(draw(label)).save(place / f"{number}.png")


@pytest.mark.parametrize(
    ("options", "about"),
    [
        ({"budget_seconds": 0.5}, "budget"),
        ({"budget_seconds": -1}, "budget_seconds"),
        ({"model": "wrn-11-1"}, "wrn"),
        ({"against": "randaugmnt"}, "randaugment"),
        ({"epochs": 10_000, "model": "simple-cnn-4"}, "at least"),
        ({"network": nn.Linear(3, 2)}, "network"),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_trained(
    images: Path, tmp_path: Path, options: dict[str, Any], about: str
) -> None:
    with pytest.raises(HbaError, match=about):
        hba.auto(images, out=tmp_path / "run", **{"budget_seconds": 60, **options})
    assert not (tmp_path / "run" / "search").exists()


def test_one_class_is_refused_and_a_few_images_a_class_are_enough(
    tmp_path: Path,
) -> None:
    random = np.random.default_rng(0)

    def draw(label: int) -> np.ndarray:
        return random.integers(100 * label, 100 * label + 100, (9, 9, 3)).astype(
            np.uint8
        )

    write_images(tmp_path / "one", 1, 5, draw)
    with pytest.raises(HbaError, match="two classes"):
        hba.auto(tmp_path / "one", out=tmp_path / "run-one")
    write_images(tmp_path / "few", 2, 5, draw)
    settings = {**SETTINGS, "epochs": 2, "batch_size": 4}
    result = hba.auto(
        tmp_path / "few",
        out=tmp_path / "run-few",
        budget_seconds=BUDGET,
        jobs=1,
        **settings,
    )
    assert result.results is not None
    assert result.results.test_images == 2


def test_a_run_is_not_overwritten_and_keeps_its_settings(
    images: Path, run: hba.AutoResult
) -> None:
    with pytest.raises(HbaError, match="resume"):
        hba.auto(images, out=run.folder)
    with pytest.raises(SettingsError, match="epochs"):
        hba.auto(images, out=run.folder, resume=True, epochs=3)
    assert torch.equal(
        torch.tensor(hba.load_policy(run.folder).values),
        torch.tensor(run.policy.values),
    )


def test_a_run_that_has_ended_takes_no_other_budget_or_data(
    images: Path, run: hba.AutoResult, tmp_path: Path
) -> None:
    folder = shutil.copytree(run.folder, tmp_path / "run")
    before = (folder / "auto.json").read_bytes()
    for changes in (
        {"budget_seconds": 2 * BUDGET},
        {"data": tmp_path},
        {"budget_seconds": -1.0},
        {"jobs": 2},
    ):
        with pytest.raises(HbaError):
            hba.auto(out=folder, resume=True, **changes)
        assert (folder / "auto.json").read_bytes() == before
    # What it has been given before is no change.
    options: dict[str, Any] = {"budget_seconds": BUDGET, "jobs": 1, **SETTINGS}
    again = hba.auto(images, out=folder, resume=True, **options)
    assert again.answer == run.answer.replace(str(run.folder), str(folder))


def test_another_budget_and_place_are_in_the_whole_record(
    images: Path, run: hba.AutoResult
) -> None:
    record = run.record.with_budget(1234.0, "At most 21 min").at_data("elsewhere")
    # A command keeps the help option that its first context has made.
    parent = click.Context(main, **main.context_settings)
    arguments = shlex.split(record.command)[2:]
    context = auto_command.make_context("auto", arguments, parent)
    assert (context.params["data"], context.params["budget_seconds"]) == (
        "elsewhere",
        1234.0,
    )
    assert (record.data, record.budget_seconds) == ("elsewhere", 1234.0)
    assert record.plan == ("At most 21 min", *run.record.plan[1:])
    assert (
        record.with_budget(BUDGET, run.record.plan[0]).at_data(str(images))
        == run.record
    )


def test_a_stop_of_the_test_is_no_longer_told_once_it_has_ended(
    images: Path, run: hba.AutoResult, tmp_path: Path
) -> None:
    class Interrupts(AutoCallback):
        def advanced(self, phase: str, done: float, total: float) -> None:
            if phase == "test":
                raise KeyboardInterrupt

    folder = shutil.copytree(run.folder, tmp_path / "run")
    shutil.rmtree(folder / "evaluation")
    run.record.model_copy(update={"ended": run.record.ended[:3]}).save(folder)
    stopped = hba.auto(out=folder, resume=True, callback=Interrupts())
    assert (stopped.finished, stopped.record.stopped) == (False, ("test",))
    assert stopped.answer
    assert len(stopped.record.notes) == 1 + len(run.record.notes)
    ended = hba.auto(out=folder, resume=True)
    assert ended.finished
    assert (ended.record.notes, ended.record.stopped) == (run.record.notes, ())
    assert numbers(ended) == numbers(run)


def test_images_that_change_during_a_run_end_it_with_an_answer_from_what_there_is(
    tmp_path: Path,
) -> None:
    random = np.random.default_rng(0)

    def draw(label: int) -> np.ndarray:
        return random.integers(100 * label, 100 * label + 100, (9, 9, 3)).astype(
            np.uint8
        )

    write_images(tmp_path / "images", 2, 20, draw)

    class Adds(AutoCallback):
        """Images appear after the contest, so that it has seen some of what would be
        test images.
        """

        def said(self, line: str) -> None:
            if line.startswith("Contest: "):
                write_images(tmp_path / "more", 2, 20, draw)
                for file in sorted((tmp_path / "more").glob("*/*.png")):
                    file.rename(
                        tmp_path / "images" / file.parent.name / f"0{file.name}"
                    )

    settings = {**SETTINGS, "epochs": 2, "batch_size": 4}
    options: dict[str, Any] = {"budget_seconds": BUDGET, "jobs": 1, "callback": Adds()}
    result = hba.auto(tmp_path / "images", out=tmp_path / "run", **options, **settings)
    assert not result.finished
    assert result.results is None
    assert "images" in " ".join(result.record.notes)
    assert (tmp_path / "run" / "policy.json").exists()


def test_the_preset_of_a_data_set_does_not_decide_how_many_images_are_used() -> None:
    """It has 4,000 of the 50,000 images of CIFAR-10."""
    config = SearchConfig.from_preset({**unset("cifar10"), "data": "cifar10"})
    assert (config.train_size, config.val_size, config.epochs) == (None, None, 200)
