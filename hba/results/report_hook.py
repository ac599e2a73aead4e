"""The page of a run that ends: the only import of `hba.report` below the commands."""

from pathlib import Path

from hba.data.images import EvaluationData, SearchData
from hba.schedule.schedule import Schedule


def write_report(run: str | Path) -> Path:
    """Write the page of a run, as `hba.write_report` does."""
    from hba.report import page

    return page.write_report(run)


def report_at_the_end(
    folder: Path, data: SearchData | EvaluationData, evaluated: Schedule | None = None
) -> Path | None:
    """Write the page of a search or an evaluation that has just ended.

    Args:
        folder: Of the run. All its other files are complete.
        data: Images of the run, of which the page shows a few.
        evaluated: The schedule of an evaluation, to save too.

    Returns:
        The path of the page; None, with an HbaWarning, if it could not be written.
    """
    from hba.report import page

    return page.report_at_the_end(folder, data, evaluated)
