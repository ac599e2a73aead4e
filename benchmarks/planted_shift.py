"""A planted answer: digits whose validation images are shifted sideways. Does the search raise TranslateX?

    python benchmarks/planted_shift.py [--seeds 5] [--shift 0.35] [--out FILE.json]

Each seed is searched twice with the defaults of `hba search` on digits: with the validation images as they are, and
with each of them shifted by a uniformly drawn part of its width, up to `shift` to either side, black coming in.
Printed: the end value of TranslateX's probability times magnitude, mean over copies, and its rank among all 15
operations by strength.
"""

import argparse
import json
import statistics
from dataclasses import replace
from pathlib import Path

import torch

import hba
from hba.config import SearchConfig, find_device
from hba.data import LabelledImages, SearchData, load_search_data
from hba.provenance import environment
from hba.summary import copies_of, summarize

PLANTED = "TranslateX"


def shifted(images: LabelledImages, largest: float, seed: int) -> LabelledImages:
    """Every image moved sideways by its own amount, up to `largest` of the width."""
    generator = torch.Generator().manual_seed(seed)
    amount = (2 * torch.rand(len(images), generator=generator) - 1) * largest
    moved = hba.OPERATIONS[PLANTED](images.images.float() / 255, amount)
    return replace(images, images=moved.mul(255).round().to(torch.uint8))


def search_once(data: SearchData, seed: int) -> tuple[float, int]:
    """End value of the planted operation's probability times magnitude, and its rank by strength (1 is strongest)."""
    schedule = hba.search(data, preset="digits", seed=seed).schedule
    assert schedule is not None
    operation = hba.OPERATIONS[PLANTED]
    product = copies_of(schedule, operation, "probability")[-1] * copies_of(schedule, operation, "magnitude")[-1]
    order = [summary.operation.name for summary in summarize(schedule, (schedule.epochs - 1,))]
    return float(product.mean()), 1 + order.index(PLANTED)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--shift", type=float, default=0.35)
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()

    data = load_search_data(SearchConfig.from_preset({}))
    assert isinstance(data.val, LabelledImages)
    results: dict[str, list[tuple[float, int]]] = {"as they are": [], "shifted": []}
    for seed in range(arguments.seeds):
        planted = replace(data, val=shifted(data.val, arguments.shift, seed))
        for name, variant in zip(results, (data, planted), strict=True):
            value, rank = search_once(variant, seed)
            results[name].append((value, rank))
            print(f"seed {seed}, validation images {name}: {PLANTED} probability x magnitude {value:.4f}, rank {rank}")
    for name, values in results.items():
        products = [value for value, _ in values]
        spread = f" +- {statistics.stdev(products):.4f}" if len(products) > 1 else ""
        ranks = [rank for _, rank in values]
        print(f"validation images {name}: {statistics.mean(products):.4f}{spread}, ranks {ranks}")
    if arguments.out:
        content = {"results": results, "shift": arguments.shift, **environment(find_device("auto"))}
        arguments.out.write_text(json.dumps(content, indent=2) + "\n")


if __name__ == "__main__":
    main()
