"""Settings of searches and of their algorithms: what is refused, the defaults, and what
comes back from a file.
"""

import json
from pathlib import Path
from typing import Any

import pydantic
import pytest
from former_default import FORMER
from own_operations import GAMMA

import hba
from hba.algorithms import ALGORITHMS, PAPER_ALGORITHMS, Hypergradient, Lookahead, Race
from hba.config.evaluation import EvaluationConfig
from hba.config.presets import SEARCH_PRESETS
from hba.data.config import DataConfig
from hba.errors import SettingsError
from hba.operations import OPERATIONS, register_operation
from hba.policy.space import SearchSpace
from hba.policy.spaces import SPACES, search_space
from hba.policy_search.config import ALGORITHM_SETTINGS, SearchConfig

WRONG: dict[str, list[Any]] = {
    "data": [5, None],
    "image_size": [7, 1025, 16.5, "big"],
    "train_size": [0, -1, 2.5],
    "split_seed": [-1, 2**32],
    "download": ["perhaps"],
    "model": ["resnet-7", "wrn-11-2", "wrn-16-0", 3],
    "epochs": [0, 1.5, None],
    "batch_size": [0, -128],
    "learning_rate": [0, -0.1, float("nan"), float("inf"), "fast"],
    "weight_decay": [-1e-9, float("nan"), float("inf")],
    "flip": ["sometimes"],
    "crop_padding": [-1, 0.5],
    "device": ["tpu-9", "cuda:x", "", "cpu:x"],
    "baseline_like": ["cifar"],
    "freeze": [0, True, "head"],
    "epoch": [200],
}
WRONG_SEARCH: dict[str, list[Any]] = {
    "lambda_learning_rate": [0, -1, float("nan")],
    "train_steps": [0, 0.5],
    "sigma": [-0.1, float("inf"), float("nan")],
    "seed": [-1, 2**32, 0.5],
    "space": [3, None, "faa"],
    "operations": [
        "",
        " , ",
        5,
        [],
        ["Rotate", 3],
        "Color,Color",
        "Rotate,Swirl",
        {"Rotate": True},
        "all,-Rotat",
        "-Rotate,-Rotate",
    ],
    "start": ["Rotate", "Rotate=much"],
    "ranges": ["Rotate=15", "CutMix=0:5"],
    "tune": ["swirl"],
    "init_from": ["ovrhead"],
    "interpolation": ["bicubic", "", None],
    "fill": ["0.1,,0.2", "1.5", "-0.1", "nan", "", "red", 0.5],
    "algorithm": ["HBA", "", None, ["hba"], 6, int],
    "initial_fraction": [0, 1, -0.1, float("nan")],
    "warm_up_epochs": [-1, 0.5],
    "val_batch_size": [0, "all", "halff"],
    "lambda_betas": ["0.9", "0.9,1", "-0.1,0.9", None, 0.9],
    "spread_share": [0, -0.5, 1.1, float("nan")],
    "lambda-learning-rate": [0.1],
}


@pytest.mark.parametrize("stage", [SearchConfig, EvaluationConfig])
def test_a_wrong_setting_is_refused_in_one_line_that_names_it(
    stage: type[SearchConfig | EvaluationConfig],
) -> None:
    wrong: dict[str, Any] = WRONG | (
        WRONG_SEARCH
        if stage is SearchConfig
        else {"seeds": [0, -1, 1.5], "sigma": [1.0], "seed": [0]}
    )
    failures = []
    for name, value in (
        (name, value) for name, values in wrong.items() for value in values
    ):
        try:
            config = stage.make({name: value})
            if isinstance(config, SearchConfig):
                config.search_space()
        except SettingsError as error:
            message = str(error)
            named = name in message or message.startswith(
                ("unknown operation", "unknown search space")
            )
            if not named or "\n" in message or message.count("got ") > 1:
                failures.append((name, value, message))
        else:
            failures.append((name, value, "accepted"))
    assert failures == []


def test_a_misspelt_name_is_answered_with_a_proposal() -> None:
    for settings, meant in (
        ({"epoch": 1}, "epochs"),
        ({"operations": "rotate"}, "Rotate"),
        ({"model": "resnet50"}, "resnet-50"),
    ):
        with pytest.raises(SettingsError, match=f"did you mean {meant}"):
            SearchConfig.from_preset(settings).search_space()
    with pytest.raises(SettingsError, match=r"first-bn.*conv\+bn"):
        SearchConfig.make({"algorithm": "hba", "sharing": "batchnorm"})


def test_settings_that_contradict_each_other_are_refused() -> None:
    for settings, words in (
        ({"algorithm": "stn", "sigma": 0.0}, ("sigma", "sigma_entropy")),
        ({"algorithm": "joint", "sigma_entropy": 0.001}, ("sigma_entropy", "joint")),
        (
            {"algorithm": "delta-stn", "lambda_betas": "0.5,0.9"},
            ("lambda_betas", "lambda_optimizer"),
        ),
        ({"warm_up_epochs": 5, "epochs": 5}, ("warm_up_epochs",)),
        ({"sigma": 0}, ("sigma",)),
        (
            {"baseline": "none", "baseline_like": "cifar10"},
            ("baseline none", "baseline_like cifar10"),
        ),
        ({"freeze": 1}, ("freeze",)),
        ({"pretrained": True, "model": "wrn-16-2"}, ("pretrained", "wrn-16-2")),
        ({"model": "timm:resnet10t.c3_in1k"}, ("pretrained",)),
        ({"pretrained": True, "model": "timm:resnet10t.c4"}, ("resnet10t.c4",)),
        (
            {"learning_rate_warm_up_epochs": 200, "epochs": 200},
            ("learning_rate_warm_up_epochs",),
        ),
        ({"plateau_epochs": 3}, ("plateau_epochs", "plateau")),
        ({"tune": "dropout", "start": "Rotate=0.5"}, ("start",)),
        ({"algorithm": "population", "val_steps": 2}, ("val_steps", "population")),
        (
            {"init": "randaugment", "initial_fraction": 0.25},
            ("initial_fraction", "randaugment"),
        ),
    ):
        with pytest.raises(SettingsError) as raised:
            SearchConfig.from_preset({"algorithm": "lookahead", **settings})
        assert all(word in str(raised.value) for word in words), str(raised.value)
    for algorithm in ("lookahead", "joint", Lookahead, Lookahead()):
        with pytest.raises(SettingsError, match="hba, fixed-noise"):
            SearchConfig.from_preset({"algorithm": algorithm}, paper=True)


def test_settings_at_the_edge_are_accepted_and_come_back_from_a_file() -> None:
    for settings in (
        {
            "val_steps": 0,
            "weight_decay": 0,
            "crop_padding": 0,
            "cutout_size": 0,
            "flip": False,
        },
        {
            "sigma": 0,
            "algorithm": "hba",
            "image_size": 1024,
            "sharing": "all",
            "model": "wrn-22-3",
        },
        {
            "image_size": 8,
            "seed": 2**32 - 1,
            "split_seed": 2**32 - 1,
            "train_size": None,
            "data": "\udcff",
        },
        {
            "lambda_betas": (0.5, 0.99),
            "operations": ("Rotate", "Color"),
            "fill": (0.0, 0.25, 1.0),
        },
    ):
        config = SearchConfig.make({"space": "hba", **settings})
        assert {
            **config.model_dump(),
            **config.algorithm.model_dump(),
            "algorithm": config.algorithm.name,
        }.items() >= {**settings}.items()
        assert SearchConfig.from_file(json.loads(json.dumps(config.flat()))) == config
    typed = SearchConfig.make(
        {
            "space": "hba",
            "lambda_betas": " 0.5 , 0.99",
            "operations": " Rotate ,\tColor ,",
            "fill": "0.5",
        }
    )
    assert (typed.operations, typed.fill, typed.flat()["lambda_betas"]) == (
        ("Rotate", "Color"),
        (0.5,),
        [0.5, 0.99],
    )
    with pytest.raises(pydantic.ValidationError):
        typed.epochs = 3
    with pytest.raises(SettingsError, match="epochs"):
        DataConfig.make({"epochs": 3})


def test_a_folder_is_kept_by_its_absolute_path_and_a_dataset_by_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("images", "digits", "no-images"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    for path in ("images", Path("images")):
        assert SearchConfig.from_preset({"data": path}).data == str(
            tmp_path.resolve() / "images"
        )
    assert SearchConfig.from_preset({"data": "digits"}).data == "digits"
    # A device may be another machine's, and is looked for before images are read.
    assert SearchConfig.make({"device": "cuda:99"}).device == "cuda:99"
    with pytest.raises(SettingsError, match="'cuda:99'"):
        hba.search(tmp_path / "no-images", device="cuda:99")


def test_a_space_is_named_with_its_operations(
    monkeypatch: pytest.MonkeyPatch, registered: dict[str, Any]
) -> None:
    assert SearchConfig.make({}).search_space() == search_space(
        "recipe", searches_count=True
    )
    for algorithm in ("lookahead", "joint"):
        assert SearchConfig.make(
            {"algorithm": algorithm}
        ).search_space() == search_space(searches_count=True)
    # Only race mixes batches.
    look = {"algorithm": "lookahead", "space": "recipe"}
    assert not SearchConfig.make(look).search_space().mixing
    with pytest.raises(SettingsError, match="lookahead cannot search Mixup"):
        SearchConfig.make({**look, "operations": "Mixup,Rotate"}).search_space()
    assert (
        SearchConfig.make({"space": "pba", "count": "fixed"}).search_space()
        == SPACES["pba"]
    )
    assert (
        SearchConfig(space="pba", interpolation="bilinear")
        .search_space()
        .operations[0]
        .interpolation
        == "bilinear"
    )
    for operations in (None, "all", ["all"]):
        config = SearchConfig.make({"operations": operations, "space": "pba"})
        assert config.search_space() == search_space("pba", searches_count=True)
    for preset in SEARCH_PRESETS:
        assert (
            SearchConfig.from_preset({}, preset, paper=True).search_space()
            == SearchSpace()
        )
    register_operation(GAMMA)
    names = [
        operation.name
        for operation in (
            SearchConfig.make({"space": "hba", "operations": "all,Power"})
            .search_space()
            .operations
        )
    ]
    assert names == [*OPERATIONS, "Power"]


def test_settings_of_another_algorithm_are_refused_and_its_own_are_read() -> None:
    wrong = []
    for name, algorithm_class in ALGORITHMS.items():
        defaults = algorithm_class()
        own_settings = {
            setting: getattr(defaults, setting)
            for setting in algorithm_class.model_fields.keys()
            - {"initial_fraction", *algorithm_class.idle}
        }
        for choice in (name, algorithm_class, algorithm_class(**own_settings)):
            settings = {} if isinstance(choice, algorithm_class) else own_settings
            algorithm = SearchConfig.from_preset(
                {"algorithm": choice, "data": "some/images", **settings}
            ).algorithm
            if type(algorithm) is not algorithm_class or algorithm.model_dump() != {
                **defaults.model_dump(),
                **own_settings,
            }:
                wrong.append((name, choice))
        for setting in ALGORITHM_SETTINGS - (
            algorithm_class.model_fields.keys() - {*algorithm_class.idle}
        ):
            try:
                SearchConfig.from_preset({"algorithm": name, setting: 1})
            except SettingsError as error:
                if not str(error).startswith(
                    f"{setting} has no effect on the algorithm {name}"
                ):
                    wrong.append((name, str(error)))
            else:
                wrong.append((name, setting))
    assert wrong == []


PAPER: dict[str, Any] = {
    "initial_fraction": 0.05,
    "lambda_betas": (0.9, 0.999),
    "train_steps": 2,
    "val_steps": 1,
    "sigma": 1.0,
    "response": "affine",
    "sharing": "first-bn",
    "warm_up_epochs": 0,
    "val_batch_size": None,
    "population_size": None,
    "weight_sigma": 0.001,
    "init": "fraction",
    "count": "fixed",
    "strength_learning_rate": 0.0,
    "spread_over": "none",
    "spread_share": 1.0,
}
"""Section 4 and Appendix A; settings that came after the paper are off."""
STN: dict[str, Any] = {
    "sharing": "every",
    "response": "affine",
    "sigma": 0.5,
    "sigma_entropy": 0.001,
    "train_steps": 2,
    "val_steps": 1,
    "warm_up_epochs": 5,
    "lambda_optimizer": "adam",
    "lambda_learning_rate": 0.003,
    "initial_fraction": 0.05,
    "init": "fraction",
    "strength_learning_rate": 0.0,
    "spread_over": "none",
}
"""STN's section 4.3 and appendix E."""
DELTA_STN: dict[str, Any] = {
    **STN,
    "response": "linearized",
    "sigma": 1.0,
    "train_steps": 5,
    "lambda_optimizer": "rmsprop",
    "lambda_learning_rate": 0.01,
}
"""Delta-STN's section 5.2 and its authors' public code."""


@pytest.mark.parametrize("preset", [None, *SEARCH_PRESETS])
def test_defaults_of_algorithms_are_those_of_their_papers_whatever_the_preset(
    preset: str | None,
) -> None:
    expected_of = {
        **dict.fromkeys(PAPER_ALGORITHMS, PAPER),
        "stn": STN,
        "delta-stn": DELTA_STN,
    }
    for name, expected in expected_of.items():
        for choice in (name, ALGORITHMS[name], ALGORITHMS[name]()):
            settings = SearchConfig.from_preset(
                {"algorithm": choice}, preset
            ).algorithm.model_dump()
            assert (
                settings.items()
                >= {
                    setting: value
                    for setting, value in expected.items()
                    if setting in settings
                }.items()
            )
    paper = SearchConfig.from_preset({}, preset, paper=True)
    assert paper == SearchConfig.from_preset({"algorithm": "hba"}, preset)
    assert paper.flat().items() >= SEARCH_PRESETS[preset or "digits"].items()
    for space, default in (
        ("recipe", Race),
        ("full", Race),
        ("pba", Lookahead),
        ("stn", Lookahead),
    ):
        assert (
            type(SearchConfig.from_preset({"space": space}, preset).algorithm)
            is default
        )
    lookahead = SearchConfig.from_preset({"space": "hba"}, preset).algorithm
    assert isinstance(lookahead, Lookahead)
    assert (lookahead.init, lookahead.count, lookahead.spread_over) == (
        "randaugment",
        "searched",
        "magnitudes",
    )
    assert (
        lookahead.train_steps,
        lookahead.reward_draws,
        lookahead.reward_derivative,
    ) == (5, 4, "auto")
    settings = lookahead.model_dump()
    for name in PAPER.keys() & settings.keys() - {
        "initial_fraction",
        "train_steps",
        *FORMER,
    }:
        assert settings[name] == PAPER[name], name


def test_a_presets_learning_rate_is_for_an_algorithm_that_leaves_it_open() -> None:
    for preset, values in SEARCH_PRESETS.items():
        for own_algorithm, expected in (
            (Lookahead(reward_draws=8), values["lambda_learning_rate"]),
            (Lookahead(lambda_learning_rate=0.5), 0.5),
        ):
            algorithm = SearchConfig.from_preset(
                {"algorithm": own_algorithm}, preset
            ).algorithm
            assert isinstance(algorithm, Lookahead)
            assert (algorithm.lambda_learning_rate, algorithm.reward_draws) == (
                expected,
                own_algorithm.reward_draws,
            )


def test_stored_settings_must_have_an_effect() -> None:
    for name in ALGORITHMS:
        config = SearchConfig.make({"algorithm": name})
        with pytest.raises(SettingsError, match="trust_radius"):
            SearchConfig.from_file({**config.flat(), "trust_radius": None})


def test_an_initial_fraction_implies_that_a_search_starts_from_it() -> None:
    for settings in (
        {"space": "hba", "initial_fraction": 0.5},
        {"algorithm": Lookahead(initial_fraction=0.5)},
    ):
        algorithm = SearchConfig.from_preset(settings).algorithm
        assert (algorithm.init, algorithm.initial_fraction) == ("fraction", 0.5)
    assert isinstance(
        SearchConfig.make({"algorithm": "hba", "sigma_entropy": 1.0}).algorithm,
        Hypergradient,
    )


def test_an_algorithm_of_your_own_has_settings_of_its_own() -> None:
    class Mine(Lookahead):
        name = "mine"
        strength: int = 1

    config = SearchConfig.from_preset({"algorithm": Mine, "strength": 3})
    assert config.flat()["strength"] == 3
    assert SearchConfig.from_file(config.flat(), Mine) == config
    with pytest.raises(SettingsError, match="'mine'"):
        SearchConfig.from_file(config.flat())
    with pytest.raises(SettingsError, match="strenght; did you mean strength"):
        SearchConfig.from_preset({"algorithm": Mine, "strenght": 3})
