"""hba presets, and --preset in the commands."""

import itertools
import shlex

import pytest
from click.testing import CliRunner
from hba.cli import main

from hba.config.evaluation import EvaluationConfig
from hba.config.presets import EVALUATION_PRESETS, SEARCH_PRESETS
from hba.policy_search.config import SearchConfig


def printed_options() -> dict[str, dict[str, str]]:
    """From `hba presets`: by name, the options under it; a name of both commands has those of the last."""
    result = CliRunner().invoke(main, ["presets"])
    assert result.exit_code == 0
    lines = [line.strip() for line in result.stdout.splitlines()]
    found = {}
    for name, options in itertools.pairwise(lines):
        if name.startswith("--preset "):
            data, *words = shlex.split(options)
            pairs = zip(words[::2], words[1::2], strict=True)
            found[name.removeprefix("--preset ")] = {
                "data": data,
                **{option.removeprefix("--").replace("-", "_"): value for option, value in pairs},
            }
    return found


def test_what_is_printed_makes_the_same_settings_as_the_preset() -> None:
    printed = printed_options()
    assert set(printed) == {*SEARCH_PRESETS, *EVALUATION_PRESETS}
    for name in EVALUATION_PRESETS:
        assert EvaluationConfig.make(printed[name]) == EvaluationConfig.like_search({}, {}, name)
    for name in set(SEARCH_PRESETS) - set(EVALUATION_PRESETS):
        assert SearchConfig.make(printed[name]) == SearchConfig.from_preset({}, name)


@pytest.mark.parametrize("command", [["search"], ["evaluate", "digits"]])
def test_an_unknown_preset_is_one_line_with_the_known_ones(command: list[str]) -> None:
    result = CliRunner().invoke(main, [*command, "--preset", "nothing"])
    assert result.exit_code == 2
    assert result.stderr.startswith("hba: error: unknown preset 'nothing'; known: ")
    assert len(result.stderr.splitlines()) == 1
