"""The options of settings that algorithms own: one for each name, with who reads it and with which default."""

from typing import Annotated, Literal

import click
import pydantic
import pytest
from click.testing import CliRunner
from hba.cli.options import AlgorithmOption, algorithm_options, given
from hba.cli.sections import ALGORITHM, section_of

from hba.utils.settings import DefaultText


class Common(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(use_attribute_docstrings=True)

    initial_fraction: float = 0.5
    """Where every hyperparameter starts."""
    train_steps: int = 4
    """Training steps between lambda steps."""


class Lookahead(Common):
    reward_draws: int = 4
    """Draws that are compared."""
    reward_limit: Annotated[float | None, DefaultText("no limit, as val_steps has none")] = None
    """Largest reward."""


class Paper(Common):
    initial_fraction: float = 0.05
    train_steps: int = 2
    response: Literal["affine", "centered"] = "affine"
    """How weights answer."""
    lambda_betas: tuple[float, float] = (0.9, 0.999)
    """Adam's rates."""


class Noisier(Paper):
    initial_fraction: float = 0.05
    response: Literal["affine", "centered"] = "centered"
    batched: bool = False
    """Train all at once."""


class Unlimited(Lookahead):
    reward_limit: float | None = None


ALGORITHMS: dict[str, type[pydantic.BaseModel]] = {
    **{"lookahead": Lookahead, "hba": Paper},
    **{"noisier": Noisier, "unlimited": Unlimited},
}

OPTIONS = algorithm_options(ALGORITHMS, "How it\n moves.", default_texts={"reward_draws": "by dataset, else {}"})


def echo(**options: object) -> None:
    click.echo(given(options))


command = click.command("command")(OPTIONS(echo))


def help_of(name: str) -> str:
    (option,) = [option for option in command.params if option.name == name]
    assert isinstance(option, AlgorithmOption)
    return option.help or ""


def test_there_is_one_option_for_each_name_in_the_order_of_the_algorithms() -> None:
    assert [option.name for option in command.params] == [
        "algorithm",
        "initial_fraction",
        "train_steps",
        "reward_draws",
        "reward_limit",
        "response",
        "lambda_betas",
        "batched",
    ]
    assert {section_of(option) for option in command.params if isinstance(option, click.Option)} == {ALGORITHM}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("algorithm", "How it moves. [default: lookahead]"),
        ("initial_fraction", "Where every hyperparameter starts. [default: 0.5; hba, noisier: 0.05]"),
        ("train_steps", "Training steps between lambda steps. [default: 4; hba, noisier: 2]"),
        ("reward_draws", "Draws that are compared. For lookahead, unlimited. [default: by dataset, else 4]"),
        ("reward_limit", "Largest reward. For lookahead, unlimited. [default: no limit, as --val-steps has none]"),
        ("response", "How weights answer. For hba, noisier. [default: affine; noisier: centered]"),
        ("lambda_betas", "Adam's rates. For hba, noisier. [default: 0.9,0.999]"),
        ("batched", "Train all at once. For noisier. [default: off]"),
    ],
)
def test_the_help_tells_who_reads_a_setting_and_its_defaults(name: str, text: str) -> None:
    assert help_of(name) == text


def test_a_field_without_default_shows_none() -> None:
    class Bare(pydantic.BaseModel):
        wanted: int
        open: str | None = None

    def nothing(**options: object) -> None: ...

    bare = click.command("bare")(algorithm_options({"bare": Bare}, "", default_texts={})(nothing))
    assert [option.help for option in bare.params if isinstance(option, click.Option)][1:] == ["", ""]


def test_what_is_given_arrives_flat_with_its_type() -> None:
    arguments = [
        "--algorithm",
        "hba",
        "--train-steps",
        "3",
        "--response",
        "centered",
        "--no-batched",
        "--reward-limit",
        "2",
    ]
    result = CliRunner().invoke(command, arguments)
    expected = {"algorithm": "hba", "train_steps": 3, "response": "centered", "batched": False, "reward_limit": 2.0}
    assert (result.exit_code, result.output) == (0, f"{expected}\n")
