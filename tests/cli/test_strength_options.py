"""The options of strength: where help lists them, and a search, a picture and an evaluation that use all of them."""

import json
import re
from pathlib import Path

import pytest
from commands import SMALL, make_images, refusal_of, run

import hba
from hba.algorithms import Lookahead

OTHERS = "hba, hba-lookahead, fixed-noise, hyper-population, population, stn, delta-stn"


def by_default(name: str, others: str, of: str = OTHERS) -> str:
    """Of look-ahead, and of the others."""
    return f"{getattr(Lookahead(), name)}; {of}: {others}"


OPTIONS = {
    "init": ("fraction", by_default("init", "fraction"), None),
    "count": ("searched", by_default("count", "fixed"), None),
    "spread_over": ("all", by_default("spread_over", "none"), None),
    "spread_share": (0.75, by_default("spread_share", "1.0"), None),
    "strength_learning_rate": (
        *(0.25, by_default("strength_learning_rate", "0.0", "hba, hba-lookahead, fixed-noise, stn, delta-stn")),
        "lookahead, hba, hba-lookahead, joint, fixed-noise, stn, delta-stn",
    ),
    "search_spread": (True, "off", "lookahead, hba-lookahead, joint"),
}
"""By setting: what is given here, the default that help shows, and the algorithms that it names, unless all have it."""
GIVEN = [
    *("--init", "fraction", "--count", "searched", "--spread-over", "all", "--spread-share", "0.75"),
    *("--strength-learning-rate", "0.25", "--search-spread"),
]


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_help_lists_them_with_the_algorithm_s_and_says_their_defaults_and_readers() -> None:
    shown = run("search", "--help-all").stdout
    panel = re.findall(r"^Algorithm:\n(.*?)^Run and output:", shown, re.MULTILINE | re.DOTALL)[0]
    texts = re.split(r"^  --", panel, flags=re.MULTILINE)
    for name, (_, default, readers) in OPTIONS.items():
        (text,) = [" ".join(text.split()) for text in texts if text.startswith(name.replace("_", "-") + " ")]
        assert text.replace("- ", "-").endswith(f"[default: {default}]"), name
        named = re.findall(r"For ([a-z, -]+)\.", text.replace("- ", "-"))
        assert named == ([readers] if readers else []), name


def test_help_lists_none_of_them_first() -> None:
    shown = run("search", "--help").stdout
    assert not [name for name in OPTIONS if f"--{name.replace('_', '-')} " in shown]


def test_a_search_with_all_of_them_is_shown_and_evaluated() -> None:
    make_images(Path("images"))
    searched = run("search", "images", "--out", "run", *SMALL, "--train-steps", "1", *GIVEN)
    assert (searched.exit_code, searched.stderr) == (0, "")
    assert "An image gets at most 3 operations" in searched.stdout
    config = json.loads(Path("run/config.json").read_text())
    assert {name: config[name] for name in OPTIONS} == {name: given for name, (given, *_) in OPTIONS.items()}
    schedule = hba.load_policy("run")
    assert schedule.space.searches_count
    assert schedule.spread.all()
    assert (schedule.spread[:, :1] == schedule.spread).all()
    shown = run("show", "run")
    assert (shown.exit_code, shown.stderr) == (0, "")
    again = run("search", "images", "--out", "run", "--resume")
    assert (again.exit_code, again.stderr) == (0, "")
    small = ("--epochs", "1", "--batch-size", "8", "--seeds", "1", "--device", "cpu")
    evaluated = run("evaluate", "run", "--against", "none", *small)
    assert (evaluated.exit_code, evaluated.stderr) == (0, ""), evaluated.stderr


def test_what_does_not_go_together_is_one_line() -> None:
    make_images(Path("images"))
    arguments = ("search", "images", *SMALL)
    without = ("--strength-learning-rate", "0")
    assert (
        refusal_of(*arguments, *without, "--search-spread")
        == "--search-spread needs a --strength-learning-rate above 0"
    )
    assert refusal_of(*arguments, "--algorithm", "population", "--search-spread") == (
        "--search-spread has no effect on the algorithm population; remove it"
    )
    assert refusal_of(*arguments, "--init", "randaugment", "--initial-fraction", "0.25") == (
        "--initial-fraction has no effect where init is randaugment; set init to fraction, or omit --initial-fraction"
    )
    accepted = run(*arguments, "--out", "run", "--initial-fraction", "0.25")
    assert (accepted.exit_code, accepted.stderr) == (0, "")
