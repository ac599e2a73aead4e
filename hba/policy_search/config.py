"""All settings of a policy search: those of any search, and those of its algorithm."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Self

from pydantic import Field, SerializeAsAny

from hba.algorithms import ALGORITHMS, PAPER_ALGORITHMS, Algorithm, Hypergradient, Joint, Lookahead
from hba.config.evaluation import values_of
from hba.config.presets import DEFAULT_PRESETS, SEARCH_PRESETS, find_preset
from hba.config.training import SGD, SGDS, CommonSearchConfig
from hba.data.config import resolved_data
from hba.errors import RunError, SettingsError
from hba.policy.space import SearchSpace
from hba.policy.spaces import search_space, without_operations
from hba.regularization.groups import AUGMENTATION, acts_on_images, find_regularizer
from hba.regularization.regularizer import Hyperparameter
from hba.utils.settings import words
from hba.utils.text import did_you_mean

ALGORITHM_SETTINGS = frozenset(name for algorithm in ALGORITHMS.values() for name in algorithm.model_fields)
"""Settings that some algorithm has."""
BEFORE: Mapping[str, Any] = MappingProxyType(
    {
        "init": "fraction",
        "init_from": None,
        "count": "fixed",
        "strength_learning_rate": 0.0,
        "divergence_weight": 0.0,
        "search_spread": False,
        "reward_derivative": "exact",
        "spread_over": "none",
        "spread_share": 1.0,
        "tune": [AUGMENTATION],
        "lambda_optimizer": "adam",
        "sigma_entropy": None,
    }
)
"""What a search did before there was such a setting, as in files that do not name it."""
ARGUMENTS = (
    "algorithm",
    "network",
    "out",
    "resume",
    "callback",
    "progress",
    "preset",
    "paper",
    "budget_seconds",
    "config",
)
"""Of `hba.search`, which no setting can be called."""


class SearchConfig(CommonSearchConfig):
    """A policy search. In files, in Python and on the command line, the algorithm's settings stand flat beside the
    others, and `algorithm` is its name; here they are `config.algorithm`.
    """

    algorithm: SerializeAsAny[Algorithm] = Field(default_factory=Lookahead)
    """How the search moves its policy: lookahead, which needs no hypernetwork; hba, the paper's method (its Algorithm
    6); hba-lookahead, both at once; joint, lookahead for what acts on images and hba for the other regularizers, the
    default where such are tuned; what hba is derived from, fixed-noise (5), hyper-population (4) and population (3); or
    what it builds on, stn and delta-stn."""

    def search_space(self, regularizers: tuple[Hyperparameter, ...] = ()) -> SearchSpace:
        """The space that these settings name. regularizers: what is tuned beside the operations, if these are."""
        if regularizers and not self.tunes_operations:
            return without_operations(regularizers)
        searches_count = self.algorithm.count == "searched"
        return search_space(self.space, self.operations, self.interpolation, searches_count, regularizers)

    @classmethod
    def make(cls, settings: Mapping[str, Any]) -> Self:
        """Check flat settings; SettingsError says in one line what is wrong, also of one that the algorithm has not.

        algorithm: a name, an Algorithm of your own or of hba.algorithms, or the class of one.
        """
        kind, made = _found(settings.get("algorithm", default_algorithm(settings)))
        own = {name: value for name, value in settings.items() if name in kind.model_fields}
        common = {name: value for name, value in settings.items() if name not in own}
        for name in [name for name in common if name not in cls.model_fields]:
            if name in ALGORITHM_SETTINGS:
                raise SettingsError(f"{name} has no effect on the algorithm {kind.name}; remove it")
            known = (*cls.model_fields, *kind.model_fields, *sorted(ALGORITHM_SETTINGS))
            raise SettingsError(f"there is no setting {name}{did_you_mean(name, known)}")
        if made is not None and own:
            raise SettingsError(f"{next(iter(own))} must be set in the algorithm itself, where that is not a name")
        algorithm = kind.make(own) if made is None else made
        config = super().make({**common, "algorithm": algorithm})
        _check_tuned(config, settings)
        algorithm.check(config)
        return config

    @classmethod
    def from_preset(cls, settings: Mapping[str, Any], preset: str | None = None, *, paper: bool = False) -> Self:
        """The preset's values, which settings override. None takes the preset of the dataset, if it has one.

        paper: the algorithm is the paper's, unless another one of the paper's is given.
        """
        settings = resolved_data(settings)
        if paper:
            settings = {"algorithm": Hypergradient.name, **settings}
        kind, made = _found(settings.get("algorithm", default_algorithm(settings)))
        if paper and kind not in PAPER_ALGORITHMS.values():
            raise SettingsError(
                f"algorithm must be the paper's (one of {', '.join(PAPER_ALGORITHMS)}) for a search as in the paper, "
                f"got {kind.name!r}"
            )
        data = settings.get("data") or (find_preset(preset)["data"] if preset else "digits")
        preset = preset or (DEFAULT_PRESETS.get(data) if isinstance(data, str) else None)
        values = values_of(preset, SEARCH_PRESETS, data, settings) if preset else {}
        of_algorithm = kind.of_preset(values)
        values = {name: value for name, value in values.items() if name not in ALGORITHM_SETTINGS}
        if made is None:
            values |= of_algorithm
        else:
            left_open = {name: value for name, value in of_algorithm.items() if name not in made.model_fields_set}
            settings = {**settings, "algorithm": kind.make({**dict(made), **left_open})}
        config = cls.make({**values, "data": data, **settings})
        if idle := [name for name in _idle_settings(config) if name in settings]:
            raise SettingsError(
                f"{idle[0]} has no effect where augmentation is not tuned; remove it, or add augmentation to tune"
            )
        given = settings.keys() if made is None else made.model_fields_set
        # Who gives all settings of another search gives both.
        if "initial_fraction" in given and "init" not in given:
            config.algorithm.check_fraction()
        if "init" in given:
            config.algorithm.check_init()
        return config

    @classmethod
    def from_file(cls, stored: Mapping[str, Any], algorithm: type[Algorithm] | None = None) -> Self:
        """The settings in a run's config.json. Version 0.1.0 wrote those of all algorithms; the others' are dropped.

        algorithm: the class of the run's, where it is one of your own.
        """
        name = stored.get("algorithm", Lookahead.name)
        if not isinstance(name, str):
            raise SettingsError(f"algorithm must be a name, got {name!r}")
        if algorithm is not None and algorithm.name == name:
            kind = algorithm
        elif name in ALGORITHMS:
            # Another algorithm than the run's is refused by who compares the settings.
            kind = ALGORITHMS[name]
        else:
            raise RunError(
                f"the run was begun by the algorithm {name!r}, a class of your own; give it in Python, with "
                "hba.search(algorithm=..., resume=True), or config=... for a new run"
            )
        stored = {**BEFORE, **stored}
        if stored["init_from"] is not None:
            # What it began at otherwise has no effect, and may since be another by default.
            stored = {name: value for name, value in stored.items() if name != "init"}
        others = ALGORITHM_SETTINGS - kind.model_fields.keys()
        return cls.make({**{name: one for name, one in stored.items() if name not in others}, "algorithm": kind})

    def resolved(self) -> Self:
        return super().resolved().with_numbers()

    def with_numbers(self) -> Self:
        """The same, with the numbers that settings of the algorithm stand for written out."""
        return self.model_copy(update={"algorithm": self.algorithm.resolved(self.batch_size)})

    def flat(self) -> dict[str, Any]:
        """All settings as JSON values, by name."""
        common = self.model_dump(mode="json", exclude={"algorithm"})
        return {**common, "algorithm": self.algorithm.name, **self.algorithm.model_dump(mode="json")}

    def changed(self, settings: Mapping[str, Any]) -> Self:
        """The same settings, but those given, flat."""
        return type(self).make({**self.flat(), "algorithm": type(self.algorithm), **settings})


def default_algorithm(settings: Mapping[str, Any]) -> str:
    """Of a search that is told of none: what can move all that it tunes."""
    tune = words(settings.get("tune", AUGMENTATION))
    # What is no list of names is refused by the setting itself.
    is_more = isinstance(tune, list | tuple) and [*tune] != [AUGMENTATION]
    return Joint.name if is_more else Lookahead.name


OF_OPERATIONS = (
    "space",
    "operations",
    "interpolation",
    "count",
    "init",
    "initial_fraction",
    "spread_over",
    "spread_share",
    "strength_learning_rate",
)
"""Settings without effect where operations are not tuned."""
OF_REWARDS = (
    "reward_draws",
    "reward_limit",
    "reward_derivative",
    "divergence_weight",
    "search_spread",
    "horizon_steps",
)
"""Settings without effect where nothing is tuned that acts on images."""


def _idle_settings(config: SearchConfig) -> tuple[str, ...]:
    if config.tunes_operations:
        return ()
    groups = [name.replace("-", "_") for name in config.tune]
    uses_fill = any(find_regularizer(group).uses_fill for group in groups)
    of_rewards = () if any(map(acts_on_images, groups)) else OF_REWARDS
    return (*OF_OPERATIONS, *of_rewards, *(() if uses_fill else ("fill",)))


def _check_tuned(config: SearchConfig, settings: Mapping[str, Any]) -> None:
    """SettingsError where what is tuned does not go with the other settings."""
    regularizers = [name for name in config.tune if name != AUGMENTATION]
    if "weight-decay" in regularizers and getattr(config.algorithm, "response_weight_decay", None) is not None:
        raise SettingsError("response_weight_decay has no effect where weight-decay is tuned; omit one of them")
    if config.optimizer not in SGDS and "weight-decay" in regularizers:
        raise SettingsError(
            f"tune weight-decay needs the optimizer {SGD}, in whose loss it is, got {config.optimizer}; omit it from "
            "tune, or set optimizer"
        )
    if config.fast and not config.algorithm.can_be_fast:
        able = ", ".join(name for name, kind in ALGORITHMS.items() if kind.can_be_fast)
        raise SettingsError(f"fast does not go with the algorithm {config.algorithm.name}, only with {able}; omit it")
    through_weights = [name for name in regularizers if not acts_on_images(name.replace("-", "_"))]
    if through_weights and not config.algorithm.tunes_training:
        able = ", ".join(name for name, kind in ALGORITHMS.items() if kind.tunes_training)
        raise SettingsError(
            f"the algorithm {config.algorithm.name} cannot tune {through_weights[0]}, which acts through the weights; "
            f"choose one of {able}"
        )


def _found(given: Any) -> tuple[type[Algorithm], Algorithm | None]:
    """The class of what was given as an algorithm, and the algorithm itself where it was given."""
    if isinstance(given, Algorithm):
        return _checked(type(given)), given
    if isinstance(given, type) and issubclass(given, Algorithm):
        return _checked(given), None
    if isinstance(given, str) and given in ALGORITHMS:
        return ALGORITHMS[given], None
    names = ", ".join(map(repr, ALGORITHMS))
    meant = did_you_mean(given, ALGORITHMS) if isinstance(given, str) else ""
    raise SettingsError(f"algorithm must be one of {names}, or an hba.algorithms.Algorithm, got {given!r}{meant}")


def _checked(kind: type[Algorithm]) -> type[Algorithm]:
    """SettingsError for a class that files could not tell from another one, or whose settings could not stand flat."""
    name = getattr(kind, "name", None)
    if not isinstance(name, str) or ALGORITHMS.get(name, kind) is not kind:
        raise SettingsError(f"algorithm {kind.__name__} must have a name of its own (name = 'mine'), got {name!r}")
    if kind.begin is Algorithm.begin or kind.step is Algorithm.step:
        raise SettingsError(f"algorithm {name} must have functions begin and step, as hba.algorithms.Algorithm says")
    clash = [setting for setting in kind.model_fields if setting in (*CommonSearchConfig.model_fields, *ARGUMENTS)]
    if clash:
        raise SettingsError(f"{clash[0]} of algorithm {name} is a setting or an argument of every search; rename it")
    return kind
