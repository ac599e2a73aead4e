"""A message is one line that a terminal can show, whatever it quotes."""

import pickle

from hba.errors import MOST_CHARACTERS, HbaError, RunError, SettingsError


def test_what_cannot_be_printed_is_shown_by_its_escape() -> None:
    for given, shown in {
        "a plain λ line of 3 µm": "a plain λ line of 3 µm",
        "a\nb\r\tc": "a\\nb\\r\\tc",
        "\x1b[31mred": "\\x1b[31mred",
        "\udcff.png": "\\udcff.png",
        "a\u2028b": "a\\u2028b",
        "": "",
    }.items():
        error = RunError(given)
        again: RunError = pickle.loads(pickle.dumps(error))
        assert (str(error), str(again)) == (shown, shown)


def test_of_a_very_long_message_the_middle_is_omitted() -> None:
    message = str(SettingsError("begin" + "x" * 10**6 + "end"))
    assert message.startswith("begin")
    assert message.endswith("end")
    assert len(message) < MOST_CHARACTERS + 10
    assert str(HbaError("x" * MOST_CHARACTERS)) == "x" * MOST_CHARACTERS
