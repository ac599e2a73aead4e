"""Images read from their files in every pass: the same as in memory, in order, with
processes that end.
"""

import gc
import multiprocessing
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from in_memory import in_memory
from streamed_folders import SIZE, kept, passes, pool_in, streamed, write_folder

from hba.data import load_evaluation_data, load_search_data
from hba.data.config import DataConfig
from hba.data.images import LabelledImages
from hba.data.loader import BatchStream, StreamedImages, default_workers
from hba.errors import DataError

# The same as in memory.


@pytest.mark.parametrize(
    ("workers", "file_format"), [(0, "png"), (0, "jpg"), (2, "png")]
)
def test_batches_are_those_of_images_in_memory(
    tmp_path: Path, workers: int, file_format: str
) -> None:
    write_folder(tmp_path, 10, file_format)
    data = streamed(tmp_path, workers)
    memory = kept(tmp_path)
    streams = [BatchStream(images, 6, seed=3) for images in (data, memory)]
    for first, second in zip(*(passes(stream, 8) for stream in streams), strict=True):
        assert torch.equal(first, second)
    read = list(data.once(6))
    assert [len(labels) for _, labels in read] == [6, 6, 6, 2]
    assert torch.equal(torch.cat([images for images, _ in read]), memory.images)
    assert torch.equal(torch.cat([labels for _, labels in read]), memory.labels)
    assert read[0][0].dtype == torch.uint8


@pytest.mark.parametrize(
    ("n_before", "workers"), [(0, 0), (1, 0), (2, 0), (3, 0), (5, 2), (6, 0)]
)
def test_a_restored_stream_goes_on_as_the_saved_one(
    tmp_path: Path, n_before: int, workers: int
) -> None:
    data = streamed(write_folder(tmp_path, 10), workers)
    stream = BatchStream(data, 6, seed=0)
    passes(stream, n_before)
    state = stream.state_dict()
    expected = passes(stream, 5)
    other = BatchStream(data, 6, seed=99)
    passes(other, 1)
    other.load_state_dict(state)
    assert all(
        torch.equal(*pair) for pair in zip(passes(other, 5), expected, strict=True)
    )


def test_the_default_generator_of_torch_is_left_alone(tmp_path: Path) -> None:
    data = streamed(write_folder(tmp_path, 10))
    before = torch.get_rng_state()
    passes(BatchStream(data, 6, seed=0), 5)
    data.mean_color()
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.skipif(os.name != "posix", reason="needs limits of POSIX")
def test_images_come_through_pipes_where_shared_memory_is_too_small(
    tmp_path: Path,
) -> None:
    import resource

    data = streamed(write_folder(tmp_path, 10))
    memory = kept(tmp_path)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    batches = data.once(6)
    # A limit of files is one of shared memory, too. The processes, which start with the
    # first batch, inherit it.
    resource.setrlimit(resource.RLIMIT_FSIZE, (6 * 3 * SIZE * SIZE - 1, before[1]))
    try:
        with pytest.raises(RuntimeError):
            torch.zeros(6, 3, SIZE, SIZE, dtype=torch.uint8).share_memory_()
        read = [next(batches)[0]]
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    read += [images for images, _ in batches]
    assert torch.equal(torch.cat(read), memory.images)


# What decides about streaming.


def test_only_what_does_not_fit_is_streamed_unless_told_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_folder(tmp_path, 20)
    config = DataConfig(data=str(tmp_path), image_size=SIZE)
    # 32 images that are not test leave 6 for validation and 26 for training.
    monkeypatch.setattr("hba.data.load.STREAM_ABOVE_BYTES", 10 * 3 * SIZE**2)
    search = load_search_data(config)
    assert isinstance(search.train, StreamedImages)
    assert search.train.workers == default_workers()
    assert isinstance(search.val, LabelledImages)
    for stream, image_class in ((True, StreamedImages), (False, LabelledImages)):
        loaded = load_search_data(
            config.model_copy(update={"stream": stream, "workers": 1})
        )
        assert isinstance(loaded.train, image_class)
        assert isinstance(loaded.val, image_class)
    evaluation = load_evaluation_data(config.model_copy(update={"stream": True}))
    assert isinstance(evaluation.train, StreamedImages)
    assert isinstance(
        in_memory(
            load_evaluation_data(config.model_copy(update={"stream": False})).test
        ),
        LabelledImages,
    )


def test_the_fingerprint_tells_names_labels_sizes_and_files_apart(
    tmp_path: Path,
) -> None:
    write_folder(tmp_path / "a", 5)
    fingerprints = {streamed(tmp_path / "a").fingerprint()}
    (tmp_path / "a").rename(tmp_path / "b")
    fingerprints.add(streamed(tmp_path / "b").fingerprint())
    assert len(fingerprints) == 1
    (tmp_path / "b" / "cat" / "000.png").rename(tmp_path / "b" / "cat" / "0000.png")
    fingerprints.add(streamed(tmp_path / "b").fingerprint())
    with (tmp_path / "b" / "dog" / "001.png").open("ab") as file:
        file.write(b"more")
    pool = pool_in(tmp_path / "b")
    for other_pool in (
        pool,
        replace(pool, image_size=SIZE + 1),
        pool.take(np.arange(9)),
    ):
        fingerprints.add(StreamedImages.of(other_pool, 0).fingerprint())
    assert len(fingerprints) == 5


# Files that cannot be read.


@pytest.mark.parametrize("workers", [0, 2])
def test_a_broken_image_is_named_in_one_line(tmp_path: Path, workers: int) -> None:
    write_folder(tmp_path, 10)
    broken = tmp_path / "dog" / "004.png"
    broken.write_bytes(b"no image")
    data = streamed(tmp_path, workers)
    for read in (
        lambda: passes(BatchStream(data, 20, seed=0), 1),
        lambda: list(data.once(6)),
        data.mean_color,
    ):
        with pytest.raises(DataError, match=r"004\.png \(.*--skip-broken") as raised:
            read()
        assert len(str(raised.value).splitlines()) == 1
    gc.collect()
    assert multiprocessing.active_children() == []


def test_broken_images_are_found_first_and_left_out_as_from_memory(
    tmp_path: Path,
) -> None:
    write_folder(tmp_path, 10)
    broken = [tmp_path / name for name in ("cat/003.png", "cat/007.png", "dog/009.png")]
    for path in broken:
        path.write_bytes(b"no image")
    data = streamed(tmp_path, 0, skip_broken=True)
    pool = pool_in(tmp_path, skip_broken=True)
    memory = pool.read()
    assert [item.path for item in data.left_out] == list(map(str, broken))
    assert data.left_out == memory.left_out == data.to(torch.device("cpu")).left_out
    streams = [BatchStream(images, 6, seed=3) for images in (data, memory)]
    for first, second in zip(*(passes(stream, 4) for stream in streams), strict=True):
        assert torch.equal(first, second)
    for path in tmp_path.rglob("*.png"):
        path.write_bytes(b"no image")
    with pytest.raises(DataError, match="none of 20 images could be read"):
        streamed(tmp_path, 1, skip_broken=True)
