"""hba doctor: what is installed, which devices there are, and whether a search works."""

import platform

import click
import torch

from hba.policy_search.self_test import EPOCHS, self_test
from hba.utils.devices import environment, find_device, version_of
from hba.utils.imports import install, optional_packages
from hba.utils.text import counted

from .terminal import say

GIB = 2**30


@click.command()
@click.option("--device", default="auto", show_default=True, help="Device of the self-test: auto, cpu, cuda, ...")
def doctor(device: str) -> None:
    """Print versions and devices, and run a search of a few seconds as a self-test.

    Include its output in a question or a bug report.
    """
    chosen = find_device(device)
    found = environment(chosen)
    packages = {name: number for name, number in found["packages"].items() if name != "hba-augment"}
    say(f"hba {found['packages']['hba-augment']}, Python {found['python']}, {platform.platform()}")
    say(", ".join(f"{name} {number}" for name, number in packages.items()))
    for extra, names in optional_packages().items():
        versions = {name: version_of(name) for name in names}
        shown = ", ".join(f"{name} {number or 'is not installed'}" for name, number in versions.items())
        say(f"optional, [{extra}]: {shown}{'' if all(versions.values()) else f' ({install(extra)})'}")
    say(f"cpu: {environment(torch.device('cpu'))['device_name']}, {counted(torch.get_num_threads(), 'thread')}")
    for number in range(torch.cuda.device_count()):
        free, whole = (n_bytes / GIB for n_bytes in torch.cuda.mem_get_info(number))
        capability = ".".join(map(str, torch.cuda.get_device_capability(number)))
        name = torch.cuda.get_device_name(number)
        say(f"cuda:{number}: {name}, {free:.1f} of {whole:.1f} GiB free, compute capability {capability}")
    if not torch.cuda.is_available():
        built_for = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPUs"
        say(f"cuda: not available (PyTorch is built for {built_for})")
    seconds = self_test(chosen)
    same = ", which found the same" if chosen.type == "cpu" else ""
    say(
        f"self-test on {chosen}: ok, a search of {EPOCHS} epochs on the embedded digits, and one that was stopped and "
        f"resumed{same} ({seconds:.0f} s)"
    )
