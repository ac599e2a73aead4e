"""The run folder of a search on text: policy.json, config.json, metrics.csv and checkpoints, as one on images has."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from hba.errors import DataError, RunError, SettingsError
from hba.policy_search.folder import RunFolder
from hba.text.config import TextSearchConfig, resolved
from hba.utils.files import read_text, reason_of, write_text

MAY_CHANGE = ("data", "device", "epochs")
"""Where the text is and what computes; and there may be more epochs."""


class TextRunFolder(RunFolder):
    """Files of one run."""

    columns: ClassVar[tuple[str, ...]] = (
        "epoch",
        "train_loss",
        "train_perplexity",
        "lambda_loss",
        "val_loss",
        "val_perplexity",
        "learning_rate",
        "seconds",
    )

    def write_settings(self, config: TextSearchConfig) -> None:
        write_text(self.config, json.dumps(config.flat(), indent=2) + "\n")

    def settings(self) -> TextSearchConfig:
        """Those of the run. RunError where there is none, or none on text."""
        if not self.config.exists():
            raise RunError(f"{self.path} holds no run to resume: there is no {self.config.name} in it")
        try:
            stored = json.loads(read_text(self.config))
            if not isinstance(stored, dict):
                raise ValueError(f"it must hold settings by name, got {type(stored).__name__}")
            return TextSearchConfig.make(stored)
        except (ValueError, OSError, RecursionError) as error:
            raise RunError(f"{self.config} holds no settings of a search on text: {reason_of(error)}") from None

    def resumed(self, given: Mapping[str, Any]) -> TextSearchConfig:
        """The settings of the run, with those given now that may change. SettingsError for others, and fewer epochs."""
        before = self.settings()
        old, now = before.flat(), TextSearchConfig.make({**before.flat(), **resolved(given)})
        new = now.flat()
        if changed := [name for name in given if name not in MAY_CHANGE and old.get(name) != new.get(name)]:
            differences = ", ".join(f"{name} {old.get(name)!r} (given {new.get(name)!r})" for name in changed)
            raise SettingsError(f"a resumed run keeps its settings; {self.path} has {differences}")
        if now.epochs < before.epochs:
            raise SettingsError(
                f"a resumed run can get more epochs, not fewer; {self.path} has {before.epochs} (given {now.epochs})"
            )
        if not Path(now.data).is_dir():
            raise DataError(
                f"the text of {self.path} is no longer in {now.data}; name the folder where it is now, as in "
                f"hba search-text DIR --out {self.path} --resume"
            )
        return now
