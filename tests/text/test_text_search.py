"""Searches on text: what they find, how they go on, and what they refuse."""

import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from small_texts import SMALL, StopAfter, small_search, tokens_of, write_texts

import hba
from hba.errors import DataError, DivergedError, HbaError, SettingsError
from hba.text.lstm import LstmLanguageModel, measured_loss
from hba.text.task import TextPlan

NAMES = ("dropout.words", "dropout.input", "dropout.hidden", "dropout.output", "dropout.weights")
ALGORITHMS = ("stn", "delta-stn")


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    return write_texts(tmp_path / "texts")


def values_of(result: hba.SearchResult) -> list[list[float]]:
    assert result.schedule is not None
    found: list[list[float]] = result.schedule.values.tolist()
    return found


def metrics_of(result: hba.SearchResult) -> list[Mapping[str, float | None]]:
    """But for the time that it took."""
    return [{name: one for name, one in row.items() if name != "seconds"} for row in result.metrics]


def check_equal(found: hba.SearchResult, expected: hba.SearchResult) -> None:
    assert found.finished
    assert values_of(found) == values_of(expected)
    assert metrics_of(found) == metrics_of(expected)
    assert torch.equal(found.lam, expected.lam)
    for one, other in zip(found.network.state_dict().values(), expected.network.state_dict().values(), strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_search_notes_every_epoch(algorithm: str, texts: Path) -> None:
    result = small_search(texts, algorithm=algorithm, epochs=3)
    assert result.schedule is not None
    assert result.schedule.space.names == (*NAMES, "activation.alpha", "activation.beta")
    assert result.schedule.values.shape == (3, 7)
    assert len({tuple(row) for row in values_of(result)}) == 3, "lambda moves"
    for number, row in enumerate(result.metrics, 1):
        assert row["epoch"] == number
        for name in ("train", "val"):
            loss = row[f"{name}_loss"]
            assert loss is not None
            assert row[f"{name}_perplexity"] == pytest.approx(math.exp(loss))
    assert isinstance(result.network, LstmLanguageModel)
    measured = measured_loss(result.network, tokens_of(texts)["valid"], SMALL["sequence_length"])
    assert result.metrics[-1]["val_loss"] == measured
    assert repr(result).startswith("SearchResult(epochs=3, finished=True, val_perplexity=")


def test_the_network_is_that_of_lambda(texts: Path) -> None:
    result = small_search(texts)
    assert result.hypernetwork is not None
    plain = result.hypernetwork.to_module(result.lam)
    for name, one in result.network.state_dict().items():
        assert torch.equal(one, plain.state_dict()[name])
    row = dict(zip(result.schedule.space.names, values_of(result)[-1], strict=True)) if result.schedule else {}
    for name in NAMES:
        assert result.network.get_submodule(name.removeprefix("dropout.")).p == pytest.approx(row[name], abs=1e-5)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_lambda_waits_for_the_end_of_the_warm_up(algorithm: str, texts: Path) -> None:
    result = small_search(texts, algorithm=algorithm, warm_up_epochs=1)
    first, last = values_of(result)
    assert first == pytest.approx([0.05] * 7, rel=1e-5)
    assert last != first
    assert [row["lambda_loss"] is None for row in result.metrics] == [True, False]


@pytest.mark.parametrize(
    "settings",
    [
        {"tune": "weight-decay"},
        {"tune": "dropout.weights"},
        {"tune": "dropout,activation,weight-decay", "algorithm": "delta-stn", "sigma_entropy": 0.01},
        {"tune": "activation", "response": "separate", "layers": 1},
        {"tune": "dropout", "sigma_entropy": 0.01, "sharing": "all", "val_batch_size": 2, "val_batches": 2},
    ],
)
def test_any_of_it_can_be_tuned_with_any_response(settings: dict[str, Any], texts: Path) -> None:
    result = small_search(texts, **settings)
    assert result.finished
    assert values_of(result)[0] != values_of(result)[1]


@pytest.mark.parametrize(("algorithm", "n_steps"), [("stn", 9), ("stn", 14), ("delta-stn", 20)])
def test_a_resumed_search_is_the_one_that_was_not_stopped(
    algorithm: str, n_steps: int, texts: Path, tmp_path: Path
) -> None:
    expected = small_search(texts, algorithm=algorithm)
    out = tmp_path / "run"
    stopped = small_search(texts, algorithm=algorithm, out=out, callback=StopAfter(n_steps))
    assert not stopped.finished
    assert len(stopped.metrics) == n_steps // 14
    check_equal(small_search(None, resume=True, algorithm=algorithm, out=out), expected)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_search_that_is_resumed_with_more_epochs_is_the_longer_one(
    algorithm: str, texts: Path, tmp_path: Path
) -> None:
    expected = small_search(texts, algorithm=algorithm, epochs=4)
    out = tmp_path / "run"
    assert small_search(texts, algorithm=algorithm, out=out).finished
    check_equal(small_search(None, resume=True, algorithm=algorithm, out=out, epochs=4), expected)
    assert json.loads((out / "config.json").read_text(encoding="utf-8"))["epochs"] == 4


def test_the_seed_decides_all_and_the_callers_numbers_stay(texts: Path) -> None:
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = small_search(texts, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(5)
    check_equal(small_search(texts, seed=1), first)
    assert values_of(small_search(texts, seed=2)) != values_of(first)


def test_a_run_folder_holds_a_schedule_that_can_be_loaded(texts: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    result = small_search(texts, out=out)
    loaded = hba.load_policy(out)
    assert loaded.values.tolist() == values_of(result)
    assert loaded.space == result.schedule.space if result.schedule else False
    loaded.save(tmp_path / "again.json")
    again = hba.Schedule.load(tmp_path / "again.json")
    assert (again.values == loaded.values).all()
    assert (again.space, again.provenance) == (loaded.space, loaded.provenance)
    known = {name: loaded.provenance[name] for name in ("algorithm", "model", "train_words", "epochs_finished")}
    assert known == {"algorithm": "stn", "model": "lstm-2x4", "train_words": 300, "epochs_finished": 2}
    assert (out / "metrics.csv").read_text(encoding="utf-8").count("\n") == 3


def test_a_search_does_not_open_the_test_text(texts: Path) -> None:
    expected = small_search(texts)
    (texts / "test.txt").unlink()
    check_equal(small_search(texts), expected)


def test_a_run_goes_on_where_its_text_is_now(texts: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    expected = small_search(texts)
    small_search(texts, out=out, callback=StopAfter(5))
    moved = shutil.move(texts, tmp_path / "moved")
    with pytest.raises(DataError, match=f"the text of {out} is no longer in {texts}; name the folder where it is now"):
        small_search(None, resume=True, out=out)
    check_equal(small_search(Path(moved), resume=True, out=out), expected)


@pytest.fixture
def stopped(texts: Path, tmp_path: Path) -> Path:
    small_search(texts, out=tmp_path / "run", callback=StopAfter(3))
    return tmp_path / "run"


def test_a_resumed_run_keeps_its_settings(stopped: Path) -> None:
    cases: list[dict[str, Any]] = [{"width": 5}, {"sigma": 0.5}, {"tune": "activation"}, {"epochs": 1}]
    for given in (*cases, {"algorithm": "delta-stn"}):
        ((name, value),) = given.items()
        with pytest.raises(SettingsError, match=rf"^a resumed run keeps its settings.* {name} .*given \[?'?{value}"):
            small_search(None, resume=True, out=stopped, **given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"algorithm": "hba"}, "algorithm must be one of stn, delta-stn, got 'hba'"),
        ({"widths": 4}, "there is no setting widths of text; did you mean width?"),
        ({"tune": "augmentation"}, "unknown group 'augmentation'; known: dropout, dropout.words, dropout.input"),
        ({"tune": "dropout,dropout.words"}, "dropout.words"),
        ({"tune": "dropout,dropout"}, "tune must name at least one group and each once, got dropout, dropout"),
        ({"tune": "weight-decay", "response_weight_decay": 0.1}, "response_weight_decay has no effect where weight-"),
        ({"warm_up_epochs": 2}, "warm_up_epochs must leave epochs for lambda steps, got 2 of 2 epochs"),
        ({"vocabulary_size": 2}, "vocabulary_size must be at least 3, got 2"),
        ({"sequence_length": 1}, "sequence_length must be at least 2, got 1"),
        ({"clip_norm": 0}, "clip_norm must be above 0"),
        ({"sharing": "bn"}, "sharing 'bn' needs a BatchNorm2d that is trained in LstmLanguageModel"),
        ({"batch_size": 60, "val_batch_size": 2}, "at least 360 words for 60 columns of 5 words and one more, got 300"),
        ({"val_batch_size": 60}, "at least 360 words for 60 columns of 5 words and one more, got 204"),
        ({"val_batch_size": 250}, "valid.txt must have at least 1500 words"),
        ({"batch_size": 400, "val_batch_size": 2}, "train.txt must have at least 2400 words"),
    ],
)
def test_what_cannot_work_is_refused_in_one_line(given: dict[str, Any], message: str, texts: Path) -> None:
    with pytest.raises(HbaError) as caught:
        small_search(texts, **given)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_loss_that_is_not_finite_ends_a_search_in_one_line(texts: Path, tmp_path: Path) -> None:
    with pytest.raises(DivergedError) as caught:
        small_search(texts, learning_rate=1e38, out=tmp_path / "run")
    assert str(caught.value) == "the loss of epoch 1 is not finite; try a learning rate below 1e+38"
    assert not (tmp_path / "run" / "policy.json").exists()


class Counting(hba.SearchCallback):
    def __init__(self) -> None:
        self.plans: list[TextPlan] = []
        self.starts: list[tuple[int, ...]] = []
        self.steps: list[int] = []
        self.rows: list[Mapping[str, float]] = []

    def planned(self, plan: TextPlan) -> None:
        self.plans.append(plan)

    def started(self, step: int, total_steps: int, words_per_step: int, n_epochs: int) -> None:
        self.starts.append((step, total_steps, words_per_step, n_epochs))

    def step_done(self, step: int) -> None:
        self.steps.append(step)

    def policy_noted(self, epoch: int, values: Mapping[str, float]) -> None:
        self.rows.append(values)


def test_an_observer_is_told_of_every_step_and_epoch(stopped: Path) -> None:
    callback = Counting()
    result = small_search(None, resume=True, out=stopped, callback=callback)
    assert callback.starts == [(3, 28, 20, 2)]
    assert callback.steps == list(range(4, 29))
    assert [list(row.values()) for row in callback.rows] == values_of(result)
    (plan,) = callback.plans
    assert (plan.words, plan.vocabulary_size, plan.steps_per_epoch) == ({"train": 300, "valid": 204}, 12, 14)
    assert plan.policy_steps == 14
    assert plan.n_parameters == sum(one.numel() for one in result.network.parameters())
