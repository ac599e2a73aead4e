"""Benchmarks: pages are what the stored records make, and a run that is stored is not
run again.
"""

import re
import shutil
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from click.testing import CliRunner
from documents import ROOT
from scipy.stats import bootstrap

from hba.results.statistics import PairedDifference
from hba.schedule.recipes import RECIPES

pytestmark = pytest.mark.usefixtures("benchmarks_can_be_imported")
DOCS = ROOT / "docs"
PAGES = {
    "domains": "domains",
    "search_quality": "search-quality",
    "reproduce": "reproduction",
    "speed": "speed",
    "gpu": "speed",
    "joint": "regularization",
}
"""The pages that the command `page` of each script writes, or whose table it fills in.
"""


def output_of(script: str, *arguments: str) -> str:
    result = CliRunner().invoke(
        import_module(script).main, arguments, catch_exceptions=False
    )
    assert result.exit_code == 0, result.output
    return str(result.output)


@pytest.mark.slow
def test_pages_are_what_the_records_make(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = {}
    for script, page in PAGES.items():
        folder = tmp_path / script
        folder.mkdir()
        shutil.copy(DOCS / f"{page}.md", folder)
        monkeypatch.setattr(import_module(script), "DOCS", folder)
        output_of(script, "page")
        written[script] = (folder / f"{page}.md").read_text(encoding="utf-8")
    differ = [
        script
        for script, page in PAGES.items()
        if written[script] != (DOCS / f"{page}.md").read_text("utf-8")
    ]
    assert differ == []


@pytest.mark.slow
def test_a_policy_and_a_step_launch_few_kernels_and_the_host_waits_for_none() -> None:
    """Ceilings, a little above the numbers of today; steps of wrn-10-1."""
    launches = import_module("speeds.launches")
    launched = {name: launches.of_policy(name) for name in launches.POLICIES}
    for name in launches.ALGORITHMS:
        launched |= {
            f"{name}, {step}": step_launches
            for step, step_launches in launches.of_algorithm(name, "wrn-10-1").items()
        }
    of_policies = {"randaugment": 295, "photo": 365, "timm": 445, "cifar10-copy": 465}
    of_steps = {
        "lookahead, train_step": 600,
        "lookahead, gradient": 760,
        "hba, update_weights": 490,
        "hba, gradient": 80,
        "stn, update_weights": 690,
        "stn, gradient": 300,
        "delta-stn, update_weights": 1550,
        "delta-stn, gradient": 300,
    }
    most = {**of_policies, **of_steps}
    assert {
        name: len(launch.names)
        for name, launch in launched.items()
        if len(launch.names) > most[name]
    } == {}
    assert {
        name: launch.waits for name, launch in launched.items() if launch.waits
    } == {}


def test_what_makes_the_host_wait_is_found_without_a_gpu() -> None:
    launches = import_module("speeds.launches")
    waiting = [
        lambda x: x[x > 0],
        lambda x: x[[0, 1]],
        lambda x: x.nonzero(),
        lambda x: x.to("cpu"),
        lambda x: x + torch.ones(4),
    ]
    free = [
        lambda x: x[x.long()],
        lambda x: x.sum() * 2,
        lambda x: torch.where(x > 0, x, 1.0),
        lambda x: x.topk(2),
    ]
    with launches.FAKE:
        x = torch.zeros(4, device=launches.GPU)
        waits = []
        for step in (*waiting, *free):
            with launches.Launches() as counted, suppress(RuntimeError):
                step(x)
            waits.append(bool(counted.waits))
    assert waits == [True] * len(waiting) + [False] * len(free)


def test_records_of_the_repository_belong_to_the_settings_of_today() -> None:
    """Otherwise the commands that pages show would run everything again."""
    search_quality = output_of("search_quality", "verdict", "--dry-run")
    joint = output_of(
        "joint",
        "verdict",
        "--bed",
        "digits",
        "--rows",
        "joint,augmentation,drawn",
        "--dry-run",
    )
    assert search_quality.startswith("0 of 90 runs to do")
    assert joint.startswith("0 of 24 runs to do")


def test_what_helps_on_a_set_and_what_searches_find_is_run_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two recipes on digits, two groups beside the better, searches, and a verdict."""
    domains, runs, tables = (
        import_module(name)
        for name in ("domains", "image_sets.runs", "image_sets.tables")
    )
    for module in (domains, runs, tables):
        monkeypatch.setattr(
            module, "RECIPES", {name: RECIPES[name] for name in ("none", "overhead")}
        )
        monkeypatch.setattr(
            module,
            "GROUPS",
            {name: runs.GROUPS[name] for name in ("erasing", "mixing")},
        )
    tiny = {
        "model": "mlp-16",
        "image_size": 8,
        "epochs": 1,
        "algorithm": "lookahead",
        "operations": ["Invert"],
    }
    monkeypatch.setattr(runs, "SETTINGS", {**runs.SETTINGS, **tiny})
    plan = tmp_path / "plan.toml"
    of_auto = "".join(
        f'[{question}]\nbudgets = [5]\nrows = ["photo"]\nseeds = 1\n'
        for question in ("auto-symmetries", "auto-pretrained")
    )
    plan.write_text(
        '[domains]\nrows = ["search", "none"]\nfirst_seed = 7\nseeds = 1\nepochs ='
        f" 1\n{of_auto}",
        "utf-8",
    )
    for name, value in (("PLAN", plan), ("DOCS", tmp_path)):
        monkeypatch.setattr(domains, name, value)
    of_runs = (
        "--sets",
        "digits",
        "--jobs",
        "1",
        "--results",
        str(tmp_path),
        "--work",
        str(tmp_path / "runs"),
    )
    for command in (["truth", "--seeds", "1"], ["verdict"]):
        first, second = (output_of("domains", *command, *of_runs) for _ in range(2))
        assert "\n0 of" not in first
        assert second.count("\n0 of") == first.count(" runs to do")
    output_of("domains", "page", "--results", str(tmp_path))
    text = (tmp_path / "domains.md").read_text("utf-8")
    assert text.count("\n| digits |") == 1
    assert "search minus the best recipe" in text
    assert "Incomplete: pbc (0 of 2 runs)" in text
    assert "digits (" not in text.split("Incomplete: ")[1]


def test_a_group_is_added_to_a_recipe_or_left_out_in_its_own_columns_alone() -> None:
    changed = import_module("image_sets.runs").changed
    overhead = RECIPES["overhead"].make()
    name, without = changed("overhead", "quarter turn", False)
    turn = without.space.names.index("QuarterTurn.probability")
    assert name == "overhead without quarter turn"
    assert (without.values[0, turn], overhead.values[0, turn]) == (0.0, 0.75)
    assert (np.delete(without.values, turn) == np.delete(overhead.values, turn)).all()
    name, mixed = changed("overhead", "mixing", True)
    assert name == "overhead with mixing"
    after, before = (
        dict(zip(policy.space.names, policy.values[0], strict=True))
        for policy in (mixed, overhead)
    )
    assert {name: after.pop(name) for name in {*after} - {*before}}[
        "CutMix.probability"
    ] > 0
    assert after == before
    assert (
        changed("overhead", "quarter turn", True)[0]
        == changed("overhead", "mixing", False)[0]
        == "overhead"
    )


def test_ratios_of_errors_and_what_agrees_with_the_truth() -> None:
    tables = import_module("image_sets.tables")

    def frame(search: list[float], none: list[float]) -> pd.DataFrame:
        rows = [
            (name, seed, x)
            for name, errors in (("search", search), ("none", none))
            for seed, x in enumerate(errors)
        ]
        return pd.DataFrame(rows, columns=["name", "seed", "error"])

    halves = {
        "pbc": frame([1.0, 2.0, 3.0], [2.0, 4.0, 6.0]),
        "digits": frame([5.0, 6.0, 7.0], [10.0, 12.0, 14.0]),
    }
    assert tables.ratio(halves, "none") == "0.50 (0.50 to 0.50), 2 of 8 sets"
    errors = np.random.default_rng(0).uniform(5, 15, (2, 12))
    table = re.findall(
        r"\d\.\d+", tables.ratio({"pbc": frame(*errors.tolist())}, "none")
    )
    mean, low, high = map(float, table)

    def of_means(search: np.ndarray, none: np.ndarray, axis: int) -> np.ndarray:
        return np.asarray(search.mean(axis) / none.mean(axis))

    other = bootstrap(
        errors, of_means, paired=True, method="percentile", random_state=1
    ).confidence_interval
    assert mean == pytest.approx(of_means(errors[0], errors[1], 0), abs=0.005)
    assert (low, high) == pytest.approx((other.low, other.high), abs=0.015)
    better = PairedDifference(3, -0.2, (-0.3, -0.1))
    unknown = PairedDifference(3, -0.2, (-0.5, 0.1))
    pairs = [
        tables.Pair("pbc", "mixing", loss, None, applied)
        for loss in (better, unknown, None)
        for applied in ([True, True, False], [True, False], [])
    ]
    assert [pair.agrees for pair in pairs] == [True, False, *[None] * 7]
