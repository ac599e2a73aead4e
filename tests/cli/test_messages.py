"""Messages of the library in the words of the command line."""

import click
import pytest
from hba.cli.messages import in_options

OPTIONS = [
    click.Option(["--image-size"], type=int),
    click.Option(["--allow-seen"], is_flag=True),
    click.Option(["--batched-members/--no-batched-members"]),
    click.Option(["--epochs"], type=int),
]


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("image_size must be at least 4, got 2", "--image-size must be at least 4, got 2"),
        ("epochs must be less than these epochs", "--epochs must be less than these epochs"),
        ("or add allow_seen=True", "or add --allow-seen"),
        ("give batched_members=False, or", "give --no-batched-members, or"),
        ("a budget says so; omit epochs, or the budget", "a budget says so; omit --epochs, or the budget"),
        ("the same epochs for all", "the same epochs for all"),
        ("batched_members has no effect", "--batched-members has no effect"),
        ("no folder my/image_size.d", "no folder my/image_size.d"),
    ],
)
def test_settings_are_called_as_their_options(message: str, said: str) -> None:
    assert in_options(message, iter(OPTIONS)) == said
