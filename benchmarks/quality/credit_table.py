"""Rewards held against the truth: what policies are worth over a whole training."""

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import Any

import pandas as pd
from common.records import Record
from common.tables import NOTHING, difference, difference_text, frame_of, spread_text
from scipy.stats import spearmanr

from quality.credit import REWARDS
from quality.error_tables import ERROR
from quality.kept import grouped
from quality.policies import POLICIES, REFERENCE, definition_of
from quality.variants import REWARD, VARIANTS


def of_credit(records: Iterable[Record]) -> list[list[Record]]:
    """By bed and length, those by the policies of now, as far as there are rewards and RandAugment's training."""
    groups = grouped(record for record in records if _is_current(record))
    return [group for group in groups if {REWARDS, REFERENCE} <= {record.run.name for record in group}]


def policy_table(group: Sequence[Record]) -> pd.DataFrame:
    """A row for each policy: validation error minus that of RandAugment's policy with the same seed, and by place of
    the training the mean reward minus that of RandAugment's policy, in its standard errors.
    """
    runs = frame_of(one for one in group if one.run.name != REWARDS)
    places = list(zip(*(record.results["places"] for record in _of_rewards(group)), strict=True))
    return pd.DataFrame(
        {
            "policy": name,
            "what it is": policy.text,
            "seeds": str(int((runs["name"] == name).sum())),
            "error minus RandAugment's": NOTHING
            if name == REFERENCE
            else difference_text(difference(runs, name, REFERENCE, ERROR)),
            **{f"{of_seeds[0]['place']:g}": _in_standard_errors(name, of_seeds) for of_seeds in places},
        }
        for name, policy in POLICIES.items()
    )


def variant_table(group: Sequence[Record]) -> pd.DataFrame:
    """A row for each variant: Spearman's correlation over policies of its reward, summed over the places and weighed by
    their learning rates, with how much lower than RandAugment's the error is; of the mean over seeds, and mean ±
    standard deviation of those of single seeds' rewards.
    """
    gains, of_seeds = _gains(group), _of_rewards(group)
    rows = []
    for name, text in VARIANTS.items():
        sums = [_summed(record, name) for record in of_seeds]
        together = {policy: fmean(one[policy] for one in sums) for policy in POLICIES}
        single = [found for one in sums if (found := _correlation(one, gains)) is not None]
        correlation = _correlation(together, gains)
        rows.append(
            {
                "reward": name,
                "what it is": text,
                "correlation": NOTHING if correlation is None else f"{correlation:+.2f}",
                "of single seeds": spread_text(single) if single else NOTHING,
                "policies": str(len(gains)),
                "seeds": str(len(of_seeds)),
            }
        )
    return pd.DataFrame(rows)


def _is_current(record: Record) -> bool:
    further = record.run.further
    if record.run.name == REWARDS:
        return bool(further["policies"] == {name: definition_of(name) for name in POLICIES})
    return bool(further["policy"] == definition_of(record.run.name))


def _of_rewards(group: Sequence[Record]) -> list[Record]:
    """One for each seed."""
    return [record for record in group if record.run.name == REWARDS]


def _in_standard_errors(policy: str, of_seeds: Sequence[Mapping[str, Any]]) -> str:
    """of_seeds: what was found at one place of the training, by seed. The error is that of images and draws, for just
    these networks.
    """
    found = [place["rewards"][REWARD]["policies"][policy] for place in of_seeds]
    error = math.hypot(*(one["standard_error"] for one in found))
    return f"{math.fsum(one['difference'] for one in found) / error:+.1f}" if error else NOTHING


def _gains(group: Sequence[Record]) -> dict[str, float]:
    """By how many points a policy's validation error is lower than RandAugment's, in trainings of the same seeds."""
    runs = frame_of(record for record in group if record.run.name != REWARDS)
    found = {name: difference(runs, name, REFERENCE, ERROR) for name in POLICIES}
    return {name: -one.mean for name, one in found.items() if one is not None}


def _summed(record: Record, variant: str) -> dict[str, float]:
    """By policy, the mean reward minus RandAugment's over the whole training."""
    return {
        policy: math.fsum(
            place["learning_rate"] * place["rewards"][variant]["policies"][policy]["difference"]
            for place in record.results["places"]
        )
        for policy in POLICIES
    }


def _correlation(rewards: Mapping[str, float], gains: Mapping[str, float]) -> float | None:
    """Over the policies whose gain is known; None where either are all equal."""
    columns = [[of[policy] for policy in gains] for of in (rewards, gains)]
    if any(len(set(column)) < 2 for column in columns):
        return None
    return float(spearmanr(*columns).statistic)
