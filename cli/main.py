"""The command `hba` and what all of its commands share: the list of them, and how an error ends."""

import importlib
import io
import os
import sys
import time
import warnings
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import click

from hba.distributed.process_info import GONE, check_alone, launched, override_rank
from hba.errors import HbaError, ReportWarning, RunError, SettingsError
from hba.utils.text import did_you_mean
from hba.utils.version import VERSION

from .messages import in_options

USER_ERROR = 2
OF_SEVERAL = ("search", "evaluate")
"""Commands that processes started by torchrun do together."""
OF_ANY = ("models", "operations", "policies", "presets")
"""Those that only print what is known already, as a script may ask that torchrun has started."""
BEGAN = "hba.began"
"""In what the contexts of click share: when the command was called, as time.monotonic has it."""
INTERRUPTED = 130
FIRST_SPEAKS_SECONDS = 10.0
"""How long the other processes of one computation wait with what they have to say."""


class Listed(NamedTuple):
    """A command that is imported when it is called: the module and the function in it, and its line in the list."""

    module: str
    function: str
    short_help: str


COMMANDS: Mapping[str, Listed] = MappingProxyType(
    {
        "search": Listed("search", "search", "Search a schedule of augmentations for DATA."),
        "evaluate": Listed(
            "evaluate",
            "evaluate",
            "Train with SCHEDULE and without, and compare the test errors after the last epoch.",
        ),
        "search-text": Listed(
            "search_text", "search_text", "Search a schedule of regularisation for a language model on DATA."
        ),
        "evaluate-text": Listed(
            "evaluate_text",
            "evaluate_text",
            "Train language models with SCHEDULE and with fixed regularisation, and compare their test perplexities.",
        ),
        "prepare": Listed(
            "prepare",
            "prepare",
            "Decode and resize the images of DATA once, for searches and evaluations that read them many times.",
        ),
        "show": Listed(
            "show",
            "show",
            "Print probability and magnitude of each operation of SCHEDULE, and draw them over epochs to a PNG file.",
        ),
        "report": Listed(
            "report", "report", "Write the report of RUN, the folder of a search or an evaluation, again."
        ),
        "compare": Listed("compare", "compare", "Put RUNS side by side: what they were set to, and what they found."),
        "apply": Listed("apply", "apply", "Write a grid of augmented copies of IMAGES."),
        "models": Listed("models", "models", "List the networks that --model knows."),
        "operations": Listed(
            "operations",
            "operations",
            "Print the operations of a search space, and those of your own: ranges, units and directions of "
            "magnitudes.",
        ),
        "policies": Listed(
            "policies", "policies", "List the schedules that ship with the package, or print the card of NAME."
        ),
        "presets": Listed(
            "presets", "presets", "Print what --preset stands for in `hba search` and in `hba evaluate`."
        ),
        "export": Listed(
            "export", "export", "Write SCHEDULE for another library, into a file that needs nothing of hba."
        ),
        "import": Listed(
            "import_schedule", "import_schedule", "Turn FILE, a schedule that another program found, into one for hba."
        ),
        "doctor": Listed(
            "doctor", "doctor", "Print what is installed and what computes, and try a search of some seconds."
        ),
    }
)
"""By name, in the order in which they are used. The line of each is the first sentence of the command's own help."""


class _Group(click.Group):
    """Imports a command when it is called: most of them import PyTorch, which takes seconds.

    Ends a command with one line and exit code 2 for a user's mistake, and with 130 for Ctrl-C.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        listed = COMMANDS[cmd_name]
        command: click.Command = getattr(importlib.import_module(f".{listed.module}", __package__), listed.function)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, listed.short_help) for name, listed in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        if name not in (*OF_SEVERAL, *OF_ANY):
            with override_rank(launched()):
                check_alone(f"what hba {name} does")
        return name, command, rest

    def main(self, *args: Any, **kwargs: Any) -> Any:
        # PyTorch's threads spin while they wait for each other. Where another program wants a core too, a search is
        # then several times slower than with threads that yield their core. Works only before torch is loaded.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        # Pillow warns of images that are then read, or refused in one line.
        warnings.filterwarnings("ignore", module=r"PIL\.")
        for stream in (sys.stdout, sys.stderr):
            # Names of files need be no text in any encoding.
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        try:
            return super().main(*args, **{**kwargs, "standalone_mode": False})
        except click.Abort:
            click.echo("stopped", err=True)
            sys.exit(INTERRUPTED)
        except click.NoSuchOption as error:
            other = click.UsageError(_no_such_option(error), error.ctx)
            _show(other)
            sys.exit(other.exit_code)
        except click.ClickException as error:
            _show(error)
            sys.exit(error.exit_code)

    def invoke(self, ctx: click.Context) -> Any:
        # Before the import of the command, which takes seconds.
        ctx.meta[BEGAN] = time.monotonic()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("always", ReportWarning)
                warnings.showwarning = _show_warning
                return super().invoke(ctx)
        except HbaError as error:
            called = self.get_command(ctx, ctx.invoked_subcommand or "")
            raise _UserError(error, [] if called is None else called.params) from None
        except BrokenPipeError:
            raise
        except OSError as error:
            # Of files that are the user's to name, or to make room for.
            where = f" {error.filename}" if error.filename else " a file"
            refusal = HbaError(f"the system refuses{where}: {error.strerror or error}; name another, or mend that")
            raise _UserError(refusal, []) from None


class _UserError(click.ClickException):
    """A mistake that the library has found, in one line and in the words of the command line."""

    exit_code = USER_ERROR

    def __init__(self, error: HbaError, parameters: Iterable[click.Parameter]) -> None:
        is_of_options = isinstance(error, SettingsError | RunError)
        super().__init__(in_options(str(error), parameters) if is_of_options else str(error))

    def show(self, file: Any = None) -> None:
        rank = launched().rank
        # Where another process has something to say, torchrun ends this one once that is said.
        time.sleep(2 * FIRST_SPEAKS_SECONDS if self.message == GONE else FIRST_SPEAKS_SECONDS if rank else 0)
        click.echo(f"hba: error: {f'process {rank}: ' if rank else ''}{self.message}", file=file, err=True)


def _show(error: click.ClickException) -> None:
    """Several processes are called with the same words, so the first speaks for all, unless one has met something."""
    if isinstance(error, _UserError) or launched().rank == 0:
        error.show()
    else:
        # torchrun ends all others as soon as one has ended.
        time.sleep(FIRST_SPEAKS_SECONDS)


def _show_warning(message: Warning | str, category: type[Warning], *place: Any, **further: Any) -> None:
    """One line; where in the code it arose means nothing to who types commands."""
    if launched().rank:
        return
    # Not by click.echo, which would look for the file that a progress bar wraps.
    print(f"hba: warning: {message}", file=sys.stderr)


def _no_such_option(error: click.NoSuchOption) -> str:
    """click proposes options that are far from what was typed."""
    parameters = [] if error.ctx is None else error.ctx.command.params
    meant = did_you_mean(error.option_name, [name for parameter in parameters for name in parameter.opts])
    return f"No such option {error.option_name!r}{meant or ', nor one like it.'}"


EPILOG = """\b
Shell completion, by a line in ~/.bashrc (for others: zsh_source, fish_source):
  eval "$(_HBA_COMPLETE=bash_source hba)"
"""


@click.group(
    cls=_Group,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(VERSION, prog_name="hba")
def main() -> None:
    """Search a data-augmentation schedule for your images, see it, check that it helps, and use it elsewhere."""
