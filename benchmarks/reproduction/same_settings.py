"""Whether what is kept was made with the settings that are wanted now."""

import functools
import json
from collections.abc import Mapping
from typing import Any

from hba.config.presets import PAPER_SETTINGS
from hba.config.search import IDLE_SETTINGS, SearchConfig

Settings = Mapping[str, Any]


def same_settings(kept: Settings, wanted: Settings) -> bool:
    """Of two searches, or of two evaluations, as JSON values: whether they say the same to what is run.

    A setting of a search that came later than the record had the paper's value. What the algorithm does not read does
    not count.
    """
    later = _later()
    idle = IDLE_SETTINGS.get(wanted.get("algorithm", ""), ())
    return all(kept.get(name, later.get(name)) == value for name, value in wanted.items() if name not in idle)


@functools.cache
def _later() -> Settings:
    """What the paper's algorithm does not read is as in the paper too."""
    settings = SearchConfig.from_preset({}, paper=True).model_dump(mode="json")
    return {**settings, **json.loads(json.dumps(dict(PAPER_SETTINGS)))}
