"""Whole searches: contract of the result, seeds, stopping and going on, and what may not be seen."""

import csv
import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import torch
from search_problems import SMALL_SETTINGS, StopAfter, WithDropout, small_data, small_images
from torch import Tensor, nn

import hba
from hba.algorithms import Lookahead
from hba.data import SearchData
from hba.errors import DivergedError, RunError, SettingsError
from hba.policy_search.context import ImageSearchContext


def run(out: Path | None = None, data: SearchData | None = None, **settings: Any) -> hba.SearchResult:
    return hba.search(data or small_data(), out=out, **{**SMALL_SETTINGS, **settings})


def network_with_dropout() -> nn.Module:
    torch.manual_seed(0)
    return WithDropout()


def test_a_search_gives_one_valid_row_per_epoch_with_provenance() -> None:
    result = run(seed=3)
    assert result.finished
    assert result.schedule is not None
    assert result.schedule.values.shape == (3, 57)
    provenance = result.schedule.provenance
    assert provenance["settings"]["seed"] == 3
    assert (provenance["train_images"], provenance["val_images"]) == (24, 16)
    assert provenance["packages"]["torch"] == version("torch")
    assert provenance["val_error_percent"] == result.metrics[-1]["val_error_percent"]


def test_the_last_row_is_lambda_in_natural_units() -> None:
    result = run()
    assert result.schedule is not None
    expected = result.schedule.space.decode(result.lam.double())
    assert torch.allclose(torch.tensor(result.schedule.values[-1]), expected, atol=1e-6)


def test_the_same_seed_gives_the_same_schedule_and_another_seed_another() -> None:
    values = [run(seed=seed).schedule.values for seed in (0, 0, 1)]  # type: ignore[union-attr]
    assert (values[0] == values[1]).all()
    assert (values[0] != values[2]).any()


@pytest.mark.parametrize(("paper", "fraction"), [(False, 0.5), (True, 0.05)])
def test_without_lambda_steps_the_policy_stays_as_it_began(paper: bool, fraction: float) -> None:
    result = run(val_steps=0, paper=paper, init="fraction", count="fixed")
    assert result.schedule is not None
    low, high = torch.tensor(result.schedule.space.ranges).T
    start = (1 - fraction) * low + fraction * high
    assert torch.allclose(torch.tensor(result.schedule.values).float(), start, atol=1e-5)


def test_a_run_folder_holds_policy_config_metrics_and_checkpoint(tmp_path: Path) -> None:
    result = run(tmp_path / "run")
    names = {path.name for path in (tmp_path / "run").iterdir()}
    # A slow machine saves twice.
    of_report = {"report.html", "sample_images.png"}
    of_search = {"checkpoint.pt", "config.json", "metrics.csv", "policy.json"}
    assert names - {"checkpoint_before.pt", ".lock"} == of_search | of_report
    assert result.schedule is not None
    assert (hba.load_policy(tmp_path / "run").values == result.schedule.values).all()
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert config["epochs"] == 3
    assert config["sigma"] == Lookahead().sigma
    assert config["warm_up_epochs"] == Lookahead().warm_up_epochs
    with (tmp_path / "run" / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert tuple(rows[0]) == ImageSearchContext.columns
    assert [row["epoch"] for row in rows] == ["1", "2", "3"]


@pytest.mark.parametrize("n_steps", [0, 1, 4, 8])
def test_a_stopped_search_goes_on_to_exactly_the_same_schedule(tmp_path: Path, n_steps: int) -> None:
    whole = run(network=network_with_dropout(), learning_rate=0.002)
    stopped = run(tmp_path, network=network_with_dropout(), learning_rate=0.002, callback=StopAfter(n_steps))
    assert not stopped.finished
    resumed = run(tmp_path, network=network_with_dropout(), learning_rate=0.002, resume=True)
    assert resumed.finished
    assert whole.schedule is not None
    assert resumed.schedule is not None
    assert (whole.schedule.values == resumed.schedule.values).all()
    timeless = [[{**row, "seconds": 0} for row in result.metrics] for result in (whole, resumed)]
    assert timeless[0] == timeless[1]


def test_a_run_folder_is_not_overwritten(tmp_path: Path) -> None:
    run(tmp_path)
    with pytest.raises(RunError, match="already holds a run"):
        run(tmp_path)


def test_resuming_on_other_images_is_refused(tmp_path: Path) -> None:
    run(tmp_path, callback=StopAfter(2))
    other = SearchData("small", ("left", "right"), small_images(24, seed=5), small_images(16, seed=1))
    with pytest.raises(RunError, match="changed since"):
        run(tmp_path, data=other, resume=True)


@pytest.mark.parametrize("algorithm", ["lookahead", "hba"])
def test_a_network_with_nothing_to_train_is_refused(algorithm: str, tmp_path: Path) -> None:
    frozen = nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(3 * 64, 2)).requires_grad_(False)
    with pytest.raises(
        SettingsError, match=r"^the network must have parameters to train, and has none or all are frozen"
    ):
        run(tmp_path / "new", network=frozen, algorithm=algorithm)
    assert not (tmp_path / "new").exists()


def test_a_loss_that_is_not_finite_stops_with_the_epochs_before_it_saved(tmp_path: Path) -> None:
    class Breakable(nn.Module):
        broken = False

        def __init__(self) -> None:
            super().__init__()
            self.bn, self.linear = nn.BatchNorm2d(3), nn.Linear(3 * 64, 2)

        def forward(self, x: Tensor) -> Tensor:
            y: Tensor = self.linear(self.bn(x).flatten(1))
            return y * float("nan") if Breakable.broken else y

    class BreakAll(hba.SearchCallback):
        def epoch_done(self, metrics: Mapping[str, float | None]) -> None:
            Breakable.broken = metrics["epoch"] == 2

    with pytest.raises(DivergedError, match="epoch 3 is not finite; the 2 epochs before it are in"):
        run(tmp_path, network=Breakable(), callback=BreakAll())
    assert hba.load_policy(tmp_path).epochs == 2


def test_the_default_generator_of_torch_is_left_alone() -> None:
    torch.manual_seed(7)
    expected = torch.rand(3)
    torch.manual_seed(7)
    run()
    assert torch.equal(torch.rand(3), expected)


def test_a_result_shows_itself_in_one_short_line(tmp_path: Path) -> None:
    result = run(tmp_path / "out", callback=StopAfter(4))
    error = result.metrics[-1]["val_error_percent"]
    assert repr(result) == (
        f"SearchResult(epochs=1, finished=False, val_error_percent={error}, network=WideResNet, "
        f"folder='{tmp_path / 'out'}')"
    )
    assert repr(run(callback=StopAfter(1))) == (
        "SearchResult(epochs=0, finished=False, val_error_percent=None, network=WideResNet, folder=None)"
    )
