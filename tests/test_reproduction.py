"""benchmarks/reproduce.py: the paper's numbers in its tables, and whole tables at a scale of seconds."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmark_modules import BENCHMARKS, module
from click.testing import CliRunner, Result
from PIL import Image

from hba.algorithms import Hypergradient
from hba.policy_search.config import SearchConfig

pytestmark = pytest.mark.usefixtures("benchmarks_can_be_imported")


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two classes of 60 training and 10 test images."""
    folder = tmp_path_factory.mktemp("images")
    random = np.random.default_rng(0)
    for part, n_images in (("train", 60), ("test", 10)):
        for label, name in enumerate(("left", "right")):
            (folder / part / name).mkdir(parents=True)
            for number in range(n_images):
                levels = random.integers(0, 120, (8, 8, 3), dtype=np.uint8)
                levels[:, 4 * label : 4 * label + 4] += 120
                Image.fromarray(levels).save(folder / part / name / f"{number}.png")
    return folder


@pytest.fixture
def tables() -> Any:
    return module("reproduction.tables").TABLES


def reproduce(images: Path, out: Path, *arguments: str) -> Result:
    places = ["--data", "cifar10", str(images), "two classes"]
    kept = ["--results", str(out / "results"), "--work", str(out / "work"), "--scale", "tiny", "--device", "cpu"]
    return CliRunner().invoke(module("reproduce").main, [*arguments, *places, *kept], catch_exceptions=False)


def cells_of(table: Any) -> dict[tuple[str, str], str]:
    return {(cell.row, cell.column): cell.paper for cell in table.cells}


def test_there_is_every_table_of_the_paper_the_derivation_and_those_of_stn(tables: Any) -> None:
    of_others = ["stn-table-1", "stn-table-2", "delta-stn-table-1"]
    assert list(tables) == ["2", "3", "4", "5", "6", "7", "8", "algorithms", *of_others]


@pytest.mark.parametrize(
    ("number", "row", "column", "paper"),
    [
        ("2", "bn", "wrn-40-2, cifar10: validation error (%)", "3.86 ± 0.08"),
        ("2", "first-bn", "wrn-28-10, cifar100: validation error (%)", "18.80 ± 0.34"),
        ("2", "conv+bn", "wrn-40-2: time relative to first-bn", "2.33"),
        ("2", "conv", "wrn-40-2: time relative to first-bn", "1.76"),
        ("2", "bn", "wrn-40-2: time relative to first-bn", "1.53"),
        ("2", "first-conv", "wrn-40-2: time relative to first-bn", "0.99"),
        ("2", "first-bn", "wrn-40-2: time relative to first-bn", "1.00"),
        ("3", "reduced-imagenet", "search (hours)", "0.9"),
        ("4", "cifar10-wrn-40-2", "HBA: test error (%)", "3.80 ± 0.15"),
        ("4", "cifar100-pyramidnet-272-200", "HBA: test error (%)", "12.10 ± 0.14"),
        ("4", "cifar10-shake-shake-26-2x112d", "Cutout: test error (%)", "2.6"),
        ("7", "cifar100-wrn-28-10", "on the target: test error (%)", "16.87 ± 0.22"),
        ("8", "conv, sigma fixed (HBA)", "test error (%)", "18.76 ± 0.11"),
    ],
)
def test_the_papers_numbers(tables: Any, number: str, row: str, column: str, paper: str) -> None:
    assert cells_of(tables[number])[row, column] == paper


def test_every_preset_of_table_11_is_in_a_table(tables: Any) -> None:
    from hba.config.presets import EVALUATION_PRESETS

    rows = {cell.row for number in "4567" for cell in tables[number].cells}
    assert rows == set(EVALUATION_PRESETS)


def test_a_table_runs_once_is_kept_and_names_what_it_did_not_run(images: Path, tmp_path: Path) -> None:
    first = reproduce(images, tmp_path, "4")
    assert first.exit_code == 0, first.output
    assert "| cifar10-wrn-28-10 | HBA: test error (%) | 2.63 ± 0.10 | not run | - |" in first.output
    kept = (tmp_path / "results" / "reproduction.jsonl").read_bytes()
    own = [(entry["name"], entry["seed"]) for entry in map(json.loads, kept.splitlines())]
    assert sorted(own) == sorted(
        (run, seed)
        for seed in (0, 1)
        for run in (
            "search-reduced-cifar10",
            "train-cifar10-wrn-40-2-cutout-size=0-with-none",
            "train-cifar10-wrn-40-2-with-none",
            "train-cifar10-wrn-40-2-with-search-reduced-cifar10",
        )
    )
    again = reproduce(images, tmp_path, "4")
    assert "0 of 2 runs to do" in again.output
    assert "6 of 12 runs to do" in again.output, "those on CIFAR-100, whose images are not there"
    assert (tmp_path / "results" / "reproduction.jsonl").read_bytes() == kept


def test_networks_that_tune_themselves_are_measured_on_the_test_images(images: Path, tmp_path: Path) -> None:
    output = reproduce(images, tmp_path, "8", "--seeds", "1", "--only", "stn-alexnet-").output
    assert "4 of 4 runs to do" in output
    text = (tmp_path / "results" / "self-tuning.jsonl").read_text(encoding="utf-8")
    found = [json.loads(line)["results"] for line in text.splitlines()]
    assert [len(results["values"]) for results in found] == [15] * 4
    for results in found:
        # Of 20 test images.
        assert results["test_error_percent"] / 5 == pytest.approx(round(results["test_error_percent"] / 5))


def test_results_of_other_settings_or_images_are_not_mixed_with_these(tmp_path: Path) -> None:
    records, page = module("common.records"), module("reproduction.page")
    table = module("reproduction.tables").TABLES["algorithms"]
    store = records.store_of(tmp_path, "reproduction")

    def keep(errors: list[float], dataset: str = "two classes", sigma: float = 1.0) -> None:
        for seed, error in enumerate(errors):
            run = records.Run(
                table.cells[-1].asked.name, dataset, {"algorithm": "hba", "sigma": sigma}, seed, {"scale": "tiny"}
            )
            store.add(records.Record(run, {"val_error_percent": error}, {}))

    def shown() -> list[str]:
        cells = page.cell_table(table, page.by_scale(tmp_path)["tiny"])
        return [row[3] for row in cells.values.tolist() if row[3] != "not run"]

    keep([1.0, 3.0])
    assert shown() == ["2.00 ± 1.41"]
    keep([5.0], sigma=0.5)
    assert shown() == ["5.00"]
    keep([7.0, 8.0], dataset="others")
    assert shown() == ["7.50 ± 0.71"]


@pytest.mark.parametrize(("warm_up_epochs", "expected"), [(0, 8.0), (None, 5.0), (3, 3.5)])
def test_steps_before_and_after_the_warm_up_count_by_their_shares(
    warm_up_epochs: int | None, expected: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    timing = module("common.timing")

    def seconds(config: SearchConfig, data: Any, measured: int) -> float:
        assert config.algorithm.update_schedule.warm_up_of(config.epochs) == 0, "all steps are measured or none"
        return 8.0 if config.algorithm.update_schedule.in_a_row else 2.0

    monkeypatch.setattr(timing, "_mean_seconds", seconds)
    config = SearchConfig.make({"algorithm": "lookahead", "warm_up_epochs": warm_up_epochs, "epochs": 4})
    assert timing.search_seconds_per_step(config, None, 16) == expected


def test_the_floor_trains_on_images_of_the_networks_size(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch import Tensor

    from hba.models import WideResNet

    settings = {"data": str(images), "baseline_like": "imagenet", "image_size": 14, "model": "wrn-10-1"}
    config = SearchConfig.make({**settings, "device": "cpu", "batch_size": 10, "train_steps": 2})
    data = module("common.images").Images().of_search(config)
    seen: list[int] = []
    forward = WideResNet.forward

    def record(self: WideResNet, x: Tensor) -> Tensor:
        seen.append(x.shape[-1])
        return forward(self, x)

    monkeypatch.setattr(WideResNet, "forward", record)
    module("common.timing").floor_seconds_per_step(config, data, 8)
    assert data.train.image_size == 16
    assert set(seen) == {14}
    assert len(seen) == 1 + 8 + 4, "a try, training batches, and a validation batch behind every second one"


def test_lambda_can_go_equally_far_in_all_searches_but_those_of_the_derivation() -> None:
    """Lambda steps times alpha', as in the paper: 93 in the reduced search, 94 on the target tasks."""
    scales, runs = module("reproduction.scales"), module("reproduction.runs")
    from hba.config.presets import SEARCH_PRESETS

    def reach(scale: Any, run: Any) -> float:
        settings = {**SEARCH_PRESETS[run.preset], **scale.settings(run)}
        train_size = scale.ablation_sizes[0] if run.ablation else settings["train_size"]
        steps = settings["epochs"] * (train_size // settings["batch_size"]) // 2
        return float(steps * settings["lambda_learning_rate"])

    searches = (runs.Search("reduced-cifar10"), runs.Search("cifar10-wrn-40-2"))
    full, small = scales.SCALES["full"], scales.SCALES["small"]
    assert [round(reach(full, search)) for search in searches] == [93, 94]
    ablation = runs.Search("cifar10-wrn-40-2", ablation=True)
    assert [round(reach(small, search)) for search in (*searches, ablation)] == [18, 18, 18]


def test_an_unknown_dataset_is_one_line() -> None:
    arguments = ["4", "--data", "cfar10", "somewhere", "name"]
    result = CliRunner().invoke(module("reproduce").main, arguments)
    assert result.output.startswith("Error: --data: unknown dataset 'cfar10'; known: digits, ")


def test_a_page_without_any_results_says_not_run(tmp_path: Path) -> None:
    module("reproduction.page").write_page(tmp_path / "nothing", tmp_path)
    text = (tmp_path / "reproduction.md").read_text(encoding="utf-8")
    assert text.count("Not run at any scale.") == 11


def test_a_record_says_what_it_is_and_names_no_folder(images: Path, tmp_path: Path) -> None:
    assert reproduce(images, tmp_path, "algorithms", "--seeds", "1").exit_code == 0
    text = (tmp_path / "results" / "reproduction.jsonl").read_text(encoding="utf-8")
    (record,) = [one for one in map(json.loads, text.splitlines()) if one["settings"]["algorithm"] == "population"]
    assert record["name"] == "search-reduced-cifar10-algorithm=population"
    assert (record["dataset"], record["further"]["scale"], record["seed"]) == ("two classes", "tiny", 0)
    assert record["settings"]["baseline_like"] == "cifar10"
    assert record["results"]["epochs"] == 2
    assert str(images) not in text
    assert str(tmp_path) not in text


def test_only_an_estimate_runs_nothing(images: Path, tmp_path: Path) -> None:
    result = reproduce(images, tmp_path, "7", "--estimate")
    assert "in all " in result.output
    assert not (tmp_path / "results").exists()


def test_means_and_spreads_are_those_of_the_records() -> None:
    page, runs, records = module("reproduction.page"), module("reproduction.runs"), module("common.records")
    cell = runs.Cell("row", "column", "1.0", runs.Search("reduced-cifar10"), "val_error_percent")
    run = records.Run("search-reduced-cifar10", "two classes", {}, 0)
    kept = [records.Record(run, {"val_error_percent": value}, {}) for value in (1.0, 2.0, 6.0)]
    table = runs.Table("", (cell,))
    found = page.cell_table(table, {"search-reduced-cifar10": kept}).values.tolist()
    assert found == [["row", "column", "1.0", "3.00 ± 2.65", "3"]]
    assert page.cell_table(table, {}).values.tolist()[0][3:] == ["not run", "-"]


def test_trainings_of_the_ablation_are_tested_on_images_that_no_search_saw(images: Path) -> None:
    from hba.config.evaluation import EvaluationConfig

    read = module("common.images").Images()
    settings = {"data": str(images), "image_size": 8, "device": "cpu"}
    sizes = (20, 30, 40)
    searched = read.of_search(SearchConfig.make(settings), sizes)
    trained = read.of_training(EvaluationConfig.make(settings), sizes)
    data = {"train": searched.train, "val": searched.val, "both": trained.train, "test": trained.test}
    parts = {name: {image.numpy().tobytes() for image in images.images} for name, images in data.items()}
    assert {name: len(part) for name, part in parts.items()} == {"train": 20, "val": 30, "both": 50, "test": 40}
    assert parts["both"] == parts["train"] | parts["val"]
    assert not parts["test"] & parts["both"]


@pytest.mark.parametrize("scale", ["huge", "0", "1.5", "-1"])
def test_an_unknown_scale_is_one_line(scale: str) -> None:
    result = CliRunner().invoke(module("reproduce").main, ["4", "--scale", scale])
    assert result.exit_code == 1
    assert result.output.strip().splitlines()[-1].startswith("Error: --scale must be full, small, tiny or a number")


def test_the_page_is_the_one_made_from_the_results_in_the_repository(tmp_path: Path) -> None:
    page = module("reproduction.page")
    page.write_page(BENCHMARKS / "results", tmp_path)
    committed = BENCHMARKS.parent / "docs" / "reproduction.md"
    assert (tmp_path / "reproduction.md").read_text(encoding="utf-8") == committed.read_text(encoding="utf-8")


def timed(images: Path, number: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Results of a table's timing: a step takes a planted time, every round twice as long as the one before."""
    tasks, scales, places = module("reproduction.tasks"), module("reproduction.scales"), module("common.images")
    planted = {"conv+bn": 4.0, "conv": 3.0, "bn": 1.5, "first-conv": 0.5, "first-bn": 1.0}
    calls: dict[str, int] = {}

    def seconds(kind: str, base: float) -> float:
        calls[kind] = calls.get(kind, -1) + 1
        return float(base * 2 ** calls[kind])

    shared = module("common.tasks")

    def of_search(config: SearchConfig, *_: Any) -> float:
        sharing = config.flat()["sharing"]
        return seconds(sharing, planted[sharing])

    monkeypatch.setattr(shared, "search_seconds_per_step", of_search)
    monkeypatch.setattr(shared, "floor_seconds_per_step", lambda *_: seconds("floor", 0.8))
    bench = tasks.Bench(scales.find_scale("tiny"), {"cifar10": places.Place(str(images), "two classes")}, device="cpu")
    table = module("reproduction.tables").TABLES[number]
    *_, timings = tasks.tasks_of(bench, table, 1)
    return dict(next(task for task in timings if "cifar10" in task.name).do())


def test_relative_times_are_of_the_same_round(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = timed(images, "2", monkeypatch)
    assert results["relative_conv+bn"] == pytest.approx([4.0] * 5)
    assert results["relative_bn"] == pytest.approx([1.5] * 5)
    assert results["relative_first-conv"] == pytest.approx([0.5] * 5)
    assert results["relative_first-bn"] == [1.0] * 5


def test_hours_are_those_of_all_steps_and_the_floor_is_of_the_same_round(
    images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = timed(images, "3", monkeypatch)
    assert results["over_floor"] == pytest.approx([1.25] * 5)
    # 20 images in batches of 10, two epochs.
    assert results["hours"] == pytest.approx([4 * 2**number / 3600 for number in range(5)])


def test_the_reproduction_searches_as_in_the_paper(images: Path) -> None:
    """Section 4 and Table 10 of the paper; where it leaves something open, what was taken first."""
    tasks, scales, places = module("reproduction.tasks"), module("reproduction.scales"), module("common.images")
    runs = module("reproduction.runs")
    bench = tasks.Bench(scales.find_scale("full"), {"cifar10": places.Place(str(images), "two classes")}, device="cpu")
    config = bench.search(runs.Search("reduced-cifar10"), 0).config
    algorithm = config.algorithm
    assert isinstance(algorithm, Hypergradient)
    assert (algorithm.initial_fraction, algorithm.train_steps, algorithm.val_steps) == (0.05, 2, 1)
    assert (algorithm.sigma, algorithm.sigma_end, algorithm.lambda_betas) == (1.0, None, (0.9, 0.999))
    assert (algorithm.response, algorithm.warm_up_epochs, algorithm.calibrate) == ("affine", 0, False)
