"""The choice of the network: linear layers on frozen features, which candidates are
trained, and what a run does.
"""

import shutil
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pytest
import torch
from small_trainings import two_sides

import hba
from hba.errors import RunError, SettingsError
from hba.models import Start, build_model, pretrained, timm_networks
from hba.models.hub import HubFile
from hba.models.timm_networks import LITE, TIMM
from hba.policy_choice.linear import cross_validated
from hba.policy_choice.networks import to_train
from hba.policy_choice.record import AutoRecord, Candidate, LinearResult
from hba.policy_search import timing, training_size
from hba.tasks import Classification


def test_a_linear_layer_separates_what_is_linear_and_guesses_what_is_noise() -> None:
    random = np.random.default_rng(0)
    labels = torch.arange(300) % 3
    noise = random.normal(size=(300, 20))
    folds = [torch.arange(300)[start::5] for start in range(5)]
    for shift, least, most in ((4.0, 0.97, 1.0), (0.0, 0.2, 0.5)):
        features = noise + shift * np.eye(20)[labels.numpy()]
        scores, scored_labels = cross_validated(features, labels, folds, 3)
        assert (
            least <= float((scores.argmax(1) == scored_labels).float().mean()) <= most
        )
    # Two classes have one score, and classes without images the lowest.
    layer = Classification().fit_linear(noise, labels.clamp(max=1), 2)
    assert layer(noise).shape == (300, 2)
    layer = Classification().fit_linear(noise[labels > 0], labels[labels > 0], 3)
    assert not (layer(noise).argmax(1) == 0).any()


def candidate(side: int, freeze: str | None = None, **reached: Any) -> Candidate:
    weight_settings = {} if freeze is None else {"pretrained": TIMM, "freeze": freeze}
    settings = {
        "model": "wrn-10-1" if freeze is None else LITE,
        "image_size": side,
        **weight_settings,
    }
    return Candidate(
        settings=settings, n_images=100, seconds=1.0, reasons=("",), **reached
    )


def linear_result(side: int, error: float) -> LinearResult:
    return LinearResult(
        model=LITE,
        source=TIMM,
        side=side,
        error_percent=error,
        guess_percent=90.0,
        seconds=1,
    )


def test_random_weights_and_the_best_of_the_linear_layers_are_trained() -> None:
    candidates = [
        candidate(16),
        *(candidate(side, freeze) for side in (48, 64, 96) for freeze in ("3", "none")),
    ]
    errors = {48: 30.0, 64: 10.0, 96: 20.0}
    linear = [linear_result(side, error) for side, error in errors.items()]
    trained = [
        candidates[number].settings for number in to_train(candidates, linear, 4)
    ]
    assert [settings["image_size"] for settings in trained] == [16, 64, 96, 64]
    assert [settings.get("freeze") for settings in trained] == [None, "3", "3", "none"]
    assert len(to_train(candidates, linear, 2)) == 2
    # Of images that the features tell little about, all layers are trained.
    far = [linear_result(side, 50 + error) for side, error in errors.items()]
    assert [
        candidates[number].settings.get("freeze")
        for number in to_train(candidates, far, 4)[1:]
    ] == 3 * ["none"]


def test_the_installed_weights_know_the_classes_of_their_own_head() -> None:
    """They are in the order of timm's network: a wrong order would give other logits
    for every image.
    """
    start = Start.of(LITE, TIMM)
    network = build_model(LITE, 1000, 0, 64, start)
    weights = timm_networks._lite_weights()
    assert all(
        torch.equal(tensor, network.state_dict()[name])
        for name, tensor in weights.items()
    )


def test_a_new_head_depends_only_on_the_seed_in_a_first_training_too() -> None:
    start = Start.of(LITE, TIMM)
    timm_networks._read_from_timm.cache_clear()
    first, second, other = (
        build_model(LITE, 3, seed, 64, start).state_dict()["classifier.weight"]
        for seed in (0, 0, 1)
    )
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_a_new_head_of_few_classes_begins_with_a_small_loss() -> None:
    """With values of timm, it would be above 10 nats, and the first steps would destroy
    the other layers.
    """
    network = build_model(LITE, 2, 0, 64, Start.of(LITE, TIMM)).eval()
    images = torch.rand(20, 3, 64, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        loss = torch.nn.functional.cross_entropy(
            network(2 * images - 1), torch.arange(20) % 2
        )
    assert float(loss) < 1.5


def test_a_package_without_its_weights_and_a_hub_out_of_reach_are_told_and_left_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    messages = list[str]()

    def out_of_reach(file: HubFile) -> int:
        raise OSError("no route")

    def download_slowly(file: HubFile, seconds: float) -> None:
        raise TimeoutError(f"more than {seconds} s")

    def names(*, may_download: bool) -> tuple[str, ...]:
        return pretrained.usable_networks(
            "cpu", messages.append, may_download=may_download, seconds=1
        )

    monkeypatch.setattr(timm_networks, "cached_path", lambda file: None)
    monkeypatch.setattr(timm_networks, "size_on_hub", out_of_reach)
    assert names(may_download=True) == (LITE,)
    assert len(messages) == 1
    messages.clear()
    monkeypatch.setattr(timm_networks, "size_on_hub", lambda file: 1)
    monkeypatch.setattr(timm_networks, "download", download_slowly)
    assert names(may_download=True) == (LITE,)
    assert len(messages) == 2, (
        "the size of the first download, and that there are no more"
    )
    assert "HF_HUB_OFFLINE" in messages[1]
    timm_networks._read_from_timm.cache_clear()
    monkeypatch.setattr(timm_networks, "files", lambda package: tmp_path)
    with pytest.raises(SettingsError, match="efficientnet"):
        Start.of(LITE, TIMM)
    assert names(may_download=False) == ()
    (tmp_path / "models").mkdir()
    torch.save({"weight": torch.zeros(3)}, tmp_path / timm_networks.LITE_FILE)
    assert names(may_download=False) == ()
    assert len(messages) == 4


def short_run(
    folder: Path,
    callback: hba.AutoCallback | None = None,
    resume: bool = False,
    **settings: Any,
) -> hba.AutoResult:
    """A run that chooses between random weights and the installed network."""
    train, test = (
        [*zip(split.images, split.labels.tolist(), strict=True)]
        for split in (two_sides(60, 0), two_sides(40, 1))
    )
    options: dict[str, Any] = {
        "image_size": 32,
        "epochs": 1,
        "batch_size": 20,
        "fast": False,
        "seeds": 1,
        "budget_seconds": 200.0,
        "jobs": 1,
    }
    options |= settings
    with (
        mock.patch.object(timing, "MOST_SECONDS", 0.2),
        mock.patch.object(training_size, "SMALL", ("wrn-10-1",)),
    ):
        return hba.auto(
            (train, test),
            out=folder,
            callback=callback,
            resume=resume,
            **({} if resume else options),
        )


class Stops(hba.AutoCallback):
    """Raises an exception in the second step of the choice."""

    def __init__(self, error: type[BaseException]) -> None:
        self.error = error
        self.n_steps = 0

    def advanced(self, phase: str, done: float, total: float) -> None:
        self.n_steps += phase == "network"
        if phase == "network" and self.n_steps == 2:
            raise self.error


@pytest.fixture(scope="module")
def failed_choice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run whose choice of the network has failed."""
    folder = tmp_path_factory.mktemp("failed") / "run"
    with pytest.raises(RunError):
        short_run(folder, Stops(RunError))
    return folder


@pytest.fixture(scope="module")
def run(
    failed_choice: Path, tmp_path_factory: pytest.TempPathFactory
) -> hba.AutoResult:
    """The same run, resumed."""
    folder = tmp_path_factory.mktemp("resumed") / "run"
    return short_run(shutil.copytree(failed_choice, folder), resume=True)


def test_a_failed_choice_leaves_no_settings_of_a_candidate_to_resume_with(
    failed_choice: Path,
) -> None:
    record = AutoRecord.read(failed_choice)
    assert record.network is None
    assert not {"model", "pretrained", "learning_rate"} & {*record.settings}


def test_a_run_trains_candidates_and_keeps_the_one_with_the_lowest_loss(
    run: hba.AutoResult,
) -> None:
    record = run.record
    losses = {
        number: candidate.loss
        for number, candidate in enumerate(record.candidates)
        if candidate.loss is not None
    }
    assert len(losses) >= 2
    assert record.network == min(losses, key=lambda number: losses[number])
    assert (
        record.settings["model"] == record.candidates[record.network].settings["model"]
    )
    # The contest has the training of the chosen network with RandAugment.
    row = next(row for row in record.rows if row["name"] == "randaugment")
    assert row["losses"]["0"] == losses[record.network]
    assert run.results is not None
    assert run.results.settings["model"] == record.settings["model"]


def test_the_test_and_the_page_have_the_linear_layer(run: hba.AutoResult) -> None:
    best = run.record.best_linear
    assert best is not None
    assert best.test_percent is not None
    page = (run.folder / "report.html").read_text("utf-8")
    assert "linear layer" in page
    assert all(
        candidate.settings["model"] in page for candidate in run.record.candidates
    )
    assert f"{best.test_percent:.1f} %" in run.answer


@pytest.mark.slow
def test_the_onnx_file_gives_the_probabilities_of_the_network(tmp_path: Path) -> None:
    reference = pytest.importorskip("onnx.reference")
    pytest.importorskip("onnxscript")
    # Long enough for network.onnx.
    run = short_run(tmp_path / "run", budget_seconds=400.0)
    network = hba.load_network(run.folder)
    side = network.info.image_size
    images = torch.randint(
        0,
        256,
        (3, 3, side, side),
        dtype=torch.uint8,
        generator=torch.Generator().manual_seed(1),
    )
    evaluator = reference.ReferenceEvaluator(str(run.folder / "network.onnx"))
    (logits,) = evaluator.run(None, {evaluator.input_names[0]: images.numpy()})
    probabilities = torch.from_numpy(logits).softmax(dim=1)
    assert torch.allclose(
        probabilities, torch.as_tensor(network.predict(images)), atol=1e-5
    )


@pytest.mark.slow
def test_a_given_network_size_and_algorithm_are_used(tmp_path: Path) -> None:
    record = short_run(tmp_path / "run", model=LITE, algorithm="lookahead").record
    assert {candidate.settings["image_size"] for candidate in record.candidates} == {32}
    assert {candidate.settings["freeze"] for candidate in record.candidates} == {
        "3+statistics",
        "none",
    }
    assert (record.settings["model"], record.settings["image_size"]) == (LITE, 32)
    assert (tmp_path / "run" / "search" / "policy.json").exists()


@pytest.mark.slow
def test_an_interrupted_choice_takes_a_network_and_goes_on(tmp_path: Path) -> None:
    record = short_run(tmp_path / "run", Stops(KeyboardInterrupt)).record
    assert record.stopped == ("network",)
    assert record.network is not None
    assert (
        record.settings["model"] == record.candidates[record.network].settings["model"]
    )
    assert record.chosen
