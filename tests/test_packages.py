"""Builds hold the files of the project, and the library runs from a zip file and
without its source files.
"""

import compileall
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from documents import ROOT

import hba

pytest.importorskip(
    "setuptools", minversion="77", reason="builds need setuptools 77 or newer"
)

FOLDERS = ("hba", "cli", "policies", "benchmarks", "docs", "examples", "tests", ".ci")
INSTALLED = {"hba": "hba", "cli": "hba/cli", "policies": "hba/policies"}
"""Folders of the project, and where a wheel has them."""
NOT_SOURCE = shutil.ignore_patterns("__pycache__", "*.pyc")
BUILD = (
    "import sys; from setuptools import build_meta; getattr(build_meta,"
    " sys.argv[1])(sys.argv[2])"
)
USE = """
import sys
import hba
assert hba.__file__.startswith(sys.argv[1]), hba.__file__
from hba.data.splits import shipped_class_lists
print(hba.load_policy("digits").epochs, hba.policy_names(), shipped_class_lists(), \
hba.exports.__name__)
hba.write_report(sys.argv[2])
try:
    print(len(hba.export("digits", "torchvision")))
except hba.HbaError as error:
    print(error)
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project."""
    folder = tmp_path_factory.mktemp("project")
    for path in ROOT.iterdir():
        if path.is_file():
            shutil.copy(path, folder)
    for name in FOLDERS:
        shutil.copytree(ROOT / name, folder / name, ignore=NOT_SOURCE)
    return folder


def build(project: Path, hook: str, out: Path) -> Path:
    """Build what a hook of a build backend makes: build_wheel or build_sdist."""
    subprocess.run(
        [sys.executable, "-c", BUILD, hook, str(out)],
        cwd=project,
        check=True,
        capture_output=True,
    )
    (built,) = out.iterdir()
    return built


def contents_of_wheel(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {
            name: archive.read(name)
            for name in archive.namelist()
            if ".dist-info/" not in name
        }


def files_in(project: Path, name: str) -> set[str]:
    return {
        path.relative_to(project / name).as_posix()
        for path in (project / name).rglob("*")
        if path.is_file()
    }


@pytest.fixture(scope="module")
def wheel(project: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(project, "build_wheel", tmp_path_factory.mktemp("wheel"))


def test_builds_hold_the_files_of_the_project_and_not_those_of_an_earlier_build(
    project: Path, wheel: Path, tmp_path: Path
) -> None:
    project = shutil.copytree(project, tmp_path / "project")
    assert "hba/policies/digits.json" in contents_of_wheel(wheel)
    (project / "policies" / "digits.json").unlink()
    (project / "hba" / "models" / "resnet.py").unlink()
    built = contents_of_wheel(build(project, "build_wheel", tmp_path / "wheel"))
    expected = {
        f"{place}/{file}"
        for name, place in INSTALLED.items()
        for file in files_in(project, name)
    }
    assert built.keys() == expected
    source = build(project, "build_sdist", tmp_path / "source")
    shutil.unpack_archive(source, tmp_path / "unpacked")
    (unpacked,) = (tmp_path / "unpacked").iterdir()
    for name in FOLDERS:
        assert files_in(unpacked, name) == files_in(project, name)
    assert (
        contents_of_wheel(build(unpacked, "build_wheel", tmp_path / "again")) == built
    )


def used(place: Path, run: Path, folder: Path) -> list[str]:
    """What a program prints that uses the library in a place, a folder or a zip file,
    away from the project.
    """
    shutil.copytree(run, folder / "run")
    (folder / "run" / "report.html").unlink()
    search_path = os.pathsep.join(
        [str(place), *(path for path in sys.path if path.endswith("site-packages"))]
    )
    program = [sys.executable, "-OO", "-c", USE, str(place), "run"]
    environment = {**os.environ, "PYTHONPATH": search_path}
    done = subprocess.run(
        program, cwd=folder, env=environment, check=True, capture_output=True, text=True
    )
    assert (folder / "run" / "report.html").stat().st_size > 1000
    first, last = done.stdout.splitlines()
    assert (
        first
        == f"{hba.load_policy('digits').epochs} {hba.policy_names()} ['imagenet-120']"
        " hba.exports"
    )
    return last.split()


@pytest.mark.slow
def test_a_wheel_is_used_as_it_is_in_a_zip_file(
    wheel: Path, searched: Path, tmp_path: Path
) -> None:
    (n_characters,) = used(wheel, searched, tmp_path)
    assert int(n_characters) == len(hba.export("digits", "torchvision"))


@pytest.mark.slow
def test_without_source_files_only_exports_of_them_are_refused(
    wheel: Path, searched: Path, tmp_path: Path
) -> None:
    compiled = tmp_path / "compiled"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(compiled)
    assert compileall.compile_dir(compiled, quiet=1, legacy=True, optimize=2)
    for path in compiled.rglob("*.py"):
        path.unlink()
    assert "json" in used(compiled, searched, tmp_path)
