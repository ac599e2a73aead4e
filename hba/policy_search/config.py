"""All settings of a policy search, and the functions that choose them: from arguments, a preset, or an earlier run."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from pydantic import Field, SerializeAsAny
from torch import nn

from hba.algorithms import ALGORITHMS, PAPER_ALGORITHMS, Algorithm, Hypergradient, Joint, Lookahead
from hba.algorithms.lambda_steps import HALF, images_at_once
from hba.config.evaluation import of_earlier_run, values_of
from hba.config.presets import DEFAULT_PRESETS, SEARCH_PRESETS, find_preset
from hba.config.training import SGD, SGDS, CommonSearchConfig
from hba.data.arrays import DATASET_NAMES
from hba.data.config import DataConfig, resolved_data
from hba.errors import DataError, RunError, SettingsError
from hba.policy.space import SearchSpace
from hba.policy.spaces import search_space, without_operations
from hba.regularization.groups import AUGMENTATION, acts_on_images, find_regularizer
from hba.regularization.regularizer import Hyperparameter
from hba.report.run import CONFIG_NAME, OWN
from hba.schedule.library import of_several_seeds
from hba.utils.files import read_text, reason_of
from hba.utils.settings import words
from hba.utils.text import did_you_mean

ALGORITHM_SETTINGS = frozenset(name for algorithm in ALGORITHMS.values() for name in algorithm.model_fields)
"""Settings of any algorithm."""
DROPPED = ("probes", "trust_radius", "logit_bound")
"""Settings that there once were; config.json of a run may still have them."""
ARGUMENTS = (
    *("algorithm", "network", "out", "resume", "callback", "progress", "preset", "paper", "budget_seconds", "config"),
)
"""Arguments of `hba.search`, whose names no setting can have."""
COMPONENTS: Mapping[str, str] = MappingProxyType({"model": "network", "space": "space"})
"""By setting, the argument of hba.search that can replace it by an object, which config.json cannot hold."""
MAY_CHANGE = ("data", "classes", "data_root", "download", "workers", "device", "pretrained")
"""Settings that may be others when a run is resumed: where its files are, and what computes. The checkpoint identifies
the images, their split, the pretrained weights and the kind of device."""
OF_OPERATIONS = (
    *("space", "operations", "interpolation", "count", "init", "initial_fraction"),
    *("spread_over", "spread_share", "strength_learning_rate"),
)
"""Settings without effect if operations are not tuned."""
OF_REWARDS = (
    *("reward_draws", "reward_limit", "reward_derivative", "divergence_weight", "search_spread", "horizon_steps"),
)
"""Settings without effect if nothing is tuned that acts on images."""
START = ("init", "init_from", "initial_fraction")
"""Three settings that together say where a search begins."""


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
        """The space that these settings name. regularizers: what is tuned beside the operations, if they are tuned."""
        if regularizers and not self.tunes_operations:
            return without_operations(regularizers)
        searches_count = self.algorithm.count == "searched"
        return search_space(self.space, self.operations, self.interpolation, searches_count, regularizers)

    @classmethod
    def make(cls, settings: Mapping[str, Any]) -> Self:
        """Check flat settings, also those of the algorithm; SettingsError says in one line what is wrong.

        algorithm: a name, an Algorithm of your own or of hba.algorithms, or the class of one.
        """
        kind, given = _algorithm_of(settings)
        of_algorithm = {name: value for name, value in settings.items() if name in kind.model_fields}
        common = {name: value for name, value in settings.items() if name not in of_algorithm}
        for name in [name for name in common if name not in cls.model_fields]:
            if name in ALGORITHM_SETTINGS:
                raise SettingsError(f"{name} has no effect on the algorithm {kind.name}; remove it")
            known = (*cls.model_fields, *kind.model_fields, *sorted(ALGORITHM_SETTINGS))
            raise SettingsError(f"there is no setting {name}{did_you_mean(name, known)}")
        if given is not None and of_algorithm:
            raise SettingsError(f"{next(iter(of_algorithm))} must be set in the algorithm itself, which is not a name")
        config = super().make({**common, "algorithm": given or kind.make(of_algorithm)})
        _check_tuned(config)
        config.algorithm.check(config)
        return config

    @classmethod
    def from_preset(cls, settings: Mapping[str, Any], preset: str | None = None, *, paper: bool = False) -> Self:
        """The preset's values, overridden by settings. None takes the preset of the dataset, if it has one.

        paper: the algorithm is the paper's `hba`, unless the settings name another one of the paper's.
        """
        settings = resolved_data(settings)
        if paper:
            settings = {"algorithm": Hypergradient.name, **settings}
        kind, given = _algorithm_of(settings)
        if paper and kind not in PAPER_ALGORITHMS.values():
            names = ", ".join(PAPER_ALGORITHMS)
            raise SettingsError(
                f"algorithm must be one of the paper's for a search as in the paper ({names}), got {kind.name!r}"
            )
        data = settings.get("data") or (find_preset(preset)["data"] if preset else "digits")
        preset = preset or (DEFAULT_PRESETS.get(data) if isinstance(data, str) else None)
        values = values_of(preset, SEARCH_PRESETS, data, settings) if preset else {}
        of_algorithm = kind.of_preset(values)
        values = {name: value for name, value in values.items() if name not in ALGORITHM_SETTINGS}
        if given is None:
            values |= of_algorithm
        else:
            left_open = {name: value for name, value in of_algorithm.items() if name not in given.model_fields_set}
            settings = {**settings, "algorithm": kind.make({**dict(given), **left_open})}
        config = cls.make({**values, "data": data, **settings})
        if idle := [name for name in _idle_settings(config) if name in settings]:
            raise SettingsError(
                f"{idle[0]} has no effect where augmentation is not tuned; remove it, or add augmentation to tune"
            )
        return config

    @classmethod
    def from_file(cls, stored: Mapping[str, Any], algorithm: type[Algorithm] | None = None) -> Self:
        """The settings in the config.json of a run. algorithm: the class of the run's algorithm, if it is your own."""
        name = stored.get("algorithm")
        stored = {name: value for name, value in without_dropped(stored).items() if name != OWN}
        if algorithm is not None and algorithm.name == name:
            return cls.make({**stored, "algorithm": algorithm})
        if isinstance(name, str) and name not in ALGORITHMS:
            raise RunError(
                f"the run was begun by the algorithm {name!r}, a class of your own; give it in Python, with "
                "hba.search(algorithm=..., resume=True), or config=... for a new run"
            )
        return cls.make(stored)

    def resolved(self) -> Self:
        return super().resolved().with_numbers()

    def with_numbers(self) -> Self:
        """The same, with words such as `half` replaced by the numbers that they stand for."""
        return self.model_copy(update={"algorithm": self.algorithm.resolved(self.batch_size)})

    def flat(self) -> dict[str, Any]:
        """All settings as JSON values, by name."""
        common = self.model_dump(mode="json", exclude={"algorithm"})
        return {**common, "algorithm": self.algorithm.name, **self.algorithm.model_dump(mode="json")}

    def changed(self, settings: Mapping[str, Any]) -> Self:
        """The same settings, but for those given, which are flat."""
        return type(self).make({**self.flat(), "algorithm": type(self.algorithm), **settings})


def from_earlier_config(
    path: Path, settings: Mapping[str, Any], *, own: Collection[str] = (), in_memory: bool = False
) -> SearchConfig:
    """The settings of the run whose config.json, or folder, is at path, overridden by the settings that are given.

    own: settings that the new search replaces by an object. in_memory: whether its images are in memory, so that the
    earlier split and reading do not apply. Raises RunError if the file cannot be read, SettingsError for settings that
    contradict each other and if the earlier search had an object that is not given, and DataError if its images are
    gone and no others are given.
    """
    file = path / CONFIG_NAME if path.is_dir() else path
    if not file.exists() and (several := of_several_seeds(path)):
        raise RunError(several)
    given, own_algorithm = flat_settings(resolved_data(settings)), _own_algorithm(settings)
    try:
        stored = read_settings(file)
        # The device may not exist on this machine.
        stored.pop("device", None)
        earlier = SearchConfig.from_file(stored, own_algorithm)
    except (ValueError, OSError, RecursionError) as error:
        raise RunError(
            f"config must be the {CONFIG_NAME} of a search, or its folder; {file} cannot be read: {reason_of(error)}"
        ) from None
    _check_components(file, stored, {*given, *own}, resume=False)
    taken = of_earlier_run(earlier.flat(), given, has_own_network="model" in own)
    if in_memory:
        taken = {name: value for name, value in taken.items() if name not in DataConfig.model_fields}
    name = given.get("algorithm", earlier.algorithm.name)
    kind: type[Algorithm] | str = type(earlier.algorithm)
    if name != earlier.algorithm.name:
        of_earlier = ALGORITHM_SETTINGS | type(earlier.algorithm).model_fields.keys()
        taken = {name: value for name, value in taken.items() if name not in of_earlier}
        kind = own_algorithm or name
    if "batch_size" in given and taken.get("val_batch_size") == images_at_once(HALF, earlier.batch_size):
        taken["val_batch_size"] = HALF
    if not given.keys().isdisjoint(START):
        taken = {name: value for name, value in taken.items() if name not in START}
    config = SearchConfig.make({**taken, **given, "algorithm": kind}).resolved()
    if "data" not in given:
        _check_images_exist(config.data, f"the images of {file}", f"hba search DIR --config {file}")
    return config


def resumed_config(path: Path, settings: Mapping[str, Any], own: Collection[str] = ()) -> SearchConfig:
    """The settings of the run in the folder, with those given that may change, and possibly with more epochs.

    own: settings that are replaced by an object. Raises SettingsError if that, or any other setting, differs from the
    run, and for fewer epochs.
    """
    file = path / CONFIG_NAME
    if not file.exists():
        raise RunError(f"{path} holds no run to resume: there is no {file.name} in it")
    given = flat_settings(resolved_data(settings))
    try:
        stored = read_settings(file)
        before = SearchConfig.from_file(stored, _own_algorithm(settings))
    except (ValueError, OSError, RecursionError) as error:
        raise RunError(
            f"{file} cannot be read: {reason_of(error)}; put the settings back, or start anew with another --out"
        ) from None
    _check_components(file, stored, own, resume=True)
    name = given.pop("algorithm", before.algorithm.name)
    if name != before.algorithm.name:
        check_unchanged(path, {"algorithm": before.algorithm.name}, {"algorithm": name})
    now = before.changed(given).with_numbers()
    old, new = before.flat(), now.flat()
    kept = [name for name in given if name not in MAY_CHANGE]
    if "pretrained" in given and None in (old["pretrained"], new["pretrained"]):
        # The weights may be elsewhere now, but not begin or cease to be there.
        kept.append("pretrained")
    check_unchanged(path, {name: old[name] for name in kept}, new)
    if "data" not in settings:
        again = f"hba search DIR --out {path} --resume, or give them again if they were in memory"
        _check_images_exist(now.data, f"the images of {path}", again)
    return now


def check_unchanged(path: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise SettingsError if settings are no longer as before, but that `epochs` may be more. path: of the run."""
    if now.get("epochs", 0) < before.get("epochs", 0):
        raise SettingsError(
            f"a resumed run can get more epochs, not fewer; {path} has {before['epochs']} (given {now['epochs']})"
        )
    differences = [
        f"{name} {_shown(value)} (given {_shown(now[name])})"
        for name, value in before.items()
        if name != "epochs" and _compared(value) != _compared(now[name])
    ]
    if differences:
        raise SettingsError(f"a resumed run keeps its settings; {path} has {', '.join(differences)}")


def _compared(value: Any) -> Any:
    """The row of a schedule to begin at, because its file may have another name now."""
    return value["values"] if isinstance(value, dict) else value


def _shown(value: Any) -> str:
    return repr(value["schedule"] if isinstance(value, dict) else value)


def _check_images_exist(data: str, which: str, again: str) -> None:
    if data not in DATASET_NAMES and not Path(data).exists():
        raise DataError(f"{which} are no longer in {data}; name the data where they are now, as in {again}")


def custom_components(network: nn.Module | None, space: SearchSpace | str | None) -> tuple[str, ...]:
    """The settings that the user replaces by an object."""
    return (*(("model",) if network is not None else ()), *(("space",) if isinstance(space, SearchSpace) else ()))


def without_dropped(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a config.json without DROPPED ones, except those that changed the search."""
    return {name: value for name, value in stored.items() if name not in DROPPED or (value and name != "probes")}


def read_settings(file: Path) -> dict[str, Any]:
    """The content of a config.json; ValueError, OSError or RecursionError if it cannot be read."""
    found = json.loads(read_text(file))
    if not isinstance(found, dict):
        raise ValueError(f"it must hold settings by name, got {type(found).__name__}")
    return found


def _check_components(file: Path, content: Mapping[str, Any], given: Collection[str], *, resume: bool) -> None:
    """Raise SettingsError if an object that the run of a config.json had is not given now; if it is resumed, also if
    one is given that it did not have. given: settings that are given, or replaced by an object.
    """
    stored = content.get(OWN) or ()
    for name, argument in COMPONENTS.items():
        if name in stored and name not in given:
            raise SettingsError(
                f"the search of {file} had a {argument} of its own, which no file holds; give {argument} in Python"
                + ("" if resume else f", or choose another {name}")
            )
        if resume and name in given and name not in stored:
            raise SettingsError(f"the search of {file} has no {argument} of its own; omit {argument} to resume it")


def flat_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings by name, including those that were set in an algorithm that is given as an object."""
    given = settings.get("algorithm")
    if isinstance(given, Algorithm):
        return {**settings, **given.model_dump(exclude_unset=True), "algorithm": given.name}
    if isinstance(given, type) and issubclass(given, Algorithm):
        return {**settings, "algorithm": given.name}
    return dict(settings)


def _own_algorithm(settings: Mapping[str, Any]) -> type[Algorithm] | None:
    """The class of the algorithm, unless it is given by name: no file can identify your own class."""
    return None if isinstance(settings.get("algorithm"), str | None) else _algorithm_of(settings)[0]


def _algorithm_of(settings: Mapping[str, Any]) -> tuple[type[Algorithm], Algorithm | None]:
    """The class of the algorithm, and the algorithm itself if it is given as an object.

    Without any, it is one that can move everything that is tuned.
    """
    given = settings.get("algorithm")
    if "algorithm" not in settings:
        tune = words(settings.get("tune", AUGMENTATION))
        # Anything but a list of names is refused by the setting itself.
        is_more = isinstance(tune, list | tuple) and [*tune] != [AUGMENTATION]
        return (Joint if is_more else Lookahead), None
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
    """Raise SettingsError for a class without a name of its own, or whose settings cannot stand flat."""
    name = getattr(kind, "name", None)
    if not isinstance(name, str) or ALGORITHMS.get(name, kind) is not kind:
        raise SettingsError(f"algorithm {kind.__name__} must have a name of its own (name = 'mine'), got {name!r}")
    if kind.begin is Algorithm.begin or kind.step is Algorithm.step:
        raise SettingsError(f"algorithm {name} must have methods begin and step, as in hba.algorithms.Algorithm")
    clash = [setting for setting in kind.model_fields if setting in (*CommonSearchConfig.model_fields, *ARGUMENTS)]
    if clash:
        raise SettingsError(f"{clash[0]} of algorithm {name} is a setting or an argument of every search; rename it")
    return kind


def _idle_settings(config: SearchConfig) -> tuple[str, ...]:
    if config.tunes_operations:
        return ()
    groups = [name.replace("-", "_") for name in config.tune]
    uses_fill = any(find_regularizer(group).uses_fill for group in groups)
    of_rewards = () if any(map(acts_on_images, groups)) else OF_REWARDS
    return (*OF_OPERATIONS, *of_rewards, *(() if uses_fill else ("fill",)))


def _check_tuned(config: SearchConfig) -> None:
    """Raise SettingsError if what is tuned contradicts the other settings."""
    name = config.algorithm.name
    regularizers = [name for name in config.tune if name != AUGMENTATION]
    if "weight-decay" in regularizers and getattr(config.algorithm, "response_weight_decay", None) is not None:
        raise SettingsError("response_weight_decay has no effect where weight-decay is tuned; omit one of them")
    if config.optimizer not in SGDS and "weight-decay" in regularizers:
        raise SettingsError(
            f"weight-decay can only be tuned with the optimizer {SGD}, in whose loss it is, got {config.optimizer}; "
            "omit it from tune, or set optimizer"
        )
    if config.fast and not config.algorithm.can_be_fast:
        able = ", ".join(name for name, kind in ALGORITHMS.items() if kind.can_be_fast)
        raise SettingsError(f"the algorithm {name} cannot be fast, only {able}; omit fast")
    through_weights = [one for one in regularizers if not acts_on_images(one.replace("-", "_"))]
    if through_weights and not config.algorithm.tunes_training:
        able = ", ".join(name for name, kind in ALGORITHMS.items() if kind.tunes_training)
        raise SettingsError(
            f"the algorithm {name} cannot tune {through_weights[0]}, which acts through the weights; choose one of "
            f"{able}"
        )
