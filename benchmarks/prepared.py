"""Prepared images beside images that are decoded in every pass: how fast, in how much memory, resumed how soon.

    python benchmarks/prepared.py run [--images 20000] [--image-size 224] [--work DIR] [--rounds 3]
    python benchmarks/prepared.py page

`run` writes so many JPEGs of 500x375 pixels and noise into a folder of ten classes, in DIR (about 2 GB for 20,000,
left there for another call) or in a temporary folder, and prepares them. Then, round by round and in processes of their
own that have one core each, it reads a pass of both: batches of 100 in a random order, as a search has them. It notes
images a second; the memory that belongs to the process and its readers, and to no file, in the first and in the last
quarter of the pass; and how many seconds a new process takes, once it has imported what it needs, to the first batch in
the middle of a pass. Run it on an idle machine. Results are kept in benchmarks/results/prepared.jsonl, and
`page` writes the table of docs/datasets-and-presets.md.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
import torch
from common.pages import fill_page
from common.records import DOCS, Record, Run, made_by, store_of
from common.tables import markdown, spread_text
from PIL import Image
from quality.options import KEPT_IN

from hba.data import load_search_data
from hba.data.batches import BatchStream
from hba.data.config import DataConfig, resolved_data
from hba.data.preparing import prepare

QUESTION, MARK = "prepared", "prepared"
SIZE_OF_JPEG = (375, 500)
N_CLASSES, BATCH_SIZE, QUALITY = 10, 100, 90
FOLDER, PREPARED = "images", "images.hba"
KINDS: Mapping[str, str] = {FOLDER: "decoded in every pass", PREPARED: "prepared, mapped"}
SAMPLES = 40
"""Of memory, in a pass."""


@click.group(help=__doc__)
def main() -> None:
    """Commands."""


@main.command(help="Measure a pass of both.")
@click.option("--images", type=click.IntRange(1000), default=20_000, show_default=True)
@click.option("--image-size", type=click.IntRange(8), default=224, show_default=True)
@click.option("--rounds", type=click.IntRange(1), default=3, show_default=True)
@click.option("--work", type=click.Path(path_type=Path), help="[default: a temporary folder]")
@KEPT_IN
def run(images: int, image_size: int, rounds: int, work: Path | None, results: Path) -> None:
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary) if work is None else work
        folder = place / f"{images}" / FOLDER
        if not folder.exists():
            write_jpegs(folder, images)
        settings = {"images": images, "image_size": image_size, "batch_size": BATCH_SIZE}
        store = store_of(results, QUESTION)
        for number in range(rounds):
            for kind in (PREPARED, FOLDER):
                found = _measured(folder.with_name(kind), settings, makes=kind == PREPARED)
                click.echo(f"{kind}, round {number + 1}: {found}")
                store.add(Record(Run(kind, "jpegs", settings, number), found, made_by(torch.device("cpu"))))


def write_jpegs(folder: Path, n_images: int) -> None:
    """Smooth colours with a little noise: about as large as photographs."""
    random = np.random.default_rng(0)
    for number in range(n_images):
        path = folder / f"class{number % N_CLASSES}" / f"{number:06}.jpg"
        path.parent.mkdir(parents=True, exist_ok=True)
        coarse = Image.fromarray(random.integers(0, 256, (12, 16, 3), dtype=np.uint8))
        smooth = np.asarray(coarse.resize(SIZE_OF_JPEG[::-1], Image.Resampling.BICUBIC), dtype=np.int16)
        levels = smooth + random.integers(-12, 13, (*SIZE_OF_JPEG, 3), dtype=np.int16)
        Image.fromarray(levels.clip(0, 255).astype(np.uint8)).save(path, quality=QUALITY)


def _measured(data: Path, settings: Mapping[str, Any], *, makes: bool) -> dict[str, float]:
    """In processes with one core. makes: prepares the images anew, and tells how fast."""
    found: dict[str, float] = {}
    if makes:
        for file in data.glob("*"):
            file.unlink()
        found |= _told("preparing", data, settings)
    return {**found, **_told("passing", data, settings), **_told("resuming", data, settings)}


def _told(what: str, data: Path, settings: Mapping[str, Any]) -> dict[str, float]:
    words = [sys.executable, __file__, "measure", what, str(data), json.dumps(settings)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise click.ClickException(f"{what} {data} failed: {done.stderr.strip().splitlines()[-1:]}")
    told: dict[str, float] = json.loads(done.stdout)
    return told


@main.command(hidden=True)
@click.argument("what")
@click.argument("data", type=click.Path(path_type=Path))
@click.argument("settings")
def measure(what: str, data: Path, settings: str) -> None:
    """In a process of its own, on one core."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    torch.set_num_threads(1)
    measures = {"preparing": _preparing, "passing": _passing, "resuming": _resuming}
    click.echo(json.dumps(measures[what](data, json.loads(settings))))


def _preparing(out: Path, settings: Mapping[str, Any]) -> dict[str, float]:
    start = time.monotonic()
    prepare(out.with_name(FOLDER), out, image_size=settings["image_size"])
    return {"prepared_per_second": settings["images"] / (time.monotonic() - start)}


def _stream(data: Path, settings: Mapping[str, Any]) -> BatchStream:
    config = resolved_data({"data": str(data), "image_size": settings["image_size"], "stream": True})
    return BatchStream(load_search_data(DataConfig.make(config)).train, settings["batch_size"], seed=0)


def _passing(data: Path, settings: Mapping[str, Any]) -> dict[str, float]:
    stream = _stream(data, settings)
    n_batches, memory = stream.batches_per_pass, []
    start = time.monotonic()
    for number in range(n_batches):
        stream.next()
        if number * SAMPLES // n_batches != (number + 1) * SAMPLES // n_batches:
            memory.append(own_megabytes())
    seconds = time.monotonic() - start
    stream.data.close()
    quarter = len(memory) // 4
    return {
        "images_per_second": n_batches * settings["batch_size"] / seconds,
        "first_quarter_megabytes": max(memory[:quarter]),
        "last_quarter_megabytes": max(memory[-quarter:]),
    }


def _resuming(data: Path, settings: Mapping[str, Any]) -> dict[str, float]:
    start = time.monotonic()
    stream = _stream(data, settings)
    middle = {**stream.state_dict(), "position": stream.batches_per_pass // 2}
    stream.load_state_dict(middle)
    stream.next()
    seconds = time.monotonic() - start
    stream.data.close()
    return {"seconds_to_resume": seconds}


def own_megabytes() -> float:
    """Memory that belongs to this process and its children, and to no file."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text(encoding="ascii").split()
    return sum(_anonymous_kilobytes(pid) for pid in ["self", *children]) / 1000


def _anonymous_kilobytes(pid: str) -> int:
    lines = Path("/proc", pid, "status").read_text(encoding="utf-8").splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("RssAnon")))


@main.command(help="Write the table of docs/datasets-and-presets.md.")
@KEPT_IN
def page(results: Path) -> None:
    fill_page("datasets-and-presets", MARK, DOCS, table_of(list(store_of(results, QUESTION).by_key().values())))


COLUMNS: Mapping[str, str] = {
    "images_per_second": "images a second",
    "first_quarter_megabytes": "MB, first quarter",
    "last_quarter_megabytes": "MB, last quarter",
    "seconds_to_resume": "seconds to resume",
}


def table_of(records: Sequence[Record]) -> str:
    """Markdown: both kinds, and how fast they are prepared."""
    lines = []
    for kind, words in KINDS.items():
        found = [record.results for record in records if record.run.name == kind]
        if found:
            cells = {title: spread_text([one[name] for one in found], digits=1) for name, title in COLUMNS.items()}
            lines.append({"images": words, **cells})
    if not lines:
        return "Nothing was run."
    made = [one["prepared_per_second"] for one in (r.results for r in records) if "prepared_per_second" in one]
    rate = statistics.fmean(made)
    return f"{markdown(pd.DataFrame(lines))}\n\nPrepared at {rate:.0f} images a second."


if __name__ == "__main__":
    main()
