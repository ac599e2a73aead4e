"""All settings of a policy search, and how they are chosen: from arguments, a preset, or an earlier run."""

import json
import reprlib
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self, TypeVar

from pydantic import Field, SerializeAsAny

from hba.algorithms import ALGORITHMS, PAPER_ALGORITHMS, Algorithm, Hypergradient, Joint, Lookahead
from hba.config.evaluation import of_earlier_run, values_of
from hba.config.presets import DEFAULT_PRESETS, SEARCH_PRESETS, find_preset
from hba.config.training import SGD, SGDS, CommonSearchConfig
from hba.data.arrays import DATASET_NAMES
from hba.data.config import DataConfig, resolved_data
from hba.errors import DataError, RunError, SettingsError
from hba.policy.space import SearchSpace
from hba.policy.spaces import search_space
from hba.regularization.groups import AUGMENTATION, acts_on_images
from hba.regularization.regularizer import Hyperparameter
from hba.report.run import CONFIG_NAME, OWN
from hba.schedule.library import of_several_seeds
from hba.utils.files import read_text, reason_of
from hba.utils.settings import words
from hba.utils.text import did_you_mean

ALGORITHM_SETTINGS = frozenset(name for algorithm in ALGORITHMS.values() for name in algorithm.model_fields)
"""Settings of any algorithm."""
DROPPED: Mapping[str, Any] = MappingProxyType(
    {"trust_radius": None, "logit_bound": None, "sigma_end": None, "val_statistics": "running", "batched_members": True}
)
"""Former settings, with the value that had no effect; config.json of a run may still have them."""
MAY_CHANGE = ("data", "classes", "data_root", "download", "workers", "device", "pretrained")
"""Settings that may differ when a run is resumed, or between the processes of one search: where files are, and what
computes. The checkpoint identifies the images, their split, the pretrained weights and the kind of device."""
OF_OPERATIONS = (
    *("space", "operations", "interpolation", "count", "init", "initial_fraction"),
    *("spread_over", "spread_share", "strength_learning_rate"),
)
"""Settings without effect if operations are not tuned."""
START = ("init", "init_from", "initial_fraction")
"""Three settings that together say where a search begins."""

T = TypeVar("T")


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
            return SearchSpace((), count_probabilities=(1.0,), regularizers=regularizers)
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
            raise SettingsError(f"paper needs one of the paper's algorithms ({names}), got {kind.name!r}")
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
        if not config.tunes_operations and (idle := [name for name in OF_OPERATIONS if name in settings]):
            raise SettingsError(f"{idle[0]} has no effect where augmentation is not tuned; omit it, or extend tune")
        return config

    @classmethod
    def from_file(cls, stored: Mapping[str, Any], algorithm: type[Algorithm] | None = None) -> Self:
        """The settings in the config.json of a run. algorithm: the class of the run's algorithm, if it is your own."""
        known = {name: value for name, value in without_dropped(stored).items() if name != OWN}
        if algorithm is not None and algorithm.name == stored.get("algorithm"):
            known["algorithm"] = algorithm
        return cls.make(known)

    def resolved(self) -> Self:
        """The same, with explicit image size, standardization and baseline, and numbers for words such as `half`."""
        return super().resolved().model_copy(update={"algorithm": self.algorithm.resolved(self.batch_size)})

    def flat(self) -> dict[str, Any]:
        """All settings as JSON values, by name."""
        common = self.model_dump(mode="json", exclude={"algorithm"})
        return {**common, "algorithm": self.algorithm.name, **self.algorithm.model_dump(mode="json")}

    def changed(self, settings: Mapping[str, Any]) -> Self:
        """The same settings, but for those given, which are flat."""
        return type(self).make({**self.flat(), "algorithm": type(self.algorithm), **settings})


def from_config(
    path: Path, settings: Mapping[str, Any], own: Collection[str] = (), *, resume: bool = False, in_memory: bool = False
) -> SearchConfig:
    """The settings of the run whose config.json, or folder, is at path, overridden by the settings that are given.

    own: settings that are replaced by an object. resume: of the same run, so only settings that MAY_CHANGE and more
    epochs can be given. in_memory: whether the images of a new run are in memory, so that the earlier split and reading
    do not apply. Raises RunError if the file cannot be read, SettingsError for settings that contradict each other or
    the run, and if the run had an object that is not given, and DataError if its images are gone and no others are
    given.
    """
    file = path / CONFIG_NAME if path.is_dir() else path
    given, kind = resolved_data(settings), None
    if not isinstance(given.get("algorithm"), str | None):
        kind, algorithm = _algorithm_of(given)
        of_object = {} if algorithm is None else algorithm.model_dump(exclude_unset=True)
        given = {**given, **of_object, "algorithm": kind.name}
    earlier, components = read_config(file, lambda stored: SearchConfig.from_file(stored, kind))
    missing = {*components} - {*own, *(() if resume else given)}
    if differing := [*missing, *({*own} - {*components} if resume else ())]:
        had, do = ("a", "give") if missing else ("no", "omit")
        argument = "network" if differing[0] == "model" else differing[0]
        raise SettingsError(f"the search of {file} had {had} {argument} of its own; {do} {argument} in Python")
    if resume:
        check_unchanged(path, earlier.flat(), given, {"algorithm"} & given.keys())
        config = earlier.changed({name: value for name, value in given.items() if name != "algorithm"}).resolved()
        check_unchanged(path, earlier.flat(), config.flat(), given.keys() - {*MAY_CHANGE})
    else:
        config = SearchConfig.make(_inherited(earlier, given, kind, "model" in own, in_memory)).resolved()
    if "data" not in settings and config.data not in DATASET_NAMES and not Path(config.data).exists():
        raise DataError(
            f"the images of {path} are no longer in {config.data}; name the data where they are now, as in hba search "
            f"DIR {f'--out {path} --resume' if resume else f'--config {path}'}, or give images in memory again"
        )
    return config


def _inherited(
    earlier: SearchConfig,
    given: Mapping[str, Any],
    kind: type[Algorithm] | None,
    has_own_network: bool,
    in_memory: bool,
) -> dict[str, Any]:
    """The settings of a new search: those of the earlier one that apply, and those that are given.

    kind: the class of the algorithm that is given, if it is not given by name.
    """
    taken = of_earlier_run(earlier.flat(), given, has_own_network=has_own_network)
    algorithm: type[Algorithm] | str = type(earlier.algorithm)
    dropped = {*(DataConfig.model_fields if in_memory else ()), *(() if given.keys().isdisjoint(START) else START)}
    if given.get("algorithm", earlier.algorithm.name) != earlier.algorithm.name:
        dropped |= ALGORITHM_SETTINGS | type(earlier.algorithm).model_fields.keys()
        algorithm = kind or given["algorithm"]
    taken = {name: value for name, value in taken.items() if name not in dropped}
    return {**taken, **given, "algorithm": algorithm}


def read_config(file: Path, make: Callable[[dict[str, Any]], T]) -> tuple[T, tuple[str, ...]]:
    """What `make` makes of a config.json, and the settings that it lists as replaced by an object of the user's.

    RunError if the file does not hold the settings of a search.
    """
    try:
        content = json.loads(read_text(file))
        return make(content), tuple(content.get(OWN, ()))
    except (ValueError, TypeError, AttributeError, OSError, RecursionError) as error:
        unread = f"{file} cannot be read as settings of a search: {reason_of(error)}"
        raise RunError(of_several_seeds(file.parent) or unread) from None


def check_unchanged(path: Path, before: Mapping[str, Any], now: Mapping[str, Any], names: Iterable[str]) -> None:
    """Raise SettingsError if one of the named settings of the run in a folder is not as before; epochs may be more."""
    for name in sorted(names):
        # The file of the schedule to begin at may have another name now.
        old, new = (one["values"] if isinstance(one, dict) else one for one in (before[name], now[name]))
        if old != new and not (name == "epochs" and new > old):
            raise SettingsError(
                f"a resumed run keeps its settings, and may only get more epochs; {path} has {name} "
                f"{reprlib.repr(old)} (given {reprlib.repr(new)})"
            )


def without_dropped(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of a config.json without probes, and without DROPPED ones that had no effect."""
    idle = {"probes", *(name for name, value in DROPPED.items() if stored.get(name) == value)}
    return {name: value for name, value in stored.items() if name not in idle}


def _algorithm_of(settings: Mapping[str, Any]) -> tuple[type[Algorithm], Algorithm | None]:
    """The class of the algorithm, and the algorithm itself if it is given as an object.

    Without any, it is one that can move everything that is tuned.
    """
    if "algorithm" not in settings:
        tune = words(settings.get("tune", AUGMENTATION))
        # The setting itself refuses anything but a list of names.
        is_more = isinstance(tune, list | tuple) and [*tune] != [AUGMENTATION]
        return (Joint if is_more else Lookahead), None
    given = settings["algorithm"]
    if isinstance(given, str) and given in ALGORITHMS:
        return ALGORITHMS[given], None
    kind = given if isinstance(given, type) else type(given)
    if not issubclass(kind, Algorithm):
        names = ", ".join(map(repr, ALGORITHMS))
        meant = did_you_mean(given, ALGORITHMS) if isinstance(given, str) else ""
        raise SettingsError(f"algorithm must be one of {names}, or an hba.algorithms.Algorithm, got {given!r}{meant}")
    name = getattr(kind, "name", None)
    if not isinstance(name, str) or ALGORITHMS.get(name, kind) is not kind:
        raise SettingsError(f"algorithm {kind.__name__} must have a name of its own (name = 'mine'), got {name!r}")
    return kind, given if isinstance(given, Algorithm) else None


def _check_tuned(config: SearchConfig) -> None:
    """Raise SettingsError if what is tuned, or fast, does not go with the other settings."""
    name, kinds = config.algorithm.name, ALGORITHMS.items()
    if "weight-decay" in config.tune:
        if getattr(config.algorithm, "response_weight_decay", None) is not None:
            raise SettingsError("response_weight_decay has no effect where weight-decay is tuned; omit one of them")
        if config.optimizer not in SGDS:
            raise SettingsError(f"weight-decay can only be tuned with the optimizer {SGD}, got {config.optimizer}")
    if config.fast and not config.algorithm.can_be_fast:
        able = ", ".join(name for name, kind in kinds if kind.can_be_fast)
        raise SettingsError(f"the algorithm {name} cannot be fast, only {able}; omit fast")
    through_weights = [one for one in config.tune if one != AUGMENTATION and not acts_on_images(one.replace("-", "_"))]
    if through_weights and not config.algorithm.tunes_training:
        able = ", ".join(name for name, kind in kinds if kind.tunes_training)
        raise SettingsError(
            f"the algorithm {name} cannot tune {through_weights[0]}, which acts through the weights; choose one of "
            f"{able}"
        )
