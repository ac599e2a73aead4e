"""Each algorithm has its own settings, with its own defaults."""

from collections.abc import Mapping
from typing import Any

import pytest
from former_default import FORMER

from hba.algorithms import ALGORITHMS, PAPER_ALGORITHMS, Hypergradient, Lookahead
from hba.config.presets import SEARCH_PRESETS
from hba.errors import RunError, SettingsError
from hba.policy_search.config import ALGORITHM_SETTINGS, BEFORE, SearchConfig

OF_LAMBDA_STEPS: dict[str, Any] = {
    **{"lambda_betas": (0.1, 0.2), "trust_radius": 0.3, "logit_bound": 4.0, "warm_up_epochs": 2, "val_steps": 3},
    **{"val_batch_size": 20, "val_batches": 2, "val_statistics": "batch", "sigma_end": 0.1, "calibrate": True},
    **{"lambda_learning_rate": 0.5, "strength_learning_rate": 0.4, "probes": 3, "lambda_optimizer": "adam"},
}
OF_ALL: dict[str, Any] = {
    **{"initial_fraction": 0.3, "init": "fraction", "init_from": None, "count": "searched", "train_steps": 7},
    **{"sigma": 0.25, "spread_over": "all", "spread_share": 0.75},
}
OF_HYPER_LAYERS: dict[str, Any] = {"sharing": "bn", "response_weight_decay": 0.1}
OF_HYPERGRADIENT: dict[str, Any] = {
    **{**OF_ALL, **OF_LAMBDA_STEPS, **OF_HYPER_LAYERS},
    **{"response": "separate", "sigma_entropy": 0.5, "sigma_end": None},
}
OF_REWARDS: dict[str, Any] = {
    **{"reward_draws": 2, "reward_limit": 2.0, "divergence_weight": 0.5, "search_spread": True},
    "reward_derivative": "difference",
}

READ: dict[str, dict[str, Any]] = {
    "lookahead": {**OF_ALL, **OF_LAMBDA_STEPS, **OF_REWARDS, "count": "fixed"},
    "hba": OF_HYPERGRADIENT,
    "hba-lookahead": {
        **{**OF_HYPERGRADIENT, **OF_LAMBDA_STEPS, **OF_REWARDS},
        **{"sigma_entropy": None, "horizon_steps": 5},
    },
    "joint": {
        **{**OF_HYPERGRADIENT, **OF_LAMBDA_STEPS, **OF_REWARDS},
        **{"sigma_entropy": None, "response": "linearized", "count": "fixed"},
    },
    "fixed-noise": OF_HYPERGRADIENT,
    "hyper-population": {**OF_ALL, **OF_HYPER_LAYERS, "population_size": 4},
    "population": {**OF_ALL, "population_size": 4, "weight_sigma": 0.5, "batched_members": False},
    "stn": OF_HYPERGRADIENT,
    "delta-stn": OF_HYPERGRADIENT,
}
"""By algorithm, all settings that it reads, at values that are not its defaults, but for those BESIDE_OTHERS."""
BESIDE_OTHERS = {"init", "init_from", "lambda_optimizer", "sigma_end", "sigma_entropy"}
"""Settings whose other values go without some: initial_fraction, lambda_betas, each other."""
ALONE: Mapping[str, Mapping[str, Any]] = {
    "lambda_optimizer": {"lambda_optimizer": "rmsprop"},
    "sigma_end": {"sigma_end": 0.1, "sigma_entropy": None},
    "sigma_entropy": {"sigma_entropy": 0.25},
}

PAPER: dict[str, Any] = {
    **{"initial_fraction": 0.05, "lambda_betas": (0.9, 0.999), "train_steps": 2, "val_steps": 1, "sigma": 1.0},
    **{"response": "affine", "val_statistics": "running", "calibrate": False, "sharing": "first-bn"},
    **{"warm_up_epochs": 0, "val_batches": 1, "val_batch_size": None, "sigma_end": None, "population_size": None},
    **{"response_weight_decay": None, "trust_radius": None, "logit_bound": None, "weight_sigma": 0.001},
    **{"init": "fraction", "count": "fixed", "strength_learning_rate": 0.0, "spread_over": "none"},
    **{"spread_share": 1.0},
}
"""Section 4 and Appendix A; settings that came after the paper are off."""


@pytest.mark.parametrize("name", ALGORITHMS)
def test_the_settings_of_an_algorithm_are_its_fields(name: str) -> None:
    assert READ[name].keys() == ALGORITHMS[name].model_fields.keys()
    defaults = ALGORITHMS[name]()
    as_by_default = {setting for setting, value in READ[name].items() if getattr(defaults, setting) == value}
    assert as_by_default <= BESIDE_OTHERS


@pytest.mark.parametrize("setting", ALONE)
@pytest.mark.parametrize("name", ALGORITHMS)
def test_settings_that_do_not_go_with_others_are_read_without_them(name: str, setting: str) -> None:
    if setting not in READ[name] or (setting == "sigma_entropy" and "reward_draws" in READ[name]):
        pytest.skip("the algorithm does not read it")
    given = {one: value for one, value in ALONE[setting].items() if one in READ[name]}
    config = SearchConfig.from_preset({"algorithm": name, **given})
    assert config.algorithm.model_dump().items() >= given.items()
    assert SearchConfig.from_file(config.flat()) == config


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"algorithm": "hba", "sigma_entropy": 0.001, "sigma_end": 0.1},
            "sigma_end has no effect where sigma_entropy is given, which learns sigma; omit one",
        ),
        (
            {"algorithm": "stn", "sigma": 0.0},
            "sigma must be above 0 where sigma_entropy is given, which learns it from there, got 0",
        ),
        (
            {"algorithm": "hba-lookahead", "sigma_entropy": 0.001},
            "sigma_entropy has no effect on the algorithm hba-lookahead, which learns the noise by search_spread; omit "
            "it",
        ),
        (
            {"algorithm": "delta-stn", "lambda_betas": "0.5,0.9"},
            "lambda_betas has no effect where lambda_optimizer is rmsprop; omit one of them",
        ),
        (
            {"algorithm": "stn", "epochs": 5},
            "warm_up_epochs must leave epochs for lambda steps, got 5 of 5 epochs; lower warm_up_epochs, or raise "
            "epochs",
        ),
    ],
)
def test_settings_that_contradict_each_other_are_refused_in_one_line(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(SettingsError) as raised:
        SearchConfig.from_preset(settings)
    assert str(raised.value) == message


def test_an_entropy_counts_for_as_much_as_the_loss_at_most() -> None:
    """STN: between variational optimisation, 0, and variational inference, 1."""
    for weight in (0.0, 1.0):
        algorithm = SearchConfig.make({"algorithm": "hba", "sigma_entropy": weight}).algorithm
        assert isinstance(algorithm, Hypergradient)
        assert algorithm.sigma_entropy == weight
    for weight in (-0.1, 1.1):
        with pytest.raises(SettingsError, match=r"^sigma_entropy"):
            SearchConfig.make({"algorithm": "hba", "sigma_entropy": weight})


STN: dict[str, Any] = {
    **{"sharing": "every", "response": "affine", "sigma": 0.5, "sigma_entropy": 0.001, "train_steps": 2},
    **{"val_steps": 1, "warm_up_epochs": 5, "lambda_optimizer": "adam", "lambda_learning_rate": 0.003},
    **{"initial_fraction": 0.05, "init": "fraction", "strength_learning_rate": 0.0, "spread_over": "none"},
}
DELTA_STN: dict[str, Any] = {
    **{**STN, "response": "linearized", "sigma": 1.0, "train_steps": 5},
    **{"lambda_optimizer": "rmsprop", "lambda_learning_rate": 0.01},
}


@pytest.mark.parametrize("preset", [None, *SEARCH_PRESETS])
@pytest.mark.parametrize(("name", "expected"), [("stn", STN), ("delta-stn", DELTA_STN)])
def test_the_defaults_of_self_tuning_networks_are_their_papers_whatever_the_preset(
    name: str, expected: dict[str, Any], preset: str | None
) -> None:
    """STN's section 4.3 and appendix E; Delta-STN's section 5.2 and its authors' public code."""
    for given in (name, ALGORITHMS[name], ALGORITHMS[name]()):
        found = SearchConfig.from_preset({"algorithm": given}, preset).algorithm.model_dump()
        assert {setting: found[setting] for setting in expected} == expected
    kept = SearchConfig.from_preset({"algorithm": name, "lambda_learning_rate": 0.5}, preset).flat()
    assert kept["lambda_learning_rate"] == 0.5


@pytest.mark.parametrize("name", ALGORITHMS)
def test_flat_words_are_given_to_the_algorithm(name: str) -> None:
    config = SearchConfig.from_preset({"algorithm": name, "batch_size": 100, **READ[name]})
    assert type(config.algorithm) is ALGORITHMS[name]
    assert config.algorithm.model_dump() == READ[name]
    assert config.algorithm == SearchConfig.from_preset({"algorithm": ALGORITHMS[name](**READ[name])}).algorithm
    assert config.algorithm == SearchConfig.from_preset({"algorithm": ALGORITHMS[name], **READ[name]}).algorithm


@pytest.mark.parametrize("setting", sorted(ALGORITHM_SETTINGS))
@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_setting_of_another_algorithm_is_refused(name: str, setting: str) -> None:
    if setting in READ[name]:
        return
    value = next(read[setting] for read in READ.values() if setting in read)
    with pytest.raises(SettingsError, match=f"^{setting} has no effect on the algorithm {name}; remove it$"):
        SearchConfig.from_preset({"algorithm": name, "data": "digits", setting: value})


@pytest.mark.parametrize("preset", [None, *SEARCH_PRESETS])
@pytest.mark.parametrize("name", PAPER_ALGORITHMS)
def test_the_defaults_of_the_papers_algorithms_are_the_papers(name: str, preset: str | None) -> None:
    for config in (
        SearchConfig.from_preset({"algorithm": name}, preset),
        SearchConfig.from_preset({"algorithm": name}, preset, paper=True),
    ):
        found = config.algorithm.model_dump()
        assert {setting: found[setting] for setting in found.keys() & PAPER} == {
            setting: PAPER[setting] for setting in found.keys() & PAPER
        }


@pytest.mark.parametrize("preset", [None, *SEARCH_PRESETS])
def test_paper_is_another_name_of_the_algorithm_hba(preset: str | None) -> None:
    config = SearchConfig.from_preset({}, preset, paper=True)
    assert config == SearchConfig.from_preset({"algorithm": "hba"}, preset)
    assert isinstance(config.algorithm, Hypergradient)
    for name, value in SEARCH_PRESETS[preset or "digits"].items():
        assert config.flat()[name] == value


@pytest.mark.parametrize("preset", [None, *SEARCH_PRESETS])
def test_unless_another_is_asked_for_a_search_looks_ahead_from_randaugment(preset: str | None) -> None:
    algorithm = SearchConfig.from_preset({}, preset).algorithm
    assert isinstance(algorithm, Lookahead)
    assert algorithm.init == "randaugment"
    assert (algorithm.count, algorithm.spread_over, algorithm.spread_share) == ("searched", "magnitudes", 0.5)
    assert (algorithm.train_steps, algorithm.reward_draws, algorithm.reward_derivative) == (5, 4, "auto")
    assert algorithm.strength_learning_rate > 0
    assert algorithm.divergence_weight > 0
    # Nothing else is another than the paper's.
    found = algorithm.model_dump()
    for name in PAPER.keys() & found.keys() - {"initial_fraction", "train_steps", *FORMER}:
        assert found[name] == PAPER[name], name


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_fraction_to_begin_at_is_refused_where_a_search_begins_at_randaugment(name: str) -> None:
    with pytest.raises(SettingsError) as raised:
        SearchConfig.from_preset({"algorithm": name, "init": "randaugment", "initial_fraction": 0.25})
    assert str(raised.value) == (
        "initial_fraction has no effect where init is randaugment; set init to fraction, or omit initial_fraction"
    )
    algorithm = SearchConfig.from_preset({"algorithm": name, "init": "fraction", "initial_fraction": 0.25}).algorithm
    assert algorithm.initial_fraction == 0.25


@pytest.mark.parametrize("made", [Lookahead, None])
def test_a_fraction_alone_is_where_a_search_begins(made: type[Lookahead] | None) -> None:
    given = {"initial_fraction": 0.5} if made is None else {"algorithm": made(initial_fraction=0.5)}
    algorithm = SearchConfig.from_preset(given).algorithm
    assert (algorithm.init, algorithm.initial_fraction) == ("fraction", 0.5)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_stored_search_that_began_at_a_schedule_may_have_had_another_init_by_default(name: str) -> None:
    config = SearchConfig.from_preset({"algorithm": name, "init_from": "digits"})
    for init in ("fraction", "randaugment"):
        assert SearchConfig.from_file({**config.flat(), "init": init}) == config


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_stored_config_without_later_settings_has_the_former_behaviour(name: str) -> None:
    own = ALGORITHMS[name].model_fields
    later = {setting: value for setting, value in BEFORE.items() if setting in own}
    flat = SearchConfig.make({"algorithm": name}).flat()
    old = {setting: value for setting, value in flat.items() if setting not in BEFORE}
    found = SearchConfig.from_file(old).algorithm.model_dump()
    assert {setting: found[setting] for setting in later} == later
    of_former = FORMER.keys() & later.keys()
    assert {setting: later[setting] for setting in of_former} == {setting: FORMER[setting] for setting in of_former}


@pytest.mark.parametrize("preset", SEARCH_PRESETS)
def test_a_presets_learning_rate_is_for_an_algorithm_that_leaves_it_open(preset: str) -> None:
    rate = SEARCH_PRESETS[preset]["lambda_learning_rate"]
    for given, expected in ((Lookahead(reward_draws=8), rate), (Lookahead(lambda_learning_rate=0.5), 0.5)):
        algorithm = SearchConfig.from_preset({"algorithm": given}, preset).algorithm
        assert isinstance(algorithm, Lookahead)
        assert algorithm.lambda_learning_rate == expected
        assert algorithm.reward_draws == given.reward_draws


def test_settings_beside_an_algorithm_that_has_them_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"^reward_draws must be set in the algorithm itself"):
        SearchConfig.from_preset({"algorithm": Lookahead(), "reward_draws": 8})


@pytest.mark.parametrize("given", ["lookahead", "hba-lookahead", Lookahead, Lookahead()])
def test_as_in_the_paper_the_algorithm_is_one_of_the_papers(given: Any) -> None:
    with pytest.raises(
        SettingsError,
        match=r"^algorithm must be the paper's \(one of hba, fixed-noise, .*\) for a search as in the paper, got '",
    ):
        SearchConfig.from_preset({"algorithm": given}, paper=True)


@pytest.mark.parametrize("paper", [False, True])
@pytest.mark.parametrize("algorithm", ["HBA", ["hba"], {"hba": 1}, 6, int, object()])
def test_what_is_no_algorithm_is_refused(algorithm: Any, paper: bool) -> None:
    with pytest.raises(SettingsError, match=r"^algorithm must be "):
        SearchConfig.from_preset({"algorithm": algorithm}, paper=paper)


def test_a_file_of_0_1_0_holds_settings_of_all_algorithms_and_the_others_are_dropped() -> None:
    flat = SearchConfig.from_preset({"algorithm": "population"}).flat()
    assert "reward_draws" not in flat
    old = {**flat, "reward_draws": 4, "sharing": "first-bn", "lambda_learning_rate": 0.03, "horizon_steps": 10}
    assert SearchConfig.from_file(old).flat() == flat


def test_an_algorithm_of_ones_own_has_settings_of_its_own() -> None:
    class Mine(Lookahead):
        name = "mine"
        strength: int = 1

    config = SearchConfig.from_preset({"algorithm": Mine, "strength": 3})
    assert config.flat()["strength"] == 3
    assert SearchConfig.from_file(config.flat(), Mine) == config
    with pytest.raises(RunError, match=r"^the run was begun by the algorithm 'mine', a class of your own; "):
        SearchConfig.from_file(config.flat())
    with pytest.raises(SettingsError, match=r"^there is no setting strenght; did you mean strength\?$"):
        SearchConfig.from_preset({"algorithm": Mine, "strenght": 3})
