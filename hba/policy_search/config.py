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
from hba.operations.operation import COMMON_CHANNELS, MIXING
from hba.policy.space import SearchSpace
from hba.policy.spaces import search_space
from hba.regularization.groups import AUGMENTATION, REGULARIZERS
from hba.regularization.regularizer import Hyperparameter
from hba.results.run import CONFIG_NAME, OWN
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
        """The class that the setting `algorithm` names, or is.

        Args:
            settings: Flat settings.

        Raises:
            SettingsError: If it is no algorithm, or has the name of another.
        """
        value = settings.get("algorithm", cls.default_algorithm(settings))
        algorithm_class = cls.algorithms.get(value) if isinstance(value, str) else value
        if not (
            isinstance(algorithm_class, type) and issubclass(algorithm_class, Algorithm)
        ):
            names = ", ".join(map(repr, cls.algorithms))
            raise SettingsError(
                f"algorithm must be one of {names}, or an hba.algorithms.Algorithm, got"
                f" {value!r}"
            )
        name = getattr(algorithm_class, "name", None)
        if (
            not isinstance(name, str)
            or cls.algorithms.get(name, algorithm_class) is not algorithm_class
        ):
            raise SettingsError(
                f"algorithm {algorithm_class.__name__} must have its own name"
                f" (name = 'mine'), got {name!r}"
            )
        return algorithm_class

    @classmethod
    def make(cls, settings: Mapping[str, Any]) -> Self:
        """Check flat settings, including those of the algorithm.

        Args:
            settings: The settings. `algorithm` is a name, an Algorithm of
                hba.algorithms or your own, or the class of one.

        Raises:
            SettingsError: With a message of one line.
        """
        flat = flattened(settings)
        return cls._of_algorithm(cls.find_algorithm(flat), flat)

    @classmethod
    def _of_algorithm(
        cls, algorithm_class: type[Algorithm], given: Mapping[str, Any]
    ) -> Self:
        """Check flat settings of a search with this algorithm."""
        settings = {**cls.defaults_with(algorithm_class), **given}
        able = algorithm_class.model_fields.keys() - {*cls.idle, *algorithm_class.idle}
        common = {name: value for name, value in settings.items() if name not in able}
        for name in [name for name in common if name not in cls.model_fields]:
            if name in ALGORITHM_SETTINGS:
                raise SettingsError(
                    f"{name} has no effect on the algorithm {algorithm_class.name};"
                    " remove it"
                )
            valid_names = (*cls.model_fields, *able, *sorted(ALGORITHM_SETTINGS))
            raise SettingsError(
                f"there is no setting {name}{did_you_mean(name, valid_names)}"
            )
        algorithm = algorithm_class.make(
            {name: value for name, value in settings.items() if name in able}
        )
        config = super().make({**common, "algorithm": algorithm})
        algorithm.check(config)  # type: ignore[arg-type]
        config.check_algorithm()
        return config

    @classmethod
    def defaults_with(cls, algorithm_class: type[Algorithm]) -> dict[str, Any]:
        """Defaults that depend on the algorithm."""
        return {}

    def check_algorithm(self) -> None:
        """Raise SettingsError if the settings contradict what the algorithm can do."""

    @classmethod
    def from_file(
        cls, stored: Mapping[str, Any], algorithm: type[Algorithm] | None = None
    ) -> Self:
        """The settings from the config.json of a run.

        Args:
            stored: The content of the file.
            algorithm: The class of its algorithm, if that is your own.
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
    """Replace an algorithm object by its class and the settings given to it."""
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
        self,
        regularizers: tuple[Hyperparameter, ...] = (),
        *,
        can_mix: bool = True,
        n_channels: int = 3,
    ) -> SearchSpace:
        """The search space.

        Args:
            regularizers: Hyperparameters tuned besides operations.
            can_mix: Whether the labels can be mixed.
            n_channels: Of the images, whose other operations are left out by default.
        """
        if regularizers and not self.tunes_operations:
            return SearchSpace(
                (), count_probabilities=(1.0,), regularizers=regularizers
            )
        searches_count = self.algorithm.count == "searched"
        names = self.space, self.operations, self.interpolation
        space = search_space(*names, searches_count, regularizers, self.ranges)
        named_operations = {*(self.operations or ())}
        can_mix_batches = self.algorithm.can_mix and can_mix
        named = {operation.name for operation in space.mixing} & named_operations
        if named and not can_mix_batches:
            subject = self.algorithm.name if can_mix else "a search with these labels"
            remedy = "choose race" if can_mix else "leave it out"
            raise SettingsError(
                f"{subject} cannot search {min(named)}, which mixes batches; {remedy}"
            )
        is_common = n_channels in COMMON_CHANNELS
        operations = tuple(
            operation
            for operation in space.operations
            if (can_mix_batches or operation.stage != MIXING)
            and (is_common or operation.any_channels or named_operations)
        )
        if operations == space.operations:
            return space
        return replace(space, operations=operations)

    @classmethod
    def defaults_with(cls, algorithm_class: type[Algorithm]) -> dict[str, Any]:
        return {"space": algorithm_class.default_space}

    def check_algorithm(self) -> None:
        name = self.algorithm.name
        if "weight-decay" in self.tune and self.optimizer not in SGDS:
            raise SettingsError(
                f"weight-decay can only be tuned with the optimizer {SGD}, got"
                f" {self.optimizer}"
            )
        if self.fast and not self.algorithm.can_be_fast:
            raise SettingsError(
                f"the algorithm {name} cannot be fast; omit fast, or choose lookahead"
            )
        on_images = {
            AUGMENTATION,
            *(
                regularizer.tuned_as
                for regularizer in REGULARIZERS.values()
                if regularizer.place == "inputs"
            ),
        }
        of_weights = [group for group in self.tune if group not in on_images]
        if of_weights and not self.algorithm.tunes_training:
            raise SettingsError(
                f"{name} cannot tune {of_weights[0]}, which acts through the weights;"
                " choose joint"
            )

    @classmethod
    def from_preset(
        cls,
        settings: Mapping[str, Any],
        preset: str | None = None,
        *,
        paper: bool = False,
    ) -> Self:
        """The values of a preset, overridden by settings.

        Args:
            settings: Flat settings.
            preset: Name of the preset; None for that of the dataset, if there is one.
            paper: Use the paper's algorithm `hba`, unless the settings name another one
                of the paper's.
        """
        flat = flattened(
            resolved_data(
                {**({"algorithm": Hypergradient.name} if paper else {}), **settings}
            )
        )
        algorithm_class = cls.find_algorithm(flat)
        if paper and algorithm_class not in PAPER_ALGORITHMS.values():
            names = ", ".join(PAPER_ALGORITHMS)
            raise SettingsError(
                f"with paper, algorithm must be one of the paper's ({names}), got"
                f" {algorithm_class.name!r}"
            )
        data = flat.get("data") or (find_preset(preset)["data"] if preset else "digits")
        preset = preset or (
            DEFAULT_PRESETS.get(data) if isinstance(data, str) else None
        )
        values = values_of(preset, SEARCH_PRESETS, data, flat) if preset else {}
        replaced = {
            *CommonSearchConfig.model_fields,
            *(algorithm_class.model_fields if algorithm_class.has_presets else ()),
        }
        chosen = {name: value for name, value in values.items() if name in replaced}
        return cls._of_algorithm(algorithm_class, {**chosen, "data": data, **flat})

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
    config_class: type[Config],
    path: Path,
    settings: Mapping[str, Any],
    replaced: Collection[str] = (),
    *,
    resume: bool = False,
    in_memory: bool = False,
) -> Config:
    """The settings of an earlier run, overridden by the given settings.

    Args:
        config_class: The class of the settings.
        path: The run's config.json, or its folder.
        settings: The given settings.
        replaced: Settings that an object replaces.
        resume: Whether to resume this run, so that only settings in MAY_CHANGE can
            differ.
        in_memory: Whether the images of a new run are in memory, so that the earlier
            split does not apply.

    Raises:
        RunError: If the file cannot be read.
        SettingsError: For contradicting settings and for missing objects.
    """
    file = path / CONFIG_NAME if path.is_dir() else path
    flat = flattened(resolved_data(settings))
    algorithm = flat.get("algorithm")
    earlier, components = _read_config(config_class, file, algorithm)
    if {*components} - {*replaced, *(() if resume else flat)} or (
        resume and {*replaced} - {*components}
    ):
        had, got = (
            " and ".join(names).replace("model", "network") or "nothing"
            for names in (components, replaced)
        )
        raise SettingsError(
            f"the search of {file} used {had} of your own, got {got}; give the same"
            " objects in Python"
        )
    name = getattr(algorithm, "name", algorithm) or earlier.algorithm.name
    if resume:
        return _resumed(earlier, flat, name, path)
    applicable = of_earlier_run(
        earlier.flat(), flat, has_own_network="model" in replaced
    )
    of_data = DataConfig.model_fields if in_memory else ()
    of_algorithm = (
        type(earlier.algorithm).model_fields if name != earlier.algorithm.name else ()
    )
    applicable = {
        setting: value
        for setting, value in applicable.items()
        if setting not in {*of_data, *of_algorithm}
    }
    return config_class.make(
        {**applicable, "algorithm": type(earlier.algorithm), **flat}
    ).resolved()


def _read_config(
    config_class: type[Config], file: Path, algorithm: object
) -> tuple[Config, Collection[str]]:
    """The settings in a file, and those for which the user passed an object.

    algorithm: the given setting, which may be the class of the earlier algorithm.
    Raises RunError if the file cannot be read.
    """
    try:
        content = json.loads(read_text(file))
        earlier = config_class.from_file(
            content, algorithm if isinstance(algorithm, type) else None
        )
        return earlier, content.get(OWN, ())
    except (ValueError, TypeError, AttributeError, OSError, RecursionError) as error:
        unread = f"{file} cannot be read as settings of a search: {reason_of(error)}"
        raise RunError(of_several_seeds(file.parent) or unread) from None


def _resumed(
    earlier: Config, given: Mapping[str, Any], algorithm_name: str, path: Path
) -> Config:
    """The settings of a run to resume.

    given: settings of the user, of which only those in MAY_CHANGE may differ. Raises
    SettingsError if others do.
    """
    changes = {name: value for name, value in given.items() if name != "algorithm"}
    config = earlier.changed(changes).resolved()
    before = earlier.flat()
    now = {**config.flat(), "algorithm": algorithm_name}
    for name in sorted(given.keys() - {*MAY_CHANGE}):
        if before[name] != now[name]:
            raise SettingsError(
                f"a resumed run keeps its settings; {path} has {name}"
                f" {reprlib.repr(before[name])} (given {reprlib.repr(now[name])})"
            )
    return config
