"""hba doctor: what is installed, what computes, and whether a search works."""

import platform
from collections.abc import Sequence

import click
import torch

from hba.policy_search.self_test import EPOCHS, self_test
from hba.utils.devices import find_device
from hba.utils.imports import install, optional_packages
from hba.utils.provenance import environment, version_of
from hba.utils.text import counted

from .terminal import say

GIB = 2**30


@click.command()
@click.option("--device", default="auto", show_default=True, help="What the search is tried on: auto, cpu, cuda, ...")
def doctor(device: str) -> None:
    """Print what is installed and what computes, and try a search of some seconds.

    Give what it prints with a question or a report of an error.
    """
    chosen = find_device(device)
    found = environment(chosen)
    packages = {name: number for name, number in found["packages"].items() if name != "hba-augment"}
    say(f"hba {found['packages']['hba-augment']}, Python {found['python']}, {platform.platform()}")
    say(", ".join(f"{name} {number}" for name, number in packages.items()))
    for extra, names in optional_packages().items():
        say(_extra(extra, names))
    say(f"cpu: {environment(torch.device('cpu'))['device_name']}, {counted(torch.get_num_threads(), 'thread')}")
    for number in range(torch.cuda.device_count()):
        say(f"cuda:{number}: {_gpu(number)}")
    if not torch.cuda.is_available():
        built_for = torch.version.cuda
        say(f"cuda: none can be used ({f'PyTorch is for CUDA {built_for}' if built_for else 'PyTorch is for CPUs'})")
    tested = self_test(chosen)
    same = ", which found the same" if chosen.type == "cpu" else ""
    say(
        f"self-test on {chosen}: ok, a search of {EPOCHS} epochs on the embedded digits, and one that was stopped and "
        f"resumed{same} ({tested.seconds:.0f} s; {tested.steps_per_second:.1f} steps/s)"
    )


def _extra(extra: str, names: Sequence[str]) -> str:
    """As `optional, [tables]: pandas 3.1.1, pyarrow is not installed (pip install 'hba-augment[tables]')`."""
    versions = {name: version_of(name) for name in names}
    listed = ", ".join(f"{name} {number or 'is not installed'}" for name, number in versions.items())
    remedy = "" if all(versions.values()) else f" ({install(extra)})"
    return f"optional, [{extra}]: {listed}{remedy}"


def _gpu(number: int) -> str:
    free, whole = torch.cuda.mem_get_info(number)
    major, minor = torch.cuda.get_device_capability(number)
    name = torch.cuda.get_device_name(number)
    return f"{name}, {free / GIB:.1f} of {whole / GIB:.1f} GiB free, compute capability {major}.{minor}"
