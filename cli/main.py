"""The command `hba` and what all of its commands share: how an error ends."""

import sys
from typing import Any

import click

import hba
from hba.errors import HbaError, RunError, SettingsError
from hba.runtime.unknown import did_you_mean

from .apply import apply
from .evaluate import evaluate
from .import_schedule import import_schedule
from .messages import in_options
from .models import models
from .operations import operations
from .policies import policies
from .presets import presets
from .search import search
from .show import show

USER_ERROR = 2
INTERRUPTED = 130


class _Group(click.Group):
    """Ends a command with one line and exit code 2 for a user's mistake, and with 130 for Ctrl-C."""

    def main(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return super().main(*args, **{**kwargs, "standalone_mode": False})
        except click.Abort:
            click.echo("stopped", err=True)
            sys.exit(INTERRUPTED)
        except HbaError as error:
            message = str(error)
            if isinstance(error, SettingsError | RunError):
                message = in_options(message, self.commands.values())
            click.echo(f"hba: error: {message}", err=True)
            sys.exit(USER_ERROR)
        except click.NoSuchOption as error:
            other = click.UsageError(_no_such_option(error), error.ctx)
            other.show()
            sys.exit(other.exit_code)
        except click.ClickException as error:
            error.show()
            sys.exit(error.exit_code)


def _no_such_option(error: click.NoSuchOption) -> str:
    """click proposes options that are far from what was typed."""
    parameters = [] if error.ctx is None else error.ctx.command.params
    meant = did_you_mean(error.option_name, [name for parameter in parameters for name in parameter.opts])
    return f"No such option {error.option_name!r}{meant or ', nor one like it.'}"


@click.group(cls=_Group, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(hba.__version__, prog_name="hba")
def main() -> None:
    """Search a data-augmentation schedule for your images, see it, check that it helps, and use it elsewhere."""


for command in (search, evaluate, show, apply, models, operations, policies, presets, import_schedule):
    main.add_command(command)
