"""What every algorithm must do, whatever it is: they are listed once, a new one is tested by being listed."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from opened_images import record_images
from PIL import Image
from search_problems import StopAfter, small_data, small_images, small_settings
from torch import nn

import hba
from hba.algorithms import ALGORITHMS
from hba.data import LabelledImages, SearchData
from hba.errors import DivergedError, SettingsError

pytestmark = pytest.mark.parametrize("algorithm", ALGORITHMS)


def run(algorithm: str, out: Path | None = None, data: SearchData | None = None, **settings: Any) -> hba.SearchResult:
    return hba.search(data or small_data(), out=out, **small_settings(algorithm=algorithm, **settings))


def values_of(result: hba.SearchResult) -> np.ndarray:
    assert result.schedule is not None
    return result.schedule.values


def test_the_schedule_is_valid_survives_its_file_and_names_the_algorithm(algorithm: str, tmp_path: Path) -> None:
    result = run(algorithm, tmp_path)
    values = values_of(result)
    assert result.finished
    assert values.shape == (3, 57 if algorithm in ("lookahead", "joint") else 54), "it searches K too"
    low, high = np.array(result.schedule.space.ranges).T  # type: ignore[union-attr]
    assert ((values >= low) & (values <= high)).all()
    loaded = hba.load_policy(tmp_path / "policy.json")
    assert np.array_equal(loaded.values, values)
    assert loaded.provenance["algorithm"] == algorithm
    assert loaded.provenance["settings"]["algorithm"] == algorithm


def test_the_last_row_is_lambda_in_natural_units(algorithm: str) -> None:
    result = run(algorithm)
    assert result.schedule is not None
    expected = result.schedule.space.decode(result.lam.double())
    assert np.allclose(result.schedule.values[-1], expected, atol=1e-6)


def test_the_same_seed_gives_the_same_schedule_and_another_seed_another(algorithm: str) -> None:
    first, again, other = (values_of(run(algorithm, seed=seed)) for seed in (0, 0, 1))
    assert np.array_equal(first, again)
    assert not np.array_equal(first, other)


@pytest.mark.parametrize("n_steps", [3, 5, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2, 8))])
def test_a_stopped_search_goes_on_to_the_same_end(algorithm: str, n_steps: int, tmp_path: Path) -> None:
    whole = run(algorithm)
    stopped = run(algorithm, tmp_path, callback=StopAfter(n_steps))
    assert not stopped.finished
    resumed = run(algorithm, tmp_path, resume=True)
    assert np.array_equal(values_of(resumed), values_of(whole))
    assert [_without_time(row) for row in resumed.metrics] == [_without_time(row) for row in whole.metrics]
    for resumed_weight, weight in zip(resumed.network.parameters(), whole.network.parameters(), strict=True):
        assert torch.equal(resumed_weight, weight)


def _without_time(metrics: Mapping[str, float | None]) -> dict[str, float | None]:
    return {name: value for name, value in metrics.items() if name != "seconds"}


def test_files_of_the_test_split_are_never_opened(
    algorithm: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = {"train": small_images(24, seed=0), "val": small_images(16, seed=1), "test": small_images(8, seed=2)}
    for part, labelled in images.items():
        for number, (image, label) in enumerate(zip(labelled.images, labelled.labels.tolist(), strict=True)):
            path = tmp_path / part / str(label) / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(image.permute(1, 2, 0).numpy()).save(path)
    opened = record_images(monkeypatch)
    settings = small_settings(algorithm=algorithm, image_size=8)
    assert hba.search(tmp_path, **settings).finished
    assert {path.parts[-3] for path in opened} == {"train", "val"}
    assert len(opened) == 40


def test_settings_that_it_does_not_read_are_refused_and_not_noted_as_used(algorithm: str) -> None:
    others: dict[str, Any] = {
        **{"weight_sigma": 0.5, "batched_members": False, "population_size": 4, "sharing": "bn"},
        **{"val_steps": 2, "calibrate": True, "lambda_learning_rate": 0.5},
    }
    idle = [name for name in others if name not in ALGORITHMS[algorithm].model_fields]
    assert idle
    for name in idle:
        with pytest.raises(SettingsError, match=f"^{name} has no effect on the algorithm {algorithm}; remove it$"):
            run(algorithm, **{name: others[name]})
    provenance = run(algorithm).schedule.provenance  # type: ignore[union-attr]
    assert not provenance["settings"].keys() & set(idle)
    assert provenance["settings"]["train_steps"] == 2


def test_validation_images_choose_and_do_not_train(algorithm: str) -> None:
    """Where nothing can be chosen, what is in the validation set changes no weight and no running statistic."""
    if algorithm == "population":
        pytest.skip("which member goes on is always chosen, and members differ in their weights")
    networks = []
    for darker in (1, 2):
        data, images = small_data(), small_images(16, seed=1)
        val = LabelledImages(images.images // darker, images.labels)
        changed = SearchData(data.name, data.class_names, data.train, val)
        still: dict[str, Any] = {} if "population" in algorithm else {"lambda_learning_rate": 1e-30, "sigma": 1.0}
        still |= {"strength_learning_rate": 0.0} if "population" not in algorithm else {}
        networks.append(run(algorithm, data=changed, **{"sigma": 0.0, **still}).network)
    for first, second in zip(*(network.state_dict().values() for network in networks), strict=True):
        assert torch.equal(first, second)


def test_the_network_of_the_result_is_an_ordinary_one_and_measures_as_reported(algorithm: str) -> None:
    data, val = small_data(), small_images(16, seed=1)
    result = run(algorithm, data=data)
    assert all(type(module).__module__.startswith(("torch.", "hba.models")) for module in result.network.modules())
    mean = torch.tensor(data.train.mean_color())[:, None, None]
    std = torch.tensor(data.train.std_color())[:, None, None]
    with torch.no_grad():
        logits = result.network.eval()((val.images / 255 - mean) / std)
    assert nn.functional.cross_entropy(logits, val.labels).item() == pytest.approx(
        result.metrics[-1]["val_loss"], rel=1e-4
    )
    error_percent = 100 * (logits.argmax(1) != val.labels).double().mean().item()
    assert error_percent == pytest.approx(result.metrics[-1]["val_error_percent"])


def test_a_network_of_ones_own_is_trained(algorithm: str) -> None:
    network = nn.Sequential(nn.BatchNorm2d(3), nn.Flatten(), nn.Linear(3 * 64, 2))
    before = [parameter.clone() for parameter in network.parameters()]
    result = run(algorithm, network=network, learning_rate=0.001)
    assert result.finished
    assert all(torch.equal(a, b) for a, b in zip(before, network.parameters(), strict=True)), "a copy is trained"
    assert any(not torch.equal(a, b) for a, b in zip(before, result.network.parameters(), strict=True))


def test_a_loss_that_is_not_finite_ends_it(algorithm: str) -> None:
    with pytest.raises(DivergedError, match="learning rate below"):
        run(algorithm, learning_rate=1e30)


@pytest.mark.gpu
def test_it_runs_on_a_gpu_and_goes_on_there(algorithm: str, tmp_path: Path) -> None:
    whole = run(algorithm, device="cuda")
    assert whole.lam.device.type == "cuda"
    assert np.isfinite(values_of(whole)).all()
    run(algorithm, tmp_path, device="cuda", callback=StopAfter(4))
    assert np.allclose(values_of(run(algorithm, tmp_path, device="cuda", resume=True)), values_of(whole), rtol=1e-3)
