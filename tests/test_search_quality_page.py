"""docs/search-quality.md: its tables, the aims, and what is said of where they come from."""

import dataclasses
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmark_modules import BENCHMARKS, module

pytestmark = pytest.mark.usefixtures("benchmarks_can_be_imported")


def record_of(name: str, seed: int = 0, **parts: Any) -> Any:
    """A kept run. parts: results, and what a run has besides name and seed."""
    records = module("common.records")
    results = parts.pop("results", {})
    run = {"dataset": "digits", "settings": {"epochs": 7}, "further": {}, **parts}
    return records.Record(records.Run(name, seed=seed, **run), results, {})


def runs_of(measure: str, name: str, errors: list[float], **others: float) -> list[Any]:
    """Kept runs of a candidate or row, one for each seed."""
    return [record_of(name, seed, results={measure: error, **others}) for seed, error in enumerate(errors)]


def test_a_table_names_the_command_that_makes_just_it() -> None:
    commands = module("quality.commands")
    problems, candidates = module("quality.problems").DEFAULT_PROBLEMS, module("quality.candidates").CANDIDATES
    rows = module("quality.tasks").STANDARD_ROWS

    def planted(name: str, seed: int, problem: str) -> Any:
        return record_of(name, seed, further={"problem": problem})

    whole = [planted(name, 4, problem) for name in candidates for problem in problems]
    assert commands.command_of_suite("planted.py", whole) == "`python benchmarks/planted.py --epochs 7`"
    part = [planted(name, seed, "rotated") for seed in range(3) for name in ("paper", "lookahead")]
    assert commands.command_of_suite("planted.py", part) == (
        "`python benchmarks/planted.py --candidates paper,lookahead --problems rotated --epochs 7 --seeds 3`"
    )
    assert commands.command_of_suite("search_quality.py retrain", [record_of("paper", 4, dataset="cifar")]) == (
        "`python benchmarks/search_quality.py retrain --bed cifar --data DIR --candidates paper --epochs 7`"
    )
    elsewhere = [record_of(name, 1009, dataset="cifar") for name in rows]
    assert commands.command_of_verdict(elsewhere) == (
        "`python benchmarks/search_quality.py verdict --bed cifar --data DIR`"
    )
    assert commands.command_of_verdict([record_of(name, 1000) for name in rows]) == (
        "`python benchmarks/search_quality.py verdict`"
    )
    assert commands.command_of_verdict([record_of("none", 4)]) == (
        "`python benchmarks/search_quality.py verdict --plan benchmarks/quality/earlier.toml`"
    )


def test_a_verdict_on_an_earlier_default_is_compared_with_that_and_no_verdict_of_now(tmp_path: Path) -> None:
    page, default = module("quality.page"), module("quality.candidates").DEFAULT

    def kept(planned_for: str, name: str, seed: int, error: float) -> str:
        record = record_of(name, seed, results={"test_error_percent": error}, further={"training_images": 200})
        return str(dataclasses.replace(record, made_by={"plan": {"rows": [planned_for, "none"]}}).as_line())

    lines = [kept(default, default, 2000, 1.0), kept(default, "none", 2000, 9.0)]
    lines += [kept("strength-first", "strength-first", seed, 3.0 + seed % 2) for seed in (1000, 1001)]
    lines += [kept("strength-first", "none", seed, 7.0 + seed % 2) for seed in (1000, 1001)]
    (tmp_path / "verdict.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    kept_records = module("common.records").store_of(tmp_path, "verdict").by_key().values()
    found = page.grouped_by_other_default(kept_records)
    assert {key: len(records) for key, records in found.items()} == {("strength-first", "digits"): 4}
    (records,) = found.values()
    first, none = module("quality.error_tables").verdict_table(records, "strength-first").to_dict("records")
    assert (first["trained with"], first["strength-first minus this"]) == ("strength-first", "-")
    assert none["strength-first minus this"].startswith("-4.00")


def test_differences_are_paired_by_seed() -> None:
    runs = partial(runs_of, "val_error_percent", val_loss=1.0, seconds=2.0)
    found = [*runs("paper", [10.0, 20.0]), *reversed(runs("other", [8.0, 21.0]))]
    first, second = module("quality.error_tables").error_table(found).values.tolist()
    assert first == ["paper", "2", "15.00 ± 7.07", "-", "1.000 ± 0.000", "2"]
    # Differences -2 and 1; 12.706 is the 97.5 % point of t with one degree of freedom.
    assert second[3] == "-0.50 (-19.56 to +18.56)"


def test_the_interval_of_a_rate_is_wilsons() -> None:
    # Of 4 hits of 5: the roots 0.376 and 0.964 of (0.8 - p)^2 = 1.96^2 p (1 - p) / 5, which define it.
    assert module("common.tables").rate_text([True] * 4 + [False]) == "4/5 (38-96 %)"
    assert module("common.tables").rate_text([]) == "-"


def test_the_page_is_the_one_made_from_the_records_in_the_repository(tmp_path: Path) -> None:
    module("quality.page").write_page(BENCHMARKS / "results", tmp_path)
    committed = BENCHMARKS.parent / "docs" / "search-quality.md"
    assert (tmp_path / "search-quality.md").read_text(encoding="utf-8") == committed.read_text(encoding="utf-8")


def test_the_readme_has_the_table_made_from_the_records_in_the_repository() -> None:
    """`python benchmarks/search_quality.py readme` prints what has to stand between the markers."""
    table = module("quality.page").readme_results(BENCHMARKS / "results")
    text = (BENCHMARKS.parent / "README.md").read_text(encoding="utf-8")
    assert text.split("<!-- results -->")[1].split("<!-- /results -->")[0].strip() == table


def test_a_sentence_that_the_records_do_not_show_any_more_is_refused() -> None:
    pages = module("common.pages")
    assert pages.only_while(True, "It is better.") == pages.only_while(None, "It is better.") == "It is better."
    with pytest.raises(pages.ClaimError, match=r"do not show any more .* 'It is better.'"):
        pages.only_while(False, "It is better.")


def test_what_operations_are_worth_is_paired_by_seed() -> None:
    draws = module("quality.candidates").DRAWS
    trained = partial(runs_of, "val_error_percent")

    def searched(name: str, first: float, second: float) -> Any:
        end = {"AutoContrast": {"probability": first}, "Equalize": {"probability": second}}
        return record_of(name, results={"end": end})

    trainings = [*trained("no-contrast", [11.0, 14.0]), *trained("random", [10.0, 12.0]), *trained("none", [9.0, 9.0])]
    searches = [searched(draws, 0.1, 0.3), searched(draws, 0.3, 0.5), searched("paper", 0.9, 0.9)]
    # Student's t of 1 degree of freedom is 12.706 at 97.5 %; the differences 1 and 2.
    assert module("quality.error_tables").left_out_table(trainings, searches).values.tolist() == [
        ["AutoContrast, Equalize", "0.30 ± 0.14", "+1.50 (-4.85 to +7.85)"]
    ]


def keep_verdict(results: Path, row: str, candidate: str, errors: list[float], **changed: Any) -> None:
    """Runs of a row whose search is a candidate's; changed: settings, and `n_images`."""
    records, settings = module("common.records"), module("common.settings")
    further = {"training_images": changed.pop("n_images", 200)}
    kept = settings.kept_settings(module("quality.beds").find_bed("digits").config(candidate, 0, **changed))
    made_by = records.made_by(torch.device("cpu"))
    for seed, error in enumerate(errors):
        run = records.Run(row, "digits", kept, seed, further, generation=2)
        records.store_of(results, "verdict").add(records.Record(run, {"test_error_percent": error}, made_by))


def test_without_the_default_there_is_no_verdict_and_of_others_only_what_it_stands_for(tmp_path: Path) -> None:
    page, default = module("quality.page"), module("quality.candidates").DEFAULT

    def keep(row: str, candidate: str, error: float) -> None:
        errors = [error + (seed % 2 if row != default else 0) for seed in range(3)]
        keep_verdict(tmp_path, row, candidate, errors)

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
    assert tables.verdict_table(kept).values.tolist()[0] == [default, "3", "2.33 ± 1.53", "-"]


def test_aims_are_reached_only_where_the_interval_says_so() -> None:
    aims = module("quality.aims")
    paired = module("hba.policy_evaluation.paired").PairedDifference

    def minus(*differences: float) -> Any:
        return paired.of(dict(enumerate(differences)), minus=dict.fromkeys(range(len(differences)), 0.0))

    def planted(rank_of_it: int, n_operations: int = 1) -> Any:
        end = {f"Other{number}": {"probability": 0.5} for number in range(rank_of_it - 1)}
        results = {"end": {**end, "Low": {"probability": 0.1}, "It": {"probability": 0.4}}}
        return record_of(aims.DEFAULT, further={"planted": [{"operation": "It"}] * n_operations}, results=results)

    clearly, hardly = minus(-1.0, -1.1, -0.9), minus(-1.0, 0.5, -0.9)
    against_all = dict.fromkeys(aims.RIVALS, clearly)

    def found(differences: Any, planted: Any = ()) -> list[str]:
        return list(aims.aim_table(planted, {"some": differences} if differences else {}, {})["is it?"])

    assert found({}, [planted(3)] * 9 + [planted(4)] + [planted(2, 2), planted(4, 2)]) == ["reached", "not reached"]
    assert found({}, [planted(3)] * 8 + [planted(4)] * 2) == ["not reached", "not measured"]
    assert found(against_all)[2:] == ["reached", "not measured", "not measured"], "nor was what it was before"
    assert found({**against_all, "shuffled": hardly})[2] == "not reached", "the interval holds zero"
    assert found({**against_all, "random": minus(1.0, 1.1, 0.9)})[2] == "not reached"
    assert found({**against_all, "none": minus(-9.0)})[2] == "not measured", "one pair has no interval"
    assert found({name: clearly for name in aims.RIVALS[1:]})[2] == "not measured"
    assert found({aims.FORMER: hardly})[3:] == ["reached", "reached"], "the interval holds zero"
    assert found({aims.FORMER: minus(0.1, 0.2, 0.15)})[3:] == ["not reached", "reached"], (
        "but it is half a point at most"
    )
    assert found({aims.FORMER: minus(-9.0, 0.2, 10.5)})[3:] == ["reached", "not reached"]
    assert found({aims.FORMER: minus(0.1)})[3] == "not measured", "one pair has no interval"
    said = aims.aim_table([], {"some": {**against_all, "shuffled": hardly}}, {})["figures"][2]
    assert said.startswith("not than shuffled -0.47 points (")


def test_just_the_exchanges_whose_interval_lies_above_zero_are_worse() -> None:
    parts = module("quality.parts")
    runs = partial(runs_of, "val_error_percent")
    worse, better = (f"{parts.FORMER}-{part}" for part in ("unshared", "spread-all"))
    kept = [
        *runs(parts.FORMER, [1.0, 2.0]),
        *runs(worse, [3.0, 4.1]),
        *runs(better, [0.5, 2.5]),
        *runs("none", [9, 9]),
    ]
    assert parts.are_the_worse_parts(kept, "digits", [worse]) is True
    assert parts.are_the_worse_parts(kept, "digits", []) is False
    assert parts.are_the_worse_parts(kept, "digits", [worse, better]) is False
    assert parts.are_the_worse_parts(kept, "cifar", []) is None


@pytest.mark.parametrize("n_of_ten", [8, 9])
def test_what_is_planted_is_found_in_nine_searches_of_ten(n_of_ten: int) -> None:
    aims = module("quality.aims")
    ends = [{"It": {"probability": 0.4}}] * n_of_ten
    ends += [{**{f"Other{number}": {"probability": 0.5} for number in range(3)}, "It": {"probability": 0.4}}] * (
        10 - n_of_ten
    )
    further = {"planted": [{"operation": "It"}]}
    kept = [record_of(aims.DEFAULT, further=further, results={"end": end}) for end in ends]
    assert aims.finds_planted(kept, 1, 7) is (n_of_ten == 9)
    assert aims.finds_planted(kept, 1, 300) is None
    assert aims.finds_planted(kept, 2, 7) is None


@pytest.mark.parametrize(
    ("of_default", "said"), [([2.4, 2.6], "reached"), ([2.6, 2.8], "not reached"), (None, "not measured")]
)
def test_what_a_step_costs_is_compared_with_its_aim(of_default: list[float] | None, said: str) -> None:
    aims = module("quality.aims")
    seconds = {aims.PAPER: [2.0, 2.0]} | ({aims.DEFAULT: of_default} if of_default else {})
    table = aims.aim_table([], {}, {"digits": record_of("cost", results={"seconds_per_step": seconds})})
    assert table["is it?"].iloc[-1] == said


def test_verdicts_of_other_lengths_and_sizes_are_tables_of_their_own(tmp_path: Path) -> None:
    page, default = module("quality.page"), module("quality.candidates").DEFAULT
    for epochs, n_images, own in ((60, 200, 7.0), (300, 200, 2.0), (300, 100, 4.0)):
        for row, error in ((default, own), ("none", own + 1)):
            keep_verdict(tmp_path, row, default, [error, error + 0.125], epochs=epochs, n_images=n_images)
    page.write_page(tmp_path, tmp_path)
    text = (tmp_path / "search-quality.md").read_text(encoding="utf-8")
    for length, mean in (
        ("200 training images, 60", 7),
        ("200 training images, 300", 2),
        ("100 training images, 300", 4),
    ):
        table = text.split(f"Data: digits, {length} epochs")[1]
        assert f"| {default} | 2 | {mean}.06 ± 0.09 | - |" in table.split("Verdict:")[0]
    assert text.count("| better than each of ") == 3


def test_elsewhere_counts_the_other_problems_operations_where_they_were_not_planted() -> None:
    def kept(problem: str, operation: str, first: str) -> Any:
        end = {
            name: {"probability": 0.5, "strength": 0.5, "magnitude": None}
            for name in ("Rotate", "Invert", "Color", "Solarize")
        }
        end[first] |= {"probability": 0.9, "strength": 0.9}
        results = {"end": end, "val_error_percent": 1.0, "seconds": 1.0}
        return record_of("paper", further={"problem": problem, "planted": [{"operation": operation}]}, results=results)

    # All others are equal, and equal ones are ahead: only the one with 0.9 is among the first three.
    runs = [kept("a", "Rotate", "Rotate"), kept("b", "Invert", "Rotate"), kept("c", "Color", "Color")]
    (found,) = module("quality.planted_tables").rate_table(runs).to_dict("records")
    # Two others for each of the three runs; Rotate in b's is the only one there.
    assert found["elsewhere"] == "17 %"
    assert found["all"].startswith("2/3 ")


def test_all_seeds_of_a_verdict_that_was_planned_stand_in_one_table() -> None:
    tables, default = module("quality.error_tables"), module("quality.candidates").DEFAULT
    kept = [
        record_of(name, seed, results={"test_error_percent": float(seed)}) for name in (default, "none")
        for seed in (1000, 1011)
    ]  # fmt: skip
    assert tables.verdict_table(kept)["runs"].tolist() == ["2", "2"]
