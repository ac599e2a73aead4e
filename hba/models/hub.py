"""Files of the Hugging Face hub: whether they are on this machine, their size, and
their download.
"""

import os
import subprocess
import sys
from typing import Any, NamedTuple

SECONDS_TO_CONNECT = 10.0
PROGRAM = """
import os, sys, threading
import huggingface_hub

def end_with_parent():
    os.read(0, 1)
    os._exit(1)

threading.Thread(target=end_with_parent, daemon=True).start()
huggingface_hub.hf_hub_download(*sys.argv[1:])
"""
"""Downloads a file, and ends when its standard input is closed, as by the end of the
process that started it.
"""


class HubFile(NamedTuple):
    """A file in a repository of the hub."""

    repository: str
    name: str


def cached_path(file: HubFile) -> str | None:
    """The path of the file in the cache of this machine; None if it is not there."""
    from huggingface_hub import try_to_load_from_cache

    path = try_to_load_from_cache(*file)
    return path if isinstance(path, str) else None


def size_on_hub(file: HubFile) -> int:
    """Size of the file in bytes.

    Raises errors of many kinds if the hub cannot be reached.
    """
    from huggingface_hub import get_hf_file_metadata, hf_hub_url

    metadata: Any = get_hf_file_metadata(hf_hub_url(*file), timeout=SECONDS_TO_CONNECT)
    return int(metadata.size)


def download(file: HubFile, seconds: float | None = None) -> None:
    """Download the file into the cache.

    Another process does it, because it can be ended at any time.

    Args:
        file: The file on the hub.
        seconds: The most that it may take; None for any time.

    Raises:
        OSError: With the reason if that fails.
    """
    # -P: no module of the working directory is imported.
    command = [sys.executable, "-P", "-c", PROGRAM, *file]
    reading, writing = os.pipe()
    try:
        ended = subprocess.run(
            command,
            stdin=reading,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=seconds,
        )
    except subprocess.TimeoutExpired:
        raise TimeoutError(
            f"{file.name} of {file.repository} took more than {seconds:.0f} s"
        ) from None
    finally:
        os.close(reading)
        os.close(writing)
    if ended.returncode:
        raise OSError(
            next(reversed(ended.stderr.strip().splitlines()), "no reason was given")
        )
