"""Commands on schedules and runs that exist already: show, apply, export, import,
report, compare and the lists.
"""

import json
import shlex
import tomllib
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from click.shell_completion import ShellComplete
from commands import SMALL, make_images, rows_in, run, said, small_schedule
from hba.cli import main
from hba.cli.main import COMMANDS
from PIL import Image
from report_pages import check_page
from tuned_schedules import alone, both, staged

import hba
from hba.config.evaluation import EvaluationConfig
from hba.config.presets import EVALUATION_PRESETS, SEARCH_PRESETS
from hba.models import MODELS
from hba.operations import registered_operations
from hba.policy.spaces import SPACES
from hba.policy_evaluation.baselines import RowConfig
from hba.policy_search.config import SearchConfig
from hba.schedule.recipes import RECIPES
from hba.training.augmentation import ScheduleAugmentation
from hba.utils.imports import EXTRAS

POLICIES = Path(__file__).parents[2] / "policies"
pytestmark = pytest.mark.usefixtures("in_a_folder_of_its_own")


def png_size(path: str) -> tuple[int, int]:
    with Image.open(path) as image:
        image.load()
        assert image.format == "PNG"
        return image.size


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The pictures of schedules that commands draw, which takes long, and which they do
    not draw in this test.
    """
    paths: list[Path] = []
    monkeypatch.setattr(
        "hba.cli.show.draw_schedule", lambda schedule, path: paths.append(path)
    )
    return paths


def test_show_prints_and_draws_a_schedule() -> None:
    small_schedule(epochs_finished=2, val_error_percent=12.5).save("a.json")
    lines = said("show", "a.json", "--out", "new/b.png")
    assert lines[-1] == "Picture: new/b.png"
    assert png_size("new/b.png")[0] > 200
    # Of 100 images, 20 may get nothing and 30 one operation. Rotate is applied to 75;
    # to 0.75 x 0.125 of all Invert is applied too, and comes first for half of them.
    rotated = 0.5 * 0.75 + 0.3 * (0.75 - 0.75 * 0.125 / 2)
    inverted = 0.5 * 0.125 + 0.3 * (0.125 - 0.75 * 0.125 / 2)
    for row in (
        ["Rotate", "0.25", "0.75", f"{100 * rotated:.1f} %", "3", "24"],
        ["Invert", "0.50", "0.12", f"{100 * inverted:.1f} %", "-", "-"],
    ):
        assert row in rows_in(lines)
    assert f"{rotated + inverted:.2f} on average" in "\n".join(lines)
    assert any("12.50 % after epoch 2" in line for line in lines)


def test_show_tells_that_a_policy_augments_nothing() -> None:
    lines = said("show", "none")
    assert "The policy augments nothing" in lines[0]
    assert not any("HorizontalFlip" in line for line in lines)


def test_show_as_json_has_the_numbers_and_draws_only_where_asked(
    drawn: list[Path],
) -> None:
    small_schedule(dataset="animals").save("a.json")
    small_schedule().save("run/policy.json")
    Path("digits").mkdir()
    shown = json.loads(run("show", "a.json", "--json").stdout)
    assert (shown["epochs"], shown["at_epochs"], shown["provenance"]) == (
        2,
        [1, 2],
        {"dataset": "animals"},
    )
    rotate, invert = shown["operations"]
    assert (rotate["probability"], rotate["magnitude"], invert["magnitude"]) == (
        [0.25, 0.75],
        [3.0, 24.0],
        None,
    )
    assert drawn == []
    run("show", "a.json", "--json", "--out", "b.png")
    for name in ("a.json", "run", "digits"):
        assert said("show", name)[-1] == f"Picture: {drawn[-1]}"
    assert drawn == [
        Path("b.png"),
        Path("a.png"),
        Path("run/policy.png"),
        Path("digits.png"),
    ]


def test_show_and_export_tell_what_was_tuned_beside_operations(
    drawn: list[Path],
) -> None:
    for schedule, names in ((both(), ["Rotate", "Invert"]), (alone(), [])):
        schedule.save("a.json")
        lines = said("show", "a.json")
        shown = [
            row[0]
            for row in rows_in(lines)
            if row[0] not in ("operation", "regularizer")
        ]
        expected = [
            *names,
            *(regularizer.name for regularizer in schedule.space.regularizers),
        ]
        assert [name for name in dict.fromkeys(shown) if name] == expected
        record = json.loads(run("show", "a.json", "--json").stdout)
        assert [regularizer["name"] for regularizer in record["regularizers"]] == [
            regularizer.name for regularizer in schedule.space.regularizers
        ]
        said("export", "a.json", "--to", "json", "--out", "b.json")
        assert hba.load_policy("b.json").space == schedule.space
    assert run("export", "a.json", "--to", "kornia", "--out", "c.py").exit_code == 2
    both().save("a.json")
    assert any(
        "dropout.fc1" in line
        for line in said("export", "a.json", "--to", "kornia", "--out", "c.py")
    )
    make_images(Path("images"), 1)
    assert any(
        "dropout.fc1" in line
        for line in said("apply", "a.json", "images", "--out", "c.png")
    )


def test_show_and_apply_know_stages_and_mixing(drawn: list[Path]) -> None:
    staged().save("a.json")
    lines = said("show", "a.json")
    for row in (
        ["symmetry:", "", "", "", "", ""],
        ["HorizontalFlip", "0.50", "0.25", "25.0 %", "-", "-"],
        ["ResizedCrop", "0.25", "0.50", "50.0 %", "0.75", "0.5"],
        ["Rotate", "0.25", "0.75", "37.5 %", "3", "24"],
        ["CutMix", "0.50", "0.50", "37.5 %", "0.5", "1"],
    ):
        assert row in rows_in(lines)
    operations = json.loads(run("show", "a.json", "--json").stdout)["operations"]
    assert {operation["name"]: operation["stage"] for operation in operations}[
        "CutMix"
    ] == "mixing"
    make_images(Path("images"), 1)
    hidden = (
        "Not shown, because they do not act on the pixels of single images: Mixup,"
        " CutMix"
    )
    assert hidden in said("apply", "a.json", "images", "--out", "c.png")
    mixing = tuple(staged().space.mixing)
    hba.Schedule(
        hba.SearchSpace(mixing, count_probabilities=(1.0,)), staged().values[:, 5:]
    ).save("b.json")
    assert (
        "only Mixup, CutMix"
        in run("apply", "b.json", "images", "--out", "c.png").stderr
    )
    assert "62 % of the batches are mixed." in said("show", "b.json")


def test_apply_draws_what_the_seed_decides_on_some_images_of_a_folder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    small_schedule(image_size=24).save("a.json")
    make_images(Path("images"), 20, classes=("ants", "bees", "cats"))
    Path("images/notes.txt").write_text("mine")
    files = []
    for number, options in enumerate(
        (("--seed", "1"), ("--seed", "1"), ("--seed", "2"))
    ):
        lines = said(
            "apply", "a.json", "images/ants/0.png", "--out", f"{number}.png", *options
        )
        assert lines[-1] == f"Picture: {number}.png"
        files.append(Path(f"{number}.png").read_bytes())
    assert files[0] == files[1] != files[2]
    drawn: list[tuple[int, int, int]] = []

    def note(
        schedule: object,
        images: list[Any],
        path: Path,
        *,
        epoch: int,
        n_copies: int,
        seed: int,
    ) -> None:
        drawn.append((epoch, len(images), images[0].shape[-1]))

    monkeypatch.setattr("hba.cli.schedules.draw_augmented", note)
    assert said("apply", "a.json", "images", "--out", "b.png")[0].startswith(
        "6 of the 60 images"
    )
    said(
        "apply",
        "a.json",
        "images/bees/1.png",
        "--out",
        "b.png",
        "--epoch",
        "1",
        "--image-size",
        "40",
    )
    for broken in ("images/ants/0.png", "images/cats/9.png"):
        Path(broken).write_bytes(b"no image")
    lines = said("apply", "a.json", "images", "--out", "b.png")
    assert lines[1].startswith(
        "Left out: 2 images that cannot be read, the first is images/ants/0.png ("
    )
    said("apply", "a.json", "images/cats/9.png", "images/bees/1.png", "--out", "b.png")
    assert (
        "images/ants/0.png"
        in run("apply", "a.json", "images/ants/0.png", "--out", "b.png").stderr
    )
    assert drawn == [(1, 6, 12), (0, 1, 40), (1, 4, 12), (1, 1, 12)]


def test_export_writes_a_file_beside_the_schedule(tmp_path: Path) -> None:
    path = tmp_path / "my-run" / "policy.json"
    schedule = small_schedule()
    schedule.save(path)
    for to, name in (
        ("torchvision", "policy_torchvision.py"),
        ("kornia", "policy_kornia.py"),
    ):
        said("export", "my-run", "--to", to)
        assert path.with_name(name).read_text(encoding="utf-8") == hba.export(
            path, to, path.with_name(name)
        )
    said("export", "digits", "--to", "json")
    assert (
        Path("digits_export.json").read_text(encoding="utf-8")
        == hba.load_policy("digits").text()
    )
    for arguments, expected in (
        (("--epoch", "2"), schedule.only(1)),
        (("--average",), schedule.averaged()),
    ):
        said("export", str(path), "--to", "json", "--out", "chosen.json", *arguments)
        assert (
            hba.load_policy("chosen.json").values.tobytes() == expected.values.tobytes()
        )
    lines = said("export", "timm", "--to", "albumentations", "--out", "timm.json")
    assert [
        line
        for line in lines
        if "MixUp" in line and "alpha 0.8" in line and "batch_transform" in line
    ]
    arguments = ("--without", "Mixup,CutMix")
    assert "MixUp" not in str(
        said("export", "timm", "--to", "kornia", "--out", "timm_policy.py", *arguments)
    )
    assert "Mixup" not in Path("timm_policy.py").read_text(encoding="utf-8")
    path.rename(path.with_name("2024 run.json"))
    said("export", "my-run/2024 run.json", "--to", "torchvision")
    assert all(file.stem.isidentifier() for file in path.parent.glob("*.py"))


def test_import_converts_schedules_of_other_programs() -> None:
    Path("log.txt").write_text(
        repr(["1", "0", 3, 2, [0] * 60, [3, 10, *[0] * 28, 4, 1, *[0] * 28]]),
        encoding="utf-8",
    )
    lines = said(
        "import",
        "log.txt",
        "--from",
        "pba",
        "--epochs",
        "5",
        "--out",
        "it's.json",
        "--fill",
        "0,0.25,1",
    )
    schedule = hba.load_policy("it's.json")
    rotate = schedule.values[:, schedule.space.names.index("Rotate.1.probability")]
    assert (rotate.tolist(), schedule.fill) == ([0, 0, 0.3, 0.3, 0.3], (0.0, 0.25, 1.0))
    assert said(*shlex.split(next(line for line in lines if "hba show" in line))[1:])
    lines = said(
        "import", "autoaugment-svhn", "--from", "torchvision", "--out", "a.json"
    )
    assert lines[0] == "Schedule: a.json (25 sub-policies over 1 epoch, 10 operations)"
    assert lines[1].startswith("Not expressed: ")
    Path("lists.py").write_text(
        "A = [[('Invert', 1, 1)]]\nB = [[('Equalize', 1, 1)]]\n", encoding="utf-8"
    )
    words = ("import", "lists.py", "--from", "fast-autoaugment", "--out", "a.json")
    assert "--name" in run(*words).stderr
    said(*words, "--name", "B")
    assert [
        operation.name for operation in hba.load_policy("a.json").space.operations
    ] == ["Equalize"]


def test_reports_are_written_again_and_runs_compared() -> None:
    make_images(Path("images"))
    words = ("search", "images", *SMALL, "--epochs", "1")
    assert "Report: run/report.html" in said(*words, "--out", "run")
    before = Path("run/report.html").read_text(encoding="utf-8")
    Path("run/report.html").unlink()
    assert said("report", "run") == ["Report: run/report.html"]
    check_page(before)
    said(*words, "--out", "other", "--seed", "1")
    assert ["seed", "0", "1"] in rows_in(said("compare", "run", "other"))


def test_tensorboard_events_are_written_beside_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("tensorboard", reason="needs the extra tensorboard")
    small = (*SMALL, "--epochs", "1", "--train-size", "40", "--tensorboard", "--out")
    said("search", "digits", "--val-size", "40", *small, "logged")
    assert list(Path("logged/tensorboard").glob("events*"))
    said(
        "evaluate",
        "digits",
        "--against",
        "none",
        "--seeds",
        "1",
        "--jobs",
        "1",
        *small[:-1],
        "--model",
        "mlp-8",
        "--out",
        "measured",
    )
    assert {folder.name for folder in Path("measured/tensorboard").iterdir()} == {
        "digits, seed 0",
        "none, seed 0",
    }


def cards() -> Iterator[tuple[str, Any]]:
    for path in sorted((POLICIES / "cards").glob("*.json")):
        yield path.stem, json.loads(path.read_text(encoding="utf-8"))


def test_shipped_policies_are_listed_with_their_cards() -> None:
    assert (
        [name for name, _ in cards()]
        == sorted(path.stem for path in POLICIES.glob("*.json"))
        == hba.policy_names()
    )
    assert [row[0] for row in rows_in(said("policies"))] == [
        *hba.policy_names(),
        *RECIPES,
    ]
    listed = json.loads(run("policies", "--json").stdout)
    assert [(policy["name"], policy["card"]) for policy in listed] == [*cards()]
    for name, card in cards():
        text = " ".join(run("policies", name).stdout.split())
        results = hba.EvaluationResult.model_validate(card["results"])
        answer = results.answer
        assert answer is not None
        stored = card["results"]["answer"]
        assert (answer.kind, answer.against) == (stored["kind"], stored["against"])
        for words in (card["text"], card["search"], card["evaluate"], answer):
            assert " ".join(str(words).split()) in text
        assert (
            json.loads(run("policies", name, "--json").stdout)["results"]["rows"][0][
                "name"
            ]
            == "schedule"
        )
        # A row is known by what it does to images: it is of this file.
        config = EvaluationConfig.make(
            {**card["results"]["settings"], "data": "digits"}
        )
        row = RowConfig(name, config, ScheduleAugmentation(hba.load_policy(name)))
        assert row.definition == card["results"]["rows"][0]["definition"]


def test_presets_are_printed_as_options_that_make_the_same_settings() -> None:
    lines = [line.strip() for line in said("presets")]
    for number, line in enumerate(lines):
        if line.startswith("--preset "):
            name = line.removeprefix("--preset ")
            data, *words = shlex.split(lines[number + 1])
            names = (word.removeprefix("--").replace("-", "_") for word in words[::2])
            settings = {"data": data, **dict(zip(names, words[1::2], strict=True))}
            is_search = "lambda_learning_rate" in settings
            if is_search:
                algorithm: dict[str, Any] = {"algorithm": "lookahead"}
                assert SearchConfig.make(
                    {**settings, **algorithm}
                ) == SearchConfig.from_preset(algorithm, name)
            else:
                assert EvaluationConfig.make(settings) == EvaluationConfig.like_search(
                    {}, {}, name
                )
    assert sum(line.startswith("--preset") for line in lines) == len(
        SEARCH_PRESETS
    ) + len(EVALUATION_PRESETS)


def test_models_and_operations_are_listed(registered: object) -> None:
    rows = {row[0]: row[1:] for row in rows_in(said("models")) if row[0]}
    assert set(MODELS) <= set(rows)
    assert rows["wrn-10-1"] == ["0.08 M", "2x3x32x32", "2x10", "any"]
    for space, search_space in SPACES.items():
        shown = [
            row[0]
            for row in rows_in(said("operations", "--space", space))
            if row[0] and row[0][-1] != ":"
        ]
        assert shown == [operation.name for operation in search_space.operations]
    assert said("operations", "--markdown")[0].startswith("| stage | operation")
    Path("mine.py").write_text(
        "import hba\nimport torch\nhba.register_operation(hba.Operation('Mine',"
        " torch.sin))\n"
    )
    assert "Mine" in run("operations", "--operations-file", "mine.py").stdout
    assert [operation.name for operation in registered_operations()] == ["Mine"]


def test_doctor_prints_versions_and_tries_a_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "hba.policy_search.search.search", partial(hba.search, image_size=8)
    )
    lines = said("doctor", "--device", "cpu")
    assert lines[0].startswith(f"hba {hba.__version__}, Python 3.")
    extras = tomllib.loads((POLICIES.parent / "pyproject.toml").read_text("utf-8"))[
        "project"
    ]["optional-dependencies"]
    assert all(
        any(line.startswith(name) for line in extras[extra])
        for extra, names in EXTRAS.items()
        for name in names
    )
    assert len([line for line in lines if line.startswith("optional, [")]) == len(
        EXTRAS
    )
    assert lines[-1].startswith("self-test on cpu: ok")


def test_a_shell_completes_commands_options_and_names() -> None:
    def complete(*words: str) -> set[str]:
        completion = ShellComplete(main, {}, "hba", "_HBA_COMPLETE")
        return {
            item.value
            for item in completion.get_completions(list(words[:-1]), words[-1])
        }

    assert complete("") == set(COMMANDS)
    for words, expected in (
        (("search", "--lambda-l"), {"--lambda-learning-rate"}),
        (("search", "cif"), {"cifar10", "cifar100", "cif"}),
        (("search", "--model", "wrn-4"), {"wrn-40-2"}),
        (("search", "--space", ""), set(SPACES)),
        (
            ("search", "--operations", "Rotate,Co"),
            {"Rotate,Contrast", "Rotate,ContrastJitter", "Rotate,Color"},
        ),
        (("search", "--preset", ""), set(SEARCH_PRESETS)),
        (("show", "dig"), {"digits", "dig"}),
        (("policies", "dig"), {"digits"}),
    ):
        assert complete(*words) == expected
