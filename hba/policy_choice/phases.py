"""The phases of a run of `hba auto`, in order. A new one is a file and an entry."""

from hba.policy_choice import (
    contest_phase,
    evaluation_phase,
    network_phase,
    search_phase,
)
from hba.policy_choice.run import Phase

PHASES = (
    Phase(
        network_phase.NAME,
        trainings=network_phase.trainings_of_networks,
        do=network_phase.choose_network,
    ),
    Phase(
        search_phase.NAME,
        trainings=search_phase.trainings_of_search,
        do=search_phase.search_policy,
    ),
    Phase(
        contest_phase.NAME,
        trainings=contest_phase.trainings_of_contest,
        do=contest_phase.hold_contest,
    ),
    Phase(
        evaluation_phase.NAME,
        trainings=evaluation_phase.trainings_of_test,
        do=evaluation_phase.evaluate_chosen_row,
        can_continue=True,
    ),
)
