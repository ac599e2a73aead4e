"""The paper's settings, and which algorithm reads which setting."""

from collections.abc import Iterator
from typing import Any

import pytest

from hba.config.presets import PAPER_SETTINGS, SEARCH_PRESETS
from hba.config.search import IDLE_SETTINGS, SearchConfig
from hba.errors import SettingsError

OTHER_THAN_THE_PAPER: dict[str, Any] = {
    "algorithm": "lookahead",
    "response": "linearized",
    "response_weight_decay": 0.1,
    "initial_fraction": 0.4,
    "warm_up_epochs": 3,
    "lambda_betas": (0.5, 0.9),
    "trust_radius": 0.2,
    "logit_bound": 5.0,
    "train_steps": 7,
    "val_steps": 4,
    "val_batch_size": 30,
    "val_batches": 6,
    "val_statistics": "batch",
    "sigma": 0.3,
    "sigma_end": 0.1,
    "calibrate": True,
    "reward_draws": 3,
    "reward_limit": 2.5,
}


@pytest.fixture
def _other_defaults(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, value in OTHER_THAN_THE_PAPER.items():
        monkeypatch.setattr(SearchConfig.model_fields[name], "default", value)
    SearchConfig.model_rebuild(force=True)
    yield
    monkeypatch.undo()
    SearchConfig.model_rebuild(force=True)


def assert_as_in_the_paper(config: SearchConfig, *but: str) -> None:
    """Section 4 and Appendix A; options that came after it are off."""
    paper = {
        **{"initial_fraction": 0.05, "lambda_betas": (0.9, 0.999), "train_steps": 2, "val_steps": 1, "sigma": 1.0},
        **{"algorithm": "hba", "response": "affine", "val_statistics": "running", "calibrate": False},
        **{"warm_up_epochs": 0, "val_batches": 1, "val_batch_size": None, "sigma_end": None, "reward_limit": None},
        **{"response_weight_decay": None, "trust_radius": None, "logit_bound": None, "reward_draws": 1},
    }
    found = config.model_dump()
    for name in paper.keys() - set(but):
        assert found[name] == paper[name], name


@pytest.mark.usefixtures("_other_defaults")
@pytest.mark.parametrize("preset", [None, *SEARCH_PRESETS])
def test_a_search_as_in_the_paper_is_one_whatever_the_defaults_are(preset: str | None) -> None:
    config = SearchConfig.from_preset({}, preset, paper=True)
    assert_as_in_the_paper(config, *IDLE_SETTINGS["hba"])
    for name, value in SEARCH_PRESETS[preset or "digits"].items():
        assert getattr(config, name) == value
    assert SearchConfig.from_preset({}, preset).trust_radius == 0.2


@pytest.mark.parametrize("preset", [None, *SEARCH_PRESETS])
def test_unless_the_papers_way_is_asked_for_a_search_looks_ahead_from_the_middle(preset: str | None) -> None:
    config = SearchConfig.from_preset({}, preset)
    assert (config.algorithm, config.initial_fraction) == ("lookahead", 0.5)
    assert (config.train_steps, config.reward_draws) == (4, 4)
    # Nothing else is another than the paper's.
    assert_as_in_the_paper(config, "algorithm", "initial_fraction", "train_steps", "reward_draws")


@pytest.mark.parametrize("preset", [None, *SEARCH_PRESETS])
def test_given_settings_override_the_papers(preset: str | None) -> None:
    given = {"sigma": 0.25, "train_steps": 9, "val_statistics": "batch", "lambda_learning_rate": 0.5}
    config = SearchConfig.from_preset(given, preset, paper=True)
    assert {name: getattr(config, name) for name in given} == given
    assert_as_in_the_paper(config, *given, *IDLE_SETTINGS["hba"])


@pytest.mark.parametrize("algorithm", IDLE_SETTINGS)
def test_every_algorithm_can_be_run_as_in_the_paper(algorithm: str) -> None:
    config = SearchConfig.from_preset({"algorithm": algorithm}, paper=True)
    assert config.algorithm == algorithm
    assert_as_in_the_paper(config, "algorithm", *IDLE_SETTINGS[algorithm])


@pytest.mark.usefixtures("_other_defaults")
@pytest.mark.parametrize("algorithm", IDLE_SETTINGS)
def test_as_in_the_paper_nothing_is_set_that_the_algorithm_does_not_read(algorithm: str) -> None:
    config = SearchConfig.from_preset({"algorithm": algorithm}, paper=True)
    assert_as_in_the_paper(config, "algorithm", *IDLE_SETTINGS[algorithm])
    for name in OTHER_THAN_THE_PAPER.keys() & IDLE_SETTINGS[algorithm]:
        assert getattr(config, name) == OTHER_THAN_THE_PAPER[name]


def test_the_papers_settings_are_settings() -> None:
    assert set(PAPER_SETTINGS) == set(OTHER_THAN_THE_PAPER)
    # Those that its tables have per dataset are in the presets.
    assert not PAPER_SETTINGS.keys() & SEARCH_PRESETS["digits"].keys()


SET: dict[str, Any] = {
    **{"population_size": 4, "weight_sigma": 0.5, "batched_members": False, "sharing": "bn", "response": "separate"},
    **{"response_weight_decay": 0.1, "lambda_learning_rate": 0.5, "lambda_betas": (0.1, 0.2), "trust_radius": 0.3},
    **{"logit_bound": 4.0, "warm_up_epochs": 2, "val_steps": 3, "val_batch_size": 20, "val_batches": 2},
    **{
        "val_statistics": "batch",
        "sigma_end": 0.1,
        "calibrate": True,
        "probes": 3,
        "reward_draws": 2,
        "reward_limit": 2.0,
    },
}
"""Every setting that is for some algorithms only, at a value that is not its default."""


@pytest.mark.parametrize("name", SET)
@pytest.mark.parametrize("algorithm", IDLE_SETTINGS)
def test_a_setting_is_refused_where_the_algorithm_does_not_read_it(algorithm: str, name: str) -> None:
    given = {"algorithm": algorithm, "data": "digits", "batch_size": 100, name: SET[name]}
    if name in IDLE_SETTINGS[algorithm]:
        with pytest.raises(SettingsError, match=f"^{name} has no effect on the algorithm {algorithm}; leave it away$"):
            SearchConfig.from_preset(given)
    else:
        assert getattr(SearchConfig.from_preset(given), name) == SET[name]


def test_every_setting_that_some_algorithm_does_not_read_is_known() -> None:
    assert set(SET) == {name for idle in IDLE_SETTINGS.values() for name in idle}
    assert not [name for name, value in SET.items() if value == SearchConfig.model_fields[name].default]
    for algorithm in ("hba", "fixed-noise"):
        assert set(IDLE_SETTINGS[algorithm]) == {
            "population_size",
            "weight_sigma",
            "batched_members",
            "reward_draws",
            "reward_limit",
        }


@pytest.mark.parametrize("algorithm", IDLE_SETTINGS)
def test_a_setting_at_its_default_is_never_refused(algorithm: str) -> None:
    defaults = {name: SearchConfig.model_fields[name].default for name in SET}
    assert SearchConfig.from_preset({"algorithm": algorithm, **defaults}).algorithm == algorithm


@pytest.mark.parametrize("betas", ["0.9,0.999", " 0.9, 0.999 ", [0.9, 0.999], (0.9, 0.999)])
def test_a_default_is_one_in_whatever_form_it_is_given(betas: Any) -> None:
    config = SearchConfig.from_preset({"algorithm": "population", "lambda_betas": betas, "calibrate": "false"})
    assert config.lambda_betas == (0.9, 0.999)


@pytest.mark.parametrize(
    ("name", "value"),
    [("lambda_betas", "0.5,0.9"), ("lambda_betas", [0.5, 0.9]), ("calibrate", "true"), ("calibrate", True)],
)
def test_another_value_than_the_default_is_one_in_whatever_form_it_is_given(name: str, value: Any) -> None:
    with pytest.raises(SettingsError, match=f"^{name} has no effect on the algorithm population; leave it away$"):
        SearchConfig.from_preset({"algorithm": "population", name: value})


def test_as_in_the_paper_the_algorithm_is_the_papers_when_settings_are_checked() -> None:
    # Which look-ahead, the default, would not read, and which it alone reads.
    assert SearchConfig.from_preset({"sharing": "bn", "response": "separate"}, paper=True).algorithm == "hba"
    with pytest.raises(SettingsError, match=r"^reward_limit has no effect on the algorithm hba; leave it away$"):
        SearchConfig.from_preset({"reward_limit": 2.0}, paper=True)


@pytest.mark.parametrize("paper", [False, True])
@pytest.mark.parametrize("algorithm", ["HBA", ["hba"], {"hba": 1}, 6])
def test_a_wrong_algorithm_is_refused_as_in_the_paper_too(algorithm: Any, paper: bool) -> None:
    with pytest.raises(SettingsError, match=r"^algorithm must be "):
        SearchConfig.from_preset({"algorithm": algorithm}, paper=paper)
