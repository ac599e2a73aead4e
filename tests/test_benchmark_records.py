"""Records of benchmarks: what is one run, what is kept, and what in the repository need not be run again."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benchmark_modules import BENCHMARKS, module

from hba.policy_search.config import SearchConfig

pytestmark = pytest.mark.usefixtures("benchmarks_can_be_imported")

QUESTIONS = (
    "planted",
    "searches",
    "trainings",
    "verdict",
    "credit",
    "cost",
    "closed-forms",
    "joint",
    "reproduction",
    "self-tuning",
    "language-model",
    "steps",
    "memory",
    "fast",
    "compiled",
    "faults",
    "fuzz",
    "processes",
    "prepared",
    "messages",
)


def a_run(**changes: Any) -> Any:
    settings = module("common.settings").kept_settings(SearchConfig())
    return replace(module("common.records").Run("paper", "digits", settings, 0), **changes)


def record_of(run: Any, **results: Any) -> Any:
    return module("common.records").Record(run, results, {"device_name": "A"})


def test_a_record_is_a_line_and_comes_back_from_it(tmp_path: Path) -> None:
    store = module("common.records").Store(tmp_path / "question.jsonl")
    first = record_of(a_run(further={"problem": "rotated"}), value=1.0)
    store.add(first, record_of(a_run(seed=1), value=2.0))
    lines = store.path.read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["seed"] for line in lines] == [0, 1]
    found = store.by_key()
    assert found[first.run.key].results == {"value": 1.0}
    assert found[first.run.key].run.further == {"problem": "rotated"}
    store.add(replace(first, results={"value": 3.0}))
    assert len(store.by_key()) == 2, "the last of equal keys counts"
    assert store.by_key()[first.run.key].results == {"value": 3.0}


def test_all_that_decides_results_is_part_of_the_key() -> None:
    run = a_run()
    settings = dict(run.settings)
    for other in (
        a_run(seed=1),
        a_run(name="other"),
        a_run(dataset="others"),
        a_run(generation=2),
        a_run(further={"problem": "rotated"}),
        a_run(settings={**settings, "sigma": 0.25}),
    ):
        assert other.key != run.key
    assert a_run(settings={**settings, "seed": 3, "probes": 1}).key == run.key


def test_a_setting_that_the_algorithm_does_not_read_makes_no_other_run() -> None:
    as_in_paper = SearchConfig.make(dict(module("common.settings").PAPER)).flat()
    digest = a_run(settings=as_in_paper).digest
    older = {name: value for name, value in as_in_paper.items() if name not in ("initial_fraction", "reward_limit")}
    assert a_run(settings=older).digest == digest, "it is older than the settings"
    assert a_run(settings={**older, "weight_sigma": 0.5}).digest == digest
    assert a_run(settings={**older, "sigma": 0.5}).digest != digest
    assert a_run(settings={**older, "initial_fraction": 0.5}).digest != digest
    lookahead = {**as_in_paper, "algorithm": "lookahead"}
    of_one_draw = {name: value for name, value in lookahead.items() if name != "reward_draws"}
    assert a_run(settings={**lookahead, "reward_draws": 1}).digest == a_run(settings=of_one_draw).digest
    assert a_run(settings={**lookahead, "reward_draws": 4}).digest != a_run(settings=of_one_draw).digest


def test_older_settings_and_seeds_are_not_mixed_with_newer_ones() -> None:
    newest = module("common.records").newest
    older = [record_of(a_run(seed=seed), value=seed) for seed in range(3)]
    newer = record_of(a_run(generation=2), value=9)
    assert newest(older, lambda run: run.name) == older
    assert newest([*older, newer], lambda run: run.name) == [newer]
    elsewhere = record_of(a_run(dataset="others", generation=2), value=9)
    assert newest([*older, elsewhere], lambda run: run.dataset) == [*older, elsewhere]


@pytest.mark.parametrize("question", QUESTIONS)
def test_every_record_in_the_repository_has_the_digest_of_its_run(question: str) -> None:
    store = module("common.records").store_of(BENCHMARKS / "results", question)
    lines = [json.loads(line) for line in store.path.read_text(encoding="utf-8").splitlines()]
    found = store.by_key()
    assert len(found) == len(lines) > 0
    assert {(line["digest"], line["seed"]) for line in lines} == set(found)
    for line in lines:
        assert {"device", "device_name", "n_threads", "packages"} <= set(line["made_by"])


def test_there_is_no_file_of_results_that_is_no_question() -> None:
    assert {path.stem for path in (BENCHMARKS / "results").iterdir()} == set(QUESTIONS)


def keys_of(question: str) -> set[tuple[str, int]]:
    return set(module("common.records").store_of(BENCHMARKS / "results", question).by_key())


def test_searches_in_the_repository_need_not_be_done_again() -> None:
    tasks, beds = module("quality.tasks"), module("quality.beds")
    candidates = module("quality.candidates").CANDIDATES
    bed = beds.find_bed("digits")
    settings = {**bed.planted, "epochs": 120, "validate_every": 120}
    planted = [
        tasks.planted(tasks.SearchTask(name, "digits", bed.config(name, 0, **settings)), "rotated")
        for name in candidates
    ]
    assert {task.run.key for task in planted} <= keys_of("planted")
    searches = [tasks.SearchTask(name, "digits", bed.config(name, 4)) for name in ("paper", "lookahead-draws")]
    assert {task.run.key for task in searches} <= keys_of("searches")
    for search, rows in zip(searches, (["paper"], ["lookahead-draws", "none", "random", "shuffled"]), strict=True):
        verdicts = [tasks.row_task(row, search, tested=True) for row in rows]
        assert {task.run.key for task in verdicts} <= keys_of("verdict")
    closed_forms = module("closed_form.tasks").all_tasks(["noise", "decay", "decay-wide", "deep", "groups"], 5)
    assert {task.run.key for task in closed_forms} == keys_of("closed-forms")


def test_the_reproductions_trainings_are_of_older_seeds_and_all_else_need_not_be_done_again(tmp_path: Path) -> None:
    runs, scales, images = module("reproduction.tasks"), module("reproduction.scales"), module("common.images")
    place = images.Place(str(tmp_path), "CIFAR-10 (JPEG copy)")
    bench = runs.Bench(scales.find_scale("small"), {"cifar10": place}, tmp_path, "cpu")
    kept = module("common.records").store_of(BENCHMARKS / "results", "reproduction").by_key()
    wanted = {
        task.run.key: task.run
        for table in module("reproduction.tables").TABLES.values()
        for tasks in runs.tasks_of(bench, table, 3)
        for task in tasks
        if task.run.dataset == place.label
    }
    missing = [run for key, run in wanted.items() if key not in kept]
    # AlexNet and VGG16, which take hours, were never run whole at this scale.
    assert all("alexnet" in run.name or "vgg16" in run.name or run.name.startswith("train") for run in missing)
    assert [run for run in missing if run.name.startswith("train")], "they are of another generation"
    assert {record.run.name for record in kept.values()} <= {run.name for run in wanted.values()}
    assert {record.run.generation for record in kept.values()} == {1}


def test_the_self_tuning_runs_that_are_shown_are_those_that_the_tables_ask_for(tmp_path: Path) -> None:
    runs, scales, images = module("reproduction.tasks"), module("reproduction.scales"), module("common.images")
    place = images.Place(str(tmp_path), "CIFAR-10 (JPEG copy)")
    bench = runs.Bench(scales.find_scale("small"), {"cifar10": place}, tmp_path, "cpu")
    tables = [table for table in module("reproduction.tables").TABLES.values() if table.contests]
    asked = {
        task.run.key: task.run.name
        for table in tables
        for tasks in runs.tasks_of(bench, table, table.seeds["small"])
        for task in tasks
    }
    shown = module("reproduction.page").by_scale(BENCHMARKS / "results")["small"]
    kept = {record.run.key for name, records in shown.items() if name in asked.values() for record in records}
    assert kept
    assert kept <= asked.keys()
