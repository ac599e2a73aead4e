"""The network that hba.train leaves: it measures as recorded, PyTorch alone runs it,
and no kill loses it.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from documents import blocks_of, text_of
from PIL import Image
from small_trainings import one_operation, tiny_data, two_sides
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

import hba
from hba.data import EvaluationData, LabelledImages
from hba.errors import DataError, HbaWarning, RunError, SettingsError
from hba.models import build_model
from hba.models.resized import Resized
from hba.results.run import Run
from hba.training.trained_network import FromPixels, KeptNetwork, NetworkInfo, exported

INVERT = one_operation("Invert", [[0.0], [1.0]])
SETTINGS: dict[str, Any] = {
    "epochs": 2,
    "batch_size": 20,
    "device": "cpu",
    "learning_rate": 0.05,
}
MODEL: dict[str, Any] = {"model": "wrn-10-1"}
FOLDER = "runs/animals-network"
"""In the documentation."""
ALSO = """
import sys
images = torch.load("images.pt")
torch.save([probabilities, *(network(images[:n]).softmax(dim=1) \
for n in (1, 7, len(images)))], "found.pt")
assert not [name for name in sys.modules if name.partition(".")[0] in \
("hba", "torchvision", "timm")]
"""


class TwoWays(nn.Module):
    """Decides by its input, which torch.export cannot follow."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3 * 64, 2)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.linear(x.flatten(1))
        return logits if x.mean() > 1e9 else -logits


def evaluate(out: Path, **settings: Any) -> hba.EvaluationResult:
    model = {} if "network" in settings else MODEL
    return hba.evaluate(
        INVERT,
        tiny_data(),
        out=out,
        keep_network=True,
        **{**SETTINGS, **model, **settings},
    )


def error_percent(network: hba.TrainedNetwork, data: EvaluationData) -> float:
    test = data.test.opened()
    assert isinstance(test, LabelledImages)
    return (
        100
        * int((network.predict(test.images).argmax(1) != test.labels).sum())
        / len(test)
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training whose network is right on a part of the test images."""
    out = tmp_path_factory.mktemp("run")
    hba.train(INVERT, tiny_data(), out=out, seed=3, **SETTINGS, **MODEL)
    return out


def test_train_leaves_a_network_that_measures_as_recorded(run: Path) -> None:
    network = hba.load_network(run)
    info = json.loads((run / "network.json").read_text(encoding="utf-8"))
    (row,) = json.loads((run / "results.json").read_text(encoding="utf-8"))["rows"]
    assert row["seeds"] == [3]
    assert (
        [error_percent(network, tiny_data())]
        == row["test_error_percent"]
        == [info["test_error_percent"]]
    )
    assert 0 < info["test_error_percent"] < 50
    assert (info["model"], info["classes"]) == ("wrn-10-1", ["left", "right"])
    assert (info["policy"], info["seed"]) == (row["name"], 3)
    assert (network.info.test_images, network.info.epochs) == (30, 2)
    assert hba.load_policy(run).text() == INVERT.text()
    assert Run.read(run).search is None
    compile((run / "pipeline.py").read_text(encoding="utf-8"), "pipeline.py", "exec")


@pytest.mark.slow
def test_torch_alone_finds_what_predict_finds_for_any_number_of_images(
    run: Path, tmp_path: Path
) -> None:
    """The lines of the documentation, in a process of their own."""
    images = two_sides(30, seed=5).images
    network = hba.load_network(run)
    shutil.copytree(run, tmp_path / FOLDER)
    torch.save(images, tmp_path / "images.pt")
    code = blocks_of(text_of("docs/networks.md"), "python")[-1] + ALSO
    done = subprocess.run(
        [sys.executable, "-I", "-c", code],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )
    black = network.predict(torch.zeros_like(images[:2]))
    predicted = network.predict(images)
    assert done.stdout == f"{[network.classes[number] for number in black.argmax(1)]}\n"
    assert done.stderr == ""
    for_zeros, *predictions = torch.load(tmp_path / "found.pt")
    torch.testing.assert_close(for_zeros, black)
    for prediction in predictions:
        torch.testing.assert_close(prediction, predicted[: len(prediction)])
    assert predicted.sum(dim=1).tolist() == pytest.approx([1.0] * 30)


def test_paths_are_read_as_the_training_read_them(run: Path, tmp_path: Path) -> None:
    images = two_sides(3, seed=5).images
    paths = [tmp_path / f"{number}.png" for number in range(3)]
    for path, pixels in zip(paths, images, strict=True):
        Image.fromarray(pixels.permute(1, 2, 0).numpy()).save(path)
    network = hba.load_network(run)
    assert torch.equal(network.predict(paths), network.predict(images))
    assert torch.equal(
        network.predict(paths[0]), network.predict(images.permute(0, 2, 3, 1)[:1])
    )
    assert network.predict([]).shape == (0, 2)
    arrays = [*images.permute(0, 2, 3, 1).numpy()]
    inputs: Any
    for inputs in (
        iter(paths),
        [*images],
        arrays,
        map(Image.fromarray, arrays),
        images.numpy(),
        images / 255,
    ):
        assert torch.equal(network.predict(inputs), network.predict(images))
    image = network.read(paths[2])
    for inputs in (
        image,
        image[None],
        image.numpy(),
        paths[2],
        str(paths[2]),
        Image.open(paths[2]),
        [image],
    ):
        assert torch.equal(network.predict(inputs), network.predict(images[2:]))
    grey = image[:1]
    for inputs in (grey, grey[0], grey.numpy()[0], grey[None], [grey[0]]):
        assert torch.equal(
            network.predict(inputs), network.predict(grey.repeat(3, 1, 1))
        )
    for inputs, named in (
        (5, "int"),
        ([images], "(3, 3, 8, 8)"),
        ([None], "NoneType"),
        (images[:, 0][:2], "(2, 8, 8)"),
    ):
        with pytest.raises(DataError, match=re.escape(named)):
            network.predict(inputs)
    (tmp_path / "1.png").write_text("nothing")
    with pytest.raises(DataError, match=r"1\.png: .* leave it out"):
        network.predict(paths)
    with pytest.raises(DataError, match=r"\(N, 3, 8, 8\).* got \(3, 3, 16, 16\)"):
        network.predict(F.interpolate(images, scale_factor=2))


def test_the_network_runs_on_another_device_and_refuses_other_types(run: Path) -> None:
    """On tensors of a CUDA device without values, which need no such device."""
    with (run / "network.pt").open("rb") as file:
        network = torch.export.load(file).module()
    state = {**dict(network.named_parameters()), **dict(network.named_buffers())}
    with FakeTensorMode():
        moved = {
            name: torch.empty(tensor.shape, dtype=tensor.dtype, device="cuda")
            for name, tensor in state.items()
        }
        images = torch.empty(4, 3, 8, 8, dtype=torch.uint8, device="cuda")
        logits = torch.func.functional_call(network, moved, (images,))
    assert (logits.device.type, logits.shape) == ("cuda", (4, 2))
    with pytest.raises((AssertionError, RuntimeError), match="dtype"):
        network(torch.zeros(1, 3, 8, 8))


def test_deep_images_are_read_by_the_levels_of_the_training(
    run: Path, tmp_path: Path
) -> None:
    info = json.loads((run / "network.json").read_text(encoding="utf-8"))
    (tmp_path / "network.json").write_text(
        json.dumps({**info, "levels": [0, 4095]}), encoding="utf-8"
    )
    (tmp_path / "network.pt").write_bytes((run / "network.pt").read_bytes())
    Image.fromarray(np.full((8, 8), 4095, dtype=np.uint16)).save(tmp_path / "white.png")
    assert (hba.load_network(tmp_path).read(tmp_path / "white.png") == 255).all()
    assert (hba.load_network(run).read(tmp_path / "white.png") == 16).all()


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"model": "simple-cnn-4", "fast": True}, id="bfloat16"),
        pytest.param(
            {"model": "simple-cnn-4", "random_resized_crop": True, "image_size": 16},
            id="random resized crop",
        ),
        pytest.param(
            {"network": lambda seed: nn.Sequential(nn.Flatten(), nn.Linear(64, 2))},
            id="own network, grey",
        ),
    ],
)
def test_the_network_measures_as_recorded_however_it_was_trained(
    settings: dict[str, Any], tmp_path: Path
) -> None:
    def change(split: Any) -> LabelledImages:
        images = split.images[:, :1] if "network" in settings else split.images
        images = (
            images if "image_size" not in settings else F.interpolate(images, size=18)
        )
        return LabelledImages(images, split.labels)

    tiny = tiny_data()
    data = EvaluationData(
        "changed", tiny.class_names, change(tiny.train), change(tiny.test)
    )
    network = hba.train(INVERT, data, out=tmp_path, **SETTINGS, **settings)
    assert error_percent(network, data) == network.info.test_error_percent


def test_several_labels_have_a_probability_each(tmp_path: Path) -> None:
    tiny = tiny_data()
    splits: Any = (tiny.train, tiny.test)
    parts = [
        LabelledImages(split.images, F.one_hot(split.labels, 2).bool())
        for split in splits
    ]
    data = EvaluationData("several", tiny.class_names, *parts)
    network = hba.train("none", data, out=tmp_path, model="simple-cnn-4", **SETTINGS)
    probabilities = network.predict(parts[1].images)
    logits = network.module(parts[1].images)
    torch.testing.assert_close(probabilities, 1 / (1 + (-logits).exp()))


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("wrn-10-1", 16),
        pytest.param("resnet-18-small", 16, marks=pytest.mark.slow),
        pytest.param("shake-shake-26-2x2d", 16, marks=pytest.mark.slow),
        ("pyramidnet-11-4", 16),
        ("simple-cnn-2", 16),
        ("mlp-8", 8),
        ("timm:resnet10t", 32),
        ("resized", 32),
    ],
)
def test_networks_are_exported_for_any_number_of_images(name: str, size: int) -> None:
    """exported() itself compares program and module, one by one and together."""
    if name.startswith("timm:"):
        pytest.importorskip("timm", reason="needs the extra timm")
    network = (
        Resized(build_model("wrn-10-1", 4, 0, 16), 16)
        if name == "resized"
        else build_model(name, 4, 0, size)
    )
    described: dict[str, Any] = {
        "model": name,
        "classes": ("a", "b", "c", "d"),
        "image_size": size,
        "input_size": size,
        "channels": 3,
        "mean": (0.5, 0.4, 0.3),
        "std": (0.2, 0.3, 0.4),
        "task": "classification",
        "levels": None,
        "test_error_percent": 0,
        "test_images": 3,
        "policy": "none",
        "seed": 0,
        "epochs": 1,
    }
    info = NetworkInfo(**described)
    module = FromPixels(network, info).eval()
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(0, 256, (3, 3, size, size), generator=generator).to(
        torch.uint8
    )
    content = exported(module, images)
    assert str(Path(hba.__file__).parent).encode() not in content
    with torch.no_grad():
        logits = network.eval()(
            (images / 255 - torch.tensor(info.mean)[:, None, None])
            / torch.tensor(info.std)[:, None, None]
        )
        torch.testing.assert_close(module(images), logits)


@pytest.mark.slow
def test_processes_keep_the_same_network_as_one(tmp_path: Path) -> None:
    images = two_sides(8, seed=5).images
    results = {
        jobs: evaluate(tmp_path / str(jobs), jobs=jobs, seeds=2, model="mlp-8")
        for jobs in (1, 2)
    }
    first, second = (hba.load_network(tmp_path / str(jobs)) for jobs in (1, 2))
    assert torch.equal(first.module(images), second.module(images))
    assert first.info == second.info
    assert first.info.test_error_percent == results[2].rows[0].test_error_percent[0]


def test_a_kill_after_the_network_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = evaluate(tmp_path / "whole", seeds=2, model="mlp-8")
    images = two_sides(8, seed=5).images
    save = KeptNetwork.save

    def save_and_stop(network: KeptNetwork, folder: Path) -> None:
        save(network, folder)
        raise KeyboardInterrupt

    out = tmp_path / "killed"
    with monkeypatch.context() as patched:
        patched.setattr(KeptNetwork, "save", save_and_stop)
        with pytest.raises(KeyboardInterrupt):
            evaluate(out, seeds=2, model="mlp-8")
    assert (out / "network.pt").exists()
    assert not (out / "results.json").exists()
    assert evaluate(out, seeds=2, model="mlp-8", resume=True).rows == whole.rows
    whole_outputs = hba.load_network(tmp_path / "whole").module(images)
    assert torch.equal(hba.load_network(out).module(images), whole_outputs)
    # A network that is missing beside its results is trained again, and the results
    # stay.
    (out / "network.json").unlink()
    assert evaluate(out, seeds=2, model="mlp-8", resume=True).rows == whole.rows
    assert torch.equal(hba.load_network(out).module(images), whole_outputs)
    monkeypatch.setattr(
        "hba.policy_evaluation.evaluation.train",
        lambda *_: pytest.fail("nothing is missing"),
    )
    evaluate(out, seeds=2, model="mlp-8", resume=True)


def test_a_network_that_cannot_be_exported_leaves_its_weights(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.warns(HbaWarning, match="state dict"):
        network = hba.train(
            INVERT, tiny_data(), out=tmp_path, network=TwoWays(), **SETTINGS
        )
    assert capfd.readouterr() == ("", ""), "PyTorch shows the graph of the network"
    assert (network.info.format, network.info.model) == ("state dict", "TwoWays")
    assert error_percent(network, tiny_data()) == network.info.test_error_percent
    weights = torch.load(tmp_path / "network.pt", weights_only=True)
    assert weights.keys() == TwoWays().state_dict().keys()
    with pytest.raises(SettingsError, match="network=YOUR_NETWORK"):
        hba.load_network(tmp_path)
    with pytest.raises(RunError, match="do not fit"):
        hba.load_network(tmp_path, network=nn.Linear(2, 2))


def test_what_is_no_network_is_refused_in_one_line(run: Path, tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"has no network\.pt.* hba train"):
        hba.load_network(tmp_path)
    (tmp_path / "network.pt").write_bytes(b"nothing")
    info = json.loads((run / "network.json").read_text(encoding="utf-8"))
    for content, message in (
        (json.dumps({**info, "format_version": 2}), "this version of hba"),
        ("[", "network.json"),
        (json.dumps(info), r"network\.pt cannot be read"),
    ):
        (tmp_path / "network.json").write_text(content, encoding="utf-8")
        with pytest.raises(RunError, match=message) as error:
            hba.load_network(tmp_path)
        assert "\n" not in str(error.value)
    with pytest.raises(SettingsError, match="omit seeds"):
        hba.train(INVERT, tiny_data(), out=tmp_path / "out", seeds=2, **SETTINGS)
    with pytest.raises(SettingsError, match="needs out"):
        hba.evaluate(INVERT, tiny_data(), keep_network=True, **SETTINGS)
    assert not (tmp_path / "out").exists()
