"""timm's networks by name, and what is said where there is no such network or no timm."""

import sys
import time

import pytest
import timm
import torch

from hba.errors import SettingsError
from hba.models import build_model, find_model


def test_a_network_of_timm_goes_by_its_name() -> None:
    network = build_model("timm:resnet10t", 7, seed=0)
    assert type(network) is type(timm.create_model("resnet10t", pretrained=False))
    assert network(torch.rand(2, 3, 32, 32)).shape == (2, 7)


def test_finding_a_network_builds_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object, **_settings: object) -> None:
        raise AssertionError("built")

    monkeypatch.setattr(timm, "create_model", refuse)
    began = time.process_time()
    find_model("timm:vit_large_patch16_224")
    assert time.process_time() - began < 1


def test_no_weights_are_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, object] = {}
    monkeypatch.setattr(timm, "create_model", lambda name, **settings: asked.update(settings, name=name))
    find_model("timm:resnet10t")(5)
    assert asked == {"name": "resnet10t", "pretrained": False, "num_classes": 5, "in_chans": 3}


@pytest.mark.parametrize("name", ["resnet10", "", "hf-hub:timm/resnet10t", "RESNET10T", "timm:resnet10t"])
def test_an_unknown_network_of_timm_is_refused_in_one_line(name: str) -> None:
    with pytest.raises(SettingsError, match="unknown timm model") as raised:
        find_model(f"timm:{name}")
    assert repr(name) in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_name_that_is_nearly_right_is_put_right() -> None:
    with pytest.raises(SettingsError, match=r"similar: .*resnet10t"):
        find_model("timm:resnet10")


def test_a_tag_of_pretrained_weights_is_refused() -> None:
    with pytest.raises(SettingsError, match="omit their tag: timm:resnet18, not"):
        find_model("timm:resnet18.a1_in1k")


def test_without_timm_the_message_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(SettingsError) as raised:
        find_model("timm:resnet10t")
    assert str(raised.value) == "model 'timm:resnet10t' needs timm: pip install 'hba-augment[timm]'"


def test_without_timm_all_other_networks_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    assert find_model("wrn-10-1")(3)(torch.rand(2, 3, 8, 8)).shape == (2, 3)


def test_a_network_that_is_made_for_another_image_size_is_refused_in_one_line() -> None:
    name = "timm:vit_tiny_patch16_224"
    with pytest.raises(SettingsError, match="cannot take images of 32x32 ") as raised:
        build_model(name, 3, seed=0, image_size=32)
    assert len(str(raised.value).splitlines()) == 1
    assert build_model(name, 3, seed=0, image_size=224).training
