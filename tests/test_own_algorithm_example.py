"""The example of an algorithm of one's own runs as it stands, and its reward is what it says."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
import torch.nn.functional as F
from search_steps import begun

import hba

EXAMPLE = Path(__file__).parents[1] / "examples" / "own_algorithm.py"


def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("own_algorithm", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
def test_the_program_leaves_a_run_with_its_settings(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLE), "--epochs", "4", "--hardness", "0.5", "--out", "run"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # It began with 13 of 15 operations at 0.5, and at 0.2 what RandAugment has not.
    assert done.stdout.startswith("mean probability of an operation: 0.46"), "near where it began"
    settings = json.loads((tmp_path / "run" / "config.json").read_text(encoding="utf-8"))
    assert (settings["algorithm"], settings["hardness"], settings["reward_draws"]) == ("adversarial", 0.5, 4)
    schedule = hba.load_policy(tmp_path / "run")
    assert schedule.provenance["settings"]["hardness"] == 0.5
    assert (schedule.values[0] != schedule.values[-1]).any()


def test_a_draw_is_rewarded_by_the_loss_of_its_image() -> None:
    algorithm = example().Adversarial(hardness=-2.0)
    task, state = begun()
    trial = algorithm.augmented(task, state, *state.train_stream.next(), draws=2)
    network = state.learner.network.eval()
    rewards = algorithm.rewards(state.learner, trial, torch.zeros(()))
    expected = [
        -2 * F.cross_entropy(network(trial.images[i : i + 1]), trial.labels[i : i + 1]).item() for i in range(16)
    ]
    torch.testing.assert_close(rewards, torch.tensor(expected), rtol=1e-4, atol=1e-5)
