"""What is tried: inputs of each kind, and what reads them."""

import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import click
import numpy as np
from fuzzed import checks, inputs, pictures, policies, run_files
from hba.cli import main
from hba.cli.main import COMMANDS
from hypothesis import strategies as st
from PIL import Image

Check = Callable[[Any], str]
"""READ or REFUSED for an input; it raises whatever else comes of it."""

SMALL = ("--model", "wrn-10-1", "--image-size", "8", "--batch-size", "8", "--device", "cpu", "--epochs", "2")
SCHEDULE = "digits"
SLOW = ("doctor", "models", "show")
"""Commands that compute much, whatever their options are."""


@dataclass(frozen=True)
class Kind:
    """inputs: drawn when they are asked for. check: of a folder of its own, where it may write. share: how much of all
    that is tried is of this kind.
    """

    inputs: Callable[[Path], st.SearchStrategy[Any]]
    check: Callable[[Path], Check]
    share: float


def prepare(place: Path) -> None:
    """What the kinds need: images, and the folders of a search and an evaluation on them."""
    make_images(place / "images")
    checked = [
        checks.check_command("search", str(place / "images"), "--out", str(place / "search"), *SMALL),
        checks.check_command(
            *("evaluate", SCHEDULE, str(place / "images"), "--seeds", "2", "--jobs", "1"),
            *("--out", str(place / "evaluation"), *SMALL),
        ),
    ]
    assert set(checked) == {checks.READ}


def make_images(folder: Path, n_images: int = 6) -> None:
    """Of each of two classes."""
    random = np.random.default_rng(0)
    for name in ("cat", "dog"):
        (folder / name).mkdir(parents=True)
        for number in range(n_images):
            pixels = random.integers(0, 256, (6, 6, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{number}.png")


def _at(function: Callable[..., str], folder: Path) -> Check:
    return lambda given: function(given, folder)


def _policy(source: str, folder: Path) -> Check:
    return lambda text: checks.check_policy(source, text, folder)


def _data(name: str, folder: Path) -> Check:
    """A file beside the images that it may name."""
    make_images(folder)

    def check(content: bytes) -> str:
        (folder / name).write_bytes(content)
        return checks.check_data(folder / name)

    return check


def _picture(ending: str, folder: Path) -> Check:
    """One of the images of a folder, read with all others before the search, or one by one in it."""
    make_images(folder / "images")
    path = folder / "images" / "cat" / f"0a.{ending}"

    def check(given: tuple[bytes, bool, bool]) -> str:
        content, stream, skip_broken = given
        path.write_bytes(content)
        return checks.check_data(folder / "images", stream=stream, workers=0, skip_broken=skip_broken)

    return check


def _any_words(folder: Path) -> Check:
    return lambda words: checks.check_command(*words)


def _run_file(run: str, name: str, words: tuple[str, ...], folder: Path) -> Check:
    """One file of a run's folder, read by a command. words: RUN is the folder, NEW one that is not there."""
    original, copy, new = folder.parent / run, folder / "run", folder / "new"
    named = {"RUN": copy, "OTHER": original, "NEW": new, "IMAGES": folder.parent / "images"}

    def check(content: bytes) -> str:
        for left in (copy, new):
            shutil.rmtree(left, ignore_errors=True)
        shutil.copytree(original, copy)
        (copy / name).write_bytes(content)
        return checks.check_command(*(str(named.get(word, word)) for word in words))

    return check


def _damaged(strategy: Callable[[str], st.SearchStrategy[bytes]], run: str, name: str, place: Path) -> Any:
    return strategy((place / run / name).read_text("utf-8"))


EVALUATION = ("evaluate", SCHEDULE, "IMAGES", "--seeds", "2", *SMALL)
READERS: Mapping[tuple[str, str], tuple[tuple[str, ...], ...]] = {
    ("search", "config.json"): (
        ("search", "--out", "RUN", "--resume"),
        ("search", "--config", "RUN", "--out", "NEW"),
        ("report", "RUN"),
        ("compare", "RUN", "OTHER"),
    ),
    ("search", "policy.json"): (
        ("show", "RUN", "--json"),
        ("show", "RUN"),
        ("report", "RUN"),
        ("compare", "RUN", "OTHER"),
        ("evaluate", "RUN", "IMAGES", "--seeds", "1"),
        ("search", "--config", "RUN", "--out", "NEW"),
    ),
    ("search", "metrics.csv"): (("report", "RUN"), ("compare", "RUN", "OTHER")),
    ("evaluation", "results.json"): (
        ("report", "RUN"),
        ("compare", "RUN", "OTHER"),
        (*EVALUATION, "--out", "RUN", "--resume"),
        ("evaluate", SCHEDULE, "--config", "RUN", "--out", "NEW"),
    ),
    ("evaluation", "schedule.json"): (("report", "RUN"),),
    ("search", "sample_images.png"): (("report", "RUN"),),
}
"""Commands by the file of a run that they read."""

STRATEGIES: Mapping[str, Callable[[str], st.SearchStrategy[bytes]]] = {
    "config.json": lambda good: st.one_of(run_files.settings_files(good), run_files.json_files(good)),
    "metrics.csv": run_files.tables,
}
"""By file; all others hold JSON of many levels."""


def _of_runs() -> Iterator[tuple[str, Kind]]:
    for (run, name), commands in READERS.items():
        for words in commands:
            strategy = STRATEGIES.get(name, run_files.json_files)
            given = _bytes_of(run, name) if name.endswith(".png") else partial(_damaged, strategy, run, name)
            shown = " ".join(word for word in words if word not in (*SMALL, "2", "1", "--seeds", "NEW", "--out"))
            share = 0.1 if words[0] in ("report", "show") and "--json" not in words else 0.3
            yield f"{name} of a run, by hba {shown}", Kind(given, partial(_run_file, run, name, words), share)


def _bytes_of(run: str, name: str) -> Callable[[Path], st.SearchStrategy[bytes]]:
    return lambda place: inputs.other_bytes((place / run / name).read_bytes())


def _always(strategy: Callable[[], st.SearchStrategy[Any]]) -> Callable[[Path], st.SearchStrategy[Any]]:
    return lambda place: strategy()


def _command_of(name: str) -> click.Command:
    found = main.get_command(click.Context(main, **main.context_settings), name)
    assert found is not None, name
    return found


def _words() -> st.SearchStrategy[list[str]]:
    return inputs.command_lines(tuple(name for name in COMMANDS if name not in SLOW), _command_of)


KINDS: Mapping[str, Kind] = {
    "schedule files": Kind(_always(inputs.schedule_texts), partial(_at, checks.check_schedule), 2),
    "logs of PBA": Kind(_always(inputs.logs), lambda folder: checks.check_log, 2),
    "policies of Fast AutoAugment": Kind(
        _always(policies.policies_of_fast_autoaugment), partial(_policy, "fast-autoaugment"), 1
    ),
    "logs of DADA": Kind(_always(policies.logs_of_dada), partial(_policy, "dada"), 1),
    "policies of AutoAlbument": Kind(_always(policies.policies_of_autoalbument), partial(_policy, "autoalbument"), 1),
    "CSV tables": Kind(_always(inputs.csv_files), partial(_data, "a.csv"), 1),
    "Parquet tables": Kind(_always(inputs.parquet_files), partial(_data, "a.parquet"), 1),
    "NumPy files": Kind(_always(inputs.npz_files), partial(_data, "a.npz"), 1),
    **{
        f"{ending.upper()} images": Kind(
            _always(partial(st.tuples, pictures.pictures(ending), st.booleans(), st.booleans())),
            partial(_picture, ending),
            1,
        )
        for ending in pictures.SAVED
    },
    **dict(_of_runs()),
    "command lines": Kind(_always(_words), _any_words, 1),
}
