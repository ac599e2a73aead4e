"""How many files of hba/ a short search runs through: the walk that a reader of it has to make."""

import sys
from pathlib import Path
from types import FrameType
from typing import Any

import hba

ROOT = str(Path(hba.__file__).parent)
SETTINGS: dict[str, Any] = {
    **{"epochs": 1, "train_size": 40, "val_size": 20, "batch_size": 20, "image_size": 16, "model": "wrn-10-1"},
    "device": "cpu",
}
LOOKAHEAD: dict[str, Any] = {**SETTINGS, "algorithm": "lookahead"}


def files_run(out: Path | None, settings: dict[str, Any]) -> set[str]:
    """Files with a function that a search of one epoch calls; what an import runs does not count."""
    found = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event == "call" and frame.f_code.co_name != "<module>" and frame.f_code.co_filename.startswith(ROOT):
            found.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        hba.search("digits", out=out, **settings)
    finally:
        sys.setprofile(before)
    return {name for name in found if name.endswith(".py")}


def test_a_search_of_one_epoch_runs_through_few_files(tmp_path: Path) -> None:
    # The first search also imports modules and fills caches.
    files_run(tmp_path / "first", SETTINGS)
    for settings, out, most in ((LOOKAHEAD, None, 54), (LOOKAHEAD, tmp_path / "run", 69), (SETTINGS, None, 70)):
        found = files_run(out, settings)
        assert len(found) <= most, sorted(found)
