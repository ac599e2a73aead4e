"""What may come of an input: it is read, or refused in one clear line. Anything else is an AssertionError, or whatever
the library raised.
"""

import contextlib
import json
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from click.testing import CliRunner
from hba.cli import main

import hba
from hba.data import SearchData, load_search_data
from hba.data.config import DataConfig
from hba.errors import HbaError, RunError, ScheduleError
from hba.importers.pba import PbaSegment, pba_segments
from hba.schedule.schedule import Schedule
from hba.schedule.summary import summarize_regularizers

Found = TypeVar("Found")
READ, REFUSED = "read", "refused"
LONGEST = 7000
"""Characters of a message."""
THE_END = "the end"
"""Says a search, or an evaluation, that is not to compute."""
COMPUTES = ("hba.policy_search.trainer.SearchTrainer.run", "hba.policy_evaluation.evaluation._train_all")
"""What is to be `end`, so that searches and evaluations end where they would begin to compute."""


def end(*_: Any) -> None:
    """In the place of what computes."""
    raise RunError(THE_END)


def ending_of(read: Callable[[], Found], use: Callable[[Found], object], error: type[HbaError] = HbaError) -> str:
    """READ, after what was read is used; REFUSED where reading raised such an error, whose message is one line."""
    try:
        found = read()
    except error as raised:
        message = str(raised)
        assert message.isprintable(), message
        assert 0 < len(message) < LONGEST, message
        return REFUSED
    use(found)
    return READ


def check_schedule(text: str, folder: Path) -> str:
    """A schedule that is read can be used and written."""
    path = folder / "policy.json"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    return ending_of(lambda: hba.load_policy(path), _use, ScheduleError)


def check_log(text: str) -> str:
    """Of PBA."""

    def use(segments: Sequence[PbaSegment]) -> None:
        assert sum(segment.n_epochs for segment in segments) == 10

    return ending_of(lambda: pba_segments(text, 10), use, ScheduleError)


def check_policy(source: str, text: str, folder: Path) -> str:
    """Of another tool, which is imported as a schedule."""
    path = folder / "policy.txt"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    return ending_of(lambda: hba.import_policy(source, path), _use, ScheduleError)


def _use(schedule: Schedule) -> None:
    assert repr(schedule).isprintable()
    if schedule.space.operations:
        schedule.without_regularizers().policy(0)
    assert len(summarize_regularizers(schedule)) == len(schedule.regularization(0))
    json.loads(schedule.text())


def check_data(data: Path, **settings: Any) -> str:
    """A folder, a table or a file of arrays, with images of training and validation of two classes at least."""

    def use(found: SearchData) -> None:
        with contextlib.closing(found):
            assert len(found.train)
            assert len(found.val)
            assert len(found.class_names) > 1

    config = DataConfig.make({"data": str(data), "image_size": 8, "val_size": 2, **settings})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ending_of(lambda: load_search_data(config), use)


def check_command(*words: str) -> str:
    """hba with these words, in this process: one line for what went wrong, and none but warnings for nothing."""
    with warnings.catch_warnings():
        result = CliRunner().invoke(main, list(words))
    raised = result.exception
    if raised is not None and not isinstance(raised, SystemExit):
        raise raised
    lines = result.stderr.splitlines()
    if result.exit_code == 0:
        assert all(line.startswith("hba: warning: ") for line in lines), (words, lines)
        return READ
    assert lines, (words, "nothing is said")
    if lines[-1].startswith("Error: "):
        # Of click, after the usage of the command.
        return REFUSED
    assert len(lines) == 1, (words, lines)
    assert lines[0].startswith("hba: error: "), (words, lines)
    assert lines[0].isprintable(), (words, lines)
    return READ if lines[0].endswith(THE_END) else REFUSED
