"""The settings that make a search space."""

import json
from pathlib import Path
from typing import Any

import pytest
from own_operations import GAMMA

from hba.config.presets import SEARCH_PRESETS
from hba.errors import SettingsError
from hba.operations import OPERATIONS, register_operation
from hba.policy.space import SearchSpace
from hba.policy.spaces import SPACES, search_space
from hba.policy_search.config import SearchConfig
from hba.policy_search.folder import RunFolder


def names_of(config: SearchConfig) -> list[str]:
    return [operation.name for operation in config.search_space().operations]


def test_the_space_has_the_paper_s_operations_unless_another_is_named() -> None:
    of_default = search_space(searches_count=True)
    assert of_default.operations == SearchSpace().operations
    assert SearchConfig().search_space() == of_default
    assert SearchConfig(space="pba").search_space() == search_space("pba", searches_count=True)
    assert SearchConfig.make({"space": "pba", "count": "fixed"}).search_space() == SPACES["pba"]
    assert SearchConfig(space="pba", interpolation="bilinear").search_space().operations[0].interpolation == "bilinear"
    for preset in (None, *SEARCH_PRESETS):
        assert SearchConfig.from_preset({}, preset).search_space() == of_default
        assert SearchConfig.from_preset({}, preset, paper=True).search_space() == SearchSpace()


@pytest.mark.parametrize(
    "operations",
    ["Rotate,Color", " Rotate ,\tColor ", "Rotate,,Color,", ["Rotate", "Color"], ("Rotate", "Color")],
)
def test_operations_are_names_separated_by_commas_or_a_sequence(operations: Any) -> None:
    config = SearchConfig.make({"operations": operations})
    assert config.operations == ("Rotate", "Color")
    assert names_of(config) == ["Rotate", "Color"]


@pytest.mark.parametrize("operations", [None, "all", ["all"]])
def test_all_operations_are_the_default(operations: Any) -> None:
    config = SearchConfig.make({"operations": operations, "space": "pba"})
    assert config.search_space() == search_space("pba", searches_count=True)


@pytest.mark.usefixtures("registered")
def test_registered_operations_can_be_chosen_and_others_not() -> None:
    with pytest.raises(SettingsError, match="unknown operation 'Gamma'; known: ShearX, "):
        SearchConfig.make({"operations": "all,Gamma"})
    register_operation(GAMMA)
    assert names_of(SearchConfig.make({"operations": "all,Gamma"})) == [*OPERATIONS, "Gamma"]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"space": "faa"}, "unknown search space 'faa'; known: hba, pba"),
        ({"operations": "Rotate,Swirl"}, f"unknown operation 'Swirl'; known: {', '.join(OPERATIONS)}"),
        (
            {"operations": ["rotate"]},
            f"unknown operation 'rotate'; did you mean Rotate? Known: {', '.join(OPERATIONS)}",
        ),
        (
            {"operations": "Color,Color"},
            "operations must be at least one and each named once, got ['Color', 'Color']",
        ),
        ({"operations": []}, "operations must have more entries (at least 1)"),
        ({"operations": ["Rotate", 3]}, "operations[1] must be a text, got 3"),
        ({"operations": {"Rotate": True}}, "operations must be a list"),
    ],
)
def test_a_space_that_cannot_be_is_refused_when_the_settings_are_made(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as raised:
        SearchConfig.make(settings)
    assert str(raised.value).startswith(message)


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("operations", [None, "Rotate", ["Invert", "Gamma", "Color"], "all,Gamma"])
def test_the_space_comes_back_from_config_json(operations: Any, tmp_path: Path) -> None:
    register_operation(GAMMA)
    settings = {"space": "pba", "operations": operations, "interpolation": "bilinear", "count": "fixed"}
    config = SearchConfig.make(settings).resolved()
    folder = RunFolder(tmp_path)
    folder.write_config(config)
    for given in ({}, {"operations": operations}, {"space": "pba", "interpolation": "bilinear"}):
        again = folder.stored_config(given)
        assert again == config
        assert again.search_space() == config.search_space()


def test_settings_of_a_run_from_before_there_were_spaces_mean_the_paper_s(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"data": "digits", "epochs": 3}', encoding="utf-8")
    assert RunFolder(tmp_path).stored_config({"space": "hba", "operations": None}).search_space() == SearchSpace()


@pytest.mark.parametrize(
    ("given", "difference"),
    [
        ({"space": "hba"}, "space 'pba' (given 'hba')"),
        ({"operations": "Color,Rotate"}, "operations ['Rotate', 'Color'] (given ['Color', 'Rotate'])"),
        ({"operations": None}, "operations ['Rotate', 'Color'] (given None)"),
        ({"interpolation": "bilinear"}, "interpolation 'nearest' (given 'bilinear')"),
    ],
)
def test_a_run_keeps_its_space(given: dict[str, Any], difference: str, tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.write_config(SearchConfig.make({"space": "pba", "operations": "Rotate,Color"}))
    with pytest.raises(SettingsError) as raised:
        folder.stored_config(given)
    assert str(raised.value) == f"a resumed run keeps its settings; {tmp_path} has {difference}"


@pytest.mark.parametrize(
    ("fill", "expected"),
    [("0.5", (0.5,)), (" 0, 0.25 ,1", (0.0, 0.25, 1.0)), ([0.5], (0.5,)), ((0, 1, 1), (0.0, 1.0, 1.0)), (None, None)],
)
def test_a_fill_is_one_number_or_three(fill: Any, expected: tuple[float, ...] | None) -> None:
    config = SearchConfig.make({"fill": fill})
    assert config.fill == expected
    assert SearchConfig.from_file(json.loads(json.dumps(config.flat()))) == config
