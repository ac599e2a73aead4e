"""Weights from a file and from timm: what fits, whose head is kept, and what is said
where they cannot be had.
"""

import argparse
import copy
import io
import pickle
import re
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import timm
import torch
import torch.nn.functional as F
from pretrained_networks import (
    CLASSES_THERE,
    HEAD,
    MODEL,
    NAME,
    names_that_differ,
    pretrained,
    weights_file,
)
from random_inputs import seeded
from safetensors.torch import save_file
from search_steps import assert_same
from timm.utils.checkpoint_saver import CheckpointSaver
from torch import nn

from hba.errors import SettingsError
from hba.models import Start, build_model, find_model, hub, timm_networks
from hba.models.hub import HubFile
from hba.models.timm_networks import _read_from_timm, freeze, layout_of
from hba.models.weight_files import find_names, read_state_dict


def build(
    source: Path | str, n_classes: int = 3, seed: int = 0, model: str = MODEL
) -> nn.Module:
    return build_model(model, n_classes, seed, 32, Start.of(model, str(source)))


def test_all_but_a_head_for_other_classes_is_from_the_file_and_the_head_from_the_seed(
    tmp_path: Path,
) -> None:
    weights = pretrained().state_dict()
    path = tmp_path / "weights.pt"
    file = weights_file(tmp_path)
    first, again, other = (build(file, seed=seed) for seed in (0, 0, 1))
    assert names_that_differ(first, pretrained()) == HEAD
    assert names_that_differ(first, again) == set()
    assert names_that_differ(first, other) == HEAD
    assert first.get_parameter("fc.weight").shape == (3, 512)
    save_file(weights, tmp_path / "weights.safetensors")
    assert names_that_differ(build(tmp_path / "weights.safetensors"), first) == set()
    # As several programs write them.
    for content in (
        {"epoch": 3, "state_dict": weights},
        {"model": weights, "args": {"lr": 0.1}},
        {f"module.{name}": weight for name, weight in weights.items()},
        {name: weight for name, weight in weights.items() if "num_batches" not in name},
    ):
        torch.save(content, path)
        assert names_that_differ(build(path), first) == set(), list(content)[:2]


def averaged(weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: weight + 1 for name, weight in weights.items()}


def beside(prefix: str, weights: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Weights after a prefix, with a layer that the network does not have."""
    return {
        **{f"{prefix}{name}": weight for name, weight in weights.items()},
        "projector.weight": torch.ones(2, 2),
    }


SMALL = {"conv1.weight": torch.ones(2, 2), "fc.weight": torch.zeros(3, 2)}
"""Weights of a network of two layers."""


def read_small(content: Any) -> tuple[Mapping[str, torch.Tensor], str]:
    """The weights of the small network in a checkpoint, and their key and prefix."""
    file = io.BytesIO()
    torch.save(content, file)
    weights, key = read_state_dict("weights.pth", file.getvalue())
    named = find_names(weights, [*SMALL], {"conv1", "fc"})
    return named.weights, f"{key} {named.prefix}"


def test_values_of_other_libraries_in_a_checkpoint_are_read(tmp_path: Path) -> None:
    values = {
        "model": NAME,
        "lr": np.float64(0.1),
        "data": Path("photos"),
        "seeds": np.arange(3),
        "size": torch.Size([3]),
    }
    arguments = argparse.Namespace(**values)
    content = {"model": SMALL, "args": arguments, "best": np.float32(1)}
    assert_same(read_small(content)[0], SMALL)
    layer = nn.Linear(2, 3)
    optimizer = torch.optim.SGD(layer.parameters(), 0.1)
    saver = CheckpointSaver(
        layer, optimizer, args=arguments, checkpoint_dir=str(tmp_path)
    )
    saver.save_checkpoint(0, 0.5)
    saved = (tmp_path / "last.pth.tar").read_bytes()
    assert_same(read_state_dict("last.pth.tar", saved)[0], layer.state_dict())


@pytest.mark.parametrize(
    "prefix",
    ["_orig_mod.", "module._orig_mod.", "model.", "backbone.", "model.encoder."],
)
def test_prefixes_of_names_are_removed(prefix: str) -> None:
    assert_same(read_small({"state_dict": beside(prefix, SMALL)})[0], SMALL)


@pytest.mark.parametrize(
    "names",
    ["state_dict state_dict_ema", "model model_ema", "net ema", "model ema_model"],
)
def test_averaged_weights_are_taken_and_named(names: str) -> None:
    last, of_average = names.split()
    in_keys = {
        last: SMALL,
        of_average: {
            f"module.{name}": weight for name, weight in averaged(SMALL).items()
        },
    }
    in_names = {
        **beside(f"{last}.", SMALL),
        **beside(f"{of_average}.module.", averaged(SMALL)),
    }
    for content in (in_keys, in_names):
        weights, place = read_small(content)
        assert_same(weights, averaged(SMALL))
        assert of_average in place


def test_a_checkpoint_with_the_key_of_timm_s_averaged_weights_is_loaded_as_by_timm(
    tmp_path: Path,
) -> None:
    weights = pretrained().state_dict()
    path = tmp_path / "weights.pth"
    torch.save({"state_dict": weights, "state_dict_ema": averaged(weights)}, path)
    theirs = timm.create_model(NAME, num_classes=CLASSES_THERE, checkpoint_path=path)
    network = build(path, CLASSES_THERE)
    assert names_that_differ(network, theirs) == set()
    assert "state_dict_ema" in Start.of(MODEL, str(path)).note(network)


def test_of_several_networks_none_is_chosen(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="several networks"):
        read_small({**beside("query.", SMALL), **beside("key.", SMALL)})
    torch.save({"student": SMALL, "teacher": SMALL}, tmp_path / "weights.pth")
    with pytest.raises(SettingsError, match="several networks"):
        build(tmp_path / "weights.pth")


def test_weights_of_a_deeper_network_are_refused(tmp_path: Path) -> None:
    deeper = timm.create_model(NAME, num_classes=3, layers=(2, 1, 1, 1))
    file = weights_file(tmp_path, deeper)
    with pytest.raises(SettingsError, match="do not fit"):
        build(file)


@pytest.mark.parametrize("value", [float("nan"), float("-inf")])
def test_weights_that_are_not_finite_are_refused(tmp_path: Path, value: float) -> None:
    weights = pretrained().state_dict()
    weights["layer2.0.conv1.weight"][0, 0, 0, 0] = value
    torch.save(weights, tmp_path / "weights.pth")
    with pytest.raises(SettingsError, match=r"layer2\.0\.conv1\.weight"):
        build(tmp_path / "weights.pth")


@pytest.mark.parametrize("n_channels", [1, 5])
def test_the_first_layer_is_adapted_to_the_channels_as_by_timm(
    tmp_path: Path, n_channels: int
) -> None:
    file = weights_file(tmp_path)
    source = {"file": str(file), "num_classes": -1}
    theirs = timm.create_model(
        NAME, True, pretrained_cfg_overlay=source, num_classes=3, in_chans=n_channels
    )
    network = build_model(MODEL, 3, 0, 32, Start.of(MODEL, str(file)), n_channels)
    assert names_that_differ(network, theirs) == HEAD
    assert network.get_parameter("conv1.0.weight").shape[1] == n_channels


def test_a_first_layer_that_cannot_be_adapted_is_refused(tmp_path: Path) -> None:
    file = weights_file(tmp_path, timm.create_model(NAME, in_chans=4))
    assert build_model(MODEL, 3, 0, 32, Start.of(MODEL, str(file)), 4)
    with pytest.raises(SettingsError, match=r"conv1\.0\.weight"):
        build(file)


VIT = "vit_tiny_patch16_224"


def test_positions_of_another_image_size_are_resampled_as_by_timm(
    tmp_path: Path,
) -> None:
    prefix = "encoder."
    weights = timm.create_model(VIT, num_classes=3, img_size=64).state_dict()
    torch.save(weights, tmp_path / "alone.pth")
    torch.save(
        {f"{prefix}{name}": weight for name, weight in weights.items()},
        tmp_path / "weights.pth",
    )
    source = {
        "file": str(tmp_path / "alone.pth"),
        "num_classes": 3,
        "custom_load": False,
    }
    theirs = timm.create_model(VIT, True, pretrained_cfg_overlay=source, num_classes=3)
    network = build_model(
        f"timm:{VIT}",
        3,
        0,
        None,
        Start.of(f"timm:{VIT}", str(tmp_path / "weights.pth")),
    )
    assert names_that_differ(network, theirs) == set()


def name_in_first_program(name: str) -> str:
    """The name of a weight of ConvNeXt in its authors' program."""
    name = re.sub(r"^stem\.", "downsample_layers.0.", name.replace(".blocks.", "."))
    name = re.sub(r"^stages\.(\d)\.downsample\.", r"downsample_layers.\1.", name)
    name = name.replace("conv_dw", "dwconv").replace("mlp.fc", "pwconv")
    return name.replace("head.norm.", "norm.").replace("head.fc.", "head.")


def test_names_of_a_network_s_first_program_are_renamed_by_timm(tmp_path: Path) -> None:
    theirs = timm.create_model("convnext_atto", num_classes=3)
    file = tmp_path / "weights.pth"
    weights = {
        name_in_first_program(name): weight
        for name, weight in theirs.state_dict().items()
    }
    assert "stages.0.0.dwconv.weight" in weights
    torch.save({"model": weights}, file)
    model = "timm:convnext_atto"
    assert (
        names_that_differ(
            build_model(model, 3, 0, None, Start.of(model, str(file))), theirs
        )
        == set()
    )
    head = {"head.fc.weight", "head.fc.bias"}
    assert (
        names_that_differ(
            build_model(model, 2, 0, None, Start.of(model, str(file))), theirs
        )
        == head
    )


@pytest.mark.parametrize(
    ("name", "head"),
    [
        ("pit_ti_224", "head"),
        *((name, "head.fc") for name in timm.list_models("rdnet_tiny")),
    ],
)
def test_a_network_without_groups_of_layers_can_only_be_frozen_as_a_whole(
    name: str, head: str
) -> None:
    assert layout_of(f"timm:{name}")[1] == 0
    network = timm.create_model(name, num_classes=2)
    with pytest.raises(SettingsError, match="all-but-head"):
        freeze(network, "1", (head,))
    freeze(network, "all-but-head", (head,))
    trained = {
        name for name, weight in network.named_parameters() if weight.requires_grad
    }
    assert trained == {f"{head}.weight", f"{head}.bias"}


class SmallHub(BaseHTTPRequestHandler):
    """Has one file."""

    CONTENT = b"weights"

    def do_HEAD(self) -> None:
        self.send_response(
            200
            if self.path.endswith("timm/resnet10t/resolve/main/model.safetensors")
            else 404
        )
        for name, value in (
            ("ETag", '"1"'),
            ("X-Repo-Commit", 40 * "a"),
            ("Content-Length", len(self.CONTENT)),
        ):
            self.send_header(name, str(value))
        self.end_headers()

    def do_GET(self) -> None:
        self.do_HEAD()
        self.wfile.write(self.CONTENT)


def test_a_file_is_downloaded_into_the_cache_of_the_hub(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), SmallHub) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("HF_HOME", str(tmp_path))
        monkeypatch.setenv("HF_HUB_OFFLINE", "0")
        hub.download(HubFile("timm/resnet10t", "model.safetensors"))
        server.shutdown()
    (file,) = tmp_path.rglob("snapshots/*/model.safetensors")
    assert file.read_bytes() == SmallHub.CONTENT


def test_a_download_ends_after_its_time_and_tells_why_it_fails(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hub, "PROGRAM", "import time; time.sleep(10000)")
    with pytest.raises(TimeoutError, match=r"model\.safetensors"):
        hub.download(HubFile("timm/resnet10t", "model.safetensors"), 0.1)
    monkeypatch.setattr(
        hub, "PROGRAM", "import sys; raise OSError('no route to ' + sys.argv[1])"
    )
    with pytest.raises(OSError, match="no route to timm/resnet10t"):
        hub.download(HubFile("timm/resnet10t", "model.safetensors"))


def test_a_download_that_fails_is_told_in_one_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    messages = list[str]()

    def interrupt(*command: object, **settings: object) -> None:
        raise TimeoutError("too slow")

    monkeypatch.setattr(timm_networks, "cached_path", lambda file: None)
    monkeypatch.setattr(timm_networks, "size_on_hub", lambda file: 20_000_000)
    monkeypatch.setattr(timm_networks, "download", interrupt)
    with pytest.raises(SettingsError, match="HF_HUB_OFFLINE=1"):
        timm_networks.download_weights(MODEL, messages.append, 1.0)
    assert "20 MB" in messages[0]


class Trap:
    """Whoever runs what is in the file writes another."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> Any:
        return Path.write_text, (self.target, "run")


def test_nothing_in_a_file_is_run(tmp_path: Path) -> None:
    trap = tmp_path / "trap.pth"
    ran = tmp_path / "ran"
    torch.save({"conv1.weight": Trap(ran)}, trap)
    with pytest.raises(
        SettingsError, match=r"^[^\n]*it holds other things than tensors[^\n]*$"
    ):
        build(trap)
    trap.write_bytes(pickle.dumps(Trap(ran), protocol=2))
    with pytest.raises(SettingsError, match=r"^[^\n]*state dict[^\n]*$"):
        build(trap)
    torch.save(
        {
            "model": pretrained().state_dict(),
            "args": argparse.Namespace(data=Trap(ran)),
        },
        trap,
    )
    with pytest.raises(
        SettingsError, match=r"^[^\n]*it holds other things than tensors[^\n]*$"
    ):
        build(trap)
    torch.save(pretrained(), trap)
    with pytest.raises(
        SettingsError,
        match=r"^[^\n]*timm\.models\.resnet\.ResNet[^\n]*state dict[^\n]*$",
    ):
        build(trap)
    assert not ran.exists()


def test_timm_s_own_weights_are_taken_as_timm_gives_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    create = timm.create_model
    asked = []

    def download(
        name: str,
        pretrained: bool = False,
        pretrained_cfg_overlay: Any = None,
        **settings: Any,
    ) -> Any:
        asked.append((name, pretrained))
        network = create(name, **settings)
        if pretrained:
            network.load_state_dict(timm_s.state_dict())
        return network

    timm_s = create(NAME)
    _read_from_timm.cache_clear()
    monkeypatch.setattr(timm_networks, "download_weights", lambda model, say: None)
    monkeypatch.setattr(timm, "create_model", download)
    network = build_model(
        f"{MODEL}.c3_in1k", 3, 0, 32, Start.of(f"{MODEL}.c3_in1k", "timm")
    )
    assert (f"{NAME}.c3_in1k", True) in asked
    assert names_that_differ(network, timm_s) == HEAD
    hashes = {Start.of(MODEL, "timm").sha256 for _ in range(2)}
    with torch.no_grad():
        timm_s.get_parameter("conv1.0.weight")[0, 0, 0, 0] += 1
    assert len(hashes) == 1
    _read_from_timm.cache_clear()
    assert Start.of(MODEL, "timm").sha256 not in hashes


def test_the_first_groups_of_a_resnet_are_its_stem_and_its_stages() -> None:
    stages = ("conv1", "bn1", "layer1", "layer2", "layer3", "layer4", "fc")
    for what, n_frozen in (
        ("none", 0),
        ("1", 2),
        ("2", 3),
        ("5", 6),
        ("all-but-head", 6),
    ):
        network = pretrained()
        freeze(network, what, ("fc",))
        trains = {
            (name.split(".")[0], weight.requires_grad)
            for name, weight in network.named_parameters()
        }
        assert trains == {
            (stage, number >= n_frozen) for number, stage in enumerate(stages)
        }, what


def trained(network: nn.Module) -> dict[str, torch.Tensor]:
    """What differs after some steps in training mode."""
    before = copy.deepcopy(network.state_dict())
    optimizer = torch.optim.SGD(
        network.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1
    )
    for step in range(3):
        network.train()
        images = torch.rand(4, 3, 32, 32, generator=seeded(step))
        F.cross_entropy(network(images), torch.tensor([0, 1, 2, 3])).backward()
        optimizer.step()
    return {
        name: value
        for name, value in network.state_dict().items()
        if not torch.equal(value, before[name])
    }


@pytest.mark.parametrize("name", ["resnet10t", "mobilenetv3_small_050"])
def test_training_moves_neither_frozen_weights_nor_their_statistics(name: str) -> None:
    network = pretrained(name=name)
    (head,) = (layer for layer in ("fc", "classifier") if hasattr(network, layer))
    freeze(network, "all-but-head", (head,))
    # A copy is frozen like its original: searches and evaluations make them.
    assert set(trained(copy.deepcopy(network))) == {f"{head}.weight", f"{head}.bias"}


def test_statistics_alone_can_be_frozen(tmp_path: Path) -> None:
    start = Start.of(MODEL, str(weights_file(tmp_path)), "none+statistics")
    changed = {
        name
        for name in trained(build_model(MODEL, CLASSES_THERE, 0, 32, start))
        if "running" in name
    }
    assert changed == set()
    start = Start.of(MODEL, str(tmp_path / "weights.pth"))
    assert any(
        "running" in name
        for name in trained(build_model(MODEL, CLASSES_THERE, 0, 32, start))
    )


def test_a_frozen_batch_norm_normalises_by_its_running_statistics_in_training() -> None:
    network = pretrained()
    thawed = pretrained()
    freeze(network, "all-but-head", ("fc",))
    images = torch.rand(4, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(
            network.train()(images), thawed.eval()(images), rtol=0, atol=0
        )
        assert not torch.allclose(thawed.train()(images), network(images), atol=1e-3), (
            "it would differ otherwise"
        )


def test_a_network_of_timm_goes_by_its_name() -> None:
    network = build_model("timm:resnet10t", 7, seed=0)
    assert type(network) is type(timm.create_model("resnet10t", pretrained=False))
    assert network(torch.rand(2, 3, 32, 32)).shape == (2, 7)


@pytest.mark.parametrize(
    "name", ["resnet10", "hf-hub:timm/resnet10t", "timm:resnet10t"]
)
def test_an_unknown_network_of_timm_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(
        SettingsError, match=r"^[^\n]*unknown timm model[^\n]*$"
    ) as raised:
        find_model(f"timm:{name}")
    assert repr(name) in str(raised.value)


def test_a_network_that_is_made_for_another_image_size_is_refused_in_one_line() -> None:
    name = "timm:vit_tiny_patch16_224"
    with pytest.raises(
        SettingsError, match=r"^[^\n]*cannot take images of 32x32 [^\n]*$"
    ):
        build_model(name, 3, seed=0, image_size=32)
    assert build_model(name, 3, seed=0, image_size=224).training
