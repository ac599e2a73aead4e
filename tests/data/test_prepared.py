"""Prepared images: the same splits, pixels and colours as of the data that they are made of, in memory and mapped."""

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from in_memory import in_memory
from own_formats import WRITERS, write_images
from streamed_folders import SMALL, passes, write_folder

import hba
from hba.data import load_evaluation_data, load_search_data, prepare
from hba.data.batches import BatchStream
from hba.data.config import DataConfig, resolved_data
from hba.data.identity import SeenImages, identities
from hba.data.images import Images
from hba.data.mapped import MappedImages
from hba.errors import DataError, SettingsError

SIZE = 8


def config_of(data: Path, **settings: Any) -> DataConfig:
    return DataConfig.make(resolved_data({"data": str(data), **settings}))


def alike(first: Images, second: Images) -> bool:
    one, other = in_memory(first), in_memory(second)
    return torch.equal(one.images, other.images) and torch.equal(one.labels, other.labels)


def folder_of(place: Path, parts: dict[str, int]) -> Path:
    write_images(place, parts)
    return place


def as_prepared(data: Path, place: Path, **settings: Any) -> Path:
    prepare(data, place, **{"image_size": SIZE, **settings})
    return place


@pytest.mark.parametrize("parts", [{"": 9}, {"train": 6, "val": 3}, {"train": 6, "test": 3}], ids="-".join)
@pytest.mark.parametrize("kind", ["folder", *WRITERS])
def test_splits_pixels_and_classes_are_those_of_the_data(kind: str, parts: dict[str, int], tmp_path: Path) -> None:
    images = tmp_path / "images"
    shown = write_images(images, parts)
    data = images if kind == "folder" else WRITERS[kind](images, shown)
    out = as_prepared(data, tmp_path / "out")
    for settings in ({}, {"split_seed": 3, "train_size": 8}):
        plain = load_search_data(config_of(data, image_size=SIZE, **settings))
        found = load_search_data(config_of(out, **settings))
        assert alike(plain.train, found.train)
        assert alike(plain.val, found.val)
        assert (plain.class_names, plain.test_images) == (found.class_names, found.test_images)
    plain_test = load_evaluation_data(config_of(data, image_size=SIZE))
    test = load_evaluation_data(config_of(out))
    assert in_memory(plain_test.train).fingerprint() == in_memory(test.train).fingerprint()
    assert torch.equal(in_memory(plain_test.test).images, in_memory(test.test).images)


def test_named_data_can_be_prepared(tmp_path: Path) -> None:
    out = as_prepared(Path("digits"), tmp_path / "out")
    assert alike(
        load_search_data(config_of(Path("digits"), image_size=SIZE)).train, load_search_data(config_of(out)).train
    )


def test_several_labels_and_other_numbers_of_channels(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    images, labels = random.integers(0, 256, (30, SIZE, SIZE, 5), dtype=np.uint8), random.integers(0, 2, (30, 3))
    np.savez(tmp_path / "bands.npz", images=images, labels=labels)
    out = as_prepared(tmp_path / "bands.npz", tmp_path / "out")
    plain = load_search_data(config_of(tmp_path / "bands.npz", image_size=SIZE))
    found = load_search_data(config_of(out))
    assert in_memory(found.train).images.shape[1] == 5
    assert alike(plain.train, found.train)
    assert alike(plain.val, found.val)


def test_deep_images_keep_the_scale_of_a_search(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    deep = random.integers(0, 4096, (40, SIZE, SIZE), dtype=np.uint16)
    np.savez(tmp_path / "deep.npz", images=deep, labels=np.arange(40) % 2)
    out = as_prepared(tmp_path / "deep.npz", tmp_path / "out")
    plain, found = (load_search_data(config_of(data, image_size=SIZE)) for data in (tmp_path / "deep.npz", out))
    assert alike(plain.train, found.train)
    assert plain.facts[0] in found.facts
    with pytest.raises(SettingsError, match=r"levels have no effect on .*, prepared images; prepare them with levels"):
        load_search_data(config_of(out, levels=(0, 10)))
    # The scale that was found knows nothing of these test images alone.
    with pytest.raises(SettingsError, match="their scale was found by the split seed 0 and in all classes: keep both"):
        load_search_data(config_of(out, split_seed=1))
    given = as_prepared(tmp_path / "deep.npz", tmp_path / "given", levels=(0, 4095))
    plain = load_search_data(config_of(tmp_path / "deep.npz", image_size=SIZE, split_seed=1, levels=(0, 4095)))
    assert alike(plain.train, load_search_data(config_of(given, split_seed=1)).train)


@pytest.mark.parametrize("algorithm", ["lookahead", "hba"])
def test_a_search_finds_the_same_from_files_from_memory_and_mapped(algorithm: str, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "images", 24)
    out = as_prepared(folder, tmp_path / "out")
    settings = {**SMALL, "algorithm": algorithm, "seed": 1}
    plain = hba.search(folder, **settings).schedule
    del settings["image_size"]
    for stream in (False, True):
        found = hba.search(out, stream=stream, workers=1, **settings).schedule
        assert plain is not None
        assert found is not None
        assert np.array_equal(plain.values, found.values)
        assert found.provenance["image_size"] == SIZE


def test_an_evaluation_of_prepared_images_gives_the_errors_of_the_data(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "images", 24)
    out = as_prepared(folder, tmp_path / "out")
    found = hba.search(folder, out=tmp_path / "run", **SMALL)
    assert found.schedule is not None
    results = [
        hba.evaluate(found.schedule, data, seeds=1, jobs=1, epochs=2, stream=stream)
        for data, stream in ((folder, False), (out, False), (out, True))
    ]
    assert len({str(result.rows) for result in results}) == 1


# Mapped images.


def mapped(place: Path, workers: int = 1) -> MappedImages:
    out = as_prepared(write_folder(place / "images", 10), place / "out")
    data = load_search_data(config_of(out, stream=True, workers=workers, val_size=2)).train
    assert isinstance(data, MappedImages)
    return data


def kept(place: Path) -> Images:
    return load_search_data(config_of(place / "out", val_size=2)).train


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_batches_and_colours_are_those_of_images_in_memory(tmp_path: Path, workers: int) -> None:
    data = mapped(tmp_path, workers)
    memory = kept(tmp_path)
    streams = [BatchStream(images, 3, seed=3) for images in (data, memory)]
    for first, second in zip(*(passes(stream, 11) for stream in streams), strict=True):
        assert torch.equal(first, second)
    assert (data.mean_color(), data.std_color()) == (memory.mean_color(), memory.std_color())
    read = list(data.once(6))
    assert torch.equal(torch.cat([images for images, _ in read]), in_memory(memory).images)
    assert torch.equal(torch.cat([labels for _, labels in read]), in_memory(memory).labels)
    data.close()


@pytest.mark.parametrize("n_before", [0, 1, 3, 4, 5])
def test_a_pass_is_resumed_in_its_middle(tmp_path: Path, n_before: int) -> None:
    data = mapped(tmp_path, workers=2)
    stream = BatchStream(data, 3, seed=0)
    passes(stream, n_before)
    state = stream.state_dict()
    expected = passes(stream, 5)
    other = BatchStream(data, 3, seed=99)
    other.load_state_dict(state)
    assert all(torch.equal(*pair) for pair in zip(passes(other, 5), expected, strict=True))
    data.close()


def test_threads_end_with_their_pass_and_when_closed(tmp_path: Path) -> None:
    data = mapped(tmp_path, workers=2)

    def readers() -> int:
        return sum(thread.name.startswith("hba-images") for thread in threading.enumerate())

    assert len(list(data.batches(torch.arange(len(data)), 2))) == len(data) // 2
    assert readers() == 0
    reading = data.batches(torch.arange(len(data)), 2)
    next(reading)
    assert readers() > 0
    data.close()
    assert readers() == 0


def test_nothing_of_the_images_is_in_memory_before_it_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hba.data.load.STREAM_ABOVE_BYTES", 1000)
    out = as_prepared(folder_of(tmp_path / "images", {"train": 6, "test": 3}), tmp_path / "out")
    (out / "test_images.npy").unlink()
    (out / "test_labels.npy").rename(out / "hidden")
    data = load_search_data(config_of(out))
    assert isinstance(data.train, MappedImages)
    assert "_pixels" not in vars(data.train)
    # An evaluation needs them.
    (out / "hidden").rename(out / "test_labels.npy")
    test = load_evaluation_data(config_of(out)).test
    with pytest.raises(DataError, match=r"cannot read .*test_images.npy"):
        next(test.once(5))


def test_a_fingerprint_tells_other_pixels_other_rows_and_other_labels(tmp_path: Path) -> None:
    first, again = mapped(tmp_path / "a"), load_search_data(config_of(tmp_path / "a" / "out", stream=True, val_size=2))
    other = load_search_data(config_of(tmp_path / "a" / "out", stream=True, val_size=2, split_seed=1))
    write_images(tmp_path / "b", {"": 6}, seed=1)
    else_ = load_search_data(config_of(as_prepared(tmp_path / "b", tmp_path / "b-out"), stream=True))
    prints = [images.fingerprint() for images in (first, again.train, other.train, again.val, else_.train)]
    assert prints[0] == prints[1]
    assert len(set(prints)) == 4


# What a search has seen.


@pytest.mark.parametrize("kind", ["folder", "npz"])
def test_images_are_known_again_in_the_data_and_in_what_is_prepared_of_them(kind: str, tmp_path: Path) -> None:
    images = tmp_path / "images"
    shown = write_images(images, {"": 12})
    data = images if kind == "folder" else WRITERS[kind](images, shown)
    out = as_prepared(data, tmp_path / "out")
    for searched, tested in ((data, out), (out, data), (out, out)):
        listing = load_search_data(config_of(searched, image_size=SIZE)).listing
        test = load_evaluation_data(config_of(tested, image_size=SIZE, split_seed=5)).listing
        assert listing is not None
        assert test is not None
        seen = SeenImages.of_listing(listing)
        assert seen.count(identities(test.chosen)).n_seen > 0
        same = load_evaluation_data(config_of(tested, image_size=SIZE)).listing
        assert same is not None
        assert seen.count(identities(same.chosen)).n_seen == 0


# What is refused.


def _edited(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], None]:
    def edit(out: Path) -> None:
        path = out / "prepared_images.json"
        content = json.loads(path.read_text())
        change(content)
        path.write_text(json.dumps(content))

    return edit


def _cut(out: Path) -> None:
    path = out / "train_images.npy"
    path.write_bytes(path.read_bytes()[:-1])


def _zip(out: Path) -> None:
    np.savez(out / "train_images.npz", a=np.zeros(3))
    (out / "train_images.npz").rename(out / "train_images.npy")


def _pipe(out: Path) -> None:
    (out / "train_images.npy").unlink()
    os.mkfifo(out / "train_images.npy")


def _head(out: Path) -> None:
    path = out / "train_images.npy"
    content = path.read_bytes()
    path.write_bytes(content.replace(b"(18, 3", b"(18, 9" * 1, 1)[:100])


def _labels(out: Path) -> None:
    np.save(out / "train_labels.npy", np.full(18, 7))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (_edited(lambda about: about.update(version=2)), "version must be 1, got 2"),
        (_edited(lambda about: about.pop("channels")), "channels is missing"),
        (_edited(lambda about: about["parts"].pop("train")), "has no part train"),
        (_edited(lambda about: about.update(class_names=["a", "b", "c"])), "the class 'c' of .* has 0 images"),
        (_edited(lambda about: about["parts"]["train"].update(images=19)), "train_labels.npy must be int64 of shape"),
        (_edited(lambda about: about.update(channels=1)), "train_images.npy must be uint8 of shape"),
        (lambda out: (out / "prepared_images.json").write_bytes(b"\xff{"), "cannot read .*prepared_images.json"),
        (_cut, "cannot read .*train_images.npy"),
        (_labels, "must hold labels from 0 to 1"),
        (_zip, "cannot read .*train_images.npy"),
        (_pipe, "cannot read .*train_images.npy .it is no regular file"),
        (_head, "cannot read .*train_images.npy"),
    ],
)
def test_damaged_files_are_refused_in_one_line(tmp_path: Path, damage: Callable[[Path], None], message: str) -> None:
    out = as_prepared(write_folder(tmp_path / "images", 9), tmp_path / "out")
    damage(out)
    with pytest.raises(DataError, match=message) as refused:
        load_search_data(config_of(out))
    assert "\n" not in str(refused.value)


def test_identities_of_other_numbers_are_refused(tmp_path: Path) -> None:
    out = as_prepared(write_folder(tmp_path / "images", 9), tmp_path / "out")
    np.save(out / "train_identities.npy", np.full((18, 2), 2**40))
    listing = load_search_data(config_of(out)).listing
    assert listing is not None
    with pytest.raises(DataError, match=r"train_identities.npy must hold numbers of 32 bits"):
        SeenImages.of_listing(listing)


def test_another_size_than_the_prepared_one_is_refused(tmp_path: Path) -> None:
    out = as_prepared(write_folder(tmp_path / "images", 9), tmp_path / "out")
    for stream in (False, True):
        with pytest.raises(DataError, match="prepared with 8 pixels a side, but are to be read with 16: give"):
            load_search_data(config_of(out, image_size=16, stream=stream))
