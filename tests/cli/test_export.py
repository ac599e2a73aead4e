"""hba export: files for other libraries."""

import shutil
from pathlib import Path

import pytest
from commands import make_images, refusal_of, run

import hba


@pytest.fixture
def schedule(tmp_path: Path) -> Path:
    """A file of the shipped schedule, whose first three epochs say enough."""
    shipped = hba.load_policy("digits")
    path = tmp_path / "my-run" / "policy.json"
    path.parent.mkdir()
    hba.Schedule(shipped.space, shipped.values[:3], shipped.fill, spread=shipped.spread[:3]).save(path)
    return path


@pytest.mark.parametrize(
    ("to", "name"),
    [("torchvision", "policy_torchvision.py"), ("timm", "policy_timm.py"), ("json", "policy_export.json")],
)
def test_the_file_stands_beside_the_schedule(to: str, name: str, schedule: Path) -> None:
    for given in (schedule, schedule.parent):
        result = run("export", str(given), "--to", to)
        assert result.output.startswith(f"Written: {schedule.parent / name} (")
        assert (schedule.parent / name).read_text(encoding="utf-8") == hba.export(schedule, to, schedule.parent / name)


def test_a_shipped_schedule_is_written_into_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("export", "digits", "--to", "json").exit_code == 0
    assert (tmp_path / "digits_export.json").read_text(encoding="utf-8") == hba.load_policy("digits").text()


@pytest.mark.parametrize("name", ["2024-run.json", "my run.json", "policy.v2.json", "class.json"])
def test_a_name_that_python_cannot_import_is_changed(name: str, schedule: Path) -> None:
    other = schedule.with_name(name)
    schedule.rename(other)
    result = run("export", str(other), "--to", "torchvision")
    assert result.exit_code == 0, result.output
    (written,) = schedule.parent.glob("*.py")
    assert written.stem.isidentifier()


def test_a_folder_of_the_name_of_a_shipped_schedule_is_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make_images(tmp_path / "digits")
    monkeypatch.chdir(tmp_path)
    assert run("export", "digits", "--to", "torchvision").exit_code == 0
    assert (tmp_path / "digits_torchvision.py").exists()


def test_images_that_cannot_be_read_are_told_before_anything_is_written(schedule: Path, tmp_path: Path) -> None:
    (tmp_path / "broken.png").write_bytes(b"no image")
    assert "broken.png" in refusal_of(
        "export", str(schedule), "--to", "torchvision", "--check", str(tmp_path / "broken.png")
    )
    assert [path.name for path in schedule.parent.iterdir()] == ["policy.json"]


def test_one_epoch_or_the_mean_of_all_can_be_chosen(schedule: Path, tmp_path: Path) -> None:
    whole = hba.load_policy(schedule)
    for arguments, expected in ((("--epoch", "2"), whole.only(1)), (("--average",), whole.averaged())):
        out = tmp_path / "chosen.json"
        assert run("export", str(schedule), "--to", "json", "--out", str(out), *arguments).exit_code == 0
        found = hba.load_policy(out)
        assert found.values.tobytes() == expected.values.tobytes()
        assert found.spread.tobytes() == expected.spread.tobytes()
    assert hba.load_policy(out).provenance["rows"] == "the mean of 3 epochs"


def test_check_compares_on_images_of_one_s_own(schedule: Path, tmp_path: Path) -> None:
    images = make_images(tmp_path / "images")
    result = run("export", str(schedule), "--to", "torchvision", "--check", str(images))
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()
    assert sum("exact" in line for line in lines) == 16
    assert any("whole policy" in line for line in lines)
    assert not any("approximate" in line for line in lines)


def test_mistakes_are_told_in_one_line(schedule: Path, tmp_path: Path) -> None:
    start = ("export", str(schedule), "--to", "torchvision")
    assert refusal_of(*start, "--epoch", "4") == "--epoch must lie in [1, 3], got 4"
    assert refusal_of(*start, "--epoch", "1", "--average") == "--epoch and --average exclude each other"
    assert refusal_of(*start, "--out", str(tmp_path / "my-policy.py")) == (
        "the file must have a name that Python can import, letters, digits and _ before .py, got my-policy.py"
    )
    before = schedule.read_bytes()
    for given in (schedule, schedule.parent):
        assert refusal_of("export", str(given), "--to", "json", "--average", "--out", str(schedule)) == (
            f"--out must be another file than the schedule, {schedule}"
        )
    assert schedule.read_bytes() == before
    assert refusal_of("export", "nowhere.json", "--to", "json").startswith("no schedule file nowhere.json")
    (tmp_path / "blocked").write_text("")
    assert "cannot write" in refusal_of(*start, "--out", str(tmp_path / "blocked" / "policy.py"))
    shutil.rmtree(schedule.parent)
