"""Searches, evaluations, trainings and runs of hba auto that end early, wherever that
is, go on to the results of those that do not.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import pytest
import torch
from search_problems import WithDropout, small_data, small_settings
from search_steps import assert_same
from small_trainings import one_operation, tiny_data
from torch import Tensor, nn

import hba
import hba.text
from hba.operations import OPERATIONS, STAGED
from hba.policy_search import trainer
from hba.training import checkpoint


class Killed(BaseException):
    """Stands for a kill, after which nothing is done any more."""


class Ends(hba.SearchCallback, hba.EvaluationCallback):
    """Raises an error after so many steps of this process."""

    def __init__(self, n_steps: int, error: type[BaseException]) -> None:
        self.left = n_steps
        self.error = error

    def step_done(self, step: int = 0) -> None:
        self.left -= 1
        if self.left == 0:
            raise self.error


class Counted(WithDropout):
    """Draws from torch's default generator, and depends on a buffer."""

    def __init__(self) -> None:
        torch.manual_seed(0)
        super().__init__()
        self.register_buffer("passes", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        passes = cast(Tensor, self.passes)
        if self.training:
            passes += 1
        return super().forward(x * (1 + 0.1 * passes))


def numbers_of_search(result: hba.SearchResult) -> dict[str, Any]:
    assert result.finished
    assert result.schedule is not None
    metrics = [dict(row) for row in result.metrics]
    for row in metrics:
        del row["seconds"]
    return {
        "values": result.schedule.values.tolist(),
        "lambda": result.lam,
        "metrics": metrics,
        "network": result.network.state_dict(),
    }


def numbers_of_evaluation(result: hba.EvaluationResult) -> dict[str, Any]:
    return {"rows": list(result.rows)}


def numbers_of_training(network: hba.TrainedNetwork) -> dict[str, Any]:
    assert isinstance(network.module, nn.Module)
    return {"network": network.module.state_dict()}


@dataclass(frozen=True)
class Run:
    """What begins a run in a folder or resumes it, and the numbers of its result."""

    run: Callable[..., Any]
    numbers: Callable[[Any], dict[str, Any]]
    n_steps: int
    """The steps after which it ends, in the middle of an epoch."""


def search(out: Path, **options: Any) -> hba.SearchResult:
    settings: dict[str, Any] = {"learning_rate": 0.002, "epochs": 4}
    settings = {"device": "cpu"} if options["resume"] else small_settings(**settings)
    return hba.search(small_data(), out=out, network=Counted(), **settings, **options)


def race(out: Path, **options: Any) -> hba.SearchResult:
    operations = (
        STAGED["VerticalFlip"],
        STAGED["Erase"],
        STAGED["Mixup"],
        OPERATIONS["Invert"],
    )
    settings: dict[str, Any] = {
        "algorithm": "race",
        "smaller": 1,
        "epochs": 4,
        "batch_size": 8,
        "learning_rate": 1e-4,
    }
    return hba.search(
        small_data(),
        out=out,
        network=Counted(),
        space=hba.SearchSpace(operations, 1, (0.5, 0.5)),
        device="cpu",
        **({} if options["resume"] else settings),
        **options,
    )


def search_text(out: Path, **options: Any) -> hba.SearchResult:
    texts = out.parent / "texts"
    texts.mkdir(exist_ok=True)
    for name in ("train", "valid", "test"):
        (texts / f"{name}.txt").write_text("a b c d\nb d a c\n" * 30, "utf-8")
    settings: dict[str, Any] = {
        "vocabulary_size": 6,
        "width": 4,
        "layers": 2,
        "sequence_length": 5,
        "batch_size": 4,
        "epochs": 3,
        "learning_rate": 5.0,
        "warm_up_epochs": 0,
        "device": "cpu",
    }
    return hba.text.search(texts, out=out, **settings, **options)


SETTINGS: Mapping[str, Any] = MappingProxyType(
    {"model": "mlp-8", "epochs": 4, "batch_size": 20, "device": "cpu"}
)
DIM = one_operation("Brightness", [[1.0, 0.5], [0.5, 0.9]])


def evaluate(out: Path, **options: Any) -> hba.EvaluationResult:
    return hba.evaluate(
        DIM,
        tiny_data(),
        out=out,
        against=("none", "final"),
        seeds=2,
        **SETTINGS,
        **options,
    )


def train(out: Path, **options: Any) -> hba.TrainedNetwork:
    return hba.train(DIM, tiny_data(), out=out, **SETTINGS, **options)


RUNS: Mapping[str, Run] = MappingProxyType(
    {
        "search": Run(search, numbers_of_search, 7),
        "race": Run(race, numbers_of_search, 11),
        "search-text": Run(search_text, numbers_of_search, 20),
        "evaluate": Run(evaluate, numbers_of_evaluation, 21),
        "train": Run(train, numbers_of_training, 5),
    }
)


@pytest.fixture(scope="module", params=RUNS)
def case(request: pytest.FixtureRequest) -> Run:
    return RUNS[request.param]


@pytest.fixture(scope="module")
def expected(case: Run, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The numbers of a run that does not end early."""
    whole = tmp_path_factory.mktemp("whole") / "run"
    return case.numbers(case.run(whole, resume=False))


@pytest.mark.parametrize("error", [KeyboardInterrupt, Killed])
def test_a_run_that_ends_early_goes_on_to_the_result_of_one_that_does_not(
    case: Run,
    expected: dict[str, Any],
    error: type[BaseException],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(trainer, "SAVE_EVERY_SECONDS", -1.0)
    monkeypatch.setattr(checkpoint, "EVERY_SECONDS", -1.0)
    out = tmp_path / "run"
    with pytest.raises(error):
        case.run(out, resume=False, callback=Ends(case.n_steps, error))
    # Default generators are elsewhere when it goes on.
    torch.rand(7)
    resumed = case.run(out, resume=True)
    assert_same(case.numbers(resumed), expected)
