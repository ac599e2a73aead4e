"""`hba search --seeds`, and `hba show` of what it has made."""

import json
from pathlib import Path

import numpy as np
import pytest
from commands import SMALL, make_images, refusal_of, run
from PIL import Image

from hba.operations import OPERATIONS
from hba.policy.space import SearchSpace
from hba.schedule.library import seed_folders
from hba.schedule.schedule import Schedule

NAMES = ("Invert", "Equalize", "AutoContrast")
SPACE = SearchSpace(tuple(OPERATIONS[name] for name in NAMES), copies=1, count_probabilities=(0.0, 1.0))


def schedule(*last: float) -> Schedule:
    """From probabilities of a half to these."""
    return Schedule(SPACE, np.array([[0.5, 0.5, 0.5], list(last)]))


UP = {0: schedule(0.6, 0.5, 0.2), 1: schedule(0.7, 0.5, 0.3), 2: schedule(0.8, 0.4, 0.1)}


def write(folder: Path) -> Path:
    for seed, one in UP.items():
        (folder / f"seed-{seed}").mkdir(parents=True)
        one.save(folder / f"seed-{seed}" / "policy.json")
    (folder / "seed-x").mkdir()
    return folder


def test_show_prints_and_draws_them(tmp_path: Path) -> None:
    folder = write(tmp_path / "runs")
    assert sorted(seed_folders(folder)) == [0, 1, 2]
    result = run("show", str(folder))
    assert result.exit_code == 0, result.output
    assert "3 searches, last epoch, mean +- standard deviation" in result.output
    assert "+0.200 (-0.048 to +0.448)" in result.output
    assert "AutoContrast; what became of the others may be chance" in result.output.replace("\n", " ")
    assert Image.open(folder / "over_seeds.png").size[0] > 300
    told = json.loads(run("show", str(folder), "--json").stdout)
    assert told["seeds"] == [0, 1, 2]
    assert told["operations"][0]["probability"]["each"] == pytest.approx([0.6, 0.7, 0.8])


def test_a_schedule_is_asked_for_where_there_are_several(tmp_path: Path) -> None:
    folder = write(tmp_path / "runs")
    expected = f"{folder} holds searches of several seeds; name one of them, such as {folder / 'seed-0'}"
    assert refusal_of("evaluate", str(folder), "digits") == expected


def test_a_search_of_several_seeds_tells_each_and_what_they_have_in_common(tmp_path: Path) -> None:
    images, out = make_images(tmp_path / "images"), tmp_path / "out"
    words = ("search", str(images), *SMALL, "--seeds", "2", "--out", str(out))
    result = run(*words)
    assert result.exit_code == 0, result.output
    assert [line.partition(":")[0] for line in result.stdout.splitlines() if line.startswith("seed ")] == [
        "seed 0",
        "seed 1",
    ]
    assert "2 searches moved the probabilities of operations alike by" in result.stdout
    assert f"hba evaluate {out / 'seed-0'} --against none,{out / 'seed-1'}" in result.stdout
    assert refusal_of(*words) == f"{out} holds searches already: add --resume to continue them, or choose another --out"
    resumed = run("search", "--out", str(out), "--resume")
    assert resumed.exit_code == 0, resumed.output
    assert "seed 1: validation error" not in resumed.stdout, "it has ended already"
    assert "2 searches moved the probabilities of operations alike by" in resumed.stdout


def test_options_of_several_searches_need_them(tmp_path: Path) -> None:
    assert refusal_of("search", "--jobs", "2") == "--jobs and --cluster are for several searches; add --seeds"
    refused = refusal_of("search", "--seeds", "2", "--tensorboard", "--out", str(tmp_path))
    assert refused == "--tensorboard is of one search; omit --seeds, or --tensorboard"
