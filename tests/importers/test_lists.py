"""Policies of Fast AutoAugment and DADA: what hba then does to images, against the
lists themselves, drawn here.
"""

import json
import random
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageOps
from random_inputs import seeded

import hba
from hba.errors import ScheduleError
from hba.importers.lists import LEVELS, lists_in
from hba.operations import OPERATIONS
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


def imported(
    tmp_path: Path, policy: Any, source: str = "fast-autoaugment", **options: Any
) -> Schedule:
    path = tmp_path / "policy.txt"
    path.write_text(
        policy if isinstance(policy, str) else repr(policy), encoding="utf-8"
    )
    return hba.import_policy(source, path, **options)


def drawn_by_hba(schedule: Schedule) -> list[list[tuple[str, float]]]:
    """Operations of each image with the size of their magnitude."""
    sample = schedule.policy(0).draw(N_IMAGES, seeded(0))
    slots = [slot.operation.name for slot in schedule.space.slots]
    return [
        [
            (slots[slot], abs(magnitude))
            for slot, magnitude in zip(*pair, strict=True)
            if slot >= 0
        ]
        for pair in zip(sample.slots.tolist(), sample.magnitudes.tolist(), strict=True)
    ]


def drawn_by_the_list(policy: Any) -> list[list[tuple[str, float]]]:
    """By the source's own rule: a sub-policy, then each of its operations with its
    probability.
    """
    chance = random.Random(1)
    return [
        [
            (name, level)
            for name, probability, level in chance.choice(policy)
            if chance.random() < probability
        ]
        for _ in range(N_IMAGES)
    ]


def test_images_get_the_operations_of_the_list(tmp_path: Path) -> None:
    """As often, as many, and with the mean magnitudes of the levels."""
    schedule = imported(tmp_path, POLICY)
    ours = drawn_by_hba(schedule)
    theirs = drawn_by_the_list(POLICY)
    our_rates, their_rates = (
        Counter(name for image in images for name, _ in image)
        for images in (ours, theirs)
    )
    assert our_rates.keys() == their_rates.keys()
    assert [
        name
        for name, n in their_rates.items()
        if abs(our_rates[name] - n) >= 6 * np.sqrt(n) + 30
    ] == []
    our_numbers = Counter(map(len, ours))
    their_numbers = Counter(map(len, theirs))
    assert our_numbers.keys() == their_numbers.keys() == {0, 1, 2}
    assert [
        n
        for n, count in their_numbers.items()
        if abs(our_numbers[n] - count) >= 6 * np.sqrt(count)
    ] == []
    exact: dict[str, float] = defaultdict(float)
    for name, probability, _ in (step for sub_policy in POLICY for step in sub_policy):
        exact[name] += probability / len(POLICY)
    noted = schedule.provenance
    assert noted["rates"] == pytest.approx(
        {name: rate for name, rate in exact.items() if rate}
    )
    assert noted["largest_rate_difference"] < 5e-6
    assert noted["operations_of_an_image"] == pytest.approx(sum(exact.values()))
    assert (noted["sub_policies"], noted["left_out"], noted["source"]) == (
        7,
        {},
        "policy.txt",
    )
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
    means = {
        name: np.mean(
            [size for image in ours for other, size in image if other == name]
        )
        for name in expected
    }
    assert means == pytest.approx(expected, rel=0.01)


def test_levels_are_what_pil_does_there() -> None:
    image = Image.fromarray(np.arange(256, dtype=np.uint8).reshape(16, 16))
    solarize: Any = LEVELS["Solarize"][1]
    posterize: Any = LEVELS["Posterize"][1]
    on_pil: Any = OPERATIONS["Solarize"].on_pil
    for level in (0.0, 0.3, 0.75, 1.0):
        expected = ImageOps.solarize(image, round(256 * level))
        assert on_pil(image, round(solarize(level))).tobytes() == expected.tobytes(), (
            level
        )
    assert [posterize(level) for level in (0, 0.24, 0.25, 0.99, 1)] == [4, 4, 5, 7, 8]


AS_PYTHON = "[[('Rotate', 0.5, 0.25)]]"
AS_JSON = '[[["Rotate", 0.5, 0.25]]]'
FOUND = {
    "\n  {}\n\n": "",
    "import os\nos.remove('x')\npolicy = {}\nother = f(3)": "policy",
    "def found():\n    p = {}\n    return p": "found",
    "def found():\n    'What was found.'\n    return {}": "found",
}
NO_LIST = (
    "def found():\n    return a + b",
    "policy = __import__('os').getcwd()",
    "",
    "nothing here",
    "{'a': 1}",
    "(" * 100_000,
    "[" * 100_000 + "]" * 100_000,
)


def test_a_list_is_found_in_a_file_and_nothing_is_run(tmp_path: Path) -> None:
    for around, name in FOUND.items():
        for text in (AS_PYTHON, AS_JSON):
            lists = lists_in(around.format(text))
            assert json.loads(json.dumps(lists)) == {name: [[["Rotate", 0.5, 0.25]]]}, (
                around
            )
    assert [text[:40] for text in NO_LIST if lists_in(text)] == []
    mark = tmp_path / "mark"
    for text in (f"open({str(mark)!r}, 'w')", f"p = [open({str(mark)!r}, 'w')]"):
        assert lists_in(text) == {}
    assert not mark.exists()


def test_one_of_several_lists_is_chosen_by_name(tmp_path: Path) -> None:
    text = f"A = {POLICY[:1]}\nB = {POLICY[1:2]}\nwidths = [1, 2]"
    assert "ShearX" in imported(tmp_path, text, name="B").provenance["rates"]
    assert imported(tmp_path, text, name="B").provenance["list"] == "B"
    for name, named in ((None, "(A, B)"), ("C", "'C'")):
        with pytest.raises(ScheduleError) as raised:
            imported(tmp_path, text, name=name)
        assert named in str(raised.value)


def test_what_is_no_such_list_is_refused_in_one_line(tmp_path: Path) -> None:
    for policy, named in (
        ([1, 2], "sub-policies"),
        ("nothing", "sub-policies"),
        ([[("Rotate", 0.5)]], r"\[0\]\[0\]\[2\]"),
        ([[("Rotate", 1.5, 0.5)]], "1.5"),
        ([[("Rotat", 0.5, 0.7)]], "Rotat"),
        ([[("Rotate", 0.0, 0.7)]], "nothing"),
    ):
        with pytest.raises(ScheduleError, match=named) as raised:
            imported(tmp_path, policy)
        assert "policy.txt cannot be read as a policy of Fast AutoAugment: " in str(
            raised.value
        )
        assert "\n" not in str(raised.value)
    with pytest.raises(
        ScheduleError, match=r"nowhere\.txt cannot be read as a policy of DADA"
    ):
        hba.import_policy("dada", tmp_path / "nowhere.txt")
