"""A user's mistake ends a command with exit code 2 and one line that names the mistake;
nothing is written.
"""

from pathlib import Path

import pytest
from commands import make_images, run, small_schedule
from PIL import Image

MISTAKES = [
    ("search digits --operations all,-Rotat", "did you mean Rotate"),
    ("search digits --start Rotate=1.5", "got 1.5"),
    ("search digits --batch-size 201", "batch_size"),
    ("search digits --train-size 500 --val-size 500", "train_size"),
    ("search digits --budget 1h --epochs 3", "epochs"),
    ("search cifar10 --data-root nowhere", "--download"),
    ("search broken --out new", "cats"),
    ("search one", "one"),
    ("search --config nowhere.json", "nowhere.json"),
    ("search --resume", "--out"),
    ("search --resume --out nowhere", "nowhere"),
    ("search --seeds 2 --tensorboard --out new", "--tensorboard"),
    ("evaluate digits --against strat", "did you mean start"),
    ("evaluate-text digits", "ShearX"),
    ("show broken.json", "broken.json"),
    ("apply a.json a.png --out b.jpg", ".png"),
    ("apply a.json broken/cats --out b.png", "broken"),
    ("export a.json --to json --epoch 3", "--epoch"),
    ("export a.json --to json --epoch 1 --average", "--average"),
    ("export a.json --to json --out a.json", "--out"),
    ("import log.txt --from pba --out b.json", "--epochs"),
    ("prepare images --out a.json", "--out"),
    ("report images", "images"),
    ("policies digit", "digit"),
    ("doctor --device tpu", "tpu"),
]
"""Those that commands find themselves, and of the library's some of each kind."""
USAGE = [
    ("search --epochs x", "--epochs"),
    ("search --budget 90", "90s"),
    ("search --momentum", "--momentum"),
    ("search a b", "b"),
    ("nonsense", "nonsense"),
    ("evaluate", "SCHEDULE"),
    ("apply digits a.png --out b.png --copies 0", "--copies"),
    ("search-text texts --model mlp", "--model"),
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


def test_a_mistake_is_one_line_that_names_it(place: Path) -> None:
    before = sorted(place.rglob("*"))
    failures: list[tuple[str, str]] = []
    for line, name in MISTAKES:
        result = run(*line.split())
        lines = result.stderr.splitlines()
        is_refused = result.exit_code == 2 and len(lines) == 1
        is_named = (
            is_refused and lines[0].startswith("hba: error: ") and name in lines[0]
        )
        if not is_named or sorted(place.rglob("*")) != before:
            failures.append((line, result.output))
    assert failures == []


def test_a_usage_error_names_its_option(place: Path) -> None:
    failures = []
    for line, name in USAGE:
        result = run(*line.split())
        if (
            result.exit_code != 2
            or "Traceback" in result.output
            or name not in result.stderr.splitlines()[-1]
        ):
            failures.append((line, result.output))
    assert failures == []
