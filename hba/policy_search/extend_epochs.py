"""More epochs for a search that was begun with fewer.

Three things depend on the number of epochs: the learning rate of the weights, unless it is constant or waits for a
plateau; where sigma_end is set, the noise on
lambda; and, where warm_up_epochs is not set, the first lambda step. From the step at which a search is lengthened, all
are what they are at that step in a search of the new length; all before stays as it is. So the learning rate jumps up,
lambda may rest once more, and a lengthened search finds another schedule than one that was to be so long from the
beginning.
"""

import torch

from hba.algorithms import SearchState
from hba.algorithms.state import InnerModel
from hba.config.training import CommonSearchConfig
from hba.errors import SettingsError
from hba.policy_search.history import History
from hba.training.optim import WITHOUT_EPOCHS, optimizer_for


def extend_epochs(config: CommonSearchConfig, state: SearchState[InnerModel], history: History) -> str | None:
    """Give a restored search the epochs of config, where they are more than it was to have.

    One sentence says what that means, None where it means nothing. SettingsError where they are fewer.
    """
    if config.epochs < history.epochs:
        raise SettingsError(
            f"epochs must be at least the {history.epochs} that the run was to have, got {config.epochs}"
        )
    if config.epochs == history.epochs:
        return None
    learner, from_epochs, after_epochs = state.learner, history.epochs, len(history.rows)
    before = learner.learning_rate
    follows_epochs = config.learning_rate_schedule not in WITHOUT_EPOCHS
    if follows_epochs:
        _take_the_longer_schedule(config, state)
    note_longer(config.epochs, state.step, history)
    if state.step == 0:
        return None
    what = f"Lengthened from {from_epochs} to {config.epochs} epochs after {after_epochs}"
    if not follows_epochs:
        return f"{what}: the learning rate does not depend on their number."
    return (
        f"{what}: from here on the learning rate is that of {config.epochs} epochs ({before:.3g} -> "
        f"{learner.learning_rate:.3g}), so the schedule is not the one that so many epochs find from the beginning."
    )


def note_longer(epochs: int, step: int, history: History) -> None:
    """Note that the run has more epochs from that step on; before the first step, as if it always had."""
    from_epochs, after_epochs = history.epochs, len(history.rows)
    history.epochs = epochs
    if step:
        history.lengthened.append(
            {"from_epochs": from_epochs, "to_epochs": epochs, "at_epoch": after_epochs, "at_step": step}
        )


def _take_the_longer_schedule(config: CommonSearchConfig, state: SearchState[InnerModel]) -> None:
    """The learning rate that a search of config's epochs has at this step, and its schedule from there on."""
    optimizer = state.learner.optimizer
    # Walked there, because the schedules go from one rate to the next: so it is the longer search's to the last bit.
    groups = [{"params": [torch.zeros(1, requires_grad=True)]} for _ in optimizer.param_groups]
    stand_in, longer = optimizer_for(config, groups, state.steps_per_epoch)
    for _ in range(state.step):
        stand_in.step()
        longer.step()
    state.learner.schedule.load_state_dict(longer.state_dict())
    for group, of_longer in zip(optimizer.param_groups, stand_in.param_groups, strict=True):
        group["lr"] = of_longer["lr"]
