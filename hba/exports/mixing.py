"""What exports say about Mixup and CutMix, which act on batches with labels and are not
in a file for single images.
"""

from hba.schedule.mixing import LEAST_ALPHA, Mixing
from hba.schedule.schedule import Schedule

USAGE = """
{names} mix batches with labels, so this file leaves them out. Mix in the training loop,
with n classes{mean}:

    mix = v2.RandomChoice([{mixes}, v2.Identity()], p=[{shares}])
    images, labels = mix(images, labels)

or the same by timm:

    mix = timm.data.Mixup({timm}, label_smoothing=0.0, num_classes=n)

or by hba, epoch by epoch: schedule.batch_transform(n).
"""


def _mean_shares(schedule: Schedule) -> dict[str, tuple[float, float]]:
    """The share of batches and alpha of MixUp and CutMix, means over epochs; without
    those that mix no batches.
    """
    mean = Mixing.of(schedule.space, schedule.averaged().values[0])
    mixup, mixup_alpha, cutmix, cutmix_alpha = (
        float(value) for value in vars(mean).values()
    )
    shares = {
        "MixUp": (mixup, mixup_alpha),
        "CutMix": ((1 - mixup) * cutmix, cutmix_alpha),
    }
    return {
        name: (share, alpha)
        for name, (share, alpha) in shares.items()
        if share > 0 and alpha >= LEAST_ALPHA
    }


def mixing_note(schedule: Schedule) -> str:
    """One line about the mixing that is left out; empty if the schedule has none."""
    shares = _mean_shares(schedule).items()
    names = " and ".join(
        f"{name} ({share:.1%} of batches, alpha {alpha:.3g})"
        for name, (share, alpha) in shares
    )
    return names and f"{names}; mix batches with schedule.batch_transform(n_classes)"


def mixing_usage(schedule: Schedule) -> str:
    """How to mix with torchvision and timm, for the head of a file; empty for a
    schedule without mixing.
    """
    shares = _mean_shares(schedule)
    if not shares:
        return ""
    together = sum(share for share, _ in shares.values())
    _, mixup_alpha = shares.get("MixUp", (0.0, 0.0))
    cutmix_share, cutmix_alpha = shares.get("CutMix", (0.0, 0.0))
    probabilities = [*(share for share, _ in shares.values()), 1 - together]
    return USAGE.format(
        names=" and ".join(shares),
        mean=" and the means over epochs" if schedule.epochs > 1 else "",
        mixes=", ".join(
            f"v2.{name}(alpha={alpha:.4g}, num_classes=n)"
            for name, (_, alpha) in shares.items()
        ),
        shares=", ".join(f"{probability:.4f}" for probability in probabilities),
        timm=(
            f"{mixup_alpha:.4g}, {cutmix_alpha:.4g}, prob={together:.4f},"
            f" switch_prob={cutmix_share / together:.4f}"
        ),
    )
