"""hba models, operations, policies, presets and doctor: the names that commands accept,
and what is installed.
"""

import json
import platform
import shlex
import time
from collections.abc import Mapping
from typing import Any

import click

import hba
from hba.config.presets import EVALUATION_PRESETS, SEARCH_PRESETS
from hba.errors import ScheduleError
from hba.operations import Operation, registered_operations
from hba.operations.drawing import SIGN
from hba.policy.spaces import SPACES, search_space
from hba.schedule.library import files_of, policy_names, shipped_schedules
from hba.schedule.recipes import RECIPES
from hba.utils.devices import environment, find_device, version_of
from hba.utils.imports import EXTRAS, install
from hba.utils.text import as_markdown, counted, percent, unknown

from .terminal import (
    by_stage,
    console,
    json_option,
    operations_file_option,
    print_json,
    print_table,
    say,
)


@click.command()
def models() -> None:
    """List the networks that --model accepts.

    Each is listed with its parameters, the shapes of input and output, and the values
    of --sharing that it supports.
    """
    # They import PyTorch, which the other lists do not need.
    import torch

    from hba.hypernet.sharing import SHARING, working_strategies
    from hba.models import IMAGENET_NETWORKS, MODELS, PATTERNS

    rows = []
    for name, build in MODELS.items():
        n_classes, size = (1000, 224) if name in IMAGENET_NETWORKS else (10, 32)
        # On this device, weights have shapes but no values.
        with torch.device("meta"):
            network = build(n_classes)
        parameters = sum(parameter.numel() for parameter in network.parameters())
        sharing = working_strategies(network)
        shapes = (f"2x3x{size}x{size}", f"2x{n_classes}")
        strategies = (
            "any" if set(sharing) == set(SHARING) else ", ".join(sharing) or "none"
        )
        rows.append((name, f"{parameters / 1e6:.2f} M", *shapes, strategies))
    print_table(("name", "parameters", "input", "output", "--sharing"), rows)
    say(
        "Parameters are counted at 10 classes, at 1000 for 224x224. Input and output"
        " are for a batch of 2 images."
    )
    say(f"--sharing: `any` means any of {', '.join(SHARING)}.")
    say(
        f"--model also accepts any {', '.join(PATTERNS)}, and timm:<name> for a network"
        " of timm."
    )


@click.command()
@click.option(
    "--space",
    type=click.Choice(list(SPACES)),
    default="recipe",
    show_default=True,
    help="The search space.",
)
@click.option(
    "--markdown", is_flag=True, help="Print Markdown, as in the documentation."
)
@operations_file_option
def operations(space: str, markdown: bool) -> None:
    """Print the operations of a search space and your own, with the ranges, units and
    directions of magnitudes.
    """
    by_name = {
        operation.name: operation
        for operation in (*SPACES[space].operations, *registered_operations())
    }
    shown = search_space(space, by_name)
    headings = ("operation", "magnitude", "unit", "no effect at", "also", "defined by")
    rows = [(operation.stage, _row(operation)) for operation in shown.operations]
    if markdown:
        say(
            as_markdown(
                ("stage", *headings), [(stage, *cells) for stage, cells in rows]
            )
        )
        return
    print_table(headings, by_stage(rows), f"Search space {space}")
    say(
        "sign: the magnitude is negated half of the time. nearest, bilinear: the"
        " interpolation between pixels."
    )
    say(
        "fill: uncovered pixels get one color; in a search, the mean color of the"
        " training images."
    )
    limits = ", ".join(
        f"{limit} ({probability:.0%})"
        for limit, probability in enumerate(shown.count_probabilities)
    )
    of_walk = " of the walk" if shown.has_stages else ""
    if shown.walk:
        say(
            f"{shown.copies} copies of each operation{of_walk}. Limit per image, with"
            f" its probability: {limits}."
        )
    if shown.always:
        say("All operations outside the walk act on every image.")
    elif shown.has_stages:
        say(
            "All others are drawn independently for every image, or in the stage mixing"
            " for every batch."
        )


def _row(operation: Operation) -> tuple[str, ...]:
    function = operation.pil or ""
    if not function:
        definition = "your function"
    elif function.startswith("torchvision"):
        definition = function
    else:
        definition = f"PIL {function}"
    also = (
        "sign" if operation.drawing == SIGN else None,
        operation.interpolation,
        "fill" if operation.uses_fill else None,
    )
    return (
        operation.name,
        (
            "-"
            if operation.magnitude_range is None
            else "{:g} to {:g}".format(*operation.magnitude_range)
        ),
        operation.unit or "-",
        "-" if operation.neutral is None else f"{operation.neutral:g}",
        ", ".join(word for word in also if word) or "-",
        definition,
    )


@click.command()
@click.argument(
    "name",
    required=False,
    shell_complete=lambda _, __, begun: [
        name for name in policy_names() if name.startswith(begun)
    ],
)
@json_option
def policies(name: str | None, as_json: bool) -> None:
    """List the schedules that ship with the package and the recipes, or print the card
    of NAME.

    The card of a schedule lists its data, the commands that found and evaluated it, and
    the results of the evaluation. A recipe is an augmentation that people choose by
    hand. Every command that takes a SCHEDULE accepts these names.
    """
    if name is not None:
        _print_card(name, as_json)
    elif as_json:
        print_json(shipped_schedules())
    else:
        rows = []
        for schedule in shipped_schedules():
            origin = schedule["provenance"]
            results = schedule["card"]["results"]
            answer = "{kind}, against {against}".format(**results["answer"])
            error = percent(results["rows"][0]["mean"])
            cells = (
                schedule["name"],
                origin.get("dataset"),
                origin.get("model"),
                schedule["epochs"],
                error,
                answer,
            )
            rows.append([*map(str, cells)])
        print_table(
            ("name", "dataset", "model", "epochs", "test error", "answer"), rows
        )
        console().print("hba policies NAME prints the card of a schedule.")
        print_table(
            ("recipe", "trains with"),
            [(name, recipe.text) for name, recipe in RECIPES.items()],
        )


def _print_card(name: str, as_json: bool) -> None:
    if name not in policy_names():
        raise ScheduleError(unknown("shipped schedule", name, policy_names()))
    card = json.loads(files_of(name)[1].read_text("utf-8"))
    printer = console()
    if as_json:
        print_json(card)
        return
    # It imports PyTorch, which takes seconds.
    from .evaluate import print_errors

    results = hba.EvaluationResult.model_validate(card["results"])
    printer.print(card["text"])
    printer.print(str(results.answer))
    print_errors(results)
    packages = ", ".join(
        f"{name} {results.environment['packages'].get(name)}"
        for name in ("hba-augment", "torch")
    )
    printer.print(f"{results.test_images} test images; {packages}. To reproduce it:")
    for command in ("search", "evaluate"):
        printer.print(f"  {card[command]}", soft_wrap=True)


@click.command()
def presets() -> None:
    """Print the settings of each --preset of `hba search` and `hba evaluate`.

    Other options override those of a preset. On your own DATA, the baseline
    augmentation is the one of the preset's dataset. Settings that a preset lacks have
    the defaults of `hba search`, or with --paper those of the paper.
    """
    for title, values_by_preset in (
        ("search (paper, Table 10)", SEARCH_PRESETS),
        ("evaluation (paper, Table 11)", EVALUATION_PRESETS),
    ):
        say(f"Policy {title}:")
        for name, values in values_by_preset.items():
            say(f"  --preset {name}\n      {_as_options(values)}")


def _as_options(settings: Mapping[str, Any]) -> str:
    """The settings as you would type them, the data first."""
    options = [
        f"--{name.replace('_', '-')}"
        f" {shlex.quote(f'{value:g}' if isinstance(value, float) else str(value))}"
        for name, value in settings.items()
        if name != "data" and value is not None
    ]
    return " ".join([str(settings["data"]), *options])


@click.command()
@click.option(
    "--device",
    default="auto",
    show_default=True,
    help="Device of the self-test: auto, cpu, cuda, ...",
)
def doctor(device: str) -> None:
    """Print versions and devices, and run a search of a few seconds as a self-test.

    Include its output in a question or a bug report.
    """
    # Imported here, because they take seconds and the lists do not need them.
    import torch

    from hba.policy_search.search import search

    chosen = find_device(device)
    facts = environment(chosen)
    packages = {
        name: number
        for name, number in facts["packages"].items()
        if name != "hba-augment"
    }
    say(
        f"hba {facts['packages']['hba-augment']}, Python {facts['python']},"
        f" {platform.platform()}"
    )
    say(", ".join(f"{name} {number}" for name, number in packages.items()))
    for extra, names in EXTRAS.items():
        versions = {name: version_of(name) for name in names}
        shown = ", ".join(
            f"{name} {number or 'is not installed'}"
            for name, number in versions.items()
        )
        say(
            f"optional, [{extra}]:"
            f" {shown}{'' if all(versions.values()) else f' ({install(extra)})'}"
        )
    say(
        f"cpu: {environment(torch.device('cpu'))['device_name']},"
        f" {counted(torch.get_num_threads(), 'thread')}"
    )
    for number in range(torch.cuda.device_count()):
        free, whole = (n_bytes / 2**30 for n_bytes in torch.cuda.mem_get_info(number))
        capability = ".".join(map(str, torch.cuda.get_device_capability(number)))
        name = torch.cuda.get_device_name(number)
        say(
            f"cuda:{number}: {name}, {free:.1f} of {whole:.1f} GiB free, compute"
            f" capability {capability}"
        )
    if not torch.cuda.is_available():
        built_for = f"CUDA {torch.version.cuda}" if torch.version.cuda else "CPUs"
        say(f"cuda: not available (PyTorch is built for {built_for})")
    epochs = 8
    began = time.perf_counter()
    search(
        "digits",
        epochs=epochs,
        model="wrn-10-1",
        train_size=200,
        val_size=100,
        batch_size=100,
        device=str(chosen),
    )
    seconds = time.perf_counter() - began
    say(
        f"self-test on {chosen}: ok, a search of {epochs} epochs on the embedded digits"
        f" ({seconds:.0f} s)"
    )
