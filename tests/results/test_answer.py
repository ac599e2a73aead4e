"""The answer of an evaluation: its probability against scipy, McNemar and simulations,
and kinds of planted results.
"""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from hba.results.answer import ALMOST_SURELY, PROBABLY, answer
from hba.results.auto_answer import auto_answer
from hba.results.evaluation import OF_SEEDS, EvaluationResult, EvaluationRow
from hba.results.statistics import CrossedDifference
from hba.tasks import Segmentation
from hba.training.metrics import Confusion, Measured


def crossed(mine: np.ndarray, other_wrong: np.ndarray) -> CrossedDifference:
    """mine, others: bool (seeds, images), which answers are wrong."""
    errors, other_errors = (
        (100 * wrong.mean(1)).tolist() for wrong in (mine, other_wrong)
    )
    return CrossedDifference.of(
        errors, other_errors, mine.shape[1], 1.0 * mine - other_wrong
    )


def probability(wrong: np.ndarray, other_wrong: np.ndarray) -> float:
    value = crossed(wrong, other_wrong).probability
    return 0.5 if value is None else value


def test_without_images_it_is_the_paired_t_test() -> None:
    for n in (2, 3, 8):
        errors, other_errors = (
            np.random.default_rng(n).normal([3.0, 4.0], 1.0, (n, 2)).T
        )
        difference = CrossedDifference.of(errors.tolist(), other_errors.tolist(), None)
        assert difference.probability == pytest.approx(
            stats.ttest_rel(errors, other_errors, alternative="less").pvalue * -1 + 1
        )
    assert CrossedDifference.of([5.0, 5.0], [6.0, 6.0], None).probability is None, (
        "nothing varies"
    )
    assert CrossedDifference.of([5.0], [6.0], None).probability is None


def test_for_one_seed_it_is_mcnemars_test() -> None:
    both_wrong = 7
    for n, mine_alone, other_alone in (
        (60, 0, 3),
        (60, 5, 5),
        (200, 4, 16),
        (200, 30, 12),
        (1500, 40, 75),
    ):
        wrong = np.zeros((2, 1, n), dtype=bool)
        wrong[:, 0, :both_wrong] = True
        wrong[0, 0, both_wrong : both_wrong + mine_alone] = True
        wrong[1, 0, both_wrong + mine_alone : both_wrong + mine_alone + other_alone] = (
            True
        )
        crossed_difference = crossed(*wrong)
        # The variance of Var(d) / n, and one image more.
        discordant = mine_alone + other_alone
        difference = mine_alone - other_alone
        variance = (discordant - difference**2 / n) / (n * (n - 1)) + 1 / n**2
        assert crossed_difference.from_images == pytest.approx(1e4 * variance)
        exact = stats.binom(discordant, 0.5)
        mid_p = exact.cdf(mine_alone) - 0.5 * exact.pmf(mine_alone)
        assert crossed_difference.probability == pytest.approx(1 - mid_p, abs=0.025)


def drawn(
    rng: np.random.Generator,
    n_seeds: int,
    n_images: int,
    seed_spread: float,
    error: float,
) -> np.ndarray:
    """bool (2, seeds, images): wrong answers of two rows of one true error, by
    difficulty of the image for both rows and for one, by luck of the training, and by
    chance.
    """
    spreads = np.sqrt([4.0, 0.25, seed_spread**2, 0.49])
    shapes = (
        (1, 1, n_images),
        (2, 1, n_images),
        (2, n_seeds, 1),
        (2, n_seeds, n_images),
    )
    parts = (
        spread * rng.normal(size=shape)
        for spread, shape in zip(spreads, shapes, strict=True)
    )
    return np.asarray(sum(parts) > stats.norm.isf(error) * np.sqrt((spreads**2).sum()))


def test_without_a_difference_it_is_seldom_sure() -> None:
    rng = np.random.default_rng(0)
    n = 600
    for n_seeds, n_images, seed_spread, error in (
        (2, 180, 0.4, 0.3),
        (3, 60, 0.05, 0.1),
        (3, 800, 0.1, 0.3),
        (5, 180, 0.1, 0.05),
    ):
        probabilities = np.array(
            [
                probability(*drawn(rng, n_seeds, n_images, seed_spread, error))
                for _ in range(n)
            ]
        )
        for level, share in ((ALMOST_SURELY, 0.01), (PROBABLY, 0.1)):
            # To either side; three standard errors of a share of n.
            most = 2 * share + 3 * np.sqrt(2 * share / n)
            assert (
                (probabilities >= level) | (probabilities <= 1 - level)
            ).mean() <= most


def drawn_masks(
    rng: np.random.Generator, n_seeds: int, n_images: int, seed_spread: float
) -> np.ndarray:
    """float (2, seeds, images): the parts of images in the errors of two rows of one
    true error on masks with a rare class, by difficulty of the image, luck of the
    training, and chance.
    """
    shares = np.array([0.7, 0.27, 0.03])
    n_pixels = rng.poisson(400 * shares * rng.gamma(2, 0.5, (n_images, 1)))
    difficulty = rng.normal(size=(1, 1, n_images)) + 0.4 * rng.normal(
        size=(2, n_seeds, n_images)
    )
    luck = seed_spread * rng.normal(size=(2, n_seeds, 1))
    missed = stats.norm.cdf(difficulty + luck - 1.5)
    both = rng.binomial(n_pixels, 1 - missed[..., None])
    either = n_pixels + rng.binomial(n_pixels, 0.5 * missed[..., None])
    statistics = torch.from_numpy(np.stack([both, either], axis=-1))
    task = Segmentation()
    return np.array(
        [
            [task.image_errors(of_seed).numpy() for of_seed in of_row]
            for of_row in statistics
        ]
    )


def drawn_numbers(
    rng: np.random.Generator, n_seeds: int, n_images: int, seed_spread: float
) -> np.ndarray:
    """float (2, seeds, images): absolute errors of numbers, likewise, with heavy
    tails.
    """
    difficulty = rng.gamma(0.5, 1.0, (1, 1, n_images))
    luck = np.exp(seed_spread * rng.normal(size=(2, n_seeds, 1)))
    chance = rng.gamma(2.0, 0.5, (2, n_seeds, n_images))
    return np.asarray(0.2 * difficulty * luck * chance)


@pytest.mark.parametrize("draw", [drawn_masks, drawn_numbers])
def test_errors_of_masks_and_numbers_are_seldom_surely_different(draw: Any) -> None:
    rng = np.random.default_rng(0)
    n = 200
    for n_seeds, n_images, seed_spread in ((2, 60, 0.1), (3, 200, 0.02), (4, 100, 0.3)):
        probabilities = []
        for _ in range(n):
            mine, others = draw(rng, n_seeds, n_images, seed_spread)
            errors, other_errors = (
                (100 * parts.mean(1)).tolist() for parts in (mine, others)
            )
            difference = CrossedDifference.of(
                errors, other_errors, n_images, mine - others
            )
            assert difference.probability is not None
            probabilities.append(difference.probability)
        for level, share in ((ALMOST_SURELY, 0.01), (PROBABLY, 0.1)):
            # As above, to either side.
            is_sure = np.abs(np.array(probabilities) - 0.5) >= level - 0.5
            assert is_sure.mean() <= 2 * share + 3 * np.sqrt(2 * share / n)


def test_its_variance_is_that_of_repeated_evaluations() -> None:
    rng = np.random.default_rng(1)
    differences = [crossed(*drawn(rng, 4, 300, 0.15, 0.2)) for _ in range(1500)]
    expected = np.var([difference.mean for difference in differences])
    assert (
        expected
        < np.mean(
            [
                difference.from_seeds + difference.from_images
                for difference in differences
            ]
        )
        < 1.3 * expected
    )
    # From errors alone, it is larger.
    mine, other_wrong = drawn(rng, 4, 300, 0.15, 0.2)
    errors = [(100 * wrong.mean(1)).tolist() for wrong in (mine, other_wrong)]
    assert (
        CrossedDifference.of(errors[0], errors[1], 300).from_images
        > crossed(mine, other_wrong).from_images
    )


def results_of(
    wrong: dict[str, list[tuple[int, int]]], classes: tuple[int, int] = (100, 100)
) -> EvaluationResult:
    """wrong: by row, for each seed the wrong answers in each of two classes: always the
    last images of a class.
    """
    rows = []
    for name, seeds in wrong.items():
        row = EvaluationRow(name=name, definition=name)
        for seed, of_class in enumerate(seeds):
            mistakes = torch.cat(
                [
                    torch.arange(n) >= n - n_wrong
                    for n, n_wrong in zip(classes, of_class, strict=True)
                ]
            )
            right = [n - n_wrong for n, n_wrong in zip(classes, of_class, strict=True)]
            confusion = Confusion.of(
                torch.tensor([[right[0], of_class[0]], [of_class[1], right[1]]])
            )
            row = row.with_training(
                seed,
                Measured(
                    1.0, 100 * float(mistakes.float().mean()), confusion, mistakes
                ),
            )
        rows.append(row)
    n_images = sum(classes)
    return EvaluationResult(
        class_names=("a", "b"),
        rows=tuple(rows),
        settings={},
        train_images=9,
        test_images=n_images,
        skipped_images=0,
        fingerprints={},
        environment={},
        wall_seconds=60.0,
    )


LOW = [(5, 5), (6, 5), (5, 6)]
HIGH = [(35, 40), (36, 41), (34, 42)]
NEAR = [(5, 6), (6, 4), (6, 6)]


def test_kinds_of_planted_results() -> None:
    for rows, expected in (
        ({"mine": LOW, "none": HIGH, "randaugment": HIGH}, "better"),
        ({"mine": LOW, "none": HIGH, "randaugment": NEAR}, "no difference shown"),
        ({"mine": HIGH, "none": HIGH, "randaugment": LOW}, "worse"),
        ({"randaugment": LOW, "none": HIGH}, "better"),
        ({"none": LOW, "randaugment": HIGH}, "better"),
        ({"none": HIGH, "randaugment": LOW}, "worse"),
        ({"mine": LOW[:1], "none": HIGH[:1]}, "no difference shown"),
        ({"mine": LOW}, "no difference shown"),
        # All seeds make the same few mistakes: the seeds agree, but the images are too
        # few.
        (
            {"mine": [(3, 0), (3, 1), (3, 0)], "none": [(5, 0), (5, 1), (5, 1)]},
            "no difference shown",
        ),
    ):
        results = results_of(rows)
        planted = results.answer
        assert planted is not None
        assert planted.kind == expected
        assert {*planted.probabilities} == {*rows} - {results.rows[0].name}
        assert f"{results.rows[0].mean:.1f} %" in str(planted)
    assert results_of({"mine": []}).answer is None


def test_rows_that_have_other_seeds_yet_are_left_out() -> None:
    """Trainings side by side end in any order."""
    whole = results_of({"mine": LOW[:2], "none": HIGH[:2], "randaugment": NEAR[:2]})

    def only(number: int, seed: int) -> EvaluationRow:
        row = whole.rows[number]
        place = slice(seed, seed + 1)
        return row.model_copy(
            update={name: getattr(row, name)[place] for name in OF_SEEDS}
        )

    partial = whole.model_copy(
        update={"rows": (whole.rows[0], only(1, 0), only(2, 1))}
    ).answer
    assert partial is not None
    assert [*partial.probabilities] == ["randaugment"]
    assert "because they have other seeds: none." in partial.sentence


def errors_of(**rows: list[float]) -> EvaluationResult:
    """Test errors by row, of several labels, so that only seeds count."""
    return EvaluationResult(
        class_names=("a", "b"),
        rows=tuple(
            EvaluationRow(
                name=name,
                definition=name,
                test_error_percent=tuple(errors),
                seeds=tuple(range(len(errors))),
                test_loss=(None,) * len(errors),
                confusion=(None,) * len(errors),
                wrong=(None,) * len(errors),
                class_error_percents=(None,) * len(errors),
            )
            for name, errors in rows.items()
        ),
        settings={},
        train_images=9,
        test_images=100,
        skipped_images=0,
        fingerprints={},
        environment={},
        error="100 minus the mean average precision",
    )


ERRORS = [1.0, 1.2, 1.1, 0.9, 1.0]
CLOSE = [1.2, 1.0, 1.2, 1.0, 1.1]
LUCKY = [0.7, 1.1, 0.9, 0.8, 0.7]


@pytest.mark.parametrize(
    ("other_rows", "expected", "against"),
    [
        ({"none": [3.0] * 5, "x": [1.4, 1.9, 1.6, 1.3, 1.6]}, "better", "x"),
        ({"none": CLOSE}, "no difference shown", "none"),
        ({"x": [2.0] * 5, "final": [0.5, 0.9, 0.6, 0.2, 0.5]}, "worse", "final"),
        ({"none": [1.5], "x": [1.9]}, "no difference shown", "none"),
        ({"none": CLOSE, "x": [0.2]}, "no difference shown", "none"),
        # Seeds that differ by the same amount say nothing about their spread.
        ({"none": [2.0, 2.2, 2.1, 1.9, 2.0]}, "no difference shown", "none"),
        ({"lucky": LUCKY}, "worse", "lucky"),
        # What the best of many explains is not called worse.
        (
            {"lucky": LUCKY, **{f"row {n}": [3.0] * 5 for n in range(20)}},
            "no difference shown",
            "lucky",
        ),
    ],
)
def test_the_kind_compares_with_the_best_other_row(
    other_rows: dict[str, list[float]], expected: str, against: str
) -> None:
    planted = errors_of(mine=ERRORS, **other_rows).answer
    assert planted is not None
    assert (planted.kind, planted.against) == (expected, against)
    assert ("seeds: x." in planted.sentence) == (other_rows.get("x") == [0.2])


def test_words_follow_the_probabilities() -> None:
    planted = results_of({"mine": LOW, "none": HIGH}).answer
    assert planted is not None
    assert planted.probabilities["none"] > ALMOST_SURELY
    assert "almost surely better" in planted.sentence
    # Two seeds that differ much: five points are no more than probable.
    planted = results_of(
        {"mine": [(20, 20), (26, 26)], "none": [(30, 30), (30, 30)]}
    ).answer
    assert planted is not None
    assert "almost surely" not in planted.sentence
    # In a class of 180 images it is better, in one of 20 worse.
    uneven = results_of(
        {"mine": [(20, 18), (21, 18)], "none": [(60, 2), (61, 1)]}, (180, 20)
    ).answer
    assert uneven is not None
    assert uneven.kind == "better"
    assert "the other way round" in uneven.sentence


MORE_OR_LESS = re.compile(
    r"\b(lower|higher|better|worse|less|more|fewer|other way)\b", re.IGNORECASE
)


def test_equal_numbers_are_not_called_better_or_worse() -> None:
    for rows in (
        {"mine": LOW, "none": LOW, "randaugment": LOW},
        {"none": LOW[:1], "randaugment": LOW[:1]},
        # Other images, the same numbers.
        {"mine": [(5, 6), (6, 5)], "none": [(6, 5), (5, 6)]},
    ):
        results = results_of(rows, (100, 300))
        assert results.answer is not None
        text = results.answer.sentence
        about = re.sub("More test images[^.]*[.]", "", text)
        assert not MORE_OR_LESS.search(about), text


def test_unequal_numbers_look_unequal() -> None:
    """A mistake more among 10,000 answers changes no decimal that is usually shown."""
    results = results_of({"mine": [(50, 51)], "none": [(50, 50)]}, (5000, 5000))
    assert results.answer is not None
    mine, none = re.findall(r"([\d.]+) %", results.answer.sentence)[:2]
    assert (float(mine), float(none)) == (1.01, 1.0)


def test_a_linear_layer_is_compared_with_the_error_in_the_sentence(
    tmp_path: Path,
) -> None:
    results = results_of({"photo": [(10, 10)], "none": [(20, 20)]})
    words = set[str]()
    for percent in (9.0, 10.0, 11.0):
        layer = {
            "error_percent": 1.0,
            "test_percent": percent,
            "model": "net",
            "side": 8,
            "seconds": 3,
        }
        record = {
            "chosen": "photo",
            "network": 0,
            "linear": [layer],
            "settings": {"model": "net", "image_size": 8},
        }
        sentence = auto_answer(record, results, None, tmp_path).sentence
        about = sentence[sentence.index("linear layer") :]
        assert f"{percent:.1f} %" in about
        words |= {*MORE_OR_LESS.findall(about)}
        assert bool(MORE_OR_LESS.search(about)) == (percent != 10.0)
    assert words == {"less", "more"}


def test_a_chosen_row_is_named_first_whatever_the_test_says(tmp_path: Path) -> None:
    for rows in (
        {"photo": LOW, "none": HIGH},
        {"photo": HIGH, "none": LOW},
        {"photo": NEAR, "none": LOW},
    ):
        results = results_of(rows).model_copy(update={"settings": {"data": "digits"}})
        of_chosen = answer(
            results, chosen="chosen on validation images", folder=tmp_path
        )
        assert of_chosen is not None
        first, *next_sentences = re.split(r"(?<=[^\d][.]) ", of_chosen.sentence)
        assert first.startswith("Use the recipe photo")
        is_best = rows["photo"] is LOW
        assert (
            any(
                f"hba train none --config {tmp_path}" in sentence
                for sentence in next_sentences
            )
            != is_best
        )


def test_a_row_that_no_command_can_train_has_none(tmp_path: Path) -> None:
    for name, changes in (
        ("no-such-file", {"settings": {"data": "digits"}}),
        ("photo", {"settings": {"data": "in memory"}}),
        ("photo", {"settings": {"data": "digits"}, "own_network": "Net of mine"}),
    ):
        results = results_of({"mine": HIGH, name: LOW}).model_copy(update=changes)
        without_command = answer(results, folder=tmp_path)
        assert without_command is not None
        assert "hba train" not in without_command.sentence
        assert "hba.train" in without_command.sentence


def test_several_labels_have_the_paired_t_test_alone() -> None:
    planted = results_of(
        {"mine": [(20, 20), (22, 22), (19, 18)], "none": [(25, 25), (23, 24), (25, 26)]}
    )
    of_seeds = planted.model_copy(
        update={"error": "100 minus the mean average precision"}
    ).answer
    assert of_seeds is not None
    mine, none = (row.test_error_percent for row in planted.rows)
    assert of_seeds.probabilities["none"] == pytest.approx(
        1 - stats.ttest_rel(mine, none, alternative="less").pvalue
    )
    assert planted.answer is not None
    assert 0.5 < planted.answer.probabilities["none"] <= of_seeds.probabilities["none"]


def test_the_next_step_is_more_seeds_only_where_they_would_help() -> None:
    unsure = answer(
        results_of({"mine": [(20, 20), (34, 34)], "none": [(40, 40), (40, 40)]}),
        command="hba evaluate x",
    )
    assert unsure is not None
    assert unsure.next_step is not None
    assert unsure.next_step.startswith("hba evaluate x --resume --seeds ")
    for limited in (
        results_of({"mine": LOW, "none": HIGH}),
        results_of({"mine": LOW, "none": NEAR}),
    ):
        assert limited.answer is not None
        assert limited.answer.next_step is None
