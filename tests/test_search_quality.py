"""benchmarks/planted.py and benchmarks/search_quality.py: what is planted, what counts as found, and what is kept."""

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmark_modules import module
from click.testing import CliRunner, Result

import hba
from hba.data import LabelledImages, SearchData
from hba.policy_search.config import SearchConfig

pytestmark = pytest.mark.usefixtures("benchmarks_can_be_imported")


def run(script: str, *arguments: str) -> Result:
    return CliRunner().invoke(module(script).main, list(arguments), catch_exceptions=False)


@pytest.fixture
def digits() -> SearchData:
    data: SearchData = module("common.images").IMAGES.of_search(SearchConfig.from_preset({}).resolved())
    return data


def test_only_validation_images_change_and_each_by_its_own_magnitude(digits: SearchData) -> None:
    problems = module("quality.problems")
    same = torch.full((40, 3, 16, 16), 200, dtype=torch.uint8)
    data = SearchData(
        "same", digits.class_names, digits.train, LabelledImages(same, torch.zeros(40, dtype=torch.int64))
    )
    planted = problems.plant(data, problems.PROBLEMS["darkened"], seed=0)
    assert planted.train is data.train
    levels = planted.val.images[:, 0, 0, 0]
    assert planted.val.images.dtype == torch.uint8
    assert len(levels.unique()) > 15
    assert levels.min() >= 0.2 * 200
    assert levels.max() <= 0.6 * 200


def test_a_signed_operation_goes_both_ways(digits: SearchData) -> None:
    problems = module("quality.problems")
    half = torch.zeros(40, 3, 16, 16, dtype=torch.uint8)
    half[..., 7:9] = 255
    data = SearchData(
        "bars", digits.class_names, digits.train, LabelledImages(half, torch.zeros(40, dtype=torch.int64))
    )
    moved = problems.plant(data, (problems.Planted("TranslateX", (0.3, 0.3)),), seed=0).val.images[:, 0, 0]
    columns = (moved == 255).float().argmax(1)
    left, right = int((columns < 7).sum()), int((columns > 8).sum())
    assert left + right == 40
    assert min(left, right) >= 10


def test_the_seed_decides_what_is_planted(digits: SearchData) -> None:
    problems = module("quality.problems")
    first, again, other = (
        problems.plant(digits, problems.PROBLEMS["rotated"], seed).val.images for seed in (0, 0, 1)
    )  # fmt: skip
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_every_default_problem_but_the_control_changes_digits(digits: SearchData) -> None:
    problems = module("quality.problems")
    for name in problems.DEFAULT_PROBLEMS:
        planted = problems.plant(digits, problems.PROBLEMS[name], 0)
        share = problems.share_of_changed_values(digits, planted)
        assert share == 0 if name == problems.CONTROL else share > 0.5


def ended_with(planted: Sequence[str], **probabilities: float) -> Any:
    """A record of a search that left operations with these probabilities."""
    records = module("common.records")
    end = {name: {"probability": value, "magnitude": None, "strength": value} for name, value in probabilities.items()}
    further = {"problem": "+".join(planted), "planted": [{"operation": name} for name in planted]}
    results = {"end": end, "val_error_percent": 5.0, "val_loss": 0.1, "seconds": 1.0}
    return records.Record(records.Run("paper", "digits", {}, 0, further), results, {})


@pytest.mark.parametrize(
    ("invert", "rotate", "ranks", "is_recovered"),
    [(0.9, 0.1, [1, 5], False), (0.9, 0.5, [1, 2], True), (0.2, 0.3, [5, 1], False), (0.2, 0.2, [5, 5], False)],
)
def test_all_planted_operations_have_to_be_among_the_first_three_and_equal_ones_are_ahead(
    invert: float, rotate: float, ranks: list[int], is_recovered: bool
) -> None:
    tables = module("quality.planted_tables")
    record = ended_with(["Invert", "Rotate"], Invert=invert, Rotate=rotate, ShearX=0.25, ShearY=0.22, Color=0.2)
    assert [tables.rank(record.results["end"], name) for name in ("Invert", "Rotate")] == ranks
    assert tables.recovered(record) is is_recovered
    assert tables.others_probability(record) == pytest.approx((0.25 + 0.22 + 0.2) / 3)
    assert tables.run_frame([record])["rank"].tolist() == ranks


def test_where_the_rise_is_known_it_decides_the_rank_and_probability_does_not() -> None:
    tables = module("quality.planted_tables")
    record = ended_with(["Invert"], Invert=0.4, Rotate=0.6, Color=0.5, ShearX=0.55)
    assert tables.rank(record.results["end"], "Invert") == 4
    for name, rise in {"Invert": 1.0, "Rotate": 0.4, "Color": 0.0, "ShearX": 0.2}.items():
        record.results["end"][name]["rise"] = rise
    assert tables.rank(record.results["end"], "Invert") == 1
    assert tables.rank(record.results["end"], "Color") == 4
    assert tables.recovered(record)
    (row,) = tables.rate_table([record]).to_dict("records")
    assert row["all"].startswith("1/1 ")
    assert row["by the end"].startswith("0/1 ")


def test_the_rise_is_in_logits_from_where_the_search_began() -> None:
    searched = hba.search("digits", epochs=2, train_size=50, val_size=50, batch_size=10)
    end, schedule = module("common.tasks").results_of(searched)["end"], searched.schedule
    assert schedule is not None
    for name, began in (("Invert", 0.2), ("Rotate", 0.5)):
        columns = [schedule.space.names.index(f"{name}.{copy}.probability") for copy in (1, 2)]
        last = schedule.values[-1, columns].mean()
        expected = math.log(last / (1 - last)) - math.log(began / (1 - began))
        assert end[name]["rise"] == pytest.approx(expected, abs=1e-3)


def test_runs_are_kept_and_not_run_again(tmp_path: Path) -> None:
    arguments = ["--problems", "none,inverted", "--candidates", "paper", "--seeds", "1", "--epochs", "1", "--jobs", "1"]
    first = run("planted", *arguments, "--results", str(tmp_path))
    assert first.exit_code == 0, first.output
    assert "2 of 2 runs to do" in first.output
    assert "| candidate | inverted | all |" in first.output
    path = tmp_path / "planted.jsonl"
    kept = path.read_bytes()
    again = run("planted", *arguments, "--results", str(tmp_path), "--runs")
    assert "0 of 2 runs to do" in again.output
    assert path.read_bytes() == kept
    entries = [json.loads(line) for line in kept.splitlines()]
    assert [entry["further"]["problem"] for entry in entries] == ["none", "inverted"]
    assert set(entries[0]["results"]["end"]["Rotate"]) == {"probability", "rise", "magnitude", "strength"}
    assert entries[0]["settings"]["epochs"] == 1
    assert entries[0]["made_by"]["n_threads"] == 1
    assert entries[0]["made_by"]["packages"]["torch"]


def test_an_unknown_name_is_one_line() -> None:
    for arguments, message in (
        (["--candidates", "papier"], "Error: unknown candidate 'papier'; known: paper"),
        (["--problems", "nothing"], "Error: unknown problem 'nothing'; known: none"),
        (["--bed", "cifar", "--data", "nowhere"], "Error: no such folder of images: nowhere"),
        (["--bed", "digit"], "Error: unknown bed 'digit'; known: digits"),
    ):
        result = run("planted", *arguments)
        assert result.exit_code == 1
        assert result.output.startswith(message)


def test_every_candidate_is_a_choice_of_settings() -> None:
    bed = module("quality.beds").find_bed("digits")
    candidates = module("quality.candidates").CANDIDATES
    configs = {name: json.dumps(bed.config(name, 0).flat()) for name in candidates}
    assert len(set(configs.values())) == len(candidates)


def test_searches_and_trainings_by_candidate_without_a_look_at_the_test_split(
    tmp_path: Path, digits: SearchData
) -> None:
    kept = ["--seeds", "2", "--epochs", "1", "--jobs", "1", "--candidates", "paper,calibrate"]
    kept += ["--work", str(tmp_path / "work"), "--results", str(tmp_path / "results")]
    searched = run("search_quality", "candidates", *kept)
    assert searched.exit_code == 0, searched.output
    assert "| paper | 2 | " in searched.output
    trained = run("search_quality", "retrain", *kept)
    assert "14 of 14 runs to do" in trained.output
    assert "| random | 2 | " in trained.output
    assert len(list((tmp_path / "work" / "digits").iterdir())) == 4
    module("quality.page").write_page(tmp_path / "results", tmp_path)
    text = (tmp_path / "search-quality.md").read_text(encoding="utf-8")
    assert "search_quality.py retrain --candidates paper,calibrate --epochs 1 --training-epochs 1 --seeds 2`" in text
    assert text.count("| calibrate | 2 | ") == 2
    missing = [part.splitlines()[0] for part in text.split("\n## ") if part.rstrip().endswith("Not run.")]
    assert missing == ["The verdict", "Beds", "Planted answers", "What a step costs", "Closed forms"]
    assert text.count("Not run.") == len(missing) + 2, "pairs too, and what was held out"
    bed, tasks = module("quality.beds").find_bed("digits"), module("quality.tasks")
    data = tasks.row_task("paper", tasks.SearchTask("paper", "digits", bed.config("paper", 0)), tested=False).data
    assert data.train.fingerprint() == digits.train.fingerprint()
    assert data.test.fingerprint() == digits.val.fingerprint()


def test_the_candidate_called_the_default_is_what_hba_search_does() -> None:
    candidates, beds = module("quality.candidates"), module("quality.beds")
    config = beds.find_bed("digits").config(candidates.DEFAULT, 0)
    default = SearchConfig.from_preset({}).resolved()
    assert config.flat() == default.flat()


def test_the_rows_of_a_verdict_begin_with_the_default_and_leave_out_a_second_cutout() -> None:
    from hba.config.evaluation import EvaluationConfig
    from hba.errors import SettingsError

    runs = module("quality.tasks")
    with_cutout = EvaluationConfig(data="digits", cutout_size=4)
    assert runs.rows_of([], EvaluationConfig(data="digits")) == runs.STANDARD_ROWS
    assert runs.rows_of([], with_cutout) == tuple(row for row in runs.STANDARD_ROWS if row != "cutout")
    assert runs.rows_of(["random", "none"], with_cutout) == (runs.ROWS[0], "none", "random")
    with pytest.raises(SettingsError, match="unknown row 'randm'"):
        runs.rows_of(["randm"], with_cutout)


def test_rows_are_trained_again_only_where_what_they_need_has_changed(tmp_path: Path) -> None:
    bed, default = module("quality.beds").find_bed("digits"), module("quality.candidates").DEFAULT
    tasks = module("quality.tasks")

    def digests(**changed: Any) -> dict[str, str]:
        search = tasks.SearchTask(default, "digits", bed.config(default, 0, **changed), tmp_path)
        rows = {row: tasks.row_task(row, search, tested=True).run for row in ("shuffled", "random", "none")}
        retrained = tasks.row_task("random", search, tested=False, epochs=10).run
        return {row: run.digest for row, run in {**rows, "retrained": retrained}.items()}

    def changed_rows(**changed: Any) -> set[str]:
        before, after = digests(), digests(**changed)
        return {row for row in before if before[row] != after[row]}

    assert changed_rows(lambda_learning_rate=0.5) == {"shuffled"}
    for changed in ({"batch_size": 50}, {"fill": (0.5,)}, {"operations": ("Invert", "Rotate")}, {"train_size": 100}):
        assert changed_rows(**changed) == {"shuffled", "random", "none", "retrained"}


def test_what_is_left_out_never_fires_and_all_else_stays() -> None:
    import hba
    from hba.policy_evaluation.rivals import middle

    space = hba.SearchSpace()
    random = middle(hba.Schedule(space, space.decode(space.initial().double())[None].numpy()))
    without = module("quality.tasks").without(random, ("Rotate", "Equalize"))
    for name, before, after in zip(space.names, random.values[0], without.values[0], strict=True):
        gone = name.startswith(("Rotate", "Equalize")) and name.endswith("probability")
        assert after == (0 if gone else before), name
