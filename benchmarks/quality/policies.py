"""Fixed policies of the searched space, around RandAugment's: what each is worth over a whole training can be measured,
and so what a search's rewards say of them can be held against it.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from hba.algorithms.lambda_optimizers import SHARED, directions
from hba.policy.spaces import search_space
from hba.policy.starts import randaugment
from hba.schedule.schedule import Schedule
from hba.training.augmentation import ScheduleAugmentation
from quality.tasks import LEFT_OUT, without

REFERENCE = "randaugment"
"""What all others are compared with."""
SPACE = search_space(searches_count=True)
GEOMETRIC, COLOUR = (
    tuple(operation.name for operation in SPACE.operations if operation.uses_fill is is_geometric)
    for is_geometric in (True, False)
)
"""The two kinds that shared coordinates tell apart."""
DIGITS_KEPT = 6
"""Of values, so that a policy is the same whatever machine it was worked out on."""


@dataclass(frozen=True)
class FixedPolicy:
    """What differs from RandAugment's policy. text: what it is, in one line. geometric, colour: how much stronger
    magnitudes of that kind are, in logits. never: operations that never fire. count: K for every image; None leaves it
    RandAugment's.
    """

    text: str
    geometric: float = 0.0
    colour: float = 0.0
    never: Sequence[str] = ()
    count: int | None = None


POLICIES: Mapping[str, FixedPolicy] = MappingProxyType(
    {
        REFERENCE: FixedPolicy("RandAugment's own, where a search can begin"),
        "unchanged": FixedPolicy("K always 0: no operation", count=0),
        "one": FixedPolicy("K always 1", count=1),
        "two": FixedPolicy("K always 2", count=2),
        "three": FixedPolicy("K always 3", count=3),
        "milder": FixedPolicy("all magnitudes milder by a logit", geometric=-1, colour=-1),
        "stronger": FixedPolicy("all magnitudes stronger by a logit", geometric=1, colour=1),
        "geometric-milder": FixedPolicy("geometric magnitudes milder by a logit", geometric=-1),
        "geometric-stronger": FixedPolicy("geometric magnitudes stronger by a logit", geometric=1),
        "geometric-strongest": FixedPolicy("geometric magnitudes stronger by two logits", geometric=2),
        "colour-milder": FixedPolicy("colour magnitudes milder by a logit", colour=-1),
        "colour-stronger": FixedPolicy("colour magnitudes stronger by a logit", colour=1),
        "colour-only": FixedPolicy("colour operations alone", never=GEOMETRIC),
        "geometric-only": FixedPolicy("geometric operations alone", never=COLOUR),
        "geometric-only-stronger": FixedPolicy("these, stronger by a logit", geometric=1, never=COLOUR),
        "geometric-only-strongest": FixedPolicy("these, stronger by two logits", geometric=2, never=COLOUR),
        "geometric-only-three": FixedPolicy("geometric operations alone, K always 3", never=COLOUR, count=3),
        **{
            name: FixedPolicy(f"without {', '.join(operations)}", never=operations)
            for name, operations in LEFT_OUT.items()
        },
    }
)


def schedule_of(name: str, fill: tuple[float, ...]) -> Schedule:
    """The policy of that name throughout. fill: the colour of what operations uncover."""
    policy, shared = POLICIES[name], directions(SPACE).double()
    logits = randaugment(SPACE).double()
    logits += policy.geometric * shared[SHARED.index("geometric magnitudes")]
    logits += policy.colour * shared[SHARED.index("colour magnitudes")]
    values = SPACE.decode(logits)
    if policy.count is not None:
        for k in range(1, SPACE.max_count + 1):
            values[SPACE.names.index(f"count.{k}.probability")] = float(k <= policy.count)
    return without(Schedule(SPACE, values.round(decimals=DIGITS_KEPT)[None].numpy(), fill), policy.never)


@functools.cache
def definition_of(name: str) -> str:
    """Another for every policy, whatever it is called."""
    return ScheduleAugmentation(schedule_of(name, (0.5,))).definition
