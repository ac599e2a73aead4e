"""benchmarks/planted.py and benchmarks/search_quality.py: what is planted, what counts as found, and what is kept."""

import json
import multiprocessing
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmark_modules import module
from click.testing import CliRunner, Result

from hba.data import LabelledImages, SearchData
from hba.policy_search.config import SearchConfig

pytestmark = pytest.mark.usefixtures("benchmarks_can_be_imported")


def run(script: str, *arguments: str) -> Result:
    return CliRunner().invoke(module(script).main, list(arguments), catch_exceptions=False)


@pytest.fixture
def digits() -> SearchData:
    data: SearchData = module("quality.beds").IMAGES.of_search(SearchConfig.from_preset({}).resolved(), None)
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


def results_with(**probabilities: float) -> dict[str, Any]:
    end = {name: {"probability": value, "magnitude": None, "strength": value} for name, value in probabilities.items()}
    return {"end": end, "val_error_percent": 5.0, "val_loss": 0.1, "seconds": 1.0}


@pytest.mark.parametrize(
    ("invert", "rotate", "rank", "is_recovered"),
    [(0.9, 0.1, [1, 5], False), (0.9, 0.5, [1, 2], True), (0.2, 0.3, [5, 1], False), (0.2, 0.2, [5, 5], False)],
)
def test_all_planted_operations_have_to_be_among_the_first_three_and_equal_ones_are_ahead(
    invert: float, rotate: float, rank: list[int], is_recovered: bool
) -> None:
    planted_search = module("quality.planted_search")
    results = results_with(Invert=invert, Rotate=rotate, ShearX=0.25, ShearY=0.22, Color=0.2)
    planted = [{"operation": "Invert"}, {"operation": "Rotate"}]
    assert planted_search.ranks(results, planted) == rank
    assert planted_search.recovered(results, planted) is is_recovered
    assert planted_search.others_probability(results, planted) == pytest.approx((0.25 + 0.22 + 0.2) / 3)


def test_the_interval_is_wilsons() -> None:
    """Against the roots of (rate - p)^2 = z^2 p (1 - p) / n, which define it."""
    rates = module("quality.rates")
    for n_hits, n in ((0, 5), (4, 5), (40, 45), (45, 45)):
        for bound in rates.wilson_interval(n_hits, n):
            distance = (n_hits / n - bound) ** 2
            assert distance == pytest.approx(rates.NORMAL_97_5**2 * bound * (1 - bound) / n, abs=1e-12)
    assert rates.rate_text([True] * 4 + [False]) == "4/5 (38-96 %)"


def test_runs_are_kept_and_not_run_again(tmp_path: Path) -> None:
    arguments = ["--problems", "none,inverted", "--candidates", "paper", "--seeds", "1", "--epochs", "1", "--jobs", "1"]
    first = run("planted", *arguments, "--results", str(tmp_path))
    assert first.exit_code == 0, first.output
    assert "2 of 2 runs to do" in first.output
    assert "| candidate | inverted | all |" in first.output
    path = tmp_path / "paper.json"
    kept = path.read_bytes()
    again = run("planted", *arguments, "--results", str(tmp_path), "--runs")
    assert "0 of 2 runs to do" in again.output
    assert path.read_bytes() == kept
    (suite,) = json.loads(kept)
    assert [entry["problem"] for entry in suite["runs"]] == ["none", "inverted"]
    assert set(suite["runs"][0]["results"]["end"]["Rotate"]) == {"probability", "magnitude", "strength"}
    assert suite["settings"]["epochs"] == 1
    assert suite["n_threads"] == 1
    assert suite["packages"]["torch"]


def test_runs_with_other_settings_are_runs_of_their_own(tmp_path: Path) -> None:
    records = module("quality.records")
    book = records.Book(tmp_path / "paper.json")
    settings = records.settings_of(SearchConfig())
    book.add("digits", settings, {"seed": 0}, {"value": 1.0}, {"device_name": "A"})
    book.add("digits", settings, {"seed": 1}, {"value": 2.0}, {"device_name": "A"})
    assert len(json.loads(book.path.read_text(encoding="utf-8"))) == 1
    assert book.find("digits", settings, {"seed": 1}).results == {"value": 2.0}
    assert book.find("digits", settings, {"seed": 2}) is None
    assert book.find("others", settings, {"seed": 0}) is None
    assert book.find("digits", {**settings, "sigma": 0.5}, {"seed": 0}) is None
    # As kept before there was a setting `sigma`.
    older = {name: value for name, value in settings.items() if name != "sigma"}
    book.add("digits", older, {"seed": 3}, {"value": 3.0}, {"device_name": "A"})
    assert book.find("digits", settings, {"seed": 3}).results == {"value": 3.0}
    assert book.find("digits", {**settings, "sigma": 0.5}, {"seed": 3}) is None


def test_tasks_run_in_other_processes_which_end_with_the_caller() -> None:
    pool = module("quality.pool")
    outcomes = dict(pool.run_side_by_side(module("quality.problems").find_problem, ["none", "rotated", "nothing"], 2))
    assert outcomes["none"] == ()
    assert outcomes["rotated"][0].operation == "Rotate"
    assert outcomes["nothing"].startswith("unknown problem 'nothing'")
    for process in multiprocessing.active_children():
        process.join(10)
        assert not process.is_alive()


def test_an_unknown_name_is_one_line() -> None:
    for arguments, message in (
        (["--candidates", "papier"], "Error: unknown candidate 'papier'; known: paper"),
        (["--problems", "nothing"], "Error: unknown problem 'nothing'; known: none"),
        (["--data", "nowhere"], "Error: no such folder of images: nowhere"),
    ):
        result = run("planted", *arguments)
        assert result.exit_code == 1
        assert result.output.startswith(message)


def test_every_candidate_is_a_choice_of_settings() -> None:
    bed = module("quality.beds").find_bed("digits")
    candidates = module("quality.candidates").CANDIDATES
    configs = {name: bed.config(name, 0).model_dump_json() for name in candidates}
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
    assert missing == ["The verdict", "Planted answers", "What a step costs", "Closed forms"]
    assert text.count("Not run.") == len(missing) + 2, "pairs too, and what was held out"
    config = module("quality.beds").find_bed("digits").config("paper", 0)
    data = module("quality.whole_search").training_data(config)
    assert data.train.fingerprint() == digits.train.fingerprint()
    assert data.test.fingerprint() == digits.val.fingerprint()


def test_the_candidate_called_the_default_is_what_hba_search_does() -> None:
    candidates, beds = module("quality.candidates"), module("quality.beds")
    config = beds.find_bed("digits").config(candidates.DEFAULT, 0)
    default = SearchConfig.from_preset({}).resolved()
    assert config == default.model_copy(update={"probes": 0})


def test_the_rows_of_a_verdict_begin_with_the_default_and_leave_out_a_second_cutout() -> None:
    from hba.config.evaluation import EvaluationConfig
    from hba.errors import SettingsError

    runs = module("quality.verdict_runs")
    with_cutout = EvaluationConfig(data="digits", cutout_size=4)
    assert runs.rows_of([], EvaluationConfig(data="digits")) == runs.STANDARD_ROWS
    assert runs.rows_of([], with_cutout) == tuple(row for row in runs.STANDARD_ROWS if row != "cutout")
    assert runs.rows_of(["random", "none"], with_cutout) == (runs.ROWS[0], "none", "random")
    with pytest.raises(SettingsError, match="unknown row 'randm'"):
        runs.rows_of(["randm"], with_cutout)


def test_rows_are_trained_again_only_where_what_they_need_has_changed(tmp_path: Path) -> None:
    bed, default = module("quality.beds").find_bed("digits"), module("quality.candidates").DEFAULT
    tasks, runs = module("quality.whole_search"), module("quality.verdict_runs")

    def settings_of_rows(**changed: Any) -> dict[str, Any]:
        config = bed.config(default, 0, **changed)
        own = {row: runs.VerdictTask(row, config, tmp_path).settings for row in ("shuffled", "random", "none")}
        return {**own, "retrained": tasks.TrainingTask("random", config, tmp_path, 10).settings}

    def changed_rows(**changed: Any) -> set[str]:
        before, after = settings_of_rows(), settings_of_rows(**changed)
        return {row for row in before if before[row] != after[row]}

    assert changed_rows(sigma=0.5) == {"shuffled"}
    for changed in ({"batch_size": 50}, {"fill": (0.5,)}, {"operations": ("Invert", "Rotate")}, {"train_size": 100}):
        assert changed_rows(**changed) == {"shuffled", "random", "none", "retrained"}


def test_what_is_left_out_never_fires_and_all_else_stays() -> None:
    import hba
    from hba.policy_evaluation.rivals import middle

    space = hba.SearchSpace()
    random = middle(hba.Schedule(space, space.decode(space.initial().double())[None].numpy()))
    without = module("quality.whole_search").without(random, ("Rotate", "Equalize"))
    for name, before, after in zip(space.names, random.values[0], without.values[0], strict=True):
        gone = name.startswith(("Rotate", "Equalize")) and name.endswith("probability")
        assert after == (0 if gone else before), name


def test_a_setting_that_the_algorithm_does_not_read_makes_no_other_run() -> None:
    same_settings = module("reproduction.same_settings").same_settings
    wanted = SearchConfig.from_preset({}, paper=True).model_dump(mode="json")
    older = {name: value for name, value in wanted.items() if name not in ("initial_fraction", "reward_limit")}
    assert same_settings(older, wanted)
    assert same_settings({**older, "weight_sigma": 0.5}, wanted)
    assert not same_settings({**older, "sigma": 0.5}, wanted)
    assert not same_settings(older, {**wanted, "initial_fraction": 0.5})
    lookahead = SearchConfig.from_preset({"algorithm": "lookahead"}, paper=True).model_dump(mode="json")
    of_one_draw = {name: value for name, value in lookahead.items() if name != "reward_draws"}
    assert same_settings(of_one_draw, {**lookahead, "reward_draws": 1})
    assert not same_settings(of_one_draw, {**lookahead, "reward_draws": 4})
