"""Errors that a user can act on. The command line prints each as one line and exits
with code 2.
"""


class HbaError(Exception):
    """Base class of all errors raised for a user's mistake or a run that cannot
    continue.

    The message is always one line: unprintable characters in names and values become
    escapes, such as `\\n`.
    """

    def __init__(self, message: str = "") -> None:
        escaped = (
            one if one.isprintable() else one.encode("unicode_escape").decode()
            for one in message
        )
        super().__init__("".join(escaped))


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


class HbaWarning(UserWarning):
    """A problem that does not stop a run, such as a report that cannot be written."""
