"""The run folder of a search: policy.json, config.json, metrics.csv, checkpoint.pt and the one before it, and
left_out.csv where files were left out; report.html and its images at the end. Every file is written whole.
"""

import contextlib
import csv
import io
import json
import zipfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import torch

from hba.algorithms import Algorithm
from hba.data.builtin import DATASET_NAMES
from hba.data.config import resolved_data
from hba.data.reading import SkippedFile, save_left_out
from hba.errors import DataError, RunError, SettingsError
from hba.policy_search.config import SearchConfig
from hba.policy_search.custom_components import check_same
from hba.policy_search.probes import PROBED
from hba.report.run import CONFIG_NAME, METRICS_NAME, OWN, POLICY_NAME
from hba.utils.files import read_text, reason_of, write_atomically, write_text

CHECKPOINT_VERSION = 9
OLDER_VERSION = 6
"""Of hba 0.1.0."""
STRUCTURE = "structure of the network"
"""In an identity: of a network of the user's own, which checkpoints of 0.1.0 do not tell."""
MAY_CHANGE = ("data", "classes", "data_root", "download", "workers", "device", "pretrained")
"""Where things are and what computes: a run keeps its images, their split, its pretrained weights and its kind of
device, which its checkpoint identifies, wherever it goes on."""
METRICS = (
    "epoch",
    "train_loss",
    "train_error_percent",
    "lambda_loss",
    "val_loss",
    "val_error_percent",
    *PROBED,
    "learning_rate",
    "seconds",
)


class Saved(NamedTuple):
    """What a run is resumed from, on the CPU: state by a checkpoint's version, and a note where it is not the last."""

    version: int
    state: dict[str, Any]
    note: str | None


class RunFolder:
    """Files of one run. The checkpoint alone decides how a run goes on; the other files can be made again from it."""

    columns: ClassVar[tuple[str, ...]] = METRICS
    """Of metrics.csv."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.policy = path / POLICY_NAME
        self.config = path / CONFIG_NAME
        self.metrics = path / METRICS_NAME
        self.checkpoint = path / "checkpoint.pt"
        self.checkpoint_before = path / "checkpoint_before.pt"

    def has_checkpoint(self) -> bool:
        return self.checkpoint.exists() or self.checkpoint_before.exists()

    def check_free(self) -> None:
        """RunError where the folder already holds a run that has found something."""
        if self.has_checkpoint():
            raise RunError(f"{self.path} already holds a run: add --resume to resume it, or choose another --out")
        if self.policy.exists():
            raise RunError(f"{self.path} already holds a schedule, {self.policy.name}: choose another --out")

    def write_config(self, config: SearchConfig, left_out: Sequence[SkippedFile] = (), own: Sequence[str] = ()) -> None:
        """Write the settings, and the files that are left out. own: settings that something of the user's replaces."""
        content = {**config.flat(), **({OWN: list(own)} if own else {})}
        write_text(self.config, json.dumps(content, indent=2) + "\n")
        save_left_out(self.path, left_out)

    def stored_config(self, settings: Mapping[str, Any], own: Collection[str] = ()) -> SearchConfig:
        """The settings of the run in this folder, with those given now that may change, and with more epochs.

        own: settings in whose place something of the user's is now. SettingsError if that, or any other setting, is not
        as it was, and for fewer epochs.
        """
        if not self.config.exists():
            raise RunError(f"{self.path} holds no run to resume: there is no {self.config.name} in it")
        given = by_name(resolved_data(settings))
        try:
            config = read_config(self.config, own_kind(settings))
        except (ValueError, OSError, RecursionError) as error:
            raise RunError(
                f"{self.config} cannot be read: {reason_of(error)}; put the settings back, or start anew with another "
                "--out"
            ) from None
        check_same(self.config, own)
        if given.get("algorithm", config.algorithm.name) != config.algorithm.name:
            raise SettingsError(
                f"a resumed run keeps its settings; {self.path} has algorithm {config.algorithm.name!r} "
                f"(given {given['algorithm']!r})"
            )
        now = config.changed({name: value for name, value in given.items() if name != "algorithm"}).with_numbers()
        before, asked = config.flat(), now.flat()
        changed = [
            name
            for name in given
            if name != "epochs"
            and _compared(before[name]) != _compared(asked[name])
            and not _may_change(name, before[name], asked[name])
        ]
        if changed:
            differences = ", ".join(f"{name} {_shown(before[name])} (given {_shown(asked[name])})" for name in changed)
            raise SettingsError(f"a resumed run keeps its settings; {self.path} has {differences}")
        if now.epochs < config.epochs:
            raise SettingsError(
                f"a resumed run can get more epochs, not fewer; {self.path} has {config.epochs} (given {now.epochs})"
            )
        if now.data not in DATASET_NAMES and "data" not in settings and not Path(now.data).exists():
            raise DataError(
                f"the images of {self.path} are no longer in {now.data}; name the folder where they are now, as in "
                f"hba search DIR --out {self.path} --resume, or give them again where they were in memory"
            )
        return now

    def save_checkpoint(self, state: dict[str, Any], identity: Mapping[str, str]) -> None:
        """identity: what must be the same when the run goes on, by a name that a person understands."""
        content = {"version": CHECKPOINT_VERSION, "identity": dict(identity), "state": state}
        # Through memory, because torch.save reports a full disk in words that nobody understands.
        buffer = io.BytesIO()
        torch.save(content, buffer)
        write_atomically(self.checkpoint, lambda file: file.write(buffer.getbuffer()), before=self.checkpoint_before)

    def load_checkpoint(self, identity: Mapping[str, str]) -> Saved | None:
        """What was saved; None where the run ended before its first save. The one before is taken for a broken file.

        RunError where that is broken too, for a file of another version, and for an identity that changed since.
        """
        if not self.has_checkpoint():
            return None
        content, note = self._readable_checkpoint()
        if not isinstance(content, dict) or content.get("version") not in (OLDER_VERSION, CHECKPOINT_VERSION):
            raise RunError(
                f"{self.checkpoint} must be a checkpoint of version {OLDER_VERSION} or {CHECKPOINT_VERSION}, which "
                "this version of hba can resume; resume it with the version that began it, or start anew with another "
                "--out"
            )
        stored = content["identity"]
        for name, value in identity.items():
            if stored.get(name) != value and (name in stored or name != STRUCTURE):
                raise RunError(
                    f"the {name} changed since {self.path} was begun ({stored.get(name)}, now {value}); "
                    "resume with the old one, or start anew with another --out"
                )
        if note is not None:
            # It must not take the place of the one that can be read when the next is saved.
            with contextlib.suppress(OSError):
                self.checkpoint.replace(self.checkpoint.with_name("checkpoint_broken.pt"))
        return Saved(content["version"], content["state"], note)

    def _readable_checkpoint(self) -> tuple[Any, str | None]:
        """The content of the last one that can be read, and a note where that is the one before."""
        broken = []
        for path in (self.checkpoint, self.checkpoint_before):
            try:
                # PyTorch does not look at the checksums of its files.
                with zipfile.ZipFile(path) as parts:
                    if damaged := parts.testzip():
                        raise ValueError(f"wrong checksum of {damaged}")
                content = torch.load(path, map_location="cpu", weights_only=True)
            except MemoryError:
                raise
            except PermissionError as error:
                raise RunError(f"{path} cannot be read: {error.strerror}") from None
            except Exception as error:
                # A broken file makes the reader fail in any way it likes.
                broken.append(f"{path} cannot be read ({reason_of(error)})")
            else:
                return content, f"{broken[0]}; resumed from the one before it, {path.name}" if broken else None
        if not self.checkpoint_before.exists():
            raise RunError(f"{broken[0]}, and there is none before it; start anew with another --out")
        raise RunError(f"{'; '.join(broken)}; what was found is in {self.policy.name}, but cannot be resumed")

    def save_metrics(self, metrics: list[dict[str, float | None]]) -> None:
        text = io.StringIO()
        writer = csv.DictWriter(text, self.columns, lineterminator="\n")
        writer.writeheader()
        for row in metrics:
            writer.writerow({name: value if value is None else round(value, 6) for name, value in row.items()})
        write_text(self.metrics, text.getvalue())


def read_config(path: Path, algorithm: type[Algorithm] | None, without: Sequence[str] = ()) -> SearchConfig:
    """What write_config wrote, also by another version. ValueError, OSError or RecursionError for what it cannot be.

    algorithm: the class of the run's, where it is one of your own. without: settings that are left at their defaults.
    """
    stored = json.loads(read_text(path))
    if not isinstance(stored, dict):
        raise ValueError(f"it must hold settings by name, got {type(stored).__name__}")
    return SearchConfig.from_file({name: one for name, one in stored.items() if name not in (*without, OWN)}, algorithm)


def _compared(value: Any) -> Any:
    """Of a schedule to begin at, the row alone: its file may be called otherwise now."""
    return value["values"] if isinstance(value, dict) else value


def _shown(value: Any) -> str:
    return repr(value["schedule"] if isinstance(value, dict) else value)


def by_name(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Flat settings, with those that an algorithm was given itself with among them."""
    given = settings.get("algorithm")
    if isinstance(given, Algorithm):
        return {**settings, **given.model_dump(exclude_unset=True), "algorithm": given.name}
    if isinstance(given, type) and issubclass(given, Algorithm):
        return {**settings, "algorithm": given.name}
    return dict(settings)


def _may_change(name: str, before: Any, asked: Any) -> bool:
    """Weights may be elsewhere now, but be there or not as before."""
    return name in MAY_CHANGE and (name != "pretrained" or None not in (before, asked))


def own_kind(settings: Mapping[str, Any]) -> type[Algorithm] | None:
    """The class of what was given as the algorithm, unless by name: no file can tell a class of one's own."""
    given = settings.get("algorithm")
    if isinstance(given, Algorithm):
        return type(given)
    return given if isinstance(given, type) and issubclass(given, Algorithm) else None
