"""docs/search-quality.md: its tables, the aims, and what is said of where they come from."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from benchmark_modules import BENCHMARKS, module

pytestmark = pytest.mark.usefixtures("benchmarks_can_be_imported")


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
        "`python benchmarks/search_quality.py verdict --data DIR --label mine --epochs 7 --seeds 10`"
    )
    assert commands.command_of_verdict([kept(name, 4) for name in rows]) == (
        "`python benchmarks/search_quality.py verdict --epochs 7`"
    )
    assert "--rows paper,none --epochs 7`" in commands.command_of_verdict([kept("paper", 4), kept("none", 4)])


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


def test_aims_are_reached_only_where_the_interval_says_so() -> None:
    aims, records = module("quality.aims"), module("quality.records")
    paired = module("hba.policy_evaluation.paired").PairedDifference

    def minus(*differences: float) -> Any:
        return paired.of(dict(enumerate(differences)), minus=dict.fromkeys(range(len(differences)), 0.0))

    def planted(rank_of_it: int, n_operations: int = 1) -> Any:
        end = {f"Other{number}": {"probability": 0.5} for number in range(rank_of_it - 1)}
        results = {"end": {**end, "Low": {"probability": 0.1}, "It": {"probability": 0.4}}}
        return aims.DEFAULT, records.Kept(
            {"dataset": "digits"}, {"planted": [{"operation": "It"}] * n_operations}, results
        )

    clearly, hardly = minus(-1.0, -1.1, -0.9), minus(-1.0, 0.5, -0.9)
    verdicts = {"first": {"random": clearly, "shuffled": hardly}, "second": dict.fromkeys(aims.NOT_WORSE_THAN, clearly)}
    rows = aims.aim_rows([planted(3)] * 9 + [planted(4)] + [planted(2, 2), planted(4, 2)], verdicts)
    assert [row[2] for row in rows] == [
        *("reached", "not reached", "reached", "not reached", "not measured"),
        *("not measured", "not measured", "reached"),
    ]
    assert aims.aim_rows([planted(3)] * 8 + [planted(4)] * 2, {})[0][2] == "not reached"

    def is_not_worse(**others: Any) -> str:
        rows = aims.aim_rows([], {"third": {**dict.fromkeys(aims.NOT_WORSE_THAN, clearly), **others}})
        return str(rows[-1][2])

    assert is_not_worse(autoaugment=minus(1.0, 1.1, 0.9)) == is_not_worse(autoaugment=minus(1.0, 1.5, 2.0))
    assert is_not_worse(autoaugment=minus(1.0, 1.1, 0.9)) == "not reached"
    unclear = minus(9.0, -1.0, 0.0)
    assert is_not_worse(randaugment=unclear) == "reached"
    assert is_not_worse(randaugment=unclear, autoaugment=minus(1.0, 1.1, 0.9)) == "not reached", "not only the best"
    assert is_not_worse(randaugment=minus(9.0)) == is_not_worse(randaugment=minus(1.0, 1.0)) == "not measured"


def test_verdicts_of_other_lengths_and_sizes_are_tables_of_their_own(tmp_path: Path) -> None:
    page, records = module("quality.page"), module("quality.records")
    bed, default = module("quality.beds").find_bed("digits"), module("quality.candidates").DEFAULT
    made_by = records.made_by(torch.device("cpu"))
    for epochs, n_images, own in ((60, 200, 7.0), (300, 200, 2.0), (300, 100, 4.0)):
        settings = records.settings_of(bed.config(default, 0, epochs=epochs))
        for row, error in ((default, own), ("none", own + 1)):
            book = records.Book(tmp_path / "digits" / "verdict" / f"{row}.json")
            for seed in range(2):
                run = {"training_images": n_images, "seed": seed}
                book.add("digits", settings, run, {"test_error_percent": error + seed / 8}, made_by)
    page.write_page(tmp_path, tmp_path)
    text = (tmp_path / "search-quality.md").read_text(encoding="utf-8")
    for length, mean in (
        ("200 training images, 60", 7),
        ("200 training images, 300", 2),
        ("100 training images, 300", 4),
    ):
        table = text.split(f"Data: digits, {length} epochs")[1]
        assert f"| {default} | 2 | {mean}.06 ± 0.09 | - |" in table.split("Verdict:")[0]
    assert text.count("| better than `random` |") == 3


def test_elsewhere_counts_the_other_problems_operations_where_they_were_not_planted() -> None:
    tables, records = module("quality.planted_tables"), module("quality.records")

    def kept(problem: str, operation: str, first: str) -> tuple[str, Any]:
        end = {name: {"probability": 0.5, "strength": 0.5} for name in ("Rotate", "Invert", "Color", "Solarize")}
        end[first] = {"probability": 0.9, "strength": 0.9}
        results = {"end": end, "val_error_percent": 1.0, "seconds": 1.0}
        return "paper", records.Kept(
            {}, {"problem": problem, "planted": [{"operation": operation}], "seed": 0}, results
        )

    # All others are equal, and equal ones are ahead: only the one with 0.9 is among the first three.
    runs = [kept("a", "Rotate", "Rotate"), kept("b", "Invert", "Rotate"), kept("c", "Color", "Color")]
    headings, (row,) = tables.rate_rows(runs)
    found = dict(zip(headings, row, strict=True))
    # Two others for each of the three runs; Rotate in b's is the only one there.
    assert found["elsewhere"] == "17 %"
    assert found["all"].startswith("2/3 ")


def test_confirming_seeds_are_a_table_of_their_own() -> None:
    tables, default = module("quality.error_tables"), module("quality.candidates").DEFAULT
    runs = partial(runs_of, "test_error_percent")
    kept = [*runs(default, [1.0] * 10 + [2.0, 4.0]), *runs("random", [9.0] * 10 + [3.0, 4.0]), *runs("none", [5.0])]
    # Student's t of 1 degree of freedom is 12.706 at 97.5 %; the differences -1 and 0.
    assert tables.confirming_rows(kept) == [["random", "2", "-0.50 (-6.85 to +5.85)"]]
    assert tables.confirming_rows([*runs(default, [1.0]), *runs("random", [2.0])]) == []
