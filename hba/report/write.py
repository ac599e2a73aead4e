"""Writing the report of a run, and never losing a run by it."""

import warnings
from collections.abc import Callable
from pathlib import Path

from hba.errors import ReportWarning, RunError
from hba.report.page import page_of
from hba.report.results import RESULTS_NAME
from hba.report.run import EVALUATED_NAME, Run
from hba.report.samples import SAMPLES_NAME, Samples
from hba.schedule.schedule import Schedule
from hba.utils.files import write_text

REPORT_NAME = "report.html"
MOST_BYTES = 3_000_000


def write_report(run: str | Path) -> Path:
    """Write report.html into the folder of a search or an evaluation, from its files; return where it is.

    One file that needs no other and no network, of at most 3 MB. Raises RunError where the folder holds no run, where
    its files are broken, and where it cannot be written; ScheduleError for a schedule that breaks its format.
    """
    folder = Path(run)
    found = Run.read(folder)
    text = page_of(found)
    if len(text.encode()) > MOST_BYTES:
        text = page_of(found, with_pictures=False)
    if (size := len(text.encode())) > MOST_BYTES:
        raise RunError(f"the report of {folder} would have {size:,} bytes, more than {MOST_BYTES:,}; it is not written")
    write_text(folder / REPORT_NAME, text)
    return folder / REPORT_NAME


def report_at_the_end(folder: Path, samples: Callable[[], Samples], evaluated: Schedule | None = None) -> Path | None:
    """The report of a run that has just ended, whose other files are written; None where that failed.

    samples: gives images of the run, which are kept beside it. evaluated: the schedule of an evaluation, kept too. What
    goes wrong is told by a ReportWarning; nothing is raised, because the run itself is whole.
    """
    try:
        samples().save(folder / SAMPLES_NAME)
    except Exception as error:
        # Any error at all: images may be of any kind, and hours of work stand behind.
        _warn(folder, "no images were kept for the report", error)
    try:
        if evaluated is not None:
            evaluated.save(folder / EVALUATED_NAME)
        return write_report(folder)
    except Exception as error:
        _warn(folder, "no report was written", error)
        return None


def is_reported(folder: Path) -> bool:
    """Whether an evaluation's report is there, and no older than its results."""
    report, results = folder / REPORT_NAME, folder / RESULTS_NAME
    return report.exists() and report.stat().st_mtime_ns >= results.stat().st_mtime_ns


def _warn(folder: Path, what: str, error: Exception) -> None:
    reason = next(iter(str(error).splitlines()), type(error).__name__)
    warnings.warn(f"{what}: {reason}; all else is in {folder}, and nothing is lost", ReportWarning, stacklevel=3)
