"""benchmarks/quality: fixed policies, rewards of them in several ways, and how both are held against each other."""

import copy
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from benchmark_modules import module
from click.testing import CliRunner, Result
from search_problems import seeded
from torch import Tensor, nn

from hba.algorithms.scores import AugmentedBatch
from hba.models import build_model
from hba.policy.draw import SampleTrace
from hba.schedule.summary import Reach, reach

pytestmark = pytest.mark.usefixtures("benchmarks_can_be_imported")

GRAY = (0.5, 0.5, 0.5)
GEOMETRIC = {"ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Cutout"}


def reach_of(name: str) -> Reach:
    return reach(module("quality.policies").schedule_of(name, GRAY), 0)


def test_the_reference_does_what_randaugment_does() -> None:
    found = reach_of("randaugment")
    # It draws two of 14 operations, of which one does nothing; a search begins where logits are within 3.
    changed = 1 - found.unchanged
    assert changed == pytest.approx(torch.tensor(3.0).sigmoid().item(), abs=1e-4)
    assert sum(found.numbers[2:]) / changed == pytest.approx((13 / 14) ** 2 / (1 - 1 / 14**2), abs=1e-3)
    assert found.shares["Rotate"] == pytest.approx(found.shares["Equalize"])


@pytest.mark.parametrize(("name", "count"), [("unchanged", 0), ("one", 1), ("two", 2), ("three", 3)])
def test_every_image_gets_as_many_operations_as_the_name_says(name: str, count: int) -> None:
    assert reach_of(name).numbers[count] == pytest.approx(1, abs=1e-4)


def test_what_is_left_out_reaches_no_image_and_all_else_reaches_more() -> None:
    base = reach_of("randaugment")
    gone: Mapping[str, set[str]] = {
        "colour-only": GEOMETRIC,
        "geometric-only": set(base.shares) - GEOMETRIC,
        "geometric-only-strongest": set(base.shares) - GEOMETRIC,
        "geometric-only-three": set(base.shares) - GEOMETRIC,
        "no-contrast": {"AutoContrast", "Equalize"},
        "no-translation": {"TranslateX", "TranslateY"},
        "no-rotation": {"Rotate", "ShearX", "ShearY"},
    }
    for name, operations in gone.items():
        for operation, share in reach_of(name).shares.items():
            is_gone = share == pytest.approx(0, abs=1e-9)
            assert is_gone if operation in operations else share > base.shares[operation], (name, operation)
    assert reach_of("geometric-only-three").numbers[3] > 0.9


@pytest.mark.parametrize(
    ("name", "geometric", "colour"),
    [
        *[("milder", -1, -1), ("stronger", 1, 1), ("geometric-milder", -1, 0), ("geometric-stronger", 1, 0)],
        *[("geometric-strongest", 2, 0), ("colour-milder", 0, -1), ("colour-stronger", 0, 1)],
    ],
)
def test_magnitudes_are_that_much_farther_from_doing_nothing(name: str, geometric: int, colour: int) -> None:
    base, moved = (module("quality.policies").schedule_of(one, GRAY) for one in ("randaugment", name))
    space = base.space
    before, after = (torch.tensor(schedule.values[0]) for schedule in (base, moved))
    logits = [space.encode(values) for values in (before, after)]
    for slot in space.slots:
        assert after[slot.probability] == before[slot.probability]
        if slot.magnitude is None or slot.operation.identity is None:
            continue
        wanted = geometric if slot.operation.name in GEOMETRIC else colour
        distance = (logits[1] - logits[0])[slot.magnitude]
        assert float(distance.abs()) == pytest.approx(abs(wanted), abs=1e-3)
        nearer, farther = sorted((before, after), key=lambda row: abs(row[slot.magnitude] - slot.operation.identity))
        assert wanted == 0 or (farther is after) == (wanted > 0)
        assert nearer is not farther
    assert reach(moved, 0) == reach(base, 0)


def test_no_two_policies_are_the_same() -> None:
    policies = module("quality.policies")
    assert len({policies.definition_of(name) for name in policies.POLICIES}) == len(policies.POLICIES)


Batch = tuple[Tensor, Tensor]


def batch_of(n_images: int, seed: int) -> Batch:
    return torch.randn(n_images, 3, 8, 8, generator=seeded(seed)).double(), torch.arange(n_images) % 2


def network_of(seed: int) -> nn.Module:
    """In double precision, with running statistics of its own."""
    network = build_model("wrn-10-1", 2, seed=seed).double().train()
    for _ in range(3):
        network(batch_of(20, seed)[0])
    return network.eval()


def gradient_of(network: nn.Module, loss: Tensor) -> Tensor:
    return torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(network.parameters()))])


def test_every_variant_is_the_product_of_gradients_that_it_is_said_to_be() -> None:
    variants = module("quality.variants")
    network, averaged = network_of(0), network_of(1)
    val, train, (images, labels) = [batch_of(10, 2), batch_of(10, 3)], [batch_of(12, 4)], batch_of(5, 5)
    before = {name: value.clone() for name, value in network.state_dict().items()}
    nothing = torch.zeros(len(labels), 0)
    trial = AugmentedBatch(images, labels, SampleTrace(nothing.bool(), nothing.bool(), nothing), nothing, nothing, 0.0)
    found = variants.Judge.of(network, averaged, val, train).rewards(trial)
    assert list(found) == list(variants.VARIANTS)
    for name, value in network.state_dict().items():
        assert torch.equal(value, before[name]), name

    def along(network: nn.Module, batches: list[Batch]) -> Tensor:
        """Batches are equally large."""
        parts = [gradient_of(network, F.cross_entropy(network(inputs), answers)) for inputs, answers in batches]
        return torch.stack(parts).mean(0)

    by_batch = copy.deepcopy(network).train()
    of_val = along(network, val)
    directions = {"reward": of_val, "gap": of_val - along(network, train), "average": along(averaged, val)}
    for image in range(len(labels)):
        own = F.cross_entropy(network(images[image : image + 1]), labels[image : image + 1])
        last = torch.autograd.grad(own, list(network.parameters())[-2:], retain_graph=True)
        assert [part.shape[0] for part in last] == [2, 2], "weights and bias of two classes"
        size = torch.cat([part.flatten() for part in last]).norm()
        gradient = gradient_of(network, own)
        expected = {name: gradient @ direction for name, direction in directions.items()}
        expected["cosine"] = expected["reward"] / (size + variants.SMALLEST)
        of_image = F.cross_entropy(by_batch(images), labels, reduction="none")[image]
        expected["batch"] = gradient_of(by_batch, of_image) @ along(by_batch, val)
        for name, reward in expected.items():
            torch.testing.assert_close(found[name][image], reward, rtol=1e-8, atol=1e-10, msg=name)


def test_rewards_of_the_same_images_are_compared_image_by_image() -> None:
    # Differences 1, 2 and 3: mean 2, and their standard deviation 1 over the root of 3.
    found = module("quality.credit").differences_of(torch.tensor([11.0, 22.0, 33.0]), torch.tensor([10.0, 20.0, 30.0]))
    assert found == pytest.approx({"difference": 2, "standard_error": 3**-0.5}, rel=1e-5)


def test_places_are_spread_over_a_training_and_none_is_lost_in_a_short_one() -> None:
    credit = module("quality.credit")
    assert [credit.places_at(step, 1000) for step in (50, 51, 950)] == [[0.05], [], [0.95]]
    assert [*credit.places_at(1, 2), *credit.places_at(2, 2)] == list(credit.PLACES)


def with_policies(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """Of all only these, RandAugment's first."""
    # What reads all of them while it is imported comes first.
    owners = [module(f"quality.{owner}") for owner in ("kept", "credit_table", "credit", "policies")]
    known = {name: owners[-1].POLICIES[name] for name in ("randaugment", *names)}
    for owner in owners[1:]:
        monkeypatch.setattr(owner, "POLICIES", known)


def kept(name: str, seed: int, results: Mapping[str, Any]) -> Any:
    records, policies = module("common.records"), module("quality.policies")
    definitions = {one: policies.definition_of(one) for one in policies.POLICIES}
    further = {"policies": definitions} if name == "rewards" else {"policy": definitions[name]}
    return records.Record(records.Run(name, "digits", {"epochs": 7}, seed, further), results, {})


def judged(seed: int, *places: tuple[float, Mapping[str, float]]) -> Any:
    """By learning rate and policy, how much larger its rewards are."""
    found = [
        {
            "place": number / 10,
            "learning_rate": rate,
            "rewards": {
                variant: {
                    "mean": 1.0,
                    "policies": {name: {"difference": one, "standard_error": 0.5} for name, one in of.items()},
                }
                for variant in module("quality.variants").VARIANTS
            },
        }
        for number, (rate, of) in enumerate(places, 1)
    ]
    return kept("rewards", seed, {"places": found, "seconds": 1.0})


def test_rewards_are_ranked_by_their_sum_over_learning_rates_and_errors_by_how_low_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_policies(monkeypatch, "one", "two")
    table = module("quality.credit_table")
    errors = {"randaugment": (60.0, 62.0), "one": (58.0, 59.0), "two": (63.0, 64.0)}
    trainings = [
        kept(name, seed, {"val_error_percent": error}) for name, own in errors.items() for seed, error in enumerate(own)
    ]
    # At rates 0.1 and 0.01, the sums are 0.09 of `one` and -0.02 of `two`, whatever comes late.
    late = {"randaugment": 0.0, "one": -1.0, "two": 8.0}
    first = judged(0, (0.1, {"randaugment": 0.0, "one": 1.0, "two": -1.0}), (0.01, late))
    (group,) = table.of_credit([*trainings, first])
    assert table.variant_table(group)["correlation"].tolist() == ["+1.00"] * 5
    # Of the second seed the order is the other way round, but it is weaker.
    second = judged(1, (0.1, {"randaugment": 0.0, "one": -0.1, "two": 0.1}), (0.0, late))
    (group,) = table.of_credit([*trainings, first, second])
    row = table.variant_table(group).to_dict("records")[0]
    assert (row["correlation"], row["policies"], row["seeds"]) == ("+1.00", "3", "2")
    assert row["of single seeds"] == "0.00 ± 1.41"
    # Differences -2 and -3 of `one`; two seeds' rewards of 1.0 and -0.1 with errors of 0.5 each.
    rows = table.policy_table(group).set_index("policy")
    assert rows.loc["one", "error minus RandAugment's"].startswith("-2.50 (")
    assert rows.loc["one", "0.1"] == f"{0.9 / 0.5**0.5:+.1f}"
    assert rows.loc["two", "0.2"] == f"{16 / 0.5**0.5:+.1f}"


def test_policies_that_were_changed_are_in_no_table(monkeypatch: pytest.MonkeyPatch) -> None:
    with_policies(monkeypatch, "one", "two")
    table = module("quality.credit_table")
    trained, rewards = kept("randaugment", 0, {"val_error_percent": 60.0}), judged(0, (0.1, {}))
    assert table.of_credit([trained, rewards]) == [[trained, rewards]]
    assert table.of_credit([trained]) == table.of_credit([rewards]) == [], "both are needed"
    before = kept("one", 0, {"val_error_percent": 60.0})
    before.run.further["policy"] = "schedule of before"
    assert table.of_credit([trained, before, rewards]) == [[trained, rewards]]
    with_policies(monkeypatch, "one")
    assert table.of_credit([trained, rewards]) == [], "others were judged"


def run(*arguments: str) -> Result:
    return CliRunner().invoke(module("search_quality").main, list(arguments), catch_exceptions=False)


def test_policies_are_trained_with_and_judged_without_a_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_policies(monkeypatch, "unchanged", "geometric-only")
    monkeypatch.setattr(module("quality.credit"), "PLACES", (0.5, 0.9))
    work, results = tmp_path / "work", tmp_path / "results"
    arguments = ["credit", "--seeds", "1", "--epochs", "2", "--jobs", "1", "--work", str(work)]
    found = run(*arguments, "--results", str(results))
    assert found.exit_code == 0, found.output
    assert "4 of 4 runs to do" in found.output
    assert not work.exists()
    assert [path.name for path in results.iterdir()] == ["credit.jsonl"]
    kept = [json.loads(line) for line in (results / "credit.jsonl").read_text(encoding="utf-8").splitlines()]
    *trained, rewards = kept
    errors = {line["name"]: line["results"]["val_error_percent"] for line in trained}
    assert list(errors) == ["randaugment", "unchanged", "geometric-only"]
    assert {line["settings"]["epochs"] for line in kept} == {2}
    assert [place["place"] for place in rewards["results"]["places"]] == [0.5, 0.9]
    # After 2 and 3 of 4 steps: half a cosine from 0.1, and three quarters.
    rates = [place["learning_rate"] for place in rewards["results"]["places"]]
    assert rates == pytest.approx([0.05, 0.05 * (1 - 2**-0.5)])
    for place in rewards["results"]["places"]:
        for by_policy in (of_variant["policies"] for of_variant in place["rewards"].values()):
            assert by_policy["randaugment"]["difference"] == by_policy["randaugment"]["standard_error"] == 0
            assert by_policy["geometric-only"]["standard_error"] > 0
    assert "0 of 4 runs to do" in run(*arguments, "--results", str(results)).output
    row = f"| unchanged | K always 0: no operation | 1 | {errors['unchanged'] - errors['randaugment']:+.2f} |"
    module("quality.page").write_page(results, tmp_path)
    section = (tmp_path / "search-quality.md").read_text(encoding="utf-8").split("\n## The credit of look-ahead\n")[1]
    section = section.split("\n## ")[0]
    for text in (found.output, section):
        assert row in text
        assert "| gap | less the derivative" in text
    assert "Command: `python benchmarks/search_quality.py credit --epochs 2 --seeds 1`." in section
