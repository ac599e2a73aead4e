"""The command `hba`: the list of its commands, and what happens after an error."""

import importlib
import io
import os
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click

from hba.errors import HbaError, HbaWarning
from hba.utils.devices import VERSION

USER_ERROR = 2
INTERRUPTED = 130

COMMANDS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "auto": (
            "auto.auto",
            (
                "Find the best augmentation for DATA, test it, and train a network"
                " with it."
            ),
        ),
        "contest": (
            "contest.contest",
            "Find the best augmentation for a training of your own, and test it.",
        ),
        "search": ("search.search", "Find an augmentation schedule for DATA."),
        "evaluate": (
            "evaluate.evaluate",
            "Train with and without SCHEDULE, and compare the test errors.",
        ),
        "train": ("network.train", "Train a network with POLICY on DATA, and save it."),
        "predict": ("network.predict", "Predict IMAGES with the network in RUN."),
        "search-text": (
            "text.search_text",
            "Find a regularization schedule for a language model on DATA.",
        ),
        "evaluate-text": (
            "text.evaluate_text",
            "Train language models with SCHEDULE and baselines, and compare them.",
        ),
        "prepare": (
            "prepare.prepare",
            "Decode and resize the images of DATA once, to read them faster.",
        ),
        "show": (
            "show.show",
            "Print SCHEDULE as tables, and plot it over epochs as a PNG file.",
        ),
        "report": (
            "show.report",
            "Rewrite the report of RUN, the folder of a search or an evaluation.",
        ),
        "compare": (
            "show.compare",
            "Compare the settings and the results of RUNS in tables.",
        ),
        "apply": ("schedules.apply", "Write a grid of augmented copies of IMAGES."),
        "models": ("listings.models", "List the networks that --model accepts."),
        "operations": (
            "listings.operations",
            "List the operations of a search space, with the units of magnitudes.",
        ),
        "policies": (
            "listings.policies",
            "List the schedules that ship with the package, or print the card of NAME.",
        ),
        "presets": (
            "listings.presets",
            "Print the settings of each --preset of `hba search` and `hba evaluate`.",
        ),
        "export": (
            "schedules.export",
            "Write SCHEDULE for another library, as a file that does not need hba.",
        ),
        "import": (
            "schedules.import_schedule",
            "Convert a schedule of another program into one of hba.",
        ),
        "doctor": (
            "listings.doctor",
            "Print versions and devices, and run a short search as a self-test.",
        ),
    }
)
"""The function (module.function) and the summary of each command. `hba --help` imports
none of the functions.
"""


class _Group(click.Group):
    """Imports a command only when it is called, because most commands import PyTorch,
    which takes seconds.

    After a user's mistake, a command prints one line and exits with code 2; after
    Ctrl-C, it exits with code 130.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, function = COMMANDS[cmd_name][0].partition(".")
        command: click.Command = getattr(
            importlib.import_module(f".{module}", __package__), function
        )
        return command

    def format_commands(
        self, ctx: click.Context, formatter: click.HelpFormatter
    ) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def main(self, *args: Any, **kwargs: Any) -> Any:
        # PyTorch's threads spin while they wait, which makes a search several times
        # slower on busy cores. The variable has an effect only before torch is loaded.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        # Likewise: what PyTorch cannot compute on MPS is computed on the CPU.
        os.environ.setdefault("PYTORCH_ENABLE_MPS_FALLBACK", "1")
        # Pillow also warns about images that can be read; the others end in an error of
        # one line.
        warnings.filterwarnings("ignore", module=r"PIL\.")
        # joblib, which scikit-learn imports, warns where it cannot start processes,
        # which hba does not ask for.
        warnings.filterwarnings("ignore", module=r"joblib\.")
        # Jupyter's variable may name a backend that this environment lacks, and figures
        # are only written to files.
        os.environ.pop("MPLBACKEND", None)
        _open_closed_streams()
        for stream in (sys.stdout, sys.stderr):
            # File names need not be valid text.
            if isinstance(stream, io.TextIOWrapper):
                stream.reconfigure(errors="backslashreplace")
        try:
            return super().main(*args, **{**kwargs, "standalone_mode": False})
        except click.Abort:
            click.echo("stopped", err=True)
            sys.exit(INTERRUPTED)
        except click.ClickException as error:
            error.show()
            sys.exit(error.exit_code)

    def invoke(self, ctx: click.Context) -> Any:
        try:
            Path.cwd()
        except FileNotFoundError:
            # Libraries below PyTorch would end the process.
            raise _UserError(
                "the current folder has been removed; change to another one"
            ) from None
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("default", HbaWarning)
                warnings.showwarning = _show_warning
                return super().invoke(ctx)
        except HbaError as error:
            raise _UserError(str(error)) from None
        except BrokenPipeError:
            raise
        except UnicodeEncodeError as error:
            name = repr(error.object[error.start : error.end])
            text = (
                f"a name holds {name}, which {error.encoding} cannot encode; rename the"
                " file, folder or class"
            )
            raise _UserError(str(HbaError(text))) from None
        except OSError as error:
            where = error.filename or "a file"
            raise _UserError(
                str(HbaError(f"cannot use {where}: {error.strerror or error}"))
            ) from None


class _UserError(click.ClickException):
    """An error raised by the library, printed in one line."""

    exit_code = USER_ERROR

    def show(self, file: Any = None) -> None:
        """Print the line."""
        click.echo(f"hba: error: {self.message}", file=file, err=True)


def _open_closed_streams() -> None:
    """Connect standard streams that were closed before the start to the null device.

    Otherwise, they are None, and the next file that is opened gets what is printed by
    libraries.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            stream = Path(os.devnull).open(mode, encoding="utf-8")  # noqa: SIM115 open until the process ends
            os.set_inheritable(stream.fileno(), True)
            setattr(sys, name, stream)


def _show_warning(
    message: Warning | str, category: type[Warning], *location: Any, **options: Any
) -> None:
    """Print a warning in one line, without the place in the code."""
    # It imports libraries that commands like --help do without.
    from .terminal import say

    say(f"hba: warning: {message}", err=True)


EPILOG = """\b
For shell completion, add this line to ~/.bashrc (for other shells: zsh_source, \
fish_source):
  eval "$(_HBA_COMPLETE=bash_source hba)"
"""


@click.group(
    cls=_Group,
    epilog=EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(VERSION, prog_name="hba")
def main() -> None:
    """Find an augmentation schedule for your images, look at it, test whether it helps,
    and use it elsewhere.
    """
