"""Prepared images: the same images and splits as the data, resumable, and refused when
they are damaged.
"""

import json
import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from own_formats import WRITERS, write_images
from streamed_folders import SIZE, write_folder
from test_levels import write_folder as write_deep_folder

from hba.data import load_evaluation_data, load_search_data, prepare
from hba.data.config import DataConfig, resolved_data
from hba.data.images import Images, LazySplit
from hba.data.leakage import SeenImages, all_hashes
from hba.errors import DataError, HbaError
from hba.executors.executor import CONTEXT


def config_of(data: Path, **settings: Any) -> DataConfig:
    return DataConfig.make(resolved_data({"data": str(data), **settings}))


def content_of(images: Images | LazySplit) -> tuple[bytes, list[int]]:
    ((pixels, labels),) = images.opened().once(5000)
    return pixels.numpy().tobytes(), labels.tolist()


def alike(first: DataConfig, second: DataConfig) -> None:
    """Searches and evaluations get the same."""
    search, other_search = map(load_search_data, (first, second))
    evaluation, other_evaluation = map(load_evaluation_data, (first, second))
    assert search.class_names == other_search.class_names
    assert search.test_images == other_search.test_images
    for split, other_split in (
        (search.train, other_search.train),
        (search.val, other_search.val),
        (evaluation.train, other_evaluation.train),
        (evaluation.test, other_evaluation.test),
    ):
        assert content_of(split) == content_of(other_split)


def files_of(out: Path) -> dict[str, bytes]:
    return {
        path.name: path.read_bytes()
        for path in sorted(out.iterdir())
        if path.name != ".lock"
    }


@pytest.mark.parametrize("data_format", ["folder", "npz", "parquet"])
def test_splits_pixels_and_classes_are_those_of_the_data(
    data_format: str, tmp_path: Path
) -> None:
    for name, parts in (
        ("unsplit", {"": 9}),
        ("split", {"train": 6, "val": 2, "test": 3}),
    ):
        place = tmp_path / name
        shown = write_images(place / "images", parts)
        shown = [image._replace(path=f"images/{image.path}") for image in shown]
        data = (
            place / "images"
            if data_format == "folder"
            else WRITERS[data_format](place, shown)
        )
        prepared = prepare(data, place / "out", image_size=SIZE)
        assert prepared.n_images == {
            split or "train": 4 * count for split, count in parts.items()
        }
        sizes: list[dict[str, Any]] = [
            {},
            {"train_size": 8, "val_size": 4, "split_seed": 3},
        ]
        for settings in sizes:
            for stream in (False, True):
                streamed = config_of(
                    place / "out", stream=stream, workers=0, **settings
                )
                alike(config_of(data, image_size=SIZE, **settings), streamed)
        # What a search has seen of the data is known again in what is prepared of them.
        listing = load_search_data(config_of(data, image_size=SIZE)).listing
        assert listing is not None
        seen = SeenImages.of("files", all_hashes(listing))
        for seed in (0, 1):
            tested = [
                load_evaluation_data(
                    config_of(folder, image_size=SIZE, split_seed=seed)
                )
                for folder in (data, place / "out")
            ]
            counts = [
                seen.overlap(all_hashes(evaluation.listing))
                for evaluation in tested
                if evaluation.listing
            ]
            assert counts[0] == counts[1]


def test_named_data_deep_images_and_several_labels_can_be_prepared(
    tmp_path: Path,
) -> None:
    prepare("digits", tmp_path / "digits.hba")
    alike(DataConfig(data="digits"), config_of(tmp_path / "digits.hba"))
    deep = write_deep_folder(tmp_path / "deep", 4095)
    prepare(deep, tmp_path / "deep.hba", image_size=SIZE, levels=(0, 4095))
    alike(
        config_of(deep, image_size=SIZE, levels=(0, 4095)),
        config_of(tmp_path / "deep.hba"),
    )
    for settings in ({"levels": (0, 100)}, {"image_size": 2 * SIZE}):
        with pytest.raises(HbaError):
            load_search_data(config_of(tmp_path / "deep.hba", **settings))
    images, labels = np.random.default_rng(0).integers(
        0, 256, (2, 30, SIZE, SIZE, 4), dtype=np.uint8
    )
    np.savez(tmp_path / "a.npz", images=images, labels=labels[:, 0, 0, :3] % 2)
    prepare(tmp_path / "a.npz", tmp_path / "a.hba", image_size=SIZE)
    alike(config_of(tmp_path / "a.npz", image_size=SIZE), config_of(tmp_path / "a.hba"))


def prepare_and_die(folder: Path, out: Path) -> None:
    """Killed when it has read the first image."""
    prepare(
        folder,
        out,
        image_size=SIZE,
        on_read=lambda *_: os.kill(os.getpid(), signal.SIGKILL),
    )


@pytest.mark.skipif(os.name != "posix", reason="needs SIGKILL")
def test_an_interrupted_call_is_done_again_to_the_same_files(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "images", 9)
    out = tmp_path / "out"
    process = CONTEXT.Process(  # type: ignore[attr-defined]
        target=prepare_and_die, args=(folder, out)
    )
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    good = (folder / "dog" / "002.png").read_bytes()
    (folder / "dog" / "002.png").write_bytes(b"no picture")
    with pytest.raises(DataError, match=r"002\.png"):
        prepare(folder, out, image_size=SIZE, skip_broken=False)
    with pytest.raises(DataError):
        load_search_data(config_of(out))
    (folder / "dog" / "002.png").write_bytes(good)
    counts: list[tuple[int, int]] = []
    prepare(
        folder, out, image_size=SIZE, on_read=lambda *progress: counts.append(progress)
    )
    assert counts[-1] == (18, 18)
    prepare(folder, tmp_path / "whole", image_size=SIZE)
    assert files_of(out) == files_of(tmp_path / "whole")


def test_broken_images_are_left_out_as_they_are_from_memory(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "images", 9)
    for broken in ("cat/001.png", "dog/002.png"):
        (folder / broken).write_bytes(b"no picture")
    prepare(folder, tmp_path / "out", image_size=SIZE, skip_broken=True)
    plain = config_of(folder, image_size=SIZE, skip_broken=True)
    for stream in (False, True):
        alike(plain, config_of(tmp_path / "out", stream=stream))
        assert (
            load_search_data(config_of(tmp_path / "out")).left_out
            == load_search_data(plain).left_out
        )
    for path in folder.rglob("*.png"):
        path.write_bytes(b"no picture")
    with pytest.raises(DataError):
        prepare(folder, tmp_path / "none", image_size=SIZE, skip_broken=True)


def test_calls_that_cannot_work_are_refused_in_one_line(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "images", 9)
    prepare(folder, tmp_path / "done", image_size=SIZE)
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "train_images.npy").write_bytes(b"mine")
    calls: list[tuple[Path, str, dict[str, Any], str]] = [
        (folder, "new", {"train_size": 5}, "train_size"),
        (folder, "done", {}, "done"),
        (folder, "images", {}, "images"),
        (folder, "own", {}, "train_images"),
    ]
    for data, out, settings, named in calls:
        with pytest.raises(HbaError, match=named):
            prepare(data, tmp_path / out, **{"image_size": SIZE, **settings})
    assert not (tmp_path / "new").exists()
    assert files_of(tmp_path / "own") == {"train_images.npy": b"mine"}


def test_damaged_files_are_refused_in_one_line(tmp_path: Path) -> None:
    prepare(write_folder(tmp_path / "images", 9), tmp_path / "out", image_size=SIZE)
    out = tmp_path / "out"
    about = json.loads((out / "prepared_images.json").read_text())
    damages: list[tuple[str, bytes]] = [
        ("prepared_images.json", b"{"),
        ("prepared_images.json", json.dumps({**about, "version": 2}).encode()),
        ("train_labels.npy", (out / "train_labels.npy").read_bytes()[:-8]),
        ("train_images.npy", (out / "train_identities.npy").read_bytes()),
    ]
    for name, content in damages:
        before = (out / name).read_bytes()
        (out / name).write_bytes(content)
        with pytest.raises(DataError, match="anew") as raised:
            load_search_data(config_of(out, image_size=SIZE))
        assert len(str(raised.value).splitlines()) == 1
        (out / name).write_bytes(before)
