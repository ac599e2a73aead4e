"""Optional libraries: there, not there, and there but broken."""

import math
import sys
from pathlib import Path

import pytest

from hba.errors import SettingsError
from hba.runtime.extras import import_extra


def test_what_is_there_is_imported() -> None:
    assert import_extra("math", "numbers", "counting") is math


def test_what_is_not_there_is_refused_with_how_to_get_it() -> None:
    with pytest.raises(SettingsError, match=r"^counting needs no_such_thing: pip install 'hba-augment\[numbers\]'$"):
        import_extra("no_such_thing", "numbers", "counting")


def test_what_lacks_something_itself_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lacks_something.py").write_text("import no_such_thing")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="no_such_thing"):
        import_extra("lacks_something", "numbers", "counting")
    assert "lacks_something" not in sys.modules
