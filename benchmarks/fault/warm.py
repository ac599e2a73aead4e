"""Imported once by the process that all commands are forked from: a first search and evaluation import and set up much.

It is done here and not in each of hundreds of commands. PyTorch has one thread, so it can be forked.
"""

import tempfile
from pathlib import Path

import torch
from hba.cli.main import main

from fault.subjects import evaluation_of, make_images, search_of


def warm_up() -> None:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as place:
        images, run = make_images(Path(place) / "images"), Path(place) / "run"
        for words in (search_of(images).begun(run), evaluation_of(images, run).begun(Path(place) / "evaluation")):
            main(list(words), standalone_mode=False)


warm_up()
