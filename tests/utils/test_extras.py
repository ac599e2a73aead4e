"""Optional libraries: there, not there, and there but broken."""

import math
import re
import sys
import tomllib
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from hba.errors import SettingsError
from hba.utils.imports import import_extra, install, optional_packages


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


def test_optional_packages_are_those_that_the_project_names() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    expected = {
        extra: tuple(re.split("[<>=~! ]", package)[0] for package in packages)
        for extra, packages in project["optional-dependencies"].items()
        if extra not in ("benchmarks", "browser", "docs", "test")
    }
    assert optional_packages() == expected
    assert {"timm", "pandas", "pyarrow", "datasets"} <= {name for names in expected.values() for name in names}


def test_a_copy_that_is_not_installed_names_no_optional_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> list[str]:
        raise PackageNotFoundError(name)

    monkeypatch.setattr("hba.utils.imports.requires", unknown)
    assert optional_packages() == {}


def test_an_extra_is_installed_by_its_name() -> None:
    assert install("tables") == "pip install 'hba-augment[tables]'"
