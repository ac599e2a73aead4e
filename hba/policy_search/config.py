"""All settings of a policy search, from arguments, a preset, or an earlier run."""

import json
import reprlib
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from pydantic import Field, SerializeAsAny

from hba.algorithms import (
    ALGORITHMS,
    PAPER_ALGORITHMS,
    Algorithm,
    Hypergradient,
    Joint,
    Lookahead,
    Race,
)
from hba.config.evaluation import of_earlier_run, values_of
from hba.config.presets import DEFAULT_PRESETS, SEARCH_PRESETS, find_preset
from hba.config.training import SGD, SGDS, CommonSearchConfig
from hba.data.config import DataConfig, resolved_data
from hba.errors import RunError, SettingsError
from hba.operations.operation import MIXING
from hba.policy.space import SearchSpace
from hba.policy.spaces import search_space
from hba.regularization.groups import AUGMENTATION, REGULARIZERS
from hba.regularization.regularizer import Hyperparameter
from hba.report.run import CONFIG_NAME, OWN
from hba.schedule.library import of_several_seeds
from hba.utils.files import read_text, reason_of
from hba.utils.settings import Settings, words
from hba.utils.text import did_you_mean

ALGORITHM_SETTINGS = frozenset(
    name for algorithm in ALGORITHMS.values() for name in algorithm.model_fields
)
"""Settings of all algorithms."""
MAY_CHANGE = (
    "data",
    "classes",
    "data_root",
    "download",
    "workers",
    "device",
    "graph",
    "pretrained",
)
"""Settings that may differ when a run is resumed, or between the processes of one
search: the places of files, and the device. The checkpoint identifies the images, their
split, the pretrained weights and the kind of device.
"""


class AlgorithmConfig(Settings):
    """Settings of a search and, in `config.algorithm`, of its algorithm. In files and
    arguments, they are flat.
    """

    algorithms: ClassVar[Mapping[str, type[Algorithm]]] = ALGORITHMS
    idle: ClassVar[tuple[str, ...]] = ()
    """Settings of the algorithms that have no effect here."""
    algorithm: SerializeAsAny[Algorithm]

    @classmethod
    def default_algorithm(cls, settings: Mapping[str, Any]) -> type[Algorithm]:
        raise NotImplementedError

    @classmethod
    def find_algorithm(cls, settings: Mapping[str, Any]) -> type[Algorithm]:
        """The class that `algorithm` names, or is. Raises SettingsError if it is none,
        or has the name of another.
        """
        given = settings.get("algorithm", cls.default_algorithm(settings))
        kind = cls.algorithms.get(given) if isinstance(given, str) else given
        if not (isinstance(kind, type) and issubclass(kind, Algorithm)):
            names = ", ".join(map(repr, cls.algorithms))
            raise SettingsError(
                f"algorithm must be one of {names}, or an hba.algorithms.Algorithm, got"
                f" {given!r}"
            )
        name = getattr(kind, "name", None)
        if not isinstance(name, str) or cls.algorithms.get(name, kind) is not kind:
            raise SettingsError(
                f"algorithm {kind.__name__} must have its own name (name = 'mine'), got"
                f" {name!r}"
            )
        return kind

    @classmethod
    def make(cls, settings: Mapping[str, Any]) -> Self:
        """Check flat settings, including those of the algorithm. Raises SettingsError
        with a message of one line.

        algorithm: a name, an Algorithm of hba.algorithms or your own, or the class of
        one.
        """
        settings = flattened(settings)
        kind = cls.find_algorithm(settings)
        able = kind.model_fields.keys() - {*cls.idle, *kind.idle}
        common = {name: value for name, value in settings.items() if name not in able}
        for name in [name for name in common if name not in cls.model_fields]:
            if name in ALGORITHM_SETTINGS:
                raise SettingsError(
                    f"{name} has no effect on the algorithm {kind.name}; remove it"
                )
            known = (*cls.model_fields, *able, *sorted(ALGORITHM_SETTINGS))
            raise SettingsError(
                f"there is no setting {name}{did_you_mean(name, known)}"
            )
        algorithm = kind.make(
            {name: value for name, value in settings.items() if name in able}
        )
        config = super().make({**common, "algorithm": algorithm})
        algorithm.check(config)  # type: ignore[arg-type]
        return config

    @classmethod
    def from_file(
        cls, stored: Mapping[str, Any], algorithm: type[Algorithm] | None = None
    ) -> Self:
        """The settings from the config.json of a run. algorithm: the class of its
        algorithm, if that is your own.
        """
        settings = {name: value for name, value in stored.items() if name != OWN}
        if algorithm is not None and algorithm.name == stored.get("algorithm"):
            settings["algorithm"] = algorithm
        return cls.make(settings)

    def resolved(self) -> Self:
        return self

    def flat(self) -> dict[str, Any]:
        """All settings as JSON values, by name."""
        common = self.model_dump(mode="json", exclude={"algorithm"})
        of_algorithm = self.algorithm.model_dump(
            mode="json", exclude={*self.idle, *self.algorithm.idle}
        )
        return {**common, "algorithm": self.algorithm.name, **of_algorithm}

    def changed(self, settings: Mapping[str, Any]) -> Self:
        """The same settings with some changed, which are flat."""
        return type(self).make(
            {**self.flat(), "algorithm": type(self.algorithm), **settings}
        )


def flattened(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Replace an algorithm that is an object by its class and the settings that were
    given to it.
    """
    algorithm = settings.get("algorithm")
    if not isinstance(algorithm, Algorithm):
        return dict(settings)
    of_algorithm = {
        name: getattr(algorithm, name) for name in algorithm.model_fields_set
    }
    return {**of_algorithm, **settings, "algorithm": type(algorithm)}


class SearchConfig(CommonSearchConfig, AlgorithmConfig):
    """All settings of a policy search."""

    algorithm: SerializeAsAny[Algorithm] = Field(default_factory=Race)
    """Algorithm of the search. race: chooses operations by forks of one training; the
    default on the spaces recipe and full. lookahead: the default on other spaces and
    with init_from. hba: the paper's method (its Algorithm 6). joint: lookahead for what
    acts on images and hba for other regularizers; the default if you tune such.
    fixed-noise (5), hyper-population (4) and population (3): the algorithms that hba is
    derived from. stn and delta-stn: the algorithms that it builds on.
    """

    @classmethod
    def default_algorithm(cls, settings: Mapping[str, Any]) -> type[Algorithm]:
        """An algorithm that can search everything that is tuned."""
        if words(settings.get("tune", AUGMENTATION)) not in (
            [AUGMENTATION],
            (AUGMENTATION,),
        ):
            return Joint
        is_started = settings.get("init_from") or settings.get("init")
        return (
            Race
            if settings.get("space", "recipe") in ("recipe", "full") and not is_started
            else Lookahead
        )

    def search_space(
        self, regularizers: tuple[Hyperparameter, ...] = ()
    ) -> SearchSpace:
        """The search space of these settings. regularizers: hyperparameters tuned
        besides the operations.
        """
        if regularizers and not self.tunes_operations:
            return SearchSpace(
                (), count_probabilities=(1.0,), regularizers=regularizers
            )
        searches_count = self.algorithm.count == "searched"
        names = self.space, self.operations, self.interpolation
        space = search_space(*names, searches_count, regularizers, self.ranges)
        if not space.mixing or self.algorithm.can_mix:
            return space
        if named := {one.name for one in space.mixing} & {*(self.operations or ())}:
            raise SettingsError(
                f"{self.algorithm.name} cannot search {min(named)}, which mixes"
                " batches; choose race"
            )
        return replace(
            space,
            operations=tuple(one for one in space.operations if one.stage != MIXING),
        )

    @classmethod
    def make(cls, settings: Mapping[str, Any]) -> Self:
        is_race = issubclass(cls.find_algorithm(flattened(settings)), Race)
        config = super().make({**({"space": "recipe"} if is_race else {}), **settings})
        name = config.algorithm.name
        if "weight-decay" in config.tune and config.optimizer not in SGDS:
            raise SettingsError(
                f"weight-decay can only be tuned with the optimizer {SGD}, got"
                f" {config.optimizer}"
            )
        if config.fast and not config.algorithm.can_be_fast:
            raise SettingsError(
                f"the algorithm {name} cannot be fast; omit fast, or choose lookahead"
            )
        on_images = {
            AUGMENTATION,
            *(one.tuned_as for one in REGULARIZERS.values() if one.place == "inputs"),
        }
        of_weights = [one for one in config.tune if one not in on_images]
        if of_weights and not config.algorithm.tunes_training:
            raise SettingsError(
                f"{name} cannot tune {of_weights[0]}, which acts through the weights;"
                " choose joint"
            )
        return config

    @classmethod
    def from_preset(
        cls,
        settings: Mapping[str, Any],
        preset: str | None = None,
        *,
        paper: bool = False,
    ) -> Self:
        """The preset's values, overridden by settings. preset: None uses the preset of
        the dataset, if there is one.

        paper: use the paper's algorithm `hba`, unless the settings name another one of
        the paper's.
        """
        given = flattened(
            resolved_data(
                {**({"algorithm": Hypergradient.name} if paper else {}), **settings}
            )
        )
        kind = cls.find_algorithm(given)
        if paper and kind not in PAPER_ALGORITHMS.values():
            names = ", ".join(PAPER_ALGORITHMS)
            raise SettingsError(
                f"with paper, algorithm must be one of the paper's ({names}), got"
                f" {kind.name!r}"
            )
        data = given.get("data") or (
            find_preset(preset)["data"] if preset else "digits"
        )
        preset = preset or (
            DEFAULT_PRESETS.get(data) if isinstance(data, str) else None
        )
        values = values_of(preset, SEARCH_PRESETS, data, given) if preset else {}
        replaced = {
            *CommonSearchConfig.model_fields,
            *(kind.model_fields if kind.has_presets else ()),
        }
        chosen = {name: value for name, value in values.items() if name in replaced}
        return cls.make({**chosen, "data": data, **given})

    def resolved(self) -> Self:
        """The same settings with explicit image size, standardization and baseline, and
        numbers for `half`.
        """
        return (
            super()
            .resolved()
            .model_copy(update={"algorithm": self.algorithm.resolved(self.batch_size)})
        )


Config = TypeVar("Config", bound=AlgorithmConfig)


def from_config(
    kind: type[Config],
    path: Path,
    settings: Mapping[str, Any],
    own: Collection[str] = (),
    *,
    resume: bool = False,
    in_memory: bool = False,
) -> Config:
    """The settings of the run whose config.json, or folder, is at path, overridden by
    the given settings.

    own: settings that an object replaces. resume: whether to resume this run, so that
    only settings in MAY_CHANGE can differ. in_memory: whether the images of a new run
    are in memory, so that the earlier split does not apply. Raises RunError if the file
    cannot be read, and SettingsError for contradicting settings and for missing
    objects.
    """
    file, given = (
        path / CONFIG_NAME if path.is_dir() else path,
        flattened(resolved_data(settings)),
    )
    algorithm = given.get("algorithm")
    try:
        content = json.loads(read_text(file))
        earlier = kind.from_file(
            content, algorithm if isinstance(algorithm, type) else None
        )
        components = content.get(OWN, ())
    except (ValueError, TypeError, AttributeError, OSError, RecursionError) as error:
        unread = f"{file} cannot be read as settings of a search: {reason_of(error)}"
        raise RunError(of_several_seeds(file.parent) or unread) from None
    if {*components} - {*own, *(() if resume else given)} or (
        resume and {*own} - {*components}
    ):
        had, got = (
            " and ".join(one).replace("model", "network") or "nothing"
            for one in (components, own)
        )
        raise SettingsError(
            f"the search of {file} used {had} of your own, got {got}; give the same"
            " objects in Python"
        )
    before, name = (
        earlier.flat(),
        getattr(algorithm, "name", algorithm) or earlier.algorithm.name,
    )
    if resume:
        config = earlier.changed(
            {one: value for one, value in given.items() if one != "algorithm"}
        ).resolved()
        now = {**config.flat(), "algorithm": name}
        for one in sorted(given.keys() - {*MAY_CHANGE}):
            if before[one] != now[one]:
                change = (
                    f"{path} has {one} {reprlib.repr(before[one])} (given"
                    f" {reprlib.repr(now[one])})"
                )
                raise SettingsError(f"a resumed run keeps its settings; {change}")
        return config
    taken = of_earlier_run(before, given, has_own_network="model" in own)
    of_data = DataConfig.model_fields if in_memory else ()
    of_algorithm = (
        type(earlier.algorithm).model_fields if name != earlier.algorithm.name else ()
    )
    taken = {
        one: value
        for one, value in taken.items()
        if one not in {*of_data, *of_algorithm}
    }
    return kind.make(
        {**taken, "algorithm": type(earlier.algorithm), **given}
    ).resolved()
