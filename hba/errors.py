"""Errors that a user can act on. The command line prints each as one line and exits with code 2."""


class HbaError(Exception):
    """Base of every error raised for a user's mistake or a run that cannot go on."""


class SettingsError(HbaError, ValueError):
    """An option or argument has a value that cannot be used."""


class DataError(HbaError, ValueError):
    """The images or their split cannot be used as they are."""


class ScheduleError(HbaError, ValueError):
    """A schedule, or the file that should hold one, breaks the format."""


class RunError(HbaError, RuntimeError):
    """A run folder cannot be written or continued."""


class DivergedError(HbaError, ArithmeticError):
    """A loss is no longer finite."""


class ScheduleLengthWarning(UserWarning):
    """A schedule is read row by row, which suits a training of its own length only."""


class ReportWarning(UserWarning):
    """A run has ended well, but its report could not be written."""
