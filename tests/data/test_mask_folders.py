"""Folders of images with masks: layouts, forms of masks, sizes, and refusals."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from mask_folders import SIDE, write_folder, write_pair
from PIL import Image
from torchvision.transforms.v2 import functional as TF

from hba.data.arrays import from_dataset
from hba.data.config import DataConfig, format_of
from hba.data.images import EvaluationData, LabelledImages
from hba.data.load import load_evaluation_data, load_search_data, prepare
from hba.data.reading import resized_mask
from hba.errors import DataError, SettingsError
from hba.tasks import Segmentation, task_of

IGNORED = 255


def loaded(data: Path, **settings: object) -> EvaluationData:
    config = {"data": str(data), "image_size": SIDE, **settings}
    return load_evaluation_data(DataConfig.make(config))


def labels_of(data: EvaluationData) -> torch.Tensor:
    return torch.cat([data.train.labels, data.test.opened().labels])


def test_images_and_masks_are_read_in_pairs(tmp_path: Path) -> None:
    data = loaded(write_folder(tmp_path))
    assert format_of(tmp_path) == "masks"
    assert isinstance(task_of(data.train.labels), Segmentation)
    assert data.class_names == ("0", "1")
    for part in (data.train, data.test.opened()):
        assert isinstance(part, LabelledImages)
        is_bright = part.images.float().mean(dim=1) > 100
        assert torch.equal(is_bright, part.labels == 1)


def test_splits_are_folders_around_or_inside(tmp_path: Path) -> None:
    around, inside = tmp_path / "around", tmp_path / "inside"
    for number, split in enumerate(("train", "val", "test")):
        write_folder(around / split, 5 + number, seed=number)
        for part in ("images", "masks"):
            (inside / part).mkdir(parents=True, exist_ok=True)
            target = inside / part / split
            target.mkdir()
            for path in (around / split / part).iterdir():
                (target / path.name).write_bytes(path.read_bytes())
    by_layout = [
        loaded(around),
        loaded(inside),
        loaded(inside / "images", masks=str(inside / "masks")),
    ]
    for data in by_layout:
        assert len(data.train) == 5
        assert len(data.test.opened()) == 7
        assert torch.equal(labels_of(data), labels_of(by_layout[0]))
    config = DataConfig.make({"data": str(inside), "image_size": SIDE})
    assert len(load_search_data(config).val) == 6
    assert any("6 validation images" in fact for fact in by_layout[0].facts)
    assert not load_evaluation_data(config, with_val=True).facts


def test_the_longer_side_is_resized_and_the_rest_is_ignored(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(256, size=(20, 40, 3), dtype=np.uint8)
    mask = (np.arange(40) // 10)[None].repeat(20, 0).astype(np.uint8)
    for number in range(4):
        write_pair(tmp_path, str(number), pixels, mask)
    data = loaded(tmp_path, image_size=20)
    assert isinstance(data.train, LabelledImages)
    image, label = data.train.images[0], data.train.labels[0]
    expected = TF.resize(Image.fromarray(pixels), [10, 20], antialias=True)
    assert torch.equal(image[:, 5:15], TF.pil_to_tensor(expected))
    assert not image[:, :5].any()
    assert not image[:, 15:].any()
    assert (label[:5] == IGNORED).all()
    assert (label[15:] == IGNORED).all()
    assert torch.equal(label[5:15], torch.from_numpy(mask[::2, ::2]))


@pytest.mark.parametrize("side", [40, 30, 24, 20, 10])
def test_resized_masks_have_nearest_pixels_without_moving(side: int) -> None:
    mask = np.arange(40 * 20, dtype=np.int32).reshape(20, 40)
    resized = resized_mask(mask, side)
    rows, columns = np.divmod(resized, 40)
    # Middles of pixels, in pixels of the mask.
    scale = 40 / side
    for places, number in ((rows[:, 0], side // 2), (columns[0], side)):
        middles = (np.arange(number) + 0.5) * scale
        assert (np.abs(places + 0.5 - middles) <= 0.5).all()
        assert abs(places.mean() + 0.5 - middles.mean()) < 0.5 / number


def as_palette(mask: np.ndarray) -> Image.Image:
    image = Image.fromarray(mask, mode="P")
    image.putpalette([value for number in range(256) for value in (number, 0, 99)])
    return image


FORMS: dict[str, Callable[[np.ndarray], Image.Image]] = {
    "levels": Image.fromarray,
    "palette": as_palette,
    "16 bits": lambda mask: Image.fromarray(mask.astype(np.uint16)),
    "bits": lambda mask: Image.fromarray(mask.astype(bool)),
    "black and white": lambda mask: Image.fromarray(255 * mask),
    "grey in RGB": lambda mask: Image.fromarray(mask[..., None].repeat(3, 2)),
}


@pytest.mark.parametrize("form", FORMS)
def test_masks_of_any_form_have_the_same_classes(tmp_path: Path, form: str) -> None:
    plain = labels_of(loaded(write_folder(tmp_path)))
    for path in (tmp_path / "masks").iterdir():
        mask = np.asarray(Image.open(path))
        FORMS[form](mask).save(path)
    assert torch.equal(labels_of(loaded(tmp_path)), plain)


def test_a_saved_dataset_has_masks_in_a_second_column_of_images(
    tmp_path: Path,
) -> None:
    datasets: Any = pytest.importorskip("datasets")
    folder = write_folder(tmp_path / "squares")
    images = sorted(map(str, (folder / "images").iterdir()))
    masks = sorted(map(str, (folder / "masks").iterdir()))
    feature = datasets.Image()
    saved = datasets.Dataset.from_dict(
        {"annotation": masks, "image": images, "camera": images},
        features=datasets.Features(
            {"annotation": feature, "image": feature, "camera": feature}
        ),
    )
    plain = loaded(folder)
    saved.remove_columns("camera").save_to_disk(str(tmp_path / "two"))
    saved.save_to_disk(str(tmp_path / "three"))
    two = loaded(tmp_path / "two")
    three = loaded(tmp_path / "three", label_column="annotation", path_column="image")
    for data in (two, three):
        assert torch.equal(labels_of(data), labels_of(plain))
        assert data.train.fingerprint() == plain.train.fingerprint()
    with pytest.raises(DataError, match="--label-column"):
        loaded(tmp_path / "three")
    splits = {"train": saved, "test": saved.remove_columns("annotation")}
    datasets.DatasetDict(splits).save_to_disk(str(tmp_path / "splits"))
    with pytest.raises(DataError, match="'annotation'"):
        loaded(tmp_path / "splits", label_column="annotation", path_column="image")


COLORS = {0: (0, 0, 0), 1: (64, 128, 64), 2: (255, 0, 7)}


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P"])
def test_colors_of_masks_are_the_classes_that_a_file_lists(
    tmp_path: Path, mode: str
) -> None:
    folder = write_folder(tmp_path / "squares")
    plain = labels_of(loaded(folder))
    for number, path in enumerate(sorted((folder / "masks").iterdir())):
        mask = np.asarray(Image.open(path)).copy()
        mask[0, 0] = 2 * (number % 2)
        pixels = np.array([COLORS[value] for value in range(3)], dtype=np.uint8)[mask]
        picture = Image.fromarray(pixels)
        if mode == "P":
            picture = Image.fromarray(mask, mode="P")
            picture.putpalette([level for color in COLORS.values() for level in color])
        picture.convert(mode).save(path)
    listed = tmp_path / "colors.txt"
    listed.write_text("0 0 0\tground\n64, 128, 64, grass\n\n255 0 7 ignored\n")
    data = loaded(folder, mask_colors=str(listed))
    assert data.class_names == ("ground", "grass")
    labels = labels_of(data)
    has_color = labels == IGNORED
    assert has_color[:, 0, 0].any()
    assert torch.equal(labels.where(~has_color, plain), plain)
    for text, named in (
        ("0 0 0 ground\n64 128 64 grass\n", "255 0 7"),
        ("0 0 0 ground\n0 0 0 grass\n", "line 2"),
        ("0 0 0 ground\n300 0 0 grass\n", "300"),
        ("0 0 ground\n", "'0 0 ground'"),
        ("0 0 0 ground\n1 1 1 ground", "2 to 255"),
    ):
        listed.write_text(text)
        with pytest.raises(DataError, match=re.escape(named)):
            loaded(folder, mask_colors=str(listed))


def test_classes_have_the_names_of_a_file(tmp_path: Path) -> None:
    write_folder(tmp_path)
    (tmp_path / "classes.txt").write_text("ground\nsquare\nrare\n", encoding="utf-8")
    assert loaded(tmp_path).class_names == ("ground", "square", "rare")


def break_size(folder: Path) -> None:
    Image.new("L", (9, 9)).save(folder / "masks" / "003.png")


def break_pair(folder: Path) -> None:
    (folder / "masks" / "003.png").unlink()


def break_other_pair(folder: Path) -> None:
    (folder / "images" / "003.png").unlink()


def break_form(folder: Path) -> None:
    path = folder / "masks" / "003.png"
    Image.open(path).convert("L").save(path.with_suffix(".jpg"))
    path.unlink()


def break_colors(folder: Path) -> None:
    Image.new("RGB", (SIDE, SIDE), "red").save(folder / "masks" / "003.png")


def break_file(folder: Path) -> None:
    (folder / "masks" / "003.png").write_bytes(b"no image")


def break_names(folder: Path) -> None:
    (folder / "classes.txt").write_text("ground\n", encoding="utf-8")


MISTAKES = {
    "16 x 16": break_size,
    "no mask 003": break_pair,
    "no image 003": break_other_pair,
    "JPEG": break_form,
    "colors": break_colors,
    "mend it": break_file,
    "a name for each": break_names,
}


@pytest.mark.parametrize("message", MISTAKES)
def test_a_mistake_is_one_line(tmp_path: Path, message: str) -> None:
    write_folder(tmp_path)
    MISTAKES[message](tmp_path)
    with pytest.raises(DataError, match=message) as caught:
        loaded(tmp_path)
    assert "\n" not in str(caught.value)


def test_a_class_that_training_masks_lack_is_refused(tmp_path: Path) -> None:
    write_folder(tmp_path / "train")
    write_folder(tmp_path / "test", seed=1)
    path = tmp_path / "test" / "masks" / "003.png"
    Image.fromarray(np.full((SIDE, SIDE), 7, dtype=np.uint8)).save(path)
    with pytest.raises(DataError, match="number 7"):
        loaded(tmp_path)


def test_black_and_white_masks_among_numbers_are_refused(tmp_path: Path) -> None:
    for split in ("train", "test"):
        write_folder(tmp_path / split)
    for path in (tmp_path / "train" / "masks").iterdir():
        Image.fromarray(255 * np.asarray(Image.open(path))).save(path)
    with pytest.raises(DataError, match="number 1"):
        labels_of(loaded(tmp_path))


def test_two_images_of_one_name_are_refused(tmp_path: Path) -> None:
    write_folder(tmp_path)
    with Image.open(tmp_path / "images" / "003.png") as image:
        image.save(tmp_path / "images" / "003.bmp")
    with pytest.raises(DataError, match="one name"):
        loaded(tmp_path)


def test_masks_are_a_setting_of_images_only(tmp_path: Path) -> None:
    for name in ("cats", "dogs"):
        write_folder(tmp_path / name)
    with pytest.raises(SettingsError, match="masks"):
        loaded(Path("digits"), masks=str(tmp_path))


def test_classes_that_are_left_out_are_ignored(tmp_path: Path) -> None:
    write_folder(tmp_path)
    for path in (tmp_path / "masks").iterdir():
        mask = np.array(Image.open(path))
        mask[0] = 2
        Image.fromarray(mask).save(path)
    (tmp_path / "kept.txt").write_text("0\n2\n", encoding="utf-8")
    data = loaded(tmp_path, classes=str(tmp_path / "kept.txt"))
    assert data.class_names == ("0", "2")
    assert data.train.labels.unique().tolist() == [0, 1, IGNORED]
    assert (data.train.labels[:, 0] == 1).all()


def test_prepared_images_keep_their_masks(tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "images with masks")
    prepare(folder, tmp_path / "prepared", image_size=SIDE)
    assert torch.equal(
        labels_of(loaded(tmp_path / "prepared")), labels_of(loaded(folder))
    )


def test_a_dataset_of_images_and_masks_is_read_like_a_folder(tmp_path: Path) -> None:
    folder = write_folder(tmp_path, 6)
    paths = sorted((folder / "images").iterdir())
    pairs = [
        (Image.open(path), Image.open(folder / "masks" / path.name)) for path in paths
    ]
    images = from_dataset(pairs, image_size=SIDE)
    for number, (image, mask) in enumerate(pairs):
        assert torch.equal(images.images[number], TF.pil_to_tensor(image))
        assert torch.equal(images.labels[number], TF.pil_to_tensor(mask)[0])
    white = [(image, 255 * np.asarray(mask)) for image, mask in pairs]
    of_white = from_dataset(white, image_size=SIDE)
    assert torch.equal(of_white.labels, images.labels)
    small = [(image, np.zeros((3, 3), dtype=np.uint8)) for image, _ in pairs]
    with pytest.raises(DataError, match="3 x 3"):
        from_dataset(small, image_size=SIDE)
