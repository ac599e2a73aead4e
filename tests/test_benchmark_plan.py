"""benchmarks/quality/verdict.toml: what a verdict is, stated before it is run; what is there is what runs."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from benchmark_modules import BENCHMARKS, module
from click.testing import CliRunner, Result

from hba.errors import SettingsError

pytestmark = pytest.mark.usefixtures("benchmarks_can_be_imported")

PLAN = """
[digits-shifted]
rows = ["none", "randaugment"]
first_seed = 2000
seeds = 2
epochs = 1
"""


def verdict(folder: Path, *arguments: str, plan: str = PLAN) -> Result:
    path = folder / "plan.toml"
    path.write_text(plan, encoding="utf-8")
    given = ["--plan", str(path), "--jobs", "1", "--work", str(folder / "work"), "--results", str(folder / "results")]
    return CliRunner().invoke(module("search_quality").main, ["verdict", *arguments, *given], catch_exceptions=False)


def lines_of(folder: Path, question: str) -> list[dict[str, Any]]:
    text = (folder / "results" / f"{question}.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def page_of(folder: Path) -> str:
    module("quality.page").write_page(folder / "results", folder)
    return (folder / "search-quality.md").read_text(encoding="utf-8")


def test_the_verdict_of_the_repository_takes_seeds_that_nothing_was_chosen_by() -> None:
    plan, tasks = module("quality.plan"), module("quality.tasks")
    planned = plan.read_plan(plan.PLAN)
    assert set(planned) <= set(module("quality.beds").BEDS)
    assert {"digits", "digits-shifted", "cifar", "cifar-grey"} <= set(planned)
    for bed in planned.values():
        assert set(bed.rows) <= set(tasks.ROWS)
        assert bed.of == module("quality.candidates").DEFAULT
        blocks = {plan.block_of(seed) for seed in range(bed.first_seed, bed.first_seed + bed.seeds)}
        assert len(blocks) == 1
        assert blocks != {0}


def test_what_was_run_before_there_was_a_plan_can_be_run_again_by_one() -> None:
    plan, records = module("quality.plan"), module("common.records")
    planned = plan.read_plan(plan.EARLIER)
    kept = [record.run for record in records.store_of(BENCHMARKS / "results", "verdict").by_key().values()]
    for run in kept:
        if plan.block_of(run.seed) == 0:
            bed = planned[run.dataset]
            assert run.name in bed.rows
            assert run.seed in range(bed.first_seed, bed.first_seed + bed.seeds)
            assert run.settings["epochs"] == bed.epochs


def test_what_is_planned_runs_and_search_and_evaluation_have_its_seeds(tmp_path: Path) -> None:
    default = module("quality.candidates").DEFAULT
    part = verdict(tmp_path, "--bed", "digits-shifted", "--seeds", "1")
    assert part.exit_code == 0, part.output
    assert "3 of 3 runs to do" in part.output
    assert f"Incomplete: `{default}`" not in page_of(tmp_path), "a row that the plan does not name is not missing"
    assert "seeds 2000 to 2001 of these rows. Incomplete: `none` 1 of 2, `randaugment` 1 of 2." in page_of(tmp_path)
    whole = verdict(tmp_path, "--bed", "digits-shifted")
    assert "3 of 6 runs to do" in whole.output
    kept, searches = lines_of(tmp_path, "verdict"), lines_of(tmp_path, "searches")
    assert sorted((line["name"], line["seed"]) for line in kept) == [
        (name, seed) for name in sorted((default, "none", "randaugment")) for seed in (2000, 2001)
    ]
    assert [(line["name"], line["seed"]) for line in searches] == [(default, 2000), (default, 2001)]
    assert {line["settings"]["epochs"] for line in (*kept, *searches)} == {1}
    for line in (*kept, *searches):
        assert line["further"]["bed"] == line["dataset"] == "digits-shifted"
        assert line["made_by"]["plan"]["seeds"] == 2
        assert "commit" in line["made_by"]["plan"]
    page = page_of(tmp_path)
    assert "Data: digits-shifted, 200 training images, 1 epochs, seeds from 2000, wrn-10-1." in page
    assert "Command: `python benchmarks/search_quality.py verdict --bed digits-shifted`." in page
    assert "Incomplete" not in page
    assert "Not run." in page.split("\n## The search's own network")[1].split("\n## ")[0], "nothing is chosen by these"


def test_rivals_are_made_of_what_the_verdict_is_on(tmp_path: Path) -> None:
    plan = PLAN.replace('["none", "randaugment"]', '["paper", "random", "final"]').replace("seeds = 2", "seeds = 1")
    found = verdict(tmp_path, "--bed", "digits-shifted", plan=plan)
    assert found.exit_code == 0, found.output
    assert "paper minus this" in found.output
    settings = {line["name"]: line["settings"] for line in lines_of(tmp_path, "verdict")}
    assert settings["random"]["spread_over"] == "none", "the default has a spread"
    assert settings["final"]["algorithm"] == "hba"


def test_no_option_changes_what_is_planned(tmp_path: Path) -> None:
    for option, value in (("--epochs", "2"), ("--rows", "none")):
        assert "No such option" in verdict(tmp_path, "--bed", "digits-shifted", option, value).output
    more = verdict(tmp_path, "--bed", "digits-shifted", "--seeds", "3")
    assert more.output == "Error: --seeds must be at most the 2 that are planned, got 3\n"
    other = verdict(tmp_path, "--bed", "digits")
    assert "plans no verdict on the bed 'digits', only on: digits-shifted" in other.output


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[digits", "a plan must be a file of TOML with a table for each bed"),
        ("digits = 3", "a plan must be a file of TOML with a table for each bed"),
        (PLAN.replace("seeds = 2", ""), "seeds"),
        (PLAN + "jobs = 3", "jobs"),
        (PLAN.replace("seeds = 2", "seeds = 0"), "seeds"),
    ],
)
def test_a_file_that_is_no_plan_is_refused_in_one_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(SettingsError, match=message) as raised:
        module("quality.plan").read_plan(path)
    assert str(path) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_plan_has_to_be_committed_before_it_is_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, path = module("quality.plan"), tmp_path / "plan.toml"
    monkeypatch.setattr(module("common.records"), "ROOT", tmp_path)

    def git(*arguments: str) -> str:
        named = ["-c", "user.name=A", "-c", "user.email=a@b.c", "-c", "commit.gpgsign=false"]
        done = subprocess.run(["git", *named, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    path.write_text(PLAN, encoding="utf-8")
    planned = plan.planned_for("digits-shifted", path)
    assert planned.noted(path)["plan"]["commit"] is None
    git("init", "-q")
    git("add", "plan.toml")
    git("commit", "-q", "-m", "Plan")
    commit = git("rev-parse", "--short=12", "HEAD")
    git("commit", "-q", "--allow-empty", "-m", "Later")
    assert planned.noted(path)["plan"]["commit"] == commit
    path.write_text(PLAN.replace("seeds = 2", "seeds = 3"), encoding="utf-8")
    with pytest.raises(SettingsError, match="has changes that are not committed; commit them before"):
        planned.noted(path)
