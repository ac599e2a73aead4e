"""The published JSON schema describes what files hold."""

import json
from pathlib import Path

import jsonschema
from exported import SPREADS, schedule_of

import hba
from hba.schedule.file import json_schema

ROOT = Path(__file__).parents[2]


def test_the_published_schema_is_that_of_the_reader_and_fits_what_is_written() -> None:
    """Else: python -m hba.schedule.file > docs/schedule.schema.json"""
    assert (
        json.loads((ROOT / "docs" / "schedule.schema.json").read_text(encoding="utf-8"))
        == json_schema()
    )
    validator = jsonschema.Draft202012Validator(json_schema())
    validator.check_schema(json_schema())
    for spread in SPREADS:
        validator.validate(
            json.loads(hba.export(schedule_of("K searched", spread), "json"))
        )
    for name in (
        "schedule-count.json",
        "schedule-regularizers.json",
        "schedule-stages.json",
    ):
        validator.validate(
            json.loads((ROOT / "tests" / "golden" / name).read_text(encoding="utf-8"))
        )
    content = json.loads(hba.export(schedule_of("one slot"), "json"))
    for key, value in (
        ("values", [["a"]]),
        ("spread", "wide"),
        ("fill", 0.5),
        ("format", "hba"),
    ):
        assert not validator.is_valid({**content, key: value}), key
        assert not validator.is_valid(
            {name: member for name, member in content.items() if name != key}
        ), key
