"""The published JSON schema says what files hold."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from exported import SPREADS, schedule_of

import hba
from hba.schedule.file import json_schema

PUBLISHED = Path(__file__).parents[2] / "docs" / "schedule.schema.json"
GOLDEN = Path(__file__).parents[1] / "golden"
VALIDATOR = jsonschema.Draft202012Validator(json_schema())


def test_the_published_schema_is_that_of_the_reader() -> None:
    """Else: python -m hba.schedule.file > docs/schedule.schema.json"""
    assert json.loads(PUBLISHED.read_text(encoding="utf-8")) == json_schema()
    VALIDATOR.check_schema(json_schema())


@pytest.mark.parametrize("spread", SPREADS)
def test_what_is_written_obeys_it(spread: str) -> None:
    VALIDATOR.validate(json.loads(hba.export(schedule_of("K searched", spread), "json")))


@pytest.mark.parametrize("name", ["schedule-v2.json", "schedule-v3.json"])
def test_files_of_versions_that_are_written_obey_it(name: str) -> None:
    VALIDATOR.validate(json.loads((GOLDEN / name).read_text(encoding="utf-8")))


@pytest.mark.parametrize(("key", "value"), [("values", [["a"]]), ("spread", "wide"), ("fill", 0.5), ("format", "hba")])
def test_what_the_reader_refuses_breaks_it(key: str, value: Any) -> None:
    content = json.loads(hba.export(schedule_of("one slot"), "json"))
    assert not VALIDATOR.is_valid({**content, key: value})
    assert not VALIDATOR.is_valid({name: one for name, one in content.items() if name != key})
