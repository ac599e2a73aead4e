"""A message is one line that a terminal can show, whatever it quotes."""

import pickle

from hba.errors import RunError


def test_what_cannot_be_printed_is_shown_by_its_escape() -> None:
    for text, shown in {
        "a plain λ line of 3 µm": "a plain λ line of 3 µm",
        "a\nb\r\tc": "a\\nb\\r\\tc",
        "\x1b[31mred": "\\x1b[31mred",
        "\udcff.png": "\\udcff.png",
        "a\u2028b": "a\\u2028b",
        "": "",
    }.items():
        error = RunError(text)
        again: RunError = pickle.loads(pickle.dumps(error))
        assert (str(error), str(again)) == (shown, shown)
