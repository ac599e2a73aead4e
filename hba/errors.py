"""Errors that a user can act on. The command line prints each as one line and exits with code 2."""


class HbaError(Exception):
    """Base of every error raised for a user's mistake or a run that cannot go on.

    The message is one line whatever names and values it quotes: what cannot be printed stands as an escape, such as
    `\\n`.
    """

    def __init__(self, message: str = "") -> None:
        escaped = (one if one.isprintable() else one.encode("unicode_escape").decode() for one in message)
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
    """The run goes on, or has ended well, but its report could not be written."""
