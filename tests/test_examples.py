"""The examples, the notebook and the snippets for other libraries run as they stand,
and do what they say.
"""

import copy
import functools
import json
import re
import runpy
import shlex
import subprocess
import sys
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from click.testing import CliRunner
from documents import CLASSES, ROOT, blocks_of, text_of
from hba.cli import main
from PIL import Image
from search_steps import begun
from torch.utils.data import DataLoader

import hba
from hba.algorithms.race import Race
from hba.algorithms.race_findings import RaceFindings, is_symmetry
from hba.algorithms.race_measures import Answers, calibrated, gaps_of
from hba.data import LabelledImages
from hba.data.load import load_search_data
from hba.data.loader import as_floats
from hba.operations import OPERATIONS
from hba.policy.space import SearchSpace
from hba.policy_search.config import SearchConfig
from hba.schedule.schedule import Schedule
from hba.utils.seeding import derived_seed

EXAMPLES = ROOT / "examples"
SECTIONS = dict(
    re.findall(
        r"^### (.+?)\n(.*?)(?=^##|\Z)",
        text_of("docs/pipelines.md"),
        re.DOTALL | re.MULTILINE,
    )
)
LIBRARIES = [
    "torchvision",
    "timm",
    "kornia",
    "albumentations",
    "Lightning",
    "Hugging Face datasets",
]
RACE_EPOCHS = 120
"""Epochs of the training for which races choose; the preset has 300."""
SLOW_TO_IMPORT = {"Lightning": "lightning", "Hugging Face datasets": "datasets"}


def run_example(
    monkeypatch: pytest.MonkeyPatch, name: str, *arguments: str
) -> dict[str, Any]:
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    return runpy.run_path(str(EXAMPLES / name), run_name="__main__")


def test_training_with_the_shipped_schedule_learns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    run_example(monkeypatch, "train_digits.py", "--epochs", "1")
    (error,) = re.findall(r": (\d+\.\d\d) %$", capsys.readouterr().out, re.MULTILINE)
    assert 0 < float(error) < 85, "guessing is wrong for nine digits of ten"


@pytest.mark.parametrize("library", ["wandb", "mlflow"])
def test_a_logger_gets_the_policy_and_the_metrics_of_every_epoch(
    library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: list[tuple[dict[str, float], int]] = []

    def log(values: dict[str, float], step: int) -> None:
        logged.append((values, step))

    fake = types.SimpleNamespace(
        init=lambda project: types.SimpleNamespace(log=log), log_metrics=log
    )
    monkeypatch.setitem(sys.modules, library, fake)
    monkeypatch.setattr(
        hba,
        "search",
        functools.partial(hba.search, val_size=20, train_size=20, image_size=8),
    )
    run_example(monkeypatch, "loggers.py", library, "--epochs", "2")
    assert [step for _, step in logged] == [1, 1, 2, 2]
    assert all(
        "Rotate.1.probability" in policy and "val_loss" in metrics
        for (policy, _), (metrics, _) in zip(logged[::2], logged[1::2], strict=True)
    )


def test_an_algorithm_of_your_own_rewards_by_the_loss_of_its_image(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "run"
    names = run_example(
        monkeypatch,
        "own_algorithm.py",
        "--epochs",
        "2",
        "--hardness",
        "0.5",
        "--out",
        str(out),
    )
    settings = json.loads((out / "config.json").read_text(encoding="utf-8"))
    assert (settings["algorithm"], settings["hardness"]) == ("adversarial", 0.5)
    assert hba.load_policy(out).provenance["settings"]["hardness"] == 0.5
    algorithm = names["Adversarial"](hardness=-2.0)
    task, state = begun()
    batch = algorithm.augmented(task, state, *state.train_stream.next(), draws=2)
    network = state.learner.network.eval()
    rewards = algorithm.rewards(state.learner, batch, torch.zeros(()))
    losses = [
        F.cross_entropy(
            network(batch.images[i : i + 1]), batch.labels[i : i + 1]
        ).item()
        for i in range(16)
    ]
    torch.testing.assert_close(rewards, -2 * torch.tensor(losses), rtol=1e-4, atol=1e-5)


def random_losses(
    generator: torch.Generator, n_forks: int, n_images: int
) -> torch.Tensor:
    """Losses (forks, images) with differences that may or may not be significant."""
    shared = torch.rand(n_images, generator=generator)
    shifts = 0.2 * torch.randn(n_forks, 1, generator=generator)
    noise = torch.randn(n_forks, n_images, generator=generator)
    return shared + shifts + noise


def test_the_race_in_one_file_decides_by_the_rules_of_the_search() -> None:
    example = runpy.run_path(str(EXAMPLES / "race_in_one_file.py"))
    generator = torch.Generator().manual_seed(0)
    winners = []
    for _ in range(50):
        losses = random_losses(generator, n_forks=8, n_images=60)
        train_losses = torch.rand(8, generator=generator)
        winner = example["winner_of"](losses, train_losses)
        assert winner == Race().winner(losses, train_losses)
        winners.append(winner)

        labels = torch.randint(3, (60,), generator=generator)
        strength = 6 * torch.rand(2, generator=generator)
        right = torch.nn.functional.one_hot(labels, 3)
        logits, moved_logits = (
            torch.randn(60, 3, generator=generator) + each * right for each in strength
        )
        gap = example["gap_of"](logits, moved_logits, labels)
        (expected,) = gaps_of(
            Answers(logits, labels), [[Answers(moved_logits, labels)]]
        )
        assert (
            gap == pytest.approx(expected.tolist(), rel=1e-4) or expected.isinf().any()
        )
        assert example["is_symmetry"](*gap) == is_symmetry(*expected.tolist())
        torch.testing.assert_close(
            example["calibrated_losses"](logits, labels),
            F.cross_entropy(calibrated(logits, labels), labels, reduction="none"),
        )
    assert len(set(winners)) > 4


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1])
def test_the_race_in_one_file_chooses_what_a_search_chooses(seed: int) -> None:
    """Both train the same network, but hba holds out images from the trunk and has
    symmetries by class, and the draws of operations differ.
    """
    example = runpy.run_path(str(EXAMPLES / "race_in_one_file.py"))
    torch.manual_seed(seed)
    network = example["Network"]()
    data = load_search_data(SearchConfig.from_preset({"data": "digits"}))
    result = hba.search(
        data,
        preset="digits",
        network=copy.deepcopy(network),
        epochs=RACE_EPOCHS,
        tunes_strength=False,
        seed=seed,
    )
    assert result.schedule is not None
    found = RaceFindings.of(result.schedule.provenance)
    assert found is not None

    assert isinstance(data.train, LabelledImages)
    assert isinstance(data.val, LabelledImages)
    images = example["Images"](
        as_floats(data.train.images),
        data.train.labels,
        as_floats(data.val.images),
        data.val.labels,
    )
    trunk = example["begin"](network, seed)
    trunk.batches.manual_seed(derived_seed(seed, "training batches"))
    choice = example["race"](images, trunk, RACE_EPOCHS)
    assert choice.symmetries == found.holding == []
    groups = {*found.taken} - {*found.by_class}
    assert {*choice.winner.groups} == groups


@pytest.mark.slow
def test_the_notebook_runs_and_is_stored_without_outputs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shown: list[bytes] = []
    display = types.SimpleNamespace(
        display=shown.append, Image=lambda path: Path(path).read_bytes()
    )
    # matplotlib asks for the version where IPython is loaded.
    ipython = types.SimpleNamespace(
        display=display, version_info=(9, 0), get_ipython=lambda: None
    )
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    small: dict[str, Any] = {
        "model": "simple-cnn-4",
        "image_size": 8,
        "train_size": 60,
        "epochs": 2,
    }
    monkeypatch.setattr(
        hba,
        "auto",
        functools.partial(
            hba.auto, out="run", jobs=1, seeds=1, against="none", **small
        ),
    )
    names: dict[str, Any] = {}
    for cell in json.loads((EXAMPLES / "search.ipynb").read_text(encoding="utf-8"))[
        "cells"
    ]:
        assert not cell.get("outputs")
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]).replace("%pip", "pass  #"), names)
    assert shown[0].startswith(b"\x89PNG")
    assert str(names["result"].answer) in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    "library", ["albumentations", "datasets", "kornia", "lightning", "timm"]
)
def test_a_whole_training_with_another_library_learns(
    library: str, tmp_path: Path
) -> None:
    pytest.importorskip(library)
    program = [sys.executable, str(EXAMPLES / "pipelines" / f"with_{library}.py")]
    done = subprocess.run(
        program, capture_output=True, text=True, timeout=240, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    (error,) = re.findall(r"^test error: (\d+\.\d\d) %$", done.stdout, re.MULTILINE)
    assert 0 < float(error) < 60, "guessing is wrong for nine digits of ten"


@pytest.mark.parametrize(
    "library",
    [
        pytest.param(name, marks=pytest.mark.slow if name in SLOW_TO_IMPORT else ())
        for name in LIBRARIES
    ],
)
def test_a_snippet_inverts_white_images(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a schedule that inverts all images."""
    pytest.importorskip(SLOW_TO_IMPORT.get(library, library))
    for name in CLASSES:
        (tmp_path / "animals" / name).mkdir(parents=True)
        for number in range(11):
            Image.new("RGB", (40, 36), "white").save(
                tmp_path / "animals" / name / f"{number}.jpg"
            )
    inverting = Schedule(
        SearchSpace((OPERATIONS["Invert"],), 1, (0.0, 1.0)),
        np.ones((3, 1)),
        (1.0, 1.0, 1.0),
    )
    inverting.save(tmp_path / "runs" / "animals-1" / "policy.json")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    if library == "Hugging Face datasets":
        datasets = pytest.importorskip("datasets")
        features = datasets.Features(
            {
                "image": datasets.Image(),
                "label": datasets.ClassLabel(names=list(CLASSES)),
            }
        )
        paths = [str(path) for path in tmp_path.glob("animals/*/*.jpg")]
        rows = {"image": paths, "label": [Path(path).parent.name for path in paths]}
        datasets.Dataset.from_dict(rows, features).save_to_disk(
            tmp_path / "saved_dataset"
        )
    for line in "".join(blocks_of(SECTIONS[library], "bash")).splitlines():
        assert CliRunner().invoke(main, shlex.split(line)[1:]).exit_code == 0
    code, *_ = blocks_of(SECTIONS[library], "python")
    (tmp_path / "example.py").write_text(
        code.replace("epochs = 20", "epochs = 2"), "utf-8"
    )
    names = runpy.run_path(str(tmp_path / "example.py"))
    for exported in ("policy_torchvision", "policy_kornia"):
        sys.modules.pop(exported, None)
    images = (
        names["module"].policy(names["images"])
        if library == "Lightning"
        else names["images"]
    )
    assert (images.shape[-3:], images.dtype) == ((3, 32, 32), torch.float32)
    assert float(images.max()) <= 0, "timm's standardization takes black below zero"
    assert library != "kornia" or names["masks"].min() == 1


def defined_by(library: str, word: str) -> dict[str, Any]:
    """What the snippet of a section that contains a word defines, also if it is
    compiled only.
    """
    blocks = blocks_of(
        SECTIONS[library].replace("<!-- compiled only -->\n", ""), "python"
    )
    names: dict[str, Any] = {}
    exec(
        next(code for code in blocks if word in code).partition("\nmodule =")[0], names
    )
    return names


def test_an_epoch_of_transformers_has_one_policy_also_when_it_resumes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """transformers then gives a fraction of the epoch."""
    monkeypatch.setitem(
        sys.modules, "transformers", types.SimpleNamespace(TrainerCallback=object)
    )
    policy = hba.load_policy("digits").transform()
    callback = defined_by("Hugging Face datasets", "TrainerCallback")["FollowSchedule"](
        policy
    )
    for at, epoch in (
        (None, 0),
        (0, 0),
        (0.8, 0),
        (1.0, 1),
        (1.2, 1),
        (1.6, 1),
        (2.0, 2),
        (2.8, 2),
    ):
        callback.on_epoch_begin(
            None, types.SimpleNamespace(epoch=at, num_train_epochs=3), None
        )
        assert policy.position == epoch / 2 * (policy.schedule.epochs - 1), at


@pytest.mark.slow
def test_the_snippets_of_lightning_follow_the_steps_also_when_a_training_resumes(
    tmp_path: Path,
) -> None:
    """Images are as bright as the place at which a worker makes them, up to seven
    batches before the step.
    """
    lightning = pytest.importorskip("lightning")
    classifier, follow = (
        defined_by("Lightning", name)[name] for name in ("Classifier", "FollowSchedule")
    )
    nothing = Schedule(
        SearchSpace((OPERATIONS["Invert"],), 1, (0.0, 1.0)), np.zeros((2, 1))
    )
    nothing.save(tmp_path / "policy.json")

    def fit(steps: int, start: int, checkpoint: str | None, **settings: Any) -> str:
        policy = nothing.transform()
        module = classifier(str(tmp_path / "policy.json"))
        own_step = module.training_step

        def training_step(batch: Any, batch_idx: int) -> Any:
            assert module.policy.position == module.global_step / steps
            earliest = max(start - 1, module.global_step - 7)
            assert (
                earliest
                <= round(float(batch[0].max()) * steps, 3)
                <= module.global_step
            ), settings
            return own_step(batch, batch_idx)

        module.training_step = training_step

        def batch_of(_: Any) -> tuple[torch.Tensor, torch.Tensor]:
            return torch.full((4, 3, 32, 32), policy.position), torch.zeros(
                4, dtype=torch.long
            )

        kept = lightning.pytorch.callbacks.ModelCheckpoint(
            tmp_path, every_n_train_steps=steps * 9 // 10
        )
        settings |= {
            "logger": False,
            "enable_progress_bar": False,
            "accelerator": "cpu",
        }
        trainer = lightning.Trainer(**settings, callbacks=[follow(policy), kept])
        trainer.fit(
            module,
            DataLoader(numbers, 4, num_workers=2, collate_fn=batch_of),
            ckpt_path=checkpoint,
        )
        assert trainer.global_step == steps
        return str(kept.best_model_path)

    numbers: Any = range(40)
    cases: list[Any] = [
        (30, {"max_epochs": 3}),
        (15, {"max_epochs": 3, "accumulate_grad_batches": 2}),
    ]
    for steps, settings in [
        *cases,
        *((25, {"max_steps": 25, "max_epochs": epochs}) for epochs in (None, -1, 100)),
    ]:
        checkpoint = fit(steps, 0, None, **settings)
        fit(steps, steps * 9 // 10, checkpoint, **settings)


@pytest.mark.slow
def test_the_detector_of_the_example_learns_from_the_policy_s_boxes() -> None:
    example = runpy.run_path(str(EXAMPLES / "own_training" / "detection.py"))
    transform = hba.load_policy("overhead").transform()
    scores = example["train"](transform, 0, 1.0)
    assert len(scores) == 24
    assert np.mean(scores) > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("library", ["lightning", "transformers"])
def test_the_training_of_the_example_has_an_answer(
    library: str, tmp_path: Path
) -> None:
    pytest.importorskip(library)
    file = EXAMPLES / "own_training" / f"{library}_digits.py"
    example = runpy.run_path(str(file))
    scores = example["train"](hba.load_policy("none").transform(), 0, 0.5)
    assert len(scores) == 300
    assert np.mean(scores) > 0.5
    result = hba.contest(
        example["train"],
        ["crop"],
        budget_seconds=180,
        out=tmp_path,
    )
    assert result.scores.keys() == {result.chosen, "none", "randaugment"}
    assert all(np.mean(of_seeds) > 0.5 for of_seeds in result.scores.values())
