"""An earlier evaluation's results.json, and whether this evaluation may resume it."""

from collections.abc import Sequence
from pathlib import Path

import torch

from hba.config.evaluation import EvaluationConfig
from hba.errors import HbaError, RunError, SettingsError
from hba.policy_evaluation.contenders import Contender
from hba.report.results import Results, read_results

FREE_SETTINGS = ("seeds", "data_root", "download", "workers", "pretrained")
"""Settings that may differ when an evaluation is resumed: they do not change what a training finds. Weights may be
elsewhere, which are known by their hash."""


def results_to_resume(path: Path) -> Results:
    """RunError where there is no such file, or not one that this version can resume."""
    if not path.exists():
        raise RunError(f"{path.parent} holds no evaluation to resume: there is no {path.name} in it")
    return read_results(path, "cannot be resumed", "; choose another --out")


def check_settings(stored: Results, config: EvaluationConfig, folder: Path) -> None:
    """SettingsError for a setting that is not the stored one, and for fewer seeds."""
    replaced = () if stored.own_network is None else ("model",)
    try:
        # Without a model where the network was the user's own.
        before = EvaluationConfig.make({name: value for name, value in stored.settings.items() if name not in replaced})
    except HbaError as error:
        raise RunError(f"{folder} cannot be resumed: its settings are refused ({error})") from None
    names = [name for name in EvaluationConfig.model_fields if name not in (*FREE_SETTINGS, *replaced)]
    changed = [name for name in names if getattr(before, name) != getattr(config, name)]
    if changed:
        found = ", ".join(f"{name} {getattr(before, name)!r} (now {getattr(config, name)!r})" for name in changed)
        raise SettingsError(f"a resumed evaluation keeps its settings; {folder} has {found}")
    if config.seeds < before.seeds:
        raise SettingsError(
            f"a resumed evaluation may have more seeds, not fewer; {folder} has {before.seeds} (now {config.seeds})"
        )


def check_network(stored: Results, now: str | None, folder: Path) -> None:
    """SettingsError for another network of the user's own, and for one in the place of a model or the reverse.

    now: the definition of the network, None for a model by name.
    """
    if stored.own_network != now:
        names = [name or "a model by name" for name in (stored.own_network, now)]
        raise SettingsError(
            f"a resumed evaluation keeps its network; {folder} has {names[0]} (now {names[1]}): give the network as it "
            "was, or start anew with another --out"
        )


def check_pretrained(stored: Results, sha256: str | None, folder: Path) -> None:
    """SettingsError for other pretrained weights than the stored ones. sha256: of those of now, None for none."""
    if stored.pretrained != sha256:
        before, now = (one or "none" for one in (stored.pretrained, sha256))
        raise SettingsError(
            f"a resumed evaluation keeps its pretrained weights; {folder} has {before} (now {now}): give them as they "
            "were, or start anew with another --out"
        )


def check_rows(stored: Results, contenders: Sequence[Contender], folder: Path) -> None:
    """SettingsError unless the stored rows are the first of these, and train with the same."""
    names, now = [row.name for row in stored.rows], [contender.name for contender in contenders]
    if names != now[: len(names)]:
        raise SettingsError(
            f"a resumed evaluation keeps its rows, and new ones come last; {folder} has {', '.join(names)} "
            f"(now {', '.join(now)})"
        )
    for row, contender in zip(stored.rows, contenders, strict=False):
        if row.definition != contender.definition:
            raise SettingsError(
                f"the row {row.name} is not what it was when {folder} was begun; resume with the "
                "old one, or start anew with another --out"
            )


def check_device(stored: Results, device: torch.device, folder: Path | None) -> None:
    """SettingsError for another kind of device: rows would differ by it."""
    before = torch.device(stored.device).type
    if before != device.type:
        raise SettingsError(
            f"a resumed evaluation keeps its kind of device; {folder} has {before} (now {device.type}); resume there, "
            "or start anew with another --out"
        )


def check_images(stored: Results, split: str, fingerprint: str, folder: Path) -> None:
    """RunError unless the images of a split are the stored ones."""
    before = stored.fingerprints.get(split)
    if before != fingerprint:
        raise RunError(
            f"the {split} images changed since {folder} was begun ({before}, now {fingerprint}); resume with the "
            "old ones, or start anew with another --out"
        )
