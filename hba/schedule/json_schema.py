"""The JSON schema of schedule files, from what reads them.

`python -m hba.schedule.json_schema > docs/schedule.schema.json` publishes it.

It says what JSON can say: keys, types and choices. That rows are as long as the names, and values within their ranges,
is checked by Schedule.load alone.
"""

import json
from typing import Any

import pydantic

from hba.schedule.file import ScheduleFile


def json_schema() -> dict[str, Any]:
    """Of all versions that can be read."""
    title = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "A schedule of hba"}
    return {**title, **pydantic.TypeAdapter(ScheduleFile).json_schema()}


if __name__ == "__main__":
    print(json.dumps(json_schema(), indent=2))
