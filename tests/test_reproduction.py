"""benchmarks/reproduce.py: the paper's numbers in its tables, and whole tables at a scale of seconds."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmark_modules import BENCHMARKS, module
from click.testing import CliRunner, Result
from PIL import Image

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


def test_there_is_every_table_of_the_paper_and_the_derivation(tables: Any) -> None:
    assert list(tables) == ["2", "3", "4", "5", "6", "7", "8", "algorithms"]


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
        ("8", "HBA: conv", "test error (%)", "18.76 ± 0.11"),
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
    assert "hours, by steps measured now" in first.output
    assert "| cifar10-wrn-28-10 | HBA: test error (%) | 2.63 ± 0.10 | not run | - |" in first.output
    kept = {path: path.read_bytes() for path in (tmp_path / "results" / "tiny").glob("*.json")}
    own = {path.name for path in kept if "cifar100" not in path.name}
    assert own == {
        f"{run}-seed{seed}.json"
        for seed in (0, 1)
        for run in (
            "search-reduced-cifar10",
            "train-cifar10-wrn-40-2-cutout-size=0-with-none",
            "train-cifar10-wrn-40-2-with-none",
            "train-cifar10-wrn-40-2-with-search-reduced-cifar10",
        )
    }
    again = reproduce(images, tmp_path, "4")
    assert " x search-reduced-cifar10:" in first.output
    assert " x search-reduced-cifar10:" not in again.output
    assert all(path.read_bytes() == content for path, content in kept.items())


def test_results_of_other_settings_or_images_are_not_mixed_with_these(images: Path, tmp_path: Path) -> None:
    assert reproduce(images, tmp_path, "algorithms", "--seeds", "1").exit_code == 0
    path = tmp_path / "results" / "tiny" / "search-reduced-cifar10-algorithm=hba-seed0.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    for changed in ({"dataset": "others"}, {"settings": {**record["settings"], "sigma": 0.5}}):
        path.write_text(json.dumps({**record, **changed}), encoding="utf-8")
        result = reproduce(images, tmp_path, "algorithms", "--seeds", "1")
        assert result.exit_code == 1
        assert f"is kept from a run with another value of {next(iter(changed))}: remove it" in result.output


def test_the_floor_trains_on_images_of_the_networks_size(images: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch import Tensor

    from hba.models import WideResNet
    from hba.policy_search.config import SearchConfig

    settings = {"data": str(images), "baseline_like": "imagenet", "image_size": 14, "model": "wrn-10-1"}
    config = SearchConfig.make({**settings, "device": "cpu", "batch_size": 10, "train_steps": 2})
    data = module("reproduction.data").Images().of_search(config, None)
    seen: list[int] = []
    forward = WideResNet.forward

    def record(self: WideResNet, x: Tensor) -> Tensor:
        seen.append(x.shape[-1])
        return forward(self, x)

    monkeypatch.setattr(WideResNet, "forward", record)
    module("reproduction.timing").floor_seconds_per_step(config, data, 8)
    assert data.train.image_size == 16
    assert set(seen) == {14}
    assert len(seen) == 8 + 4, "training batches, and a validation batch behind every second one"


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
    assert text.count("Not run at any scale.") == 8


def test_a_record_says_what_it_is_and_names_no_folder(images: Path, tmp_path: Path) -> None:
    assert reproduce(images, tmp_path, "algorithms").exit_code == 0
    path = tmp_path / "results" / "tiny" / "search-reduced-cifar10-algorithm=population-seed1.json"
    text = path.read_text(encoding="utf-8")
    record = json.loads(text)
    assert (record["dataset"], record["scale"], record["seed"]) == ("two classes", "tiny", 1)
    assert record["settings"]["algorithm"] == "population"
    assert record["settings"]["baseline_like"] == "cifar10"
    assert record["results"]["epochs"] == 2
    assert str(images) not in text
    assert str(tmp_path) not in text


def test_only_an_estimate_runs_nothing(images: Path, tmp_path: Path) -> None:
    result = reproduce(images, tmp_path, "7", "--estimate")
    assert "in all " in result.output
    assert not (tmp_path / "results").exists()


def test_means_and_spreads_are_those_of_the_records(images: Path, tmp_path: Path) -> None:
    page = module("reproduction.page")
    runs = module("reproduction.runs")
    cell = runs.Cell("row", "column", "1.0", runs.Search("reduced-cifar10"), "val_error_percent")
    records = {"search-reduced-cifar10": [{"results": {"val_error_percent": value}} for value in (1.0, 2.0, 6.0)]}
    assert page.rows_of(runs.Table("", (cell,)), records) == [["row", "column", "1.0", "3.00 ± 2.65", "3"]]
    assert page.rows_of(runs.Table("", (cell,)), {})[0][3:] == ["not run", "-"]


def test_trainings_of_the_ablation_are_tested_on_images_that_no_search_saw(images: Path) -> None:
    from hba.config.evaluation import EvaluationConfig
    from hba.policy_search.config import SearchConfig

    read = module("reproduction.data").Images()
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


def timed(images: Path, out: Path, number: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Results of a table's timing: a step takes a planted time, every round twice as long as the one before."""
    execute, scales, data = module("reproduction.execute"), module("reproduction.scales"), module("reproduction.data")
    runs, tables = module("reproduction.runs"), module("reproduction.tables").TABLES
    planted = {"conv+bn": 4.0, "conv": 3.0, "bn": 1.5, "first-conv": 0.5, "first-bn": 1.0}
    calls: dict[str, int] = {}

    def seconds(kind: str, base: float) -> float:
        calls[kind] = calls.get(kind, -1) + 1
        return float(base * 2 ** calls[kind])

    monkeypatch.setattr(
        execute, "search_seconds_per_step", lambda config, *_: seconds(config.sharing, planted[config.sharing])
    )
    monkeypatch.setattr(execute, "floor_seconds_per_step", lambda *_: seconds("floor", 0.8))
    place = data.Place(str(images), "two classes")
    bench = execute.Bench(scales.find_scale("tiny"), {"cifar10": place}, out / "results", out / "work", "cpu")
    run = next(
        cell.run
        for cell in tables[number].cells
        if isinstance(cell.run, runs.Timing) and bench.covers(cell.run) and "cifar10" in cell.run.name
    )
    return dict(execute.run_once(bench, run, 0))


def test_relative_times_are_of_the_same_round(images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    results = timed(images, tmp_path, "2", monkeypatch)
    assert results["relative_conv+bn"] == pytest.approx([4.0] * 5)
    assert results["relative_bn"] == pytest.approx([1.5] * 5)
    assert results["relative_first-conv"] == pytest.approx([0.5] * 5)
    assert results["relative_first-bn"] == [1.0] * 5


def test_hours_are_those_of_all_steps_and_the_floor_is_of_the_same_round(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = timed(images, tmp_path, "3", monkeypatch)
    assert results["over_floor"] == pytest.approx([1.25] * 5)
    # 20 images in batches of 10, two epochs.
    assert results["hours"] == pytest.approx([4 * 2**number / 3600 for number in range(5)])


def every_run() -> dict[str, Any]:
    """By name, those of all tables and those that they need."""
    runs, found = module("reproduction.runs"), []
    for table in module("reproduction.tables").TABLES.values():
        for run in {cell.run for cell in table.cells}:
            searches = run.searches if isinstance(run, runs.Timing) else ()
            schedule = getattr(run, "schedule", None)
            found += [run, *searches, *([schedule] if schedule is not None else [])]
    return {run.name: run for run in found}


def test_results_in_the_repository_need_not_be_done_again(tmp_path: Path) -> None:
    """Settings that are younger than they are count as the paper's."""
    execute, scales, data = module("reproduction.execute"), module("reproduction.scales"), module("reproduction.data")
    from hba.errors import SettingsError

    runs, refused = every_run(), []
    kept = sorted((BENCHMARKS / "results" / "small").glob("*.json"))
    for path in kept:
        record = json.loads(path.read_text(encoding="utf-8"))
        run = runs[record["run"]]
        dataset = str((run.searches[0] if hasattr(run, "searches") else run).settings["data"])
        place = data.Place(str(tmp_path / "images"), record["dataset"])
        bench = execute.Bench(scales.find_scale("small"), {dataset: place}, BENCHMARKS / "results", tmp_path, "cpu")
        assert bench.file_of(run, record["seed"]) == path
        try:
            assert bench.is_done(run, record["seed"])
        except SettingsError:
            refused.append(path.name)
    assert kept
    assert refused == []


def test_the_reproduction_searches_as_in_the_paper(images: Path, tmp_path: Path) -> None:
    execute, scales, data = module("reproduction.execute"), module("reproduction.scales"), module("reproduction.data")
    runs = module("reproduction.runs")
    from hba.config.presets import PAPER_SETTINGS
    from hba.config.search import IDLE_SETTINGS

    place = data.Place(str(images), "two classes")
    bench = execute.Bench(scales.find_scale("full"), {"cifar10": place}, tmp_path, tmp_path, "cpu")
    config = bench.search_config(runs.Search("reduced-cifar10"), 0)
    expected = {name: value for name, value in PAPER_SETTINGS.items() if name not in IDLE_SETTINGS["hba"]}
    assert {name: getattr(config, name) for name in expected} == expected
