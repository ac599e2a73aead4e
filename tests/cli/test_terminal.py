"""What the commands print when nobody reads it."""

import subprocess
import sys
from pathlib import Path

import hba

PROGRAM = "from hba.cli import main; main()"
SEARCH = ["search", "digits", "--epochs", "3", "--out", "run"]


def test_a_search_goes_on_where_its_output_is_no_longer_read(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", PROGRAM, *SEARCH], cwd=tmp_path, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(timeout=120) == 0
    assert hba.load_policy(tmp_path / "run").epochs == 3
