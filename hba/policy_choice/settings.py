"""The settings of a run's search and trainings, in layers that override the ones
before.

    search      defaults of a search, those of its algorithm in `hba auto`, settings of
                the run (of the user, the plan and the chosen network)
    trainings   settings of the search, the images of the run, the current number of
                epochs, settings of the user for the test only
"""

from collections.abc import Mapping, Set
from typing import Any

from hba.config.evaluation import EvaluationConfig
from hba.policy_choice.record import AutoRecord
from hba.policy_choice.run import AutoRun
from hba.policy_search.config import SearchConfig, flattened, from_config
from hba.policy_search.search import custom_components
from hba.results.run import CONFIG_NAME, SEARCH_FOLDER


def search_cost(
    settings: Mapping[str, Any],
    budget_seconds: float,
    n_jobs: int,
    *,
    has_own_space: bool = False,
) -> float:
    """The time of the search of a run, in trainings.

    Args:
        settings: Settings that the user gives.
        budget_seconds: The time of the run.
        n_jobs: How many trainings run at a time.
        has_own_space: Whether the user gives a search space.
    """
    flat = flattened(settings)
    algorithm_class = SearchConfig.find_algorithm(flat)
    defaults = algorithm_class.settings_in_auto(
        budget_seconds, _given(flat, has_own_space=has_own_space)
    )
    of_algorithm = {
        name: value
        for name, value in {**defaults, **flat}.items()
        if name in algorithm_class.model_fields
    }
    return algorithm_class(**of_algorithm).cost(n_jobs)


def search_config(record: AutoRecord, settings: Mapping[str, Any]) -> SearchConfig:
    """The settings of a search on the data of a run, with the defaults of a search.

    Args:
        record: The record of the run.
        settings: Settings of the run, which may be those of a candidate.
    """
    return SearchConfig.from_preset({**settings, "data": record.data}).resolved()


def settings_of_new_search(run: AutoRun) -> dict[str, Any]:
    """The settings with which the search of a run begins, as hba.search takes them."""
    record = run.record
    algorithm_class = SearchConfig.find_algorithm(record.settings)
    given = _given(record.settings, has_own_space=run.space is not None)
    defaults = algorithm_class.settings_in_auto(record.budget_seconds, given)
    return {**defaults, **record.settings}


def _given(settings: Mapping[str, Any], *, has_own_space: bool) -> Set[str]:
    """The names of settings, with that of a search space."""
    return {*settings, "space"} if has_own_space else {*settings}


def read_search_config(run: AutoRun) -> SearchConfig:
    """The settings that the search of a run has stored, or those that it would have.

    Raises:
        SettingsError: If the network or the search space was the user's own, and is
            missing.
    """
    folder = run.folder / SEARCH_FOLDER
    if not (folder / CONFIG_NAME).exists():
        return search_config(run.record, run.record.settings)
    components = custom_components(run.network, run.space)
    return from_config(SearchConfig, folder, {}, components, resume=True)


def training_config(
    run: AutoRun,
    searched: SearchConfig,
    settings: Mapping[str, Any],
    n_images: int,
) -> EvaluationConfig:
    """The settings of trainings.

    Args:
        run: The run.
        searched: The settings of a search with the same network and images.
        settings: Settings of the run, which may be those of a candidate.
        n_images: Number of images for training and validation.
    """
    has_own_val = run.images.has_own_val(searched)
    replaced = {"train_size", "val_size"}
    if run.network is not None:
        replaced.add("model")
    of_search = searched.flat()
    values = {
        name: of_search[name]
        for name in {*EvaluationConfig.model_fields} - replaced
        if name in of_search
    }
    train_size = settings.get("train_size")
    if train_size and not has_own_val:
        # No validation images in addition to a part of the training images.
        train_size = n_images
    of_test = {
        name: value for name, value in run.record.of_test.items() if name != "against"
    }
    return EvaluationConfig.make(
        {
            **values,
            "data": run.record.data,
            "train_size": train_size,
            "with_val": has_own_val and train_size is None,
            # Trainings after a search may have fewer epochs than it had.
            "epochs": settings.get("epochs", values["epochs"]),
            **of_test,
        }
    )
