"""The row of our space that applies operations as often as a policy of another kind does.

    symbol      meaning                                                                        shape
    w           wanted: how often an image gets each slot, half of its operation's rate        (n_slots,)
    N_s         wanted: how likely an image gets s operations or more, s = 1, ..., S           (S,)
    p           probabilities of the slots                                                     (n_slots,)
    F_s         how likely s slots or more fire, by p                                          (S,)
    T_s         how likely K is s or more                                                      (S,)
    r           how often an image gets each slot, by p and T (hba/policy/rates.py)            (n_slots,)

An image gets s operations or more where K allows them and so many fire, so N_s = T_s F_s. The fit goes round

    T_s = min(T_{s-1}, N_s / F_s),      p_i <- p_i w_i / r_i,      p <- top p / max p,

until r = w. A common factor of all p is left open: `top`, the largest of them, is the first of TOPS that will do. Lower
ones leave a search that begins there more room; where few operations are wanted often, only 1 will do. Where none does,
as for an operation that an image always gets three times from two slots, the nearest is taken.
"""

from typing import NamedTuple

import numpy as np

from hba.policy.rates import Floats, applied, fired_at_least

TOPS = (0.5, 0.7, 0.85, 0.95, 0.99, 1.0)
TOLERANCE = 1e-6
"""Of a rate."""
N_ROUNDS = 300


class Fit(NamedTuple):
    """probabilities: p (n_slots,). reached: T (S,). rates: r (n_slots,)."""

    probabilities: Floats
    reached: Floats
    rates: Floats

    def error(self, wanted: Floats) -> float:
        """The largest difference of a slot's rate to the wanted one."""
        return float(np.abs(self.rates - wanted).max())


def fitted(wanted: Floats, at_least: Floats) -> Fit:
    """wanted: w. at_least: N, not above 1 and not rising; S is at most n_slots."""
    best: Fit | None = None
    for top in TOPS:
        found = _fitted_below(top, wanted, at_least)
        if best is None or found.error(wanted) < best.error(wanted):
            best = found
        if best.error(wanted) < TOLERANCE:
            break
    assert best is not None
    return best


def _fitted_below(top: float, wanted: Floats, at_least: Floats) -> Fit:
    probabilities = top * wanted / wanted.max()
    for _ in range(N_ROUNDS):
        fit = _of(probabilities, at_least)
        if fit.error(wanted) < TOLERANCE:
            break
        moved = probabilities * wanted / np.maximum(fit.rates, np.finfo(float).tiny)
        probabilities = np.minimum(1.0, top * moved / moved.max())
    return fit


def _of(probabilities: Floats, at_least: Floats) -> Fit:
    """What these probabilities come to, with the K that suits them."""
    fired = fired_at_least(probabilities)[1 : len(at_least) + 1]
    reached = np.minimum.accumulate(np.minimum(1.0, at_least / fired))
    return Fit(probabilities, reached, applied(probabilities, 1 - reached).sum(axis=0))
