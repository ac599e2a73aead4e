"""A user's mistake ends a command with exit code 2 and one line that names the mistake;
nothing is written.
"""

from pathlib import Path
from typing import Any

import pytest
from commands import SMALL, make_images, run, small_schedule
from PIL import Image

SEARCH = "search digits"
EVALUATE = "evaluate digits"
MISTAKES: dict[str, list[tuple[str, str]]] = {
    "settings of a search": [
        (f"{SEARCH} --epochs 0", "epochs"),
        (f"{SEARCH} --model resnet-7", "resnet-7"),
        (f"{SEARCH} --model wrn-11-1", "wrn-11-1"),
        (f"{SEARCH} --device tpu-9", "tpu-9"),
        (f"{SEARCH} --learning-rate nan", "learning_rate"),
        (f"{SEARCH} --image-size 4", "image_size"),
        (f"{SEARCH} --train-size 500 --val-size 500", "train_size"),
        (f"{SEARCH} --operations Rotate,Swirl", "Swirl"),
        (f"{SEARCH} --operations ,", "operations"),
        (f"{SEARCH} --operations all,-Rotat", "did you mean Rotate"),
        (f"{SEARCH} --operations -Rotate,-Rotate", "-Rotate"),
        (f"{SEARCH} --start Rotate=1.5", "got 1.5"),
        (f"{SEARCH} --start Rotate", "NAME=VALUE"),
        (f"{SEARCH} --start Rotate=much", "start.Rotate"),
        (f"{SEARCH} --range Rotate=15", "NAME=FIRST:LAST"),
        (f"{SEARCH} --space recipe --range CutMix=0:5", "0:5"),
        (f"{SEARCH} --tune dropout --start Rotate=0.5", "start"),
        (f"{SEARCH} --fill red", "fill"),
        (f"{SEARCH} --batch-size 201", "batch_size"),
        (f"{SEARCH} --preset digit", "did you mean digits"),
        (f"{SEARCH} --paper --algorithm lookahead", "algorithm"),
        (f"{SEARCH} --algorithm population --val-steps 2", "val_steps"),
        (f"{SEARCH} --val-batch-size 0", "val_batch_size"),
        (f"{SEARCH} --tune swirl", "swirl"),
        (f"{SEARCH} --budget 1h --epochs 3", "epochs"),
        ("search --config nowhere.json", "nowhere.json"),
    ],
    "options of commands": [
        ("search --resume", "--out"),
        ("search --resume --out a --paper", "paper"),
        ("search --resume --out nowhere", "nowhere"),
        ("search --space hba --jobs 2", "--seeds"),
        ("search --seeds 2 --tensorboard --out new", "--tensorboard"),
        (f"{SEARCH} --operations-file nowhere.py", "nowhere.py"),
        (f"{EVALUATE} --resume", "--out"),
        (f"{EVALUATE} --jobs 0", "jobs"),
        (f"{EVALUATE} --against strat", "did you mean start"),
        ("evaluate phto digits", "did you mean photo"),
        ("search digits --init-from ovrhead", "did you mean overhead"),
        (f"{EVALUATE} --epochs 0", "epochs"),
        ("report images", "images"),
        ("policies digit", "digit"),
        ("import nowhere.txt --from pba --epochs 2 --out b.json", "nowhere.txt"),
        ("import log.txt --from pba --out b.json", "--epochs"),
        (
            "import autoaugment-svhn --from torchvision --fill red --out b.json",
            "--fill",
        ),
        ("export a.json --to json --epoch 3", "--epoch"),
        ("export a.json --to json --epoch 1 --average", "--average"),
        ("export a.json --to json --out a.json", "--out"),
        ("prepare images --out a.json", "--out"),
        ("doctor --device tpu", "tpu"),
        ("search-text nowhere", "nowhere"),
        ("search-text", "DATA"),
        ("evaluate-text digits", "ShearX"),
    ],
    "data and schedules": [
        ("search cifr10", "did you mean cifar10"),
        ("search cifar10 --data-root nowhere", "--download"),
        ("search images --train-size 23", "images"),
        ("search one", "one"),
        ("search a.png", "a.png"),
        ("search broken --out new", "cats"),
        ("search broken --out new --no-skip-broken", "--skip-broken"),
        ("evaluate digits one", "one"),
        ("show digts", "did you mean digits"),
        ("show broken.json", "broken.json"),
        ("evaluate one", "one"),
        ("apply a.json nowhere.png --out b.png", "nowhere.png"),
        ("apply a.json broken/cats --out b.png", "broken"),
        ("apply a.json a.png --out b.jpg", ".png"),
        ("apply a.json a.png --out b.png --epoch 3", "--epoch"),
        ("apply a.json one --out b.png", "one"),
    ],
}
USAGE = [
    ("search --epochs x", "--epochs"),
    ("search --interpolation bicubic", "nearest"),
    ("search --sharing firstbn", "first-bn"),
    ("search --budget 90", "90s"),
    ("search --momentum", "--momentum"),
    ("search --sigma", "--sigma"),
    ("search a b", "b"),
    ("nonsense", "nonsense"),
    ("evaluate", "SCHEDULE"),
    ("apply digits a.png", "--out"),
    ("apply digits a.png --out b.png --copies 0", "--copies"),
    ("apply digits a.png --out b.png --seed 100000000000000000000", "--seed"),
    ("search-text texts --model mlp", "--model"),
    ("import a --from faa --out b.json", "faa"),
]
"""What click refuses by itself, with a line of usage before."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    make_images(tmp_path / "images")
    make_images(tmp_path / "broken")
    for path in (tmp_path / "broken" / "cats").iterdir():
        path.write_bytes(b"\x89PNG")
    (tmp_path / "one").mkdir()
    small_schedule().save("a.json")
    Image.new("RGB", (9, 9)).save("a.png")
    Path("broken.json").write_bytes(bytes(range(256)))
    Path("log.txt").write_text("nothing")
    return tmp_path


@pytest.mark.parametrize("topic", MISTAKES)
def test_a_mistake_is_one_line_that_names_it(topic: str, place: Path) -> None:
    before = sorted(place.rglob("*"))
    failures: list[tuple[Any, ...]] = []
    for line, named in MISTAKES[topic]:
        words = line.split()
        has_settings = (
            words[0] in ("search", "evaluate")
            and "digits" not in words[1:2]
            and len(words) == 2
        )
        settings = SMALL if has_settings else ()
        result = run(*words, *settings)
        lines = result.stderr.splitlines()
        is_one_line = (
            len(lines) == 1
            and lines[0].startswith("hba: error: ")
            and named in lines[0]
        )
        if not (
            isinstance(result.exception, SystemExit)
            and result.exit_code == 2
            and is_one_line
        ):
            failures.append(
                (line, result.exit_code, repr(result.exception), result.output)
            )
        if sorted(place.rglob("*")) != before:
            failures.append((line, "wrote", sorted({*place.rglob("*")} - {*before})))
            before = sorted(place.rglob("*"))
    assert failures == []


def test_a_usage_error_names_its_option(place: Path) -> None:
    failures = []
    for line, named in USAGE:
        result = run(*line.split())
        if (
            result.exit_code != 2
            or "Traceback" in result.output
            or named not in result.stderr.splitlines()[-1]
        ):
            failures.append((line, result.output))
    assert failures == []
