"""Draw the picture of the README: the output of `hba show` and `hba apply` for a shipped schedule, in one file.

python examples/draw_overview.py docs/overview.png
"""

import argparse
import contextlib
import io
import tempfile
from pathlib import Path

from hba.cli import main as hba
from PIL import Image
from sklearn.datasets import load_digits

DIGITS = (2, 4)
WIDTH = 1600
N_COLORS = 96
"""Few colours make a small file."""


def run_hba(*arguments: str) -> None:
    """Run the command without its printed output."""
    with contextlib.redirect_stdout(io.StringIO()):
        hba(list(arguments), standalone_mode=False)


def draw_parts(folder: Path) -> list[Image.Image]:
    """The curves of the schedule, and some digits augmented by its last policy."""
    digits = load_digits()
    files = []
    for number in DIGITS:
        files.append(str(folder / f"digit-{number}.png"))
        Image.fromarray((digits.images[number] * (255 / 16)).astype("uint8")).save(files[-1])
    curves, copies = folder / "curves.png", folder / "copies.png"
    run_hba("show", "digits", "--out", str(curves))
    run_hba("apply", "digits", *files, "--image-size", "64", "--seed", "3", "--out", str(copies))
    return [Image.open(part).convert("RGB") for part in (curves, copies)]


def stacked(parts: list[Image.Image]) -> Image.Image:
    """The parts, scaled to one width and stacked vertically."""
    scaled = [part.resize((WIDTH, round(part.height * WIDTH / part.width)), Image.Resampling.LANCZOS) for part in parts]
    whole = Image.new("RGB", (WIDTH, sum(part.height for part in scaled)), "white")
    top = 0
    for part in scaled:
        whole.paste(part, (0, top))
        top += part.height
    return whole


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    out = parser.parse_args().out
    with tempfile.TemporaryDirectory() as folder:
        picture = stacked(draw_parts(Path(folder)))
    picture.quantize(N_COLORS).save(out, optimize=True)
    print(f"{out}: {picture.width} x {picture.height} pixels")


if __name__ == "__main__":
    main()
