"""The contest: which rows are left, what is held out, what a planted symmetry does."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from sklearn.metrics import jaccard_score
from small_trainings import two_sides

from hba.algorithms.race_findings import RaceFindings
from hba.algorithms.race_policies import row_of
from hba.data import SearchData
from hba.data.images import LabelledImages
from hba.errors import RunError
from hba.policy.class_moves import ClassMoves
from hba.policy.spaces import SPACES
from hba.policy_choice.contest import (
    DIVERGED,
    Contest,
    Outcome,
    contest_data,
    enlarged_losses,
    survivors,
)
from hba.policy_choice.rows import (
    FOUND,
    changes_of_row,
    goes_with,
    policy_of_row,
    row_without_contest,
    rows_of_contest,
    source_of_row,
    symmetries_in,
)
from hba.schedule.compose import symmetries_of
from hba.schedule.recipes import RECIPES
from hba.schedule.schedule import Schedule
from hba.tasks import Segmentation

N = 400


def losses(
    means: dict[str, float], n_seeds: int = 1, noise: float = 0.1
) -> dict[str, list[np.ndarray]]:
    """Of images that are easy or hard for all rows, as images are, with a little noise
    of each row.
    """
    random = np.random.default_rng(0)
    images = random.exponential(1.0, (n_seeds, N))
    return {
        name: [
            images[seed] + mean + random.normal(0, noise, N) for seed in range(n_seeds)
        ]
        for name, mean in means.items()
    }


def test_rows_clearly_behind_are_left_out_though_images_differ_more_than_rows() -> None:
    losses_by_row = losses({"worse": 0.2, "best": 0.0, "close": 0.001, "worst": 1.0})
    assert survivors(losses_by_row, 10) == ["best", "close"]
    assert survivors(losses_by_row, 1) == ["best"]


def test_the_best_row_that_was_not_searched_is_left() -> None:
    names = ["photo+color", "photo+color+zoom", "photo+erasing"]
    means = dict.fromkeys(names, 0.0)
    close = losses({**means, "photo": 0.01, "none": 0.02}, noise=0.05)
    assert {*survivors(close, 3)} == {*names, "photo"}
    behind = losses({**means, "photo": 0.2}, noise=0.05)
    assert {*survivors(behind, 3)} == {*names}


def test_a_difference_that_changes_its_sign_with_the_seed_leaves_nobody_out() -> None:
    losses_by_row = losses({"first": 0.0, "second": 0.0}, n_seeds=2)
    losses_by_row["second"] = [
        losses_by_row["first"][0] + 0.5,
        losses_by_row["first"][1] - 0.4,
    ]
    assert set(survivors(losses_by_row, 10)) == {"first", "second"}


@pytest.mark.parametrize("seed", range(3))
def test_of_equal_rows_few_are_left_out(seed: int) -> None:
    random = np.random.default_rng(seed)
    kept = [
        len(survivors({str(row): [random.normal(1, 0.3, N)] for row in range(10)}, 10))
        for _ in range(40)
    ]
    assert np.mean(kept) > 8


def test_a_diverged_training_is_left_out_and_the_first_of_equal_rows_is_taken() -> None:
    same = np.ones(N)
    losses_by_row = {
        "recipe": [same],
        "search": [same],
        "diverged": [np.full(N, DIVERGED)],
    }
    assert survivors(losses_by_row, 10) == ["recipe", "search"]
    assert survivors({"diverged": [np.full(N, DIVERGED)]}, 10) == ["diverged"]


def test_a_single_group_of_images_leaves_nobody_out() -> None:
    single = {"first": [np.array([1.0])], "second": [np.array([5.0])]}
    assert survivors(single, 10) == ["first", "second"]
    several = {"first": [np.array([1.0, 1.2])], "second": [np.array([5.0, 5.1])]}
    assert survivors(several, 10) == ["first"]


def test_a_contest_goes_on_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "contest.json"
    contest = Contest.begun(["none", "photo", "search"], file)
    assert contest.best is None
    for row, mean in (("none", 0.5), ("photo", 0.4)):
        contest.add(row, 0, Outcome(tuple(np.linspace(0, 1, 50) + mean), 10.0))
    again = Contest.begun(["none", "photo", "search"], file)
    assert again.missing(0) == ["search"]
    assert again.n_seeds == 0
    again.add("search", 0, Outcome(tuple(np.linspace(0, 1, 50) + 0.3), 9.0))
    assert (again.n_seeds, again.best, again.left(1)) == (1, "search", ["search"])
    assert [row["dropped_after"] for row in again.table()] == [1, 1, None]
    file.write_text("{")
    with pytest.raises(RunError, match=r"contest\.json"):
        Contest.begun(["none"], file)


def test_seeds_hold_out_parts_that_are_stratified_and_cover_all_images_once() -> None:
    train = two_sides(40, seed=0)
    val = two_sides(10, seed=1)
    data, held_out = contest_data(SearchData("d", ("left", "right"), train, val))
    assert sorted(
        torch.cat([fold for fold in held_out if fold is not None]).tolist()
    ) == list(range(50))
    labels = torch.cat([train.labels, val.labels])
    assert [labels[fold].sum().item() for fold in held_out if fold is not None] == [
        5
    ] * 5
    assert len(data.train) == 50


def test_a_part_of_separate_validation_images_is_trained_on_if_the_test_does() -> None:
    train = two_sides(40, seed=0)
    val = two_sides(10, seed=1)
    images = SearchData("d", ("left", "right"), train, val, has_own_val=True)
    data, folds = contest_data(images)
    assert isinstance(data.train, LabelledImages)
    assert torch.equal(data.train.images[40:], val.images)
    held_out = [fold.tolist() for fold in folds if fold is not None]
    assert sorted(number for fold in held_out for number in fold) == list(range(40, 50))
    assert min(map(len, held_out)) >= 4
    data, fold_numbers = contest_data(images, trains_on_val=False)
    assert fold_numbers == [None]
    assert isinstance(data.test, LabelledImages)
    assert torch.equal(data.test.images, val.images)


def race(**gaps: float) -> RaceFindings:
    """One that takes the symmetries with gaps of 0."""
    chosen = tuple(name for name, gap in gaps.items() if gap == 0)
    gaps_and_errors = {name: (gap, 0.01) for name, gap in gaps.items()}
    return RaceFindings(gaps_and_errors, 0.15, {}, 1.0, "no group", chosen, 0)


def test_recipes_with_symmetries_that_do_not_hold_are_not_compared() -> None:
    none = race(HorizontalFlip=0.8, VerticalFlip=0.9, QuarterTurn=0.9)
    kept = {name for name in RECIPES if goes_with(name, none)}
    assert kept == {
        "none",
        "randaugment",
        "randaugment-light",
        "trivialaugment",
        "autoaugment",
        "oriented",
        "crop",
        "resized-crop",
    }
    flips = race(HorizontalFlip=0.0, VerticalFlip=0.9, QuarterTurn=0.9)
    assert goes_with("photo", flips)
    assert goes_with("flip", flips)
    assert goes_with("crop-flip", flips)
    assert goes_with("three-augment", flips)
    assert not goes_with("overhead", flips)
    all_hold = race(HorizontalFlip=0.0, VerticalFlip=0.0, QuarterTurn=0.0)
    assert goes_with("overhead", all_hold)
    assert not goes_with("photo", all_hold)


TESTED = {
    "n_held_out": 30,
    "n_validation": 20,
    "has_own_validation": False,
    "largest_gap": 0.15,
    "forks": {"no group": [1.0, 0.0, 0.0]},
    "legs": [],
}


def found_by_race(
    *holding: str, by_class: ClassMoves | None = None, **gaps: tuple[float, float]
) -> Schedule:
    """The policy of a race that takes some symmetries."""
    space = dataclasses.replace(SPACES["recipe"], class_moves=by_class)
    row = row_of(space, [*holding, "RandAugment"])
    operations = [] if by_class is None else by_class.operations
    provenance = {
        **TESTED,
        "symmetries": {
            name: gaps.get(name, (0.0 if name in holding else 0.9, 0.01))
            for name in ("HorizontalFlip", "VerticalFlip", "QuarterTurn")
        },
        "symmetries_by_class": [*operations],
        "taken": {"fork": "RandAugment", "operations": [*holding, "RandAugment"]},
    }
    return Schedule(space, row.numpy()[None], provenance=provenance)


def test_recipes_are_compared_with_the_symmetries_that_hold() -> None:
    none = rows_of_contest(found_by_race(), 20)
    assert none[2:4] == ("crop", "oriented")
    assert not {"flip", "photo", "overhead"} & {*none}
    # A recipe with the same policy gives its name.
    flip = rows_of_contest(found_by_race("HorizontalFlip"), 20)
    assert flip[2:5] == ("symmetries-crop", "photo", "symmetries-randaugment-light")
    assert {"flip", "crop-flip"} <= {*flip}
    all_hold = found_by_race("HorizontalFlip", "VerticalFlip", "QuarterTurn")
    rows = rows_of_contest(all_hold, 20)
    assert rows[2:4] == ("overhead", "overhead-randaugment")
    assert len({*rows}) == len(rows)
    policy = policy_of_row("symmetries-trivialaugment", all_hold)
    alone = policy.without("HorizontalFlip", "VerticalFlip", "QuarterTurn")
    assert np.array_equal(alone.values, RECIPES["trivialaugment"].make().values)
    assert np.array_equal(alone.spread, RECIPES["trivialaugment"].make().spread)


def test_a_recipe_with_a_symmetry_that_is_not_decided_is_compared_early() -> None:
    found = found_by_race(HorizontalFlip=(0.1, 0.2))
    assert rows_of_contest(found, 20)[2:6] == ("crop", "oriented", "photo", "crop-flip")


def test_rows_carry_the_symmetries_of_some_classes(tmp_path: Path) -> None:
    moves = ClassMoves(("a", "b"), (("HorizontalFlip", ((1, 0),)),))
    found = found_by_race("HorizontalFlip", by_class=moves)
    row = rows_of_contest(found, 4)[2]
    assert row == "symmetries-crop"
    source = source_of_row(row, found, tmp_path)
    saved = Schedule.load(source)
    assert saved.space.class_moves == moves
    assert set(symmetries_in("photo", ["HorizontalFlip"])) == {"HorizontalFlip"}
    assert symmetries_of(saved) == {"HorizontalFlip": 0.5}


def test_symmetries_of_recipes_are_those_that_they_apply() -> None:
    names = ["HorizontalFlip", "VerticalFlip", "QuarterTurn"]
    assert symmetries_in("overhead", names) == set(names)
    assert symmetries_in("photo", names) == {"HorizontalFlip"}
    assert symmetries_in("randaugment", names) == set()


def test_a_search_that_has_only_tested_symmetries_has_no_row() -> None:
    tested = found_by_race("HorizontalFlip")
    taken = {"fork": None, "operations": ["HorizontalFlip"]}
    only = dataclasses.replace(tested, provenance={**tested.provenance, "taken": taken})
    assert FOUND in rows_of_contest(tested, 20)
    assert FOUND not in rows_of_contest(only, 20)
    assert row_without_contest(tested) == FOUND
    policy = policy_of_row(row_without_contest(only), only)
    assert symmetries_of(policy) == {"HorizontalFlip": 0.5}


def test_a_policy_gets_what_it_lacks_and_an_equal_row_is_not_repeated() -> None:
    rows = ["none", "randaugment", "crop", "photo"]
    assert set(changes_of_row("photo", None, rows)) == {
        "half",
        "color",
        "erasing",
        "zoom",
        "quality",
        "shape",
        "mixing",
    }
    of_none = changes_of_row("none", None, rows)
    assert "half" not in of_none
    assert of_none["randaugment"] == "randaugment"
    assert of_none["shift"] == "crop"
    assert of_none["color"] == "none+color"
    policy = policy_of_row("photo+erasing", None)
    added = {*policy.space.names} - {*RECIPES["photo"].make().space.names}
    assert added == {"Erase.probability", "Erase.magnitude"}
    halves = policy_of_row("photo+half+half", None)
    assert halves.values[0, halves.space.names.index("PaddedCrop.probability")] == 0.25


def test_groups_that_lower_the_loss_are_added_one_by_one(tmp_path: Path) -> None:
    lowered = {"color": 0.2, "zoom": 0.1, "erasing": -0.1}

    def loss(row: str) -> float:
        base, *groups = row.split("+")
        return {"none": 1.0, "photo": 0.9}[base] - sum(lowered[name] for name in groups)

    def changes_of(row: str) -> dict[str, str]:
        return {name: f"{row}+{name}" for name in lowered if name not in row}

    contest = Contest.begun(["none", "photo"], tmp_path / "contest.json")
    assert contest.next_rows(changes_of) == []
    rounds = [["none", "photo"]]
    while rows := rounds[-1]:
        contest.enter(rows)
        for row in rows:
            contest.add(row, 0, Outcome((loss(row), loss(row) + 0.01), 10.0))
        # A run that stops here continues alike.
        again = Contest.begun(["none", "photo"], contest.file)
        assert again.outcomes == contest.outcomes
        rounds.append(contest.next_rows(changes_of))
    assert rounds[1:] == [
        ["photo+color", "photo+zoom", "photo+erasing"],
        ["photo+color+zoom"],
        [],
    ]


def test_changes_that_are_not_known_come_after_those_that_lower_the_loss(
    tmp_path: Path,
) -> None:
    def changes_of(row: str) -> dict[str, str]:
        return {name: f"{row}+{name}" for name in ("half", "color", "zoom", "shape")}

    contest = Contest.begun(["photo"], tmp_path / "contest.json")
    losses = {"photo": 0.9, "photo+half": 0.8, "photo+color": 0.95, "photo+zoom": 0.85}
    for row, loss in losses.items():
        contest.enter([row])
        contest.add(row, 0, Outcome((loss, loss + 0.01), 10.0))
    assert contest.next_rows(changes_of) == [
        "photo+half+half",
        "photo+half+zoom",
        "photo+half+shape",
    ]


def test_a_run_with_a_second_seed_has_no_further_changes(tmp_path: Path) -> None:
    contest = Contest.begun(["photo"], tmp_path / "contest.json")
    contest.add("photo", 0, Outcome((0.6, 0.61), 10.0))
    assert contest.next_rows(lambda row: {"half": f"{row}+half"}) == ["photo+half"]
    contest.add("photo", 1, Outcome((0.6, 0.61), 10.0))
    assert contest.next_rows(lambda row: {"half": f"{row}+half"}) == []


def test_rows_that_were_not_trained_do_not_hide_the_choice(tmp_path: Path) -> None:
    contest = Contest.begun(["none", "photo"], tmp_path / "contest.json")
    for row, loss in (("none", 0.5), ("photo", 0.4)):
        contest.add(row, 0, Outcome((loss, loss + 0.01), 10.0))
    contest.enter(["photo+color", "photo+erasing"])
    assert (contest.best, contest.n_seeds) == ("photo", 1)
    assert contest.missing(0) == ["photo+color", "photo+erasing"]
    contest.leave_out(contest.missing(0))
    assert Contest.begun(["none", "photo"], contest.file).missing(0) == []


def test_recipes_with_symmetries_come_early_if_none_was_tested() -> None:
    race = found_by_race()
    untested = dataclasses.replace(
        race, provenance={**race.provenance, "symmetries": {}}
    )
    assert rows_of_contest(untested, 4)[2:3] == rows_of_contest(None, 4)[2:3]


def test_a_policy_that_mixes_is_not_halved() -> None:
    assert "half" not in changes_of_row("timm", None, ())


def test_none_and_randaugment_always_compete_and_the_search_yields_to_equals() -> None:
    schedule = RECIPES["photo"].make()
    assert rows_of_contest(schedule, 3) == ("none", "randaugment", FOUND)
    assert rows_of_contest(None, 3)[:2] == ("none", "randaugment")
    assert rows_of_contest(schedule, 20)[-1] == FOUND
    assert len(rows_of_contest(schedule, 30)) == len(RECIPES) + 1


def test_what_was_searched_is_taken_only_where_it_is_clearly_better(
    tmp_path: Path,
) -> None:
    random = np.random.default_rng(0)
    images = random.exponential(1.0, N)
    for better, searched, winner in (
        (0.0005, "search", "photo"),
        (0.05, "search", "search"),
        (0.0005, "photo+color", "photo"),
        (0.05, "photo+color", "photo+color"),
        # As likely to be better as a recipe.
        (0.0005, "photo+half", "photo+half"),
    ):
        file = tmp_path / f"{better}-{searched}.json"
        contest = Contest.begun(["photo", searched], file)
        for row, mean in (("photo", 0.0), (searched, -better)):
            noise = random.normal(0, 0.1, N)
            contest.add(
                row, 0, Outcome(tuple(images + mean + noise - noise.mean()), 10.0)
            )
        assert contest.best == winner


def test_small_answers_miss_the_details_of_large_masks() -> None:
    masks = torch.zeros(20, 32, 32, dtype=torch.uint8)
    masks[:, 16:] = 1
    masks[:, :16, ::2] = 1
    answers = 9.0 * F.one_hot(masks.long(), 2).permute(0, 3, 1, 2)
    losses, error = enlarged_losses(answers, masks)
    torch.testing.assert_close(losses, Segmentation().losses(answers, masks))
    assert error == 0
    smaller = F.interpolate(answers, (16, 16), mode="area")
    _, error = enlarged_losses(smaller, masks)
    enlarged = F.interpolate(smaller, (32, 32), mode="bilinear").argmax(1)
    iou = jaccard_score(masks.flatten(), enlarged.flatten(), average="macro")
    assert error == pytest.approx(100 * (1 - iou))
    assert error > 30
