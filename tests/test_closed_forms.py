"""Problems that can be solved exactly: what is said to be exact is, and the tool's responses come to it."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from benchmark_modules import module
from click.testing import CliRunner, Result
from exact.problems import PROBLEMS, Problem, at_weights, effective_jacobian, effective_weights, hypernetwork_of
from exact.ridge import Ridge, jacobian_limits, rank_one_error
from exact.runs import Point, run
from torch import Tensor

from hba.algorithms.responses import RESPONSES, Response, separate
from hba.hypernet import HyperNetwork

NAMES = ("noise", "decay", "decay-wide", "deep", "groups")


@pytest.fixture(autouse=True)
def _as_many_threads_as_before() -> Iterator[None]:
    n_threads = torch.get_num_threads()
    yield
    torch.set_num_threads(n_threads)


def problem(name: str, **changes: Any) -> Problem:
    return replace(PROBLEMS[name], **changes)


def held_lambda(of: Problem) -> Tensor:
    return torch.full((of.ridge.n,), of.held, dtype=torch.float64)


def relative(found: Tensor, true: Tensor) -> float:
    return float((found - true).norm() / true.norm())


def slope_by_differences(function: Any, lam: Tensor, step: float = 1e-5) -> Tensor:
    columns = [(function(lam + step * one) - function(lam - step * one)) / (2 * step) for one in torch.eye(len(lam))]
    return torch.stack(columns, dim=1)


class TestExactSolutions:
    @pytest.mark.parametrize("name", NAMES)
    def test_best_response_is_least_squares_with_rows_for_the_penalty(self, name: str) -> None:
        ridge = problem(name).ridge
        lam = torch.linspace(-0.7, 0.3, ridge.n, dtype=torch.float64)
        penalty_rows = np.diag(np.sqrt(len(ridge.train.targets) * ridge.penalties(lam).numpy()))
        inputs = np.concatenate([ridge.train.inputs.numpy(), penalty_rows])
        targets = np.concatenate([ridge.train.targets.numpy(), np.zeros(ridge.n_features)])
        expected = np.linalg.lstsq(inputs, targets)[0]
        np.testing.assert_allclose(ridge.best_response(lam).numpy(), expected, rtol=1e-9)

    def test_gradient_descent_ends_at_the_best_response(self) -> None:
        ridge = problem("groups").ridge
        lam = torch.tensor([-1.0, 0.2], dtype=torch.float64)
        weights = torch.zeros(ridge.n_features, dtype=torch.float64, requires_grad=True)
        for _ in range(1500):
            (gradient,) = torch.autograd.grad(ridge.training_loss(weights, lam), weights)
            weights.data -= 0.1 * gradient
        torch.testing.assert_close(weights.detach(), ridge.best_response(lam))

    @pytest.mark.parametrize("name", NAMES)
    def test_jacobian_is_the_slope_of_the_best_response(self, name: str) -> None:
        ridge, lam = problem(name).ridge, held_lambda(problem(name))
        slope = slope_by_differences(ridge.best_response, lam)
        assert relative(ridge.best_response_jacobian(lam), slope) < 1e-7
        # The planted mistake: of the wrong sign.
        assert relative(-ridge.best_response_jacobian(lam), slope) > 1

    @pytest.mark.parametrize("name", NAMES)
    def test_no_lambda_of_a_grid_is_better_than_the_best(self, name: str) -> None:
        ridge = problem(name).ridge
        axis = torch.linspace(-6, 4, 41, dtype=torch.float64)
        excesses = [ridge.excess(lam) for lam in torch.cartesian_prod(*[axis] * ridge.n).reshape(-1, ridge.n)]
        assert min(excesses) > -1e-12
        assert ridge.best_lambda.abs().max() < 3

    def test_a_jacobian_of_one_column_has_rank_one(self) -> None:
        assert rank_one_error(torch.randn(10, 1)) == 0
        assert rank_one_error(torch.eye(2)) == pytest.approx(0.5**0.5)


class TestLimits:
    @pytest.mark.parametrize("name", ["noise", "decay"])
    @pytest.mark.parametrize("sigma", [0.1, 0.5])
    def test_solve_the_objectives_by_quadrature(self, name: str, sigma: float) -> None:
        ridge, lam = problem(name).ridge, held_lambda(problem(name))
        nodes, shares = np.polynomial.hermite_e.hermegauss(40)
        moments, constants = np.zeros((20, 20)), np.zeros(20)
        for eps, share in zip(sigma * nodes, shares / shares.sum(), strict=True):
            both = np.array([1, eps])
            moments += share * np.kron(np.outer(both, both), ridge.hessian(lam + eps).numpy())
            constants += share * np.kron(both, ridge.target_moments.numpy())
        together = np.linalg.solve(moments, constants)[10:]
        apart = np.linalg.solve(
            moments[10:, 10:], constants[10:] - moments[10:, :10] @ ridge.best_response(lam).numpy()
        )
        limits = jacobian_limits(ridge, lam, sigma)
        for response, expected in {"affine": together, "centered": together, "separate": apart}.items():
            np.testing.assert_allclose(limits[response][:, 0].numpy(), expected, rtol=1e-8)

    @pytest.mark.parametrize("name", ["noise", "decay"])
    def test_are_the_true_jacobian_where_the_noise_is_small(self, name: str) -> None:
        """Theorem 3 of Delta-STN, whose loss is quadratic in lambda too: here only for small noise."""
        ridge, lam = problem(name).ridge, held_lambda(problem(name))
        true = ridge.best_response_jacobian(lam)
        for limit in jacobian_limits(ridge, lam, 1e-3).values():
            assert relative(limit, true) < 1e-5

    @pytest.mark.parametrize("sigma", [0.1, 0.5, 1.0])
    def test_of_separate_are_as_near_as_derived(self, sigma: float) -> None:
        for name in ("noise", "decay"):
            ridge, lam = problem(name).ridge, held_lambda(problem(name))
            limit = jacobian_limits(ridge, lam, sigma)["separate"]
            assert relative(limit, ridge.best_response_jacobian(lam)) <= bound_of_separate(ridge, sigma)


def bound_of_separate(ridge: Ridge, sigma: float) -> float:
    """Greatest relative error that noise of size sigma leaves in the limit of `separate`.

    With s = (rate sigma)^2 and k = exp(s / 2), the limit is -(S + k (1 + s) r)^-1 k rate r w*, and the true Jacobian
    the same at s = 0. In the direction of an eigenvalue e of S they are as k (e + r) to e + k (1 + s) r, which lies
    between 1 / (1 + s) and k.
    """
    spread = (ridge.rate * sigma) ** 2
    return float(max(np.exp(spread / 2) - 1, spread / (1 + spread)))


class TestRegularizers:
    def test_rows_of_weight_decay_are_the_penalty(self) -> None:
        decay = problem("decay")
        lam = torch.tensor([0.3], dtype=torch.float64)
        batch = decay.regularizer.batch(decay.ridge.train, decay.copies)
        weights = torch.randn(10, dtype=torch.float64)
        inputs = decay.regularizer.augment(batch.inputs, lam.expand(len(batch.inputs), 1), torch.Generator())
        loss = decay.loss_of((inputs @ weights)[:, None], batch.targets)
        torch.testing.assert_close(loss, decay.ridge.training_loss(weights, lam))

    def test_noise_is_the_penalty_on_average(self) -> None:
        noise = problem("groups", copies=4000)
        lam = torch.tensor([-1.0, 0.3], dtype=torch.float64)
        batch = noise.regularizer.batch(noise.ridge.train, noise.copies)
        weights = torch.linspace(-0.5, 0.5, 10, dtype=torch.float64)
        lam_rows = lam.expand(len(batch.inputs), 2)
        inputs = noise.regularizer.augment(batch.inputs, lam_rows, torch.Generator().manual_seed(0))
        loss = noise.loss_of((inputs @ weights)[:, None], batch.targets)
        # 160,000 rows whose squared losses spread about as much as they are large: 4 standard errors are 1.5 %.
        torch.testing.assert_close(loss, noise.ridge.training_loss(weights, lam), rtol=0.015, atol=0)


class TestNetworks:
    @pytest.mark.parametrize("name", NAMES)
    def test_start_at_given_weights(self, name: str) -> None:
        of = problem(name)
        network = at_weights(of.network(torch.Generator().manual_seed(0)), of.ridge.best_response(held_lambda(of)))
        inputs = of.ridge.train.inputs
        torch.testing.assert_close(network(inputs)[:, 0], inputs @ of.ridge.best_response(held_lambda(of)))

    def test_jacobian_of_the_effective_weights(self) -> None:
        of = problem("deep")
        hypernetwork = with_random_response(of)
        lam = torch.tensor([0.4], dtype=torch.float64)
        slope = slope_by_differences(lambda where: effective_weights(hypernetwork, where).detach(), lam)
        assert relative(effective_jacobian(hypernetwork, lam), slope) < 1e-7


def with_random_response(of: Problem) -> HyperNetwork:
    generator = torch.Generator().manual_seed(1)
    found = hypernetwork_of(of, of.network(generator), generator)
    for parameter in found.response_parameters():
        parameter.data.normal_(generator=generator)
    return found


class TestHeldLambda:
    """Theorem 3 of Delta-STN, by the tool's own code: the response converges where lambda and w_0 stay."""

    # Less noise than in the benchmark, so that what is left is the limit and not the last steps.
    CHANGES = {"copies": 16, "learning_rate": 0.05, "n_steps": 2000}  # noqa: RUF012

    def last(self, response: str) -> Point:
        return run(problem("decay", **self.CHANGES), response, 0, moves=False)[-1]

    def test_separate_comes_to_the_true_jacobian(self) -> None:
        of, last = problem("decay"), self.last("separate")
        assert last.error < bound_of_separate(of.ridge, of.sigma)
        assert last.cosine > 0.99
        assert last.weights < 1e-3

    def test_affine_comes_to_it_too_but_its_weights_are_off(self) -> None:
        """Delta-STN, section 3.2 and appendix G: what is learnt at lambda + eps is not the best at lambda."""
        last = self.last("affine")
        assert last.error < 0.2
        assert last.weights > 5e-3

    def test_a_response_learnt_with_the_wrong_sign_is_seen(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def wrong(hypernetwork: HyperNetwork, *arguments: Any) -> tuple[Tensor, Tensor]:
            learnt = separate(hypernetwork, *arguments)
            for parameter in hypernetwork.response_parameters():
                assert parameter.grad is not None
                parameter.grad.neg_()
            return learnt

        monkeypatch.setattr("exact.runs.RESPONSES", {"separate": Response(wrong, centered=True, apart=True)})
        monkeypatch.setitem(self.CHANGES, "n_steps", 300)
        assert not self.last("separate").error < 0.99


class TestResponses:
    def test_linearized_is_separate_where_the_model_is_linear_in_its_weights(self) -> None:
        separate, linearized = (
            run(problem("noise", n_steps=200), name, 0, moves=True) for name in ("separate", "linearized")
        )
        for one, other in zip(separate, linearized, strict=True):
            assert one.error == pytest.approx(other.error, rel=1e-8)
            assert one.lam == pytest.approx(other.lam, rel=1e-8)

    def test_linearized_is_not_separate_in_a_deep_network(self) -> None:
        gradients = [response_gradient(name, sigma=0.5) for name in ("separate", "linearized")]
        assert relative(*gradients) > 0.01

    def test_only_the_affine_response_learns_from_the_error_at_lambda_itself(self) -> None:
        """Delta-STN, eq. 3.6: without noise there is nothing to learn a response from."""
        assert response_gradient("affine", sigma=0.0).norm() > 0.1
        for name in ("centered", "separate", "linearized"):
            assert response_gradient(name, sigma=0.0).norm() < 1e-12


def response_gradient(name: str, sigma: float) -> Tensor:
    """Of phi_U and phi_V of the deep network at lambda = -1, as one vector."""
    of = problem("deep")
    lam = held_lambda(of)
    hypernetwork = with_random_response(of)
    if RESPONSES[name].centered:
        hypernetwork.center.copy_(lam)
    generator = torch.Generator().manual_seed(2)
    batch = of.regularizer.batch(of.ridge.train, of.copies)
    lam_rows = lam + sigma * torch.randn(len(batch.inputs), 1, dtype=torch.float64, generator=generator)

    def augment(inputs: Tensor, rows: Tensor) -> Tensor:
        augmented: Tensor = of.regularizer.augment(inputs, rows, generator)
        return augmented

    RESPONSES[name].gradients(hypernetwork, augment, of.loss_of, batch.inputs, batch.targets, lam_rows)
    gradients = [parameter.grad for parameter in hypernetwork.response_parameters()]
    return torch.cat([gradient.flatten() for gradient in gradients if gradient is not None])


@pytest.mark.slow
class TestSearchedLambda:
    """Delta-STN, section 5.1, by the tool's own code, at full length."""

    @pytest.mark.parametrize("name", ["noise", "decay-wide"])
    def test_separate_finds_the_best_lambda(self, name: str) -> None:
        last = run(problem(name), "separate", 1, moves=True)[-1]
        assert last.distance < 0.2
        assert last.excess < 2e-3
        assert last.cosine > 0.95

    def test_one_output_cannot_have_a_jacobian_of_rank_two(self) -> None:
        of = problem("groups")
        least = rank_one_error(of.ridge.best_response_jacobian(held_lambda(of)))
        assert run(of, "separate", 0, moves=False)[-1].error > least > 0.1


class TestCommand:
    @pytest.fixture(autouse=True)
    def _short(self, benchmarks_can_be_imported: None, monkeypatch: pytest.MonkeyPatch) -> None:
        short = {name: problem(name, n_steps=20) for name in NAMES}
        monkeypatch.setattr("exact.runs.N_POINTS", 4)
        for place in ("closed_forms", "closed_form.tasks", "closed_form.tables"):
            monkeypatch.setattr(module(place), "PROBLEMS", short)

    def command(self, folder: Path, *arguments: str) -> Result:
        places = ["--results", str(folder), "--picture", str(folder / "picture.png")]
        return CliRunner().invoke(module("closed_forms").main, [*arguments, *places])

    def kept(self, folder: Path) -> list[Any]:
        return [json.loads(line) for line in (folder / "closed-forms.jsonl").read_text(encoding="utf-8").splitlines()]

    def test_runs_keeps_and_draws(self, tmp_path: Path) -> None:
        result = self.command(tmp_path, "--seeds", "2", "--problems", "decay,deep")
        assert result.exit_code == 0, result.output
        assert "Linear network of 4 layers" in result.output
        assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
        kept = self.kept(tmp_path)
        assert len(kept) == 2 * 2 * 2 * len(RESPONSES)
        assert {(one["name"], one["further"]["response"]) for one in kept} == {
            (name, response) for name in ("decay", "deep") for response in RESPONSES
        }
        assert kept[0]["results"]["step"] == [0, 5, 10, 15, 20]
        assert len(kept[0]["results"]["distance"]) == 5
        assert kept[0]["made_by"]["device"] == "cpu"

    def test_draws_again_without_running(self, tmp_path: Path) -> None:
        self.command(tmp_path, "--seeds", "1", "--problems", "decay")
        before, picture = self.kept(tmp_path), tmp_path / "picture.png"
        picture.unlink()
        assert self.command(tmp_path, "--draw").exit_code == 0
        assert picture.exists()
        assert self.kept(tmp_path) == before

    def test_the_table_has_the_problems_in_their_order(self, tmp_path: Path) -> None:
        for name in ("decay", "noise"):
            result = self.command(tmp_path, "--seeds", "1", "--problems", name)
        titles = [line.split(" | ")[0] for line in result.output.splitlines() if line.startswith("| Linear")]
        assert titles == ["| Linear regression, input noise"] * 4 + ["| Linear regression, weight decay"] * 4

    @pytest.mark.parametrize(
        ("arguments", "reason"), [(("--problems", "nosie"), "unknown problem 'nosie'"), (("--draw",), "no results")]
    )
    def test_names_what_is_wrong(self, tmp_path: Path, arguments: tuple[str, ...], reason: str) -> None:
        result = self.command(tmp_path, *arguments)
        assert result.exit_code == 1
        assert reason in result.output
