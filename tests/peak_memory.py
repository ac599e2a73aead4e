"""The most memory that a program of its own had, as Linux counts it."""

import subprocess
import sys
from pathlib import Path

import pytest

STATUS = Path("/proc/self/status")
PEAK = f"""
def peak_bytes():
    for line in open("{STATUS}", encoding="utf-8"):
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
"""
"""Not ru_maxrss, which begins at what the process had that started this one."""


def printed_by(code: str, *arguments: Path) -> list[str]:
    """Lines that Python code prints, which may call peak_bytes()."""
    if not STATUS.exists():
        pytest.skip("needs Linux, which counts a program's memory in /proc")
    command = [sys.executable, "-W", "ignore", "-c", PEAK + code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
