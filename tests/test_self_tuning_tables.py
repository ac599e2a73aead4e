"""Tables of STN and Delta-STN in benchmarks/reproduce.py: the papers' settings, equal time, and what is compared."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from benchmark_modules import module
from click.testing import CliRunner, Result

from hba.algorithms import Hypergradient
from hba.errors import SettingsError
from hba.schedule.schedule import Schedule

pytestmark = pytest.mark.usefixtures("benchmarks_can_be_imported")


def reproduce(out: Path, *arguments: str) -> Result:
    kept = ["--results", str(out / "results"), "--work", str(out / "work"), "--scale", "tiny", "--device", "cpu"]
    return CliRunner().invoke(module("reproduce").main, [*arguments, *kept], catch_exceptions=False)


def records_of(out: Path) -> list[Any]:
    return list(module("common.records").store_of(out / "results", "self-tuning").by_key().values())


def task_of(experiment: str, method: str, scale: str = "tiny", seed: int = 0, out: Path = Path("nowhere")) -> Any:
    bench = module("reproduction.tasks").Bench(
        module("reproduction.scales").find_scale(scale), work=out / "work", device="cpu", results=out / "results"
    )
    return bench.tuned(module("reproduction.runs").Tuned(experiment, method), seed)


def algorithm_of(experiment: str, method: str) -> Hypergradient:
    algorithm = task_of(experiment, method, "full").bed.config.algorithm
    assert isinstance(algorithm, Hypergradient)
    return algorithm


@pytest.mark.parametrize(
    ("table", "row", "column", "paper"),
    [
        ("stn-table-1", "best fixed value, sinusoid", "validation loss", "85.29"),
        ("stn-table-1", "STN's schedule, from scratch", "test loss", "79.93"),
        ("stn-table-2", "random search", "validation loss", "0.921"),
        ("stn-table-2", "STN", "test loss", "0.576"),
        ("delta-stn-table-1", "MNIST, MLP: random search", "validation loss", ".043"),
        ("delta-stn-table-1", "FashionMNIST, SimpleCNN: centred STN", "test loss", ".212"),
        ("delta-stn-table-1", "CIFAR-10, AlexNet: Delta-STN", "validation loss", ".425"),
        ("delta-stn-table-1", "CIFAR-10, VGG16: Bayesian optimisation", "test loss", ".446"),
        ("delta-stn-table-1", "CIFAR-10, ResNet18: STN", "test loss", ".312"),
        ("delta-stn-table-1", "PTB, LSTM (perplexity): Delta-STN", "test loss", "66.26"),
        ("8", "every layer, sigma learnt (STN)", "test error (%)", "19.86 ± 0.21"),
    ],
)
def test_the_papers_numbers(table: str, row: str, column: str, paper: str) -> None:
    cells = module("reproduction.tables").TABLES[table].cells
    assert {(cell.row, cell.column): cell.paper for cell in cells}[row, column] == paper


@pytest.mark.parametrize(
    ("experiment", "n"), [("mnist-mlp", 3), ("fashion-cnn", 6), ("delta-alexnet", 18), ("stn-alexnet", 15)]
)
@pytest.mark.parametrize("scale", ["full", "small"])
def test_as_many_hyperparameters_as_the_papers_tune(experiment: str, n: int, scale: str) -> None:
    method = "stn" if experiment == "stn-alexnet" else "delta-stn"
    space = task_of(experiment, method, scale).bed.space
    assert (space.n, space.operations) == (n, ())
    assert {one.initial for one in space.regularizers if one.group == "dropout"} == {0.05}


def test_vgg_has_the_papers_26_hyperparameters() -> None:
    experiment = module("reproduction.self_tuning").find_experiment(
        module("reproduction.runs").Tuned("delta-vgg16", "delta-stn"), "full"
    )
    config = task_of("delta-vgg16", "delta-stn", "full").bed.config
    narrow = config.model_copy(update={"model": "vgg-16-stn-2"})
    assert experiment.space(narrow).n == 26


def test_ranges_are_those_of_the_experiment() -> None:
    space = task_of("stn-alexnet", "stn", "small").bed.space
    ranges = dict(zip(space.names, space.ranges, strict=True))
    assert ranges["dropout.on_input"] == (0.0, 0.75)
    assert ranges["input_noise.deviation"] == (0.0, 0.3)
    (length,) = (one for one in task_of("fashion-cnn", "stn", "small").bed.space.regularizers if "length" in one.name)
    assert (length.low, length.high, length.initial, length.whole) == (0, 6, 1, True)
    one = task_of("one-dropout", "stn", "small").bed.space
    assert one.names == ("dropout.after_fc2",)


def test_methods_of_delta_stn_differ_in_the_response_alone() -> None:
    """Section 5.2: five training steps for one of lambda; RMSprop and the warm-up are from the authors' code."""
    settings = {method: algorithm_of("delta-alexnet", method) for method in ("stn", "centred", "delta-stn")}
    assert {name: one.response for name, one in settings.items()} == {
        "stn": "affine",
        "centred": "separate",
        "delta-stn": "linearized",
    }
    assert len({json.dumps({**one.model_dump(mode="json"), "response": ""}) for one in settings.values()}) == 1
    own = settings["stn"]
    assert (own.train_steps, own.val_steps, own.sigma, own.sigma_entropy) == (5, 1, 1.0, 0.001)
    assert (own.lambda_optimizer, own.lambda_learning_rate, own.warm_up_epochs) == ("rmsprop", 0.01, 5)


def test_table_8_is_every_or_conv_with_sigma_learnt_or_fixed() -> None:
    """Section 4.3 and appendix E of STN."""
    found = {
        method: algorithm_of("stn-alexnet", method) for method in ("stn", "stn-fixed-sigma", "conv", "conv-fixed-sigma")
    }
    assert [(one.sharing, one.sigma, one.sigma_entropy) for one in found.values()] == [
        ("every", 0.5, 0.001),
        ("every", 1.0, None),
        ("conv", 0.5, 0.001),
        ("conv", 1.0, None),
    ]
    for one in found.values():
        assert (one.train_steps, one.val_steps, one.response, one.warm_up_epochs) == (2, 1, "affine", 5)
        assert (one.lambda_optimizer, one.lambda_learning_rate) == ("adam", 0.003)
    config = task_of("stn-alexnet", "stn", "full").bed.config
    assert (config.train_size, config.val_size, config.batch_size) == (40_000, 10_000, 128)
    assert (config.optimizer, config.learning_rate, config.weight_decay) == ("sgd-classical", 0.01, 0.0)
    assert (config.learning_rate_schedule, config.plateau_epochs, config.flip) == ("plateau", 60, False)


def test_a_search_of_fixed_values_has_the_time_of_the_self_tuning_training(tmp_path: Path) -> None:
    pytest.importorskip("optuna", reason="Optuna comes with the extra `benchmarks`")
    asked = ("delta-stn-table-1", "--seeds", "2", "--only", "mnist-mlp")
    result = reproduce(tmp_path, *asked)
    assert result.exit_code == 0, result.output
    found = {(record.run.name, record.run.seed): record.results for record in records_of(tmp_path)}
    methods = ("stn", "centred", "delta-stn", "random", "tpe", "asha")
    assert set(found) == {(f"mnist-mlp-{one}", seed) for one in methods for seed in (0, 1)}
    for (name, seed), results in found.items():
        row, _, method = name.rpartition("-")
        if method in ("random", "tpe", "asha"):
            assert results["budget_seconds"] == found[f"{row}-delta-stn", seed]["seconds"]
            assert 1 <= results["finished_trials"] <= results["trials"]
        assert results["val_loss"] > 0
        assert results["test_loss"] > 0
    assert reproduce(tmp_path, *asked).output.count("0 of 6 runs to do") == 2
    text = (tmp_path / "results" / "self-tuning.jsonl").read_text(encoding="utf-8")
    assert str(tmp_path) not in text


def test_a_part_of_a_table_can_be_asked_for(tmp_path: Path) -> None:
    output = reproduce(tmp_path, "delta-stn-table-1", "--seeds", "1", "--estimate", "--only", "mnist-mlp-stn").output
    assert "1 of 1 runs to do\n1 x mnist-mlp-stn: " in output
    assert "in all " in output
    assert "fashion" not in output.partition("|")[0]


def test_without_the_self_tuning_training_there_is_no_time_to_search_in(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="mnist-mlp-random has the time of mnist-mlp-delta-stn, which is not run"):
        task_of("mnist-mlp", "random", out=tmp_path).do()


def test_the_chosen_values_are_those_of_the_least_validation_loss(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A bowl around rates of 0.3 stands for the training, which takes a second; the test loss names the network."""
    pytest.importorskip("optuna", reason="Optuna comes with the extra `benchmarks`")
    tasks, measured = module("reproduction.self_tuning_tasks"), module("hba.training.measure").Measured
    now = [0.0]

    def trained(self: Any, augmentation: Any, monitor: Any) -> tuple[Any, Any]:
        now[0] += 1.0
        loss = float(((augmentation.schedule.values[0] - 0.3) ** 2).sum())
        network = torch.nn.Identity()
        network.loss = loss  # type: ignore[assignment]
        return network, measured(loss, 0.0)

    monkeypatch.setattr(tasks.Bed, "trained", trained)
    monkeypatch.setattr(tasks.Bed, "clock", lambda self: now[0])
    monkeypatch.setattr(tasks.Bed, "tested", lambda self, network: measured(network.loss + 1, 0.0))
    baseline = task_of("mnist-mlp", "random", out=tmp_path)
    records = module("common.records")
    baseline.store.add(records.Record(baseline.budget.run, {"seconds": 5.0}, {}))
    found = baseline.do()
    assert found["trials"] == found["finished_trials"] == 5
    values = np.array(list(found["values"].values()))
    assert found["val_loss"] == pytest.approx(((values - 0.3) ** 2).sum(), abs=1e-3)
    assert found["test_loss"] == found["val_loss"] + 1
    other = task_of("mnist-mlp", "random", seed=1, out=tmp_path)
    other.store.add(records.Record(other.budget.run, {"seconds": 50.0}, {}))
    assert other.do()["val_loss"] < 0.1, "the more time, the nearer"


def test_the_three_parts_share_no_image_and_a_constant_network_has_the_loss_of_its_answer() -> None:
    bed = task_of("mnist-mlp", "delta-stn", "small").bed
    data = bed.data
    held_out = (
        module("common.images")
        .IMAGES.of_training(module("reproduction.self_tuning").training_config(bed.config), bed.experiment.parts)
        .test
    )
    parts = [{image.numpy().tobytes() for image in one.images[:, :1]} for one in (data.train, data.val, held_out)]
    assert [len(part) for part in parts] == [600, 400, 797]
    assert len(parts[0] | parts[1] | parts[2]) == 600 + 400 + 797
    logits = torch.arange(10.0)

    class Constant(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return logits.expand(len(x), 10)

    expected = F.cross_entropy(logits.expand(797, 10), held_out.labels)
    assert bed.tested(Constant()).loss == pytest.approx(expected.item())


def test_a_training_tells_its_validation_loss_after_the_epochs_that_are_asked_for() -> None:
    baselines = module("reproduction.tuning_baselines")
    bed = task_of("mnist-mlp", "delta-stn").bed
    told: list[tuple[int, float]] = []

    def is_weak(epoch: int, loss: float) -> bool:
        told.append((epoch, loss))
        return epoch == 2

    with pytest.raises(baselines.StoppedError):
        bed.trained(bed.constant((0.1, 0.1, 0.1)), baselines.Monitor((1, 2), is_weak, lambda: False))
    assert [epoch for epoch, _ in told] == [1, 2]
    _, val = bed.trained(bed.constant((0.1, 0.1, 0.1)), baselines.Monitor((3,), is_weak, lambda: False))
    assert told[-1] == (3, val.loss), "three epochs are all that there are"
    with pytest.raises(baselines.OutOfTimeError):
        bed.trained(bed.constant((0.1, 0.1, 0.1)), baselines.Monitor((), is_weak, lambda: True))


def test_the_clock_takes_no_time_of_a_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is asked at every step."""
    bed = task_of("mnist-mlp", "delta-stn").bed
    first = bed.clock()

    def fail(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(module("common.images").Images, "of_search", fail)
    monkeypatch.setattr(module("reproduction.self_tuning").Experiment, "config", fail)
    assert bed.clock() >= first


def test_rates_around_a_fixed_one() -> None:
    rates = module("reproduction.schedules_held_still").Rates
    sinusoid = rates("sinusoid", 10, np.random.default_rng(0))
    found = np.array([sinusoid.next(0.5) for _ in range(360)])
    assert found == pytest.approx(0.5 + 0.1 * np.sin(2 * np.pi * np.arange(360) / 36))
    noise = rates("noise", 10, np.random.default_rng(0))
    found = np.array([noise.next(0.5) for _ in range(4_000)])
    assert (found.mean(), found.std()) == (pytest.approx(0.5, abs=0.004), pytest.approx(0.05, rel=0.05))
    assert {rates("noise", 10, np.random.default_rng(seed)).next(0.0) for seed in range(9)} >= {0.0}
    assert max(rates("noise", 10, np.random.default_rng(seed)).next(0.95) for seed in range(9)) == 0.95


def test_a_varied_rate_is_that_of_the_dropout_in_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    held = module("reproduction.schedules_held_still")
    bed = task_of("one-dropout", "stn").bed
    dropped: list[float] = []
    forward = torch.nn.Dropout.forward

    def record(self: torch.nn.Dropout, x: torch.Tensor) -> torch.Tensor:
        if self.training and self.p:
            dropped.append(self.p)
        return forward(self, x)

    monkeypatch.setattr(torch.nn.Dropout, "forward", record)
    rates = held.Rates("sinusoid", 3, np.random.default_rng(0))
    bed.trained(held.Varied(bed.constant((0.5,)).schedule, rates))
    steps = np.arange(9)  # three epochs of three batches
    assert dropped == pytest.approx((0.5 + 0.1 * np.sin(2 * np.pi * steps / (3.6 * 3))).tolist())


def test_schedules_are_held_against_fixed_values_and_replayed(tmp_path: Path) -> None:
    assert reproduce(tmp_path, "stn-table-1", "--seeds", "1").exit_code == 0
    found = {record.run.name: record.results for record in records_of(tmp_path)}
    fixed, replay = found["one-dropout-fixed"], found["one-dropout-replay"]
    assert len(fixed["grid"]) == 8
    assert (
        fixed["grid"][str(fixed["rate"])] == min(fixed["grid"].values()) == pytest.approx(fixed["val_loss"], abs=1e-5)
    )
    assert {"noise_val_loss", "sinusoid_test_loss"} <= set(fixed)
    assert {"val_loss", "final_val_loss"} <= set(replay)
    (schedule,) = (tmp_path / "work").rglob("*.json")
    assert Schedule.load(schedule).values.shape == (3, 1)


def contest_of(losses: dict[str, list[float]]) -> tuple[Any, Any]:
    """A contest of planted methods and papers' numbers .1, .2, ..., and records of the losses."""
    runs, records = module("reproduction.runs"), module("common.records")
    cells = {
        method: runs.Cell(method, "loss", f".{number}", runs.Tuned("planted", method), "loss", 3)
        for number, method in enumerate(losses, 1)
    }
    kept = {
        f"planted-{method}": [
            records.Record(records.Run(f"planted-{method}", "planted", {}, seed), {"loss": value}, {})
            for seed, value in enumerate(values)
        ]
        for method, values in losses.items()
    }
    return [runs.Contest("planted, loss", next(iter(losses)), tuple(cells.items()))], kept


def test_methods_are_put_in_order_and_seeds_are_pairs() -> None:
    contests = module("reproduction.contests")
    planted, kept = contest_of({"own": [1.0, 2.0, 3.0], "worse": [1.1, 2.2, 3.3], "better": [0.5, 1.5]})
    # Over the two seeds that all have, means are 1.5, 1.65 and 1.
    assert contests.order_table(planted, kept).values.tolist() == [
        ["planted, loss", "own < worse < better", "better < own < worse"]
    ]
    rows = contests.difference_table(planted, kept).values.tolist()
    # Student's t of .1, .2, .3: .2 ± 4.3027 * .1 / sqrt(3).
    assert rows[0] == ["planted, loss", "worse - own", "+0.100", "+0.200 (-0.048 to +0.448)", "3"]
    assert rows[1] == ["planted, loss", "better - own", "+0.200", "-0.500", "2"]


def test_means_of_an_order_are_over_the_seeds_that_all_have() -> None:
    planted, kept = contest_of({"own": [1.0, 9.0], "other": [2.0]})
    assert module("reproduction.contests").order_table(planted, kept).values.tolist()[0][2] == "own < other"


def test_times_are_means_with_the_trainings_that_they_were_enough_for() -> None:
    planted, kept = contest_of({"own": [1.0, 2.0]})
    records = module("common.records")
    runs = [records.Run("planted-own", "planted", {}, seed) for seed in (0, 1)]
    kept["planted-own"] = [
        records.Record(run, {"seconds": seconds, "trials": 4, "finished_trials": ended}, {})
        for run, seconds, ended in zip(runs, (10.0, 12.0), (3, 4), strict=True)
    ]
    found = module("reproduction.contests").time_table(planted, kept).values.tolist()
    assert found == [["planted-own", "11 ± 1", "3.5 of 4.0", "2"]]


def test_what_was_not_run_is_in_no_order_and_no_pair() -> None:
    contests = module("reproduction.contests")
    planted, kept = contest_of({"own": [1.0], "other": []})
    assert contests.order_table(planted, kept).empty
    assert contests.difference_table(planted, kept).empty


@pytest.mark.parametrize(("printed", "number"), [(".043", 0.043), ("0.579 ± 0.005", 0.579), ("-", None), ("?", None)])
def test_the_number_of_what_a_paper_printed(printed: str, number: float | None) -> None:
    assert module("reproduction.contests").number_of(printed) == number
