"""Searches on text: what they find, how they go on, and what they refuse."""

import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from search_problems import StopAfter
from small_texts import SMALL, small_search, tokens_of, write_texts

import hba
from hba.errors import DataError, DivergedError, HbaError, SettingsError
from hba.text.lstm import LstmLanguageModel, measured_loss

NAMES = (
    "dropout.words",
    "dropout.input",
    "dropout.hidden",
    "dropout.output",
    "dropout.weights",
)
ALGORITHMS = ("stn", "delta-stn")


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    return write_texts(tmp_path / "texts")


def values_of(result: hba.SearchResult) -> list[list[float]]:
    assert result.schedule is not None
    values: list[list[float]] = result.schedule.values.tolist()
    return values


def metrics_of(result: hba.SearchResult) -> list[Mapping[str, float | None]]:
    """Without the time."""
    return [
        {name: value for name, value in row.items() if name != "seconds"}
        for row in result.metrics
    ]


def check_equal(result: hba.SearchResult, expected: hba.SearchResult) -> None:
    assert result.finished
    assert values_of(result) == values_of(expected)
    assert metrics_of(result) == metrics_of(expected)
    assert torch.equal(result.lam, expected.lam)
    for tensor, other in zip(
        result.network.state_dict().values(),
        expected.network.state_dict().values(),
        strict=True,
    ):
        assert torch.equal(tensor, other)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_search_notes_every_epoch_and_returns_the_network_of_lambda(
    algorithm: str, texts: Path
) -> None:
    """Lambda does not move in the first epoch, the warm-up."""
    result = small_search(texts, algorithm=algorithm, epochs=3, warm_up_epochs=1)
    assert result.schedule is not None
    assert result.schedule.space.names == (
        *NAMES,
        "activation.alpha",
        "activation.beta",
    )
    first, second, last = values_of(result)
    assert first == pytest.approx([0.05] * 7, rel=1e-5)
    assert first != second != last
    assert [row["lambda_loss"] is None for row in result.metrics] == [
        True,
        False,
        False,
    ]
    for number, metrics in enumerate(result.metrics, 1):
        assert metrics["epoch"] == number
        for name in ("train", "val"):
            loss = metrics[f"{name}_loss"]
            assert loss is not None
            assert metrics[f"{name}_perplexity"] == pytest.approx(math.exp(loss))
    assert isinstance(result.network, LstmLanguageModel)
    measured = measured_loss(
        result.network, tokens_of(texts)["valid"], SMALL["sequence_length"]
    )
    assert result.metrics[-1]["val_loss"] == measured
    assert result.hypernetwork is not None
    plain = result.hypernetwork.to_module(result.lam).state_dict()
    assert all(
        torch.equal(tensor, plain[name])
        for name, tensor in result.network.state_dict().items()
    )
    for name, rate in zip(NAMES, last, strict=False):
        assert result.network.get_submodule(
            name.removeprefix("dropout.")
        ).p == pytest.approx(rate, abs=1e-5)


def test_any_of_it_can_be_tuned_with_any_response(texts: Path) -> None:
    cases: list[dict[str, Any]] = [
        {
            "tune": "dropout,activation,weight-decay",
            "algorithm": "delta-stn",
            "sigma_entropy": 0.01,
        },
        {"tune": "activation", "response": "separate", "layers": 1},
        {
            "tune": "dropout",
            "sigma_entropy": 0.01,
            "sharing": "all",
            "val_batch_size": 2,
        },
    ]
    for settings in cases:
        first, last = values_of(small_search(texts, **settings))
        assert first != last, settings


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "n_steps"), [("stn", 9), ("stn", 14), ("delta-stn", 20)]
)
def test_a_resumed_search_is_the_one_that_was_not_stopped(
    algorithm: str, n_steps: int, texts: Path, tmp_path: Path
) -> None:
    """Where its text has moved, too. The seed decides all, torch's default generator is
    not used, and the test text is not opened.
    """
    torch.manual_seed(0)
    before = torch.get_rng_state()
    expected = small_search(texts, algorithm=algorithm, epochs=3)
    assert torch.equal(torch.get_rng_state(), before)
    torch.rand(5)
    (texts / "test.txt").unlink()
    out = tmp_path / "run"
    stopped = small_search(
        texts, algorithm=algorithm, epochs=3, out=out, callback=StopAfter(n_steps)
    )
    assert not stopped.finished
    assert len(stopped.metrics) == n_steps // 14
    moved = Path(shutil.move(texts, tmp_path / "moved"))
    with pytest.raises(DataError, match=str(texts)):
        small_search(None, resume=True, out=out, epochs=3)
    check_equal(small_search(moved, resume=True, out=out, epochs=3), expected)


def test_a_run_folder_holds_a_schedule_that_can_be_loaded(
    texts: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    result = small_search(texts, out=out, seed=1)
    loaded = hba.load_policy(out)
    assert loaded.values.tolist() == values_of(result)
    assert values_of(small_search(texts)) != values_of(result), "another seed"
    loaded.save(tmp_path / "again.json")
    again = hba.Schedule.load(tmp_path / "again.json")
    assert (again.space, again.provenance) == (loaded.space, loaded.provenance)
    provenance = {
        name: loaded.provenance[name]
        for name in ("algorithm", "model", "train_words", "epochs_finished")
    }
    assert provenance == {
        "algorithm": "stn",
        "model": "lstm-2x4",
        "train_words": 300,
        "epochs_finished": 2,
    }
    assert (out / "metrics.csv").read_text(encoding="utf-8").count("\n") == 3


def test_a_resumed_run_keeps_its_settings(texts: Path, tmp_path: Path) -> None:
    small_search(texts, out=tmp_path, callback=StopAfter(3))
    cases: list[dict[str, Any]] = [
        {"width": 5},
        {"sigma": 0.5},
        {"tune": "activation"},
        {"epochs": 3},
    ]
    for settings in (*cases, {"algorithm": "delta-stn"}):
        ((name, value),) = settings.items()
        with pytest.raises(
            SettingsError,
            match=rf"^a resumed run keeps its settings.* {name} .*given \[?'?{value}",
        ):
            small_search(None, resume=True, out=tmp_path, **settings)


def test_what_cannot_work_is_refused_in_one_line_that_names_it(texts: Path) -> None:
    cases: list[tuple[dict[str, Any], str]] = [
        ({"algorithm": "hba"}, "algorithm"),
        ({"widths": 4}, "widths; did you mean width"),
        ({"tune": "augmentation"}, "augmentation"),
        ({"tune": "dropout.letters"}, "dropout.letters"),
        ({"epochs": 0}, "epochs"),
        ({"warm_up_epochs": 2}, "warm_up_epochs"),
        ({"vocabulary_size": 2}, "vocabulary_size"),
        ({"val_batch_size": 250}, "valid.txt must have at least 1500 words"),
        (
            {"batch_size": 60, "val_batch_size": 2},
            "at least 360 words for 60 columns of 5 words and one more, got 300",
        ),
    ]
    for settings, name in cases:
        with pytest.raises(HbaError) as caught:
            small_search(texts, **settings)
        assert name in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_loss_that_is_not_finite_ends_a_search_in_one_line(
    texts: Path, tmp_path: Path
) -> None:
    with pytest.raises(
        DivergedError, match=r"^the loss of epoch 1 is not finite; .* below 1e\+38$"
    ):
        small_search(texts, learning_rate=1e38, out=tmp_path / "run")
    assert not (tmp_path / "run" / "policy.json").exists()
