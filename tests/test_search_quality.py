"""benchmarks/planted.py and benchmarks/search_quality.py: what is planted, what counts as found, and what is kept."""

import json
import multiprocessing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmark_modules import BENCHMARKS, module
from click.testing import CliRunner, Result

from hba.config import SearchConfig
from hba.data import LabelledImages, SearchData

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
    data = SearchData("same", ("a",), digits.train, LabelledImages(same, torch.zeros(40, dtype=torch.int64)))
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
    data = SearchData("bars", ("a",), digits.train, LabelledImages(half, torch.zeros(40, dtype=torch.int64)))
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
    assert "16 of 16 runs to do" in trained.output
    assert "| random | 2 | " in trained.output
    assert len(list((tmp_path / "work" / "digits").iterdir())) == 4
    module("quality.page").write_page(tmp_path / "results", tmp_path)
    text = (tmp_path / "search-quality.md").read_text(encoding="utf-8")
    assert "search_quality.py retrain --candidates paper,calibrate --epochs 1 --training-epochs 1 --seeds 2`" in text
    assert text.count("| calibrate | 2 | ") == 2
    missing = [part.splitlines()[0] for part in text.split("\n## ") if part.rstrip().endswith("Not run.")]
    assert missing == ["The verdict", "Planted answers", "What a step costs", "Closed forms"]
    assert text.count("Not run.") == len(missing) + 1, "pairs too"
    config = module("quality.beds").find_bed("digits").config("paper", 0)
    data = module("quality.whole_search").training_data(config)
    assert data.train.fingerprint() == digits.train.fingerprint()
    assert data.test.fingerprint() == digits.val.fingerprint()


def test_a_table_names_the_command_that_makes_just_it() -> None:
    commands, records = module("quality.commands"), module("quality.records")
    problems, candidates = module("quality.problems").DEFAULT_PROBLEMS, module("quality.candidates").CANDIDATES
    rows = module("quality.verdict_runs").STANDARD_ROWS

    def kept(name: str, seed: int, dataset: str = "digits", **run: Any) -> tuple[str, Any]:
        return name, records.Kept({"dataset": dataset, "settings": {"epochs": 7}}, {"seed": seed, **run}, {})

    whole = [kept(name, 4, problem=problem) for name in candidates for problem in problems]
    assert commands.command_of_suite("planted.py", whole) == "`python benchmarks/planted.py --epochs 7`"
    part = [kept(name, seed, problem="rotated") for seed in range(3) for name in ("paper", "lookahead")]
    assert commands.command_of_suite("planted.py", part) == (
        "`python benchmarks/planted.py --candidates paper,lookahead --problems rotated --epochs 7 --seeds 3`"
    )
    elsewhere = [kept(name, 9, "mine") for name in rows if name != "cutout"]
    assert commands.command_of_verdict(elsewhere) == (
        "`python benchmarks/search_quality.py verdict --data DIR --label mine --seeds 10`"
    )
    assert commands.command_of_verdict([kept(name, 4) for name in rows]) == (
        "`python benchmarks/search_quality.py verdict`"
    )
    assert "--rows paper,none`" in commands.command_of_verdict([kept("paper", 4), kept("none", 4)])


def test_differences_are_paired_by_seed() -> None:
    tables, records = module("quality.error_tables"), module("quality.records")

    def run_of(name: str, seed: int, error: float) -> tuple[str, Any]:
        results = {"val_error_percent": error, "val_loss": 1.0, "seconds": 2.0}
        return name, records.Kept({}, {"seed": seed}, results)

    found = [run_of("paper", 0, 10.0), run_of("paper", 1, 20.0), run_of("other", 1, 21.0), run_of("other", 0, 8.0)]
    rows = tables.error_rows(found)
    assert rows[0] == ["paper", "2", "15.00 ± 7.07", "-", "1.000 ± 0.000", "2"]
    # Differences -2 and 1; 12.706 is the 97.5 % point of t with one degree of freedom.
    assert rows[1][3] == "-0.50 (-19.56 to +18.56)"


def test_the_page_is_the_one_made_from_the_records_in_the_repository(tmp_path: Path) -> None:
    module("quality.page").write_page(BENCHMARKS / "results" / "quality", tmp_path)
    committed = BENCHMARKS.parent / "docs" / "search-quality.md"
    assert (tmp_path / "search-quality.md").read_text(encoding="utf-8") == committed.read_text(encoding="utf-8")


def test_the_candidate_called_the_default_is_what_hba_search_does() -> None:
    candidates, beds = module("quality.candidates"), module("quality.beds")
    config = beds.find_bed("digits").config(candidates.DEFAULT, 0)
    default = SearchConfig.from_preset({}).resolved()
    assert config == default.model_copy(update={"probes": 0})


def test_the_rows_of_a_verdict_begin_with_the_default_and_leave_out_a_second_cutout() -> None:
    from hba.config import EvaluationConfig
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
    from hba.evaluation.rivals import middle

    space = hba.SearchSpace()
    random = middle(hba.Schedule(space, space.decode(space.initial().double())[None].numpy()))
    without = module("quality.whole_search").without(random, ("Rotate", "Equalize"))
    for name, before, after in zip(space.names, random.values[0], without.values[0], strict=True):
        gone = name.startswith(("Rotate", "Equalize")) and name.endswith("probability")
        assert after == (0 if gone else before), name


def runs_of(measure: str, name: str, errors: list[float]) -> list[tuple[str, Any]]:
    """Kept runs of a candidate or row, one for each seed."""
    kept = module("quality.records").Kept
    return [(name, kept({}, {"seed": seed}, {measure: error})) for seed, error in enumerate(errors)]


def test_what_operations_are_worth_is_paired_by_seed() -> None:
    records, left_out = module("quality.records"), module("quality.left_out")
    default = module("quality.candidates").DEFAULT
    trained = partial(runs_of, "val_error_percent")

    def searched(name: str, first: float, second: float) -> tuple[str, Any]:
        end = {"AutoContrast": {"probability": first}, "Equalize": {"probability": second}}
        return name, records.Kept({}, {"seed": 0}, {"end": end})

    trainings = [*trained("no-contrast", [11.0, 14.0]), *trained("random", [10.0, 12.0]), *trained("none", [9.0, 9.0])]
    searches = [searched(default, 0.1, 0.3), searched(default, 0.3, 0.5), searched("paper", 0.9, 0.9)]
    # Student's t of 1 degree of freedom is 12.706 at 97.5 %; the differences 1 and 2.
    assert left_out.left_out_rows(trainings, searches) == [
        ["AutoContrast, Equalize", "0.30 ± 0.14", "+1.50 (-4.85 to +7.85)"]
    ]


def test_without_the_default_there_is_no_verdict_and_of_others_only_what_it_stands_for(tmp_path: Path) -> None:
    page, records = module("quality.page"), module("quality.records")
    made_by = records.made_by(torch.device("cpu"))
    bed, default = module("quality.beds").find_bed("digits"), module("quality.candidates").DEFAULT

    def keep(row: str, candidate: str, error: float, **changed: Any) -> None:
        settings = records.settings_of(bed.config(candidate, 0, **changed))
        book = records.Book(tmp_path / "digits" / "verdict" / f"{row}.json")
        for seed in range(3):
            run = {"training_images": 200, "seed": seed}
            book.add(
                "digits", settings, run, {"test_error_percent": error + (seed % 2 if row != default else 0)}, made_by
            )

    def text() -> str:
        page.write_page(tmp_path, tmp_path)
        return str((tmp_path / "search-quality.md").read_text(encoding="utf-8"))

    keep("none", default, 9.0)
    assert f"No verdict: `{default}` has not been run." in text()
    keep(default, default, 2.0)
    keep("lookahead", "lookahead", 1.0)
    keep("shuffled", "lookahead", 7.25)
    assert "Verdict: better than none: 7.33 points" in text(), "other candidates are no rivals"
    assert "| lookahead | 3 | 1.33" in text()
    assert "7.58" not in text(), "shuffled was another search's"
    keep("shuffled", default, 6.25)
    assert "| shuffled | 3 | 6.58" in text()


def test_a_verdict_is_paired_by_seed() -> None:
    tables, default = module("quality.error_tables"), module("quality.candidates").DEFAULT
    runs = partial(runs_of, "test_error_percent")

    kept = [*runs(default, [1.0, 2.0, 4.0]), *runs("random", [2.0, 3.5, 4.5]), *runs("none", [5.0])]
    differences = tables.verdict_differences(kept)
    assert differences["random"].mean == pytest.approx(-1.0)
    assert differences["none"].mean == pytest.approx(-4.0)
    # Student's t of 2 degrees of freedom is 4.303 at 97.5 %; the differences -1, -1.5, -0.5 have a spread of 0.5.
    assert differences["random"].interval == pytest.approx(
        (-1 - 4.303 * 0.5 / 3**0.5, -1 + 4.303 * 0.5 / 3**0.5), rel=1e-3
    )
    assert tables.verdict_rows(kept)[0] == [default, "3", "2.33 ± 1.53", "-"]


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


def test_aims_are_reached_only_where_the_interval_says_so() -> None:
    aims, records = module("quality.aims"), module("quality.records")
    paired = module("hba.evaluation.paired").PairedDifference

    def minus(*differences: float) -> Any:
        return paired.of(dict(enumerate(differences)), minus=dict.fromkeys(range(len(differences)), 0.0))

    def planted(rank_of_it: int, n_operations: int = 1) -> Any:
        end = {f"Other{number}": {"probability": 0.5} for number in range(rank_of_it - 1)}
        results = {"end": {**end, "Low": {"probability": 0.1}, "It": {"probability": 0.4}}}
        return aims.DEFAULT, records.Kept({}, {"planted": [{"operation": "It"}] * n_operations}, results)

    clearly, hardly = minus(-1.0, -1.1, -0.9), minus(-1.0, 0.5, -0.9)
    verdicts = {"first": {"random": clearly, "shuffled": hardly}, "second": dict.fromkeys(aims.NOT_WORSE_THAN, clearly)}
    rows = aims.aim_rows([planted(3)] * 9 + [planted(4)] + [planted(2, 2), planted(4, 2)], verdicts)
    assert [row[2] for row in rows] == [
        *("reached", "not reached", "reached", "not reached", "not measured"),
        *("not measured", "not measured", "reached"),
    ]
    assert aims.aim_rows([planted(3)] * 8 + [planted(4)] * 2, {})[0][2] == "not reached"
    for above_zero in (minus(1.0, 1.1, 0.9), minus(1.0, 1.5, 2.0)):
        worse = {"third": {**dict.fromkeys(aims.NOT_WORSE_THAN, clearly), "autoaugment": above_zero}}
        assert aims.aim_rows([], worse)[-1][2] == "not reached"
