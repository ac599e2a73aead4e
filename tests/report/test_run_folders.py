"""Pages of folders of `hba auto` and of older versions, and the lines that a page
offers to paste.
"""

import json
import shlex
import shutil
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from report_pages import EVIL, StrictPage, check_page
from small_trainings import tiny_data
from tuned_schedules import staged

import hba
from hba.data import EvaluationData
from hba.data.reading import SkippedFile, save_left_out
from hba.errors import RunError
from hba.report.samples import NATIVE_NAME, SAMPLES_NAME
from hba.results.auto_answer import command_of_test
from hba.results.evaluation import read_results
from hba.results.run import Run

AUTO: dict[str, Any] = {
    "plan": ["a small network, because the images are small (--model)"],
    "rows": [
        {
            "name": "none",
            "losses": {"0": 1.5, "1": 1.3},
            "errors": {"0": 40.0, "1": 44.0},
            "dropped_after": 2,
        },
        {
            "name": "photo",
            "losses": {"0": 1.25},
            "errors": {"0": 30.0},
            "dropped_after": None,
        },
        {"name": "late", "losses": {}, "errors": {}, "dropped_after": None},
    ],
    "chosen": "photo",
    "notes": ["an image stands in two classes"],
    "command": "hba auto pets --budget 5m",
}


def page_of(folder: Path) -> StrictPage:
    return check_page(hba.write_report(folder).read_text("utf-8"))


def auto_folder(folder: Path, searched: Path, evaluated: Path | None) -> Path:
    shutil.copytree(searched, folder / "search")
    if evaluated is not None:
        shutil.copytree(evaluated, folder / "evaluation")
    hba.load_policy("photo").save(folder / "policy.json")
    (folder / "auto.json").write_text(json.dumps(AUTO))
    (folder / "network.json").write_text(
        json.dumps({"classes": ["a", "b"], "test_error_percent": 12.34})
    )
    save_left_out(
        folder, [SkippedFile(f"/pets/{number}.png", "broken") for number in range(12)]
    )
    return folder


def test_a_folder_of_auto_has_all_phases_on_one_page(
    searched: Path, evaluated: Path, tmp_path: Path
) -> None:
    page = page_of(auto_folder(tmp_path / "run", searched, evaluated))
    assert page.headings(1)[0].startswith("What to use for")
    results = read_results(evaluated / "results.json")
    percent = f"{results.rows[0].mean:.1f} % test error"
    assert page.text.index(percent) < page.text.index(page.headings(2)[0]), (
        "the answer comes first"
    )
    (contest,) = [
        table
        for table in page.tables
        if "loss" in table[0] and table[1][0].startswith("photo")
    ]
    assert [row[-1] for row in contest[1:]] == [
        "1.250",
        "1.400",
    ], "the least first, and only rows with a training"
    for text in (
        *AUTO["plan"],
        *AUTO["notes"],
        AUTO["command"],
        "12.3 % test error",
        "hba predict",
        "12 files",
    ):
        assert text in page.text
    assert "/pets/9.png" in page.text
    assert "/pets/10.png" not in page.text
    assert len(page.attributes_of("img")) > 6, "of the samples of the search"


def test_an_evaluation_with_more_seeds_renews_the_page_of_its_run(
    searched: Path, evaluated: Path, tmp_path: Path
) -> None:
    folder = auto_folder(tmp_path / "run", searched, evaluated)
    hba.write_report(folder)
    tiny = tiny_data()
    test = folder / "evaluation"
    data = EvaluationData("tiny", EVIL, tiny.train, tiny.test)
    settings: dict[str, Any] = {
        "model": "wrn-10-1",
        "epochs": 1,
        "batch_size": 20,
        "device": "cpu",
    }
    results = hba.evaluate(
        searched,
        data,
        against=("none", "start"),
        out=test,
        resume=True,
        seeds=3,
        **settings,
    )
    written = check_page((folder / "report.html").read_text("utf-8")).text
    for text in (f"{results.rows[0].mean:.1f} % test error", "3 seeds"):
        assert text in written[: written.index("How large the difference is")]


def test_a_renamed_folder_has_commands_with_its_name(
    searched: Path, evaluated: Path, tmp_path: Path
) -> None:
    folder = auto_folder(tmp_path / "run", searched, evaluated)
    run = Run.read(folder.rename(tmp_path / "renamed"))
    assert run.results is not None
    assert shlex.quote(str(tmp_path / "renamed" / "evaluation")) in command_of_test(
        run.auto, run.results, run.folder
    )


def test_an_interrupted_auto_has_a_page_with_what_there_is(
    searched: Path, tmp_path: Path
) -> None:
    page = page_of(auto_folder(tmp_path / "run", searched, None))
    assert "Use the recipe photo" in page.text
    (tmp_path / "run" / "auto.json").write_text("[1]")
    with pytest.raises(RunError, match=r"auto\.json cannot be read"):
        hba.write_report(tmp_path / "run")


def test_older_folders_without_native_images_or_any_images_have_pages(
    searched: Path, tmp_path: Path
) -> None:
    shutil.copytree(searched, tmp_path / "old")
    (tmp_path / "old" / NATIVE_NAME).unlink(missing_ok=True)
    assert page_of(tmp_path / "old").attributes_of("img")
    (tmp_path / "old" / SAMPLES_NAME).unlink()
    assert not page_of(tmp_path / "old").attributes_of("img")


def test_the_lines_to_paste_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("timm.data")
    pytest.importorskip("albumentations")
    schedule = staged()
    schedule.save(tmp_path / "policy.json")
    monkeypatch.chdir(tmp_path)
    hba.export(
        schedule.averaged(), "albumentations", tmp_path / "policy_albumentations.json"
    )
    dataset = types.SimpleNamespace()
    image = Image.new("RGB", (300, 280), "red")
    names: dict[str, Any] = {
        "epoch": 1,
        "epochs": 2,
        "loader": types.SimpleNamespace(dataset=dataset),
        "images": torch.rand(4, 3, 8, 8),
        "labels": torch.tensor([0, 1, 1, 0]),
    }
    pasted = [
        text for tag, text in page_of(tmp_path).within if tag == "code" and "\n" in text
    ]
    transforms = []
    for text in pasted:
        exec(text, names)
        transforms += [names.pop("transform")] if "transform" in names else []
    of_torchvision, of_albumentations = transforms
    for augmented in (
        of_torchvision(image),
        of_albumentations(image=np.asarray(image))["image"],
        dataset.transform(image),
    ):
        assert augmented.shape == (3, 224, 224)
    assert names["soft_labels"].shape == (4, 10)
    trainer = types.SimpleNamespace(global_step=3, estimated_stepping_batches=4)
    module = types.SimpleNamespace(trainer=trainer, policy=schedule.transform())
    names["on_train_batch_start"](module, None, 3)
    assert module.policy.position == 0.75 * (schedule.epochs - 1)
    assert module.policy(names["images"]).shape == names["images"].shape
