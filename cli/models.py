"""hba models: the networks by name, and what suits them."""

import click

from hba.hypernet.sharing import SHARING
from hba.models import MODELS, PATTERNS, TIMM_PATTERN
from hba.models.facts import ModelFacts, model_facts

from .terminal import console, say, table


@click.command()
def models() -> None:
    """List the networks that --model knows.

    For each: its parameters, the shapes of its input and output, and the weight sharing strategies that suit it.
    """
    shown = table(("name", "parameters", "published", "input", "output", "--sharing"))
    for name in MODELS:
        shown.add_row(*_row(model_facts(name)))
    console().print(shown)
    say("Parameters at 10 classes, at 1000 for 224x224. Input and output are those of a batch of 2 images.")
    say(f"--sharing: `any` is any of {', '.join(SHARING)}.")
    say(f"--model also takes any {', '.join(PATTERNS)}, and {TIMM_PATTERN} where timm is installed.")


def _row(facts: ModelFacts) -> tuple[str, ...]:
    published = facts.published
    return (
        facts.name,
        f"{facts.parameters / 1e6:.2f} M",
        f"{published.millions} M, {published.source}" if published else "-",
        _shape(facts.input_shape),
        _shape(facts.output_shape),
        "any" if set(facts.sharing) == set(SHARING) else ", ".join(facts.sharing) or "none",
    )


def _shape(shape: tuple[int, ...]) -> str:
    return "x".join(map(str, shape))
