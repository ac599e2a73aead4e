"""Policies of Fast AutoAugment and DADA: what hba then does to images, against the lists themselves, drawn here."""

import json
import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageOps

import hba
from hba.errors import ScheduleError
from hba.importers.levels import LEVELS
from hba.operations import OPERATIONS
from hba.policy.draw import draw_operations
from hba.schedule.schedule import Schedule

N_IMAGES = 60_000
POLICY = [
    [("TranslateX", 0.52, 0.58), ("Rotate", 0.57, 0.13)],
    [("ShearX", 0.5, 0.9), ("Sharpness", 0.5, 0.54)],
    [("Brightness", 0.56, 0.2), ("Sharpness", 0.9, 0.05)],
    [("AutoContrast", 0.44, 0.48), ("Cutout", 0.49, 0.5)],
    [("Equalize", 1.0, 0.5), ("Equalize", 0.4, 0.9)],
    [("Posterize", 0.8, 0.3), ("Solarize", 0.0, 0.5)],
    [("Rotate", 0.3, 0.95), ("Color", 0.7, 1.0)],
]


def imported(tmp_path: Path, policy: Any, source: str = "fast-autoaugment", **options: Any) -> Schedule:
    path = tmp_path / "policy.txt"
    path.write_text(policy if isinstance(policy, str) else repr(policy), encoding="utf-8")
    return hba.import_policy(source, path, **options)


def drawn_by_hba(schedule: Schedule) -> tuple[list[list[tuple[str, float]]], Counter[int]]:
    """Operations of each image with the size of their magnitude, and how many images got how many."""
    row, spread = (torch.tensor(rows[0], dtype=torch.float32) for rows in (schedule.values, schedule.spread))
    draw = draw_operations(schedule.space, row, N_IMAGES, torch.Generator().manual_seed(0), spread)
    slots = [slot.operation.name for slot in schedule.space.slots]
    images = [
        [(slots[slot], abs(magnitude)) for slot, magnitude in zip(*pair, strict=True) if slot >= 0]
        for pair in zip(draw.slots.tolist(), draw.magnitudes.tolist(), strict=True)
    ]
    return images, Counter(map(len, images))


def drawn_by_the_list(policy: Any) -> tuple[list[list[tuple[str, float]]], Counter[int]]:
    """By the source's own rule: a sub-policy, then each of its operations with its probability."""
    chance = random.Random(1)
    images = [
        [(name, level) for name, probability, level in chance.choice(policy) if chance.random() < probability]
        for _ in range(N_IMAGES)
    ]
    return images, Counter(map(len, images))


def test_images_get_operations_as_often_and_as_many_as_by_the_list(tmp_path: Path) -> None:
    schedule = imported(tmp_path, POLICY)
    ours, our_numbers = drawn_by_hba(schedule)
    theirs, their_numbers = drawn_by_the_list(POLICY)
    our_rates, their_rates = (Counter(name for image in one for name, _ in image) for one in (ours, theirs))
    assert our_rates.keys() == their_rates.keys()
    for name, count in their_rates.items():
        assert abs(our_rates[name] - count) < 6 * np.sqrt(count) + 30, name
    assert our_numbers.keys() == their_numbers.keys() == {0, 1, 2}
    for number, count in their_numbers.items():
        assert abs(our_numbers[number] - count) < 6 * np.sqrt(count), number
    exact: dict[str, float] = defaultdict(float)
    for sub_policy in POLICY:
        for name, probability, _ in sub_policy:
            exact[name] += probability / len(POLICY)
    told = schedule.provenance
    assert told["rates"] == pytest.approx({name: rate for name, rate in exact.items() if rate})
    assert told["largest_rate_difference"] < 5e-6
    assert told["operations_of_an_image"] == pytest.approx(sum(exact.values()))
    assert (told["sub_policies"], told["left_out"], told["source"]) == (7, {}, "policy.txt")


def test_magnitudes_have_the_means_of_the_levels(tmp_path: Path) -> None:
    ours, _ = drawn_by_hba(imported(tmp_path, POLICY))
    expected = {
        "TranslateX": 0.45 * 0.16,
        "ShearX": 0.3 * 0.8,
        "Rotate": 30 * (0.57 * 0.74 + 0.3 * 0.9) / 0.87,
        "Sharpness": 0.1 + 1.8 * (0.5 * 0.54 + 0.9 * 0.05) / 1.4,
        "Brightness": 0.1 + 1.8 * 0.2,
        "Color": 1.9,
        "Cutout": 0.1,
        "Posterize": 5.0,
    }
    for name, mean in expected.items():
        found = [size for image in ours for other, size in image if other == name]
        assert np.mean(found) == pytest.approx(mean, rel=0.01), name


def test_levels_are_what_pil_does_there() -> None:
    """A higher level inverts less; bits are cut to whole numbers."""
    image = Image.fromarray(np.arange(256, dtype=np.uint8).reshape(16, 16))
    meaning = LEVELS["Solarize"]
    assert meaning.magnitude is not None
    on_pil = OPERATIONS["Solarize"].on_pil
    assert on_pil is not None
    for level in (0.0, 0.3, 0.75, 1.0):
        expected = ImageOps.solarize(image, round(256 * level))
        assert on_pil(image, round(meaning.magnitude(level))).tobytes() == expected.tobytes(), level
    assert [LEVELS["Posterize"].magnitude(level) for level in (0, 0.24, 0.25, 0.99, 1)] == [4, 4, 5, 7, 8]  # type: ignore[misc]
    assert {name: meaning.operation for name, meaning in LEVELS.items() if name != meaning.operation} == {
        **{"CutoutAbs": "Cutout", "Posterize2": "Posterize"},
        **{"TranslateXAbs": "TranslateX", "TranslateYAbs": "TranslateY"},
    }


names = st.sampled_from(sorted(LEVELS))
units = st.floats(0, 1).map(lambda number: round(number, 6))
lists = st.lists(st.lists(st.tuples(names, st.floats(0.01, 1), units), min_size=1, max_size=3), min_size=1, max_size=12)


@settings(max_examples=25, deadline=None)
@given(lists)
def test_any_list_survives_both_files(tmp_path_factory: pytest.TempPathFactory, policy: Any) -> None:
    folder = tmp_path_factory.mktemp("lists")
    schedule = imported(folder, policy)
    assert json.loads(json.dumps(policy)) != []
    again = imported(folder, "found = " + json.dumps(policy))
    assert np.array_equal(again.values, schedule.values)
    schedule.save(folder / "a.json")
    loaded = Schedule.load(folder / "a.json")
    assert np.array_equal(loaded.values, schedule.values)
    assert np.array_equal(loaded.spread, schedule.spread)
    assert loaded.provenance == schedule.provenance
    probabilities = schedule.values[0][schedule.space.probability_columns(torch.device("cpu")).numpy()]
    assert ((probabilities > 0) & (probabilities <= 1)).all()


def test_lists_of_policies_are_one_policy(tmp_path: Path) -> None:
    nested = imported(tmp_path, [[POLICY[:3]], [POLICY[3:]]])
    assert np.array_equal(nested.values, imported(tmp_path, POLICY).values)


def test_of_a_log_of_dada_the_last_list_counts(tmp_path: Path) -> None:
    """Which it writes among tensors, after each epoch."""
    log = f"""05/01 12:00:00 PM epoch 19 lr 1e-3
05/01 12:00:00 PM 0: (Rotate 0.5 0.5)\t(Color 0.5 0.5) 0.01
05/01 12:00:00 PM genotype_3: {POLICY[:3]}
05/01 12:00:00 PM genotype_2: {POLICY[1:3]}
05/01 12:00:00 PM tensor([[0.5, 0.5]])
05/01 12:00:01 PM valid_acc 91.5"""
    schedule = imported(tmp_path, log, "dada")
    assert schedule.provenance["rates"] == pytest.approx({"ShearX": 0.25, "Sharpness": 0.7, "Brightness": 0.28})
    assert schedule.provenance["sub_policies"] == 2


def test_one_of_several_lists_is_chosen_by_name(tmp_path: Path) -> None:
    text = f"A = first = {POLICY[:1]}\nB = {POLICY[1:2]}\nwidths = [1, 2]"
    assert "ShearX" in imported(tmp_path, text, name="B").provenance["rates"]
    assert "Rotate" in imported(tmp_path, text, name="first").provenance["rates"]
    assert imported(tmp_path, text, name="B").provenance["list"] == "B"
    with pytest.raises(ScheduleError, match=r"holds 2 lists of sub-policies \(A, B\); choose one with --name$"):
        imported(tmp_path, text)
    with pytest.raises(ScheduleError, match=r"unknown list 'C'; known: A, first, B$"):
        imported(tmp_path, text, name="C")


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ([], "it must hold a list of sub-policies, each a list of (operation, probability, level)"),
        (
            [1, 2],
            "it must hold a list of sub-policies, each a list of (operation, probability, level)",
        ),
        ([[("Rotate", 0.5)]], "sub-policy 1: must be lists of (operation, probability, level), got ('Rotate', 0.5)"),
        ([[("Rotate", 1.5, 0.5)]], "sub-policy 1: a probability must be a number in [0, 1], got 1.5"),
        ([[("Rotate", 0.5, 7)]], "sub-policy 1: a level must be a number in [0, 1], got 7"),
        ([[("Rotate", True, 0.7)]], "sub-policy 1: a probability must be a number in [0, 1], got True"),
        ([[("Rotate", "1", 0.7)]], "sub-policy 1: a probability must be a number in [0, 1], got '1'"),
        ('[[["Rotate", NaN, 0.7]]]', "sub-policy 1: a probability must be a number in [0, 1], got nan"),
        ([[("Rotat", 0.5, 0.7)]], "sub-policy 1: unknown operation 'Rotat'; did you mean Rotate? Known: "),
        ([[("Rotate", 0.5, 0.7)] * 11], "sub-policy 1 must have at most 10 operations, got 11"),
        (
            [[("Rotate", 0.5, 0.7, 0.1)]],
            "sub-policy 1: must be lists of (operation, probability, level), got ('Rotate'",
        ),
        ([[("Rotate", 0.0, 0.7)]], "the policy applies none of hba's operations, each probability is 0"),
        ("nothing", "it must hold a list of sub-policies, each a list of (operation"),
    ],
)
def test_what_is_no_such_list_is_refused_in_one_line(tmp_path: Path, policy: Any, message: str) -> None:
    with pytest.raises(ScheduleError) as raised:
        imported(tmp_path, policy)
    start = f"{tmp_path / 'policy.txt'} is not a valid policy of Fast AutoAugment: "
    assert str(raised.value).startswith(start + message)
    assert "\n" not in str(raised.value)


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(ScheduleError, match=r"^no policy of DADA file .*nowhere.txt$"):
        hba.import_policy("dada", tmp_path / "nowhere.txt")
