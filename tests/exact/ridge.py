"""Least squares with a penalty on each weight: best response, its Jacobian and the best lambda, exactly.

    symbol      in the code            meaning                                                     shape
    lambda      lam                    hyperparameters                                             (n,)
    r(lambda)   penalties(lam)         exp(rate lambda_g), g the group of a feature                (d,)
    L_T         training_loss          |X w - y|^2 / N + sum_j r_j(lambda) w_j^2
    w*(lambda)  best_response(lam)     (S + diag r)^-1 c with S = X^T X / N and c = X^T y / N      (d,)
    L_V(w)      validation_loss        |X_V w - y_V|^2 / N_V

Everything is float64.
"""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from sklearn.datasets import load_diabetes
from torch import Tensor


@dataclass(frozen=True)
class Rows:
    """inputs (N, d) and their targets (N,)."""

    inputs: Tensor
    targets: Tensor


@dataclass(frozen=True)
class Ridge:
    """groups (d,): which lambda each feature answers to. rate: of the penalties in lambda."""

    train: Rows
    validation: Rows
    groups: Tensor
    rate: float

    @property
    def n_features(self) -> int:
        return self.train.inputs.shape[1]

    @property
    def n(self) -> int:
        return int(self.groups.max()) + 1

    @cached_property
    def second_moments(self) -> Tensor:
        """S (d, d)."""
        return self.train.inputs.T @ self.train.inputs / len(self.train.inputs)

    @cached_property
    def target_moments(self) -> Tensor:
        """c (d,)."""
        return self.train.inputs.T @ self.train.targets / len(self.train.inputs)

    def penalties(self, lam: Tensor) -> Tensor:
        return torch.exp(self.rate * lam[self.groups])

    def hessian(self, lam: Tensor) -> Tensor:
        """Half of L_T's second derivative, S + diag r: (d, d)."""
        return self.second_moments + self.penalties(lam).diag()

    def training_loss(self, weights: Tensor, lam: Tensor) -> Tensor:
        residuals = self.train.inputs @ weights - self.train.targets
        return residuals.square().mean() + (self.penalties(lam) * weights.square()).sum()

    def validation_loss(self, weights: Tensor) -> Tensor:
        return (self.validation.inputs @ weights - self.validation.targets).square().mean()

    def best_response(self, lam: Tensor) -> Tensor:
        return torch.linalg.solve(self.hessian(lam), self.target_moments)

    def best_response_jacobian(self, lam: Tensor) -> Tensor:
        """dw*/dlambda = -(S + diag r)^-1 diag(w*) dr/dlambda (Delta-STN, eq. 2.3): (d, n)."""
        slopes = self.rate * self.penalties(lam)[:, None] * torch.eye(self.n, dtype=lam.dtype)[self.groups]
        return -torch.linalg.solve(self.hessian(lam), self.best_response(lam)[:, None] * slopes)

    def excess(self, lam: Tensor) -> float:
        """How much more validation loss the best response has at lam than at the best lambda."""
        losses = [self.validation_loss(self.best_response(where)) for where in (lam, self.best_lambda)]
        return float(losses[0] - losses[1])

    @cached_property
    def best_lambda(self) -> Tensor:
        """Where the validation loss of the best response is least: (n,)."""
        lam = torch.zeros(self.n, dtype=torch.float64, requires_grad=True)
        optimizer = torch.optim.LBFGS([lam], max_iter=200, tolerance_grad=1e-12, line_search_fn="strong_wolfe")

        def closure() -> Tensor:
            optimizer.zero_grad()
            loss = self.validation_loss(self.best_response(lam))
            loss.backward()
            return loss

        optimizer.step(closure)
        return lam.detach()


def jacobian_limits(ridge: Ridge, lam: Tensor, sigma: float) -> dict[str, Tensor]:
    """The Jacobian (d, 1) that each response converges to at a fixed lam (1,), for noise of any size.

    The weights w_0 + Theta eps meet the penalty r(lambda + eps), whose moments m_k = E[eps^k r(lambda + eps)] a normal
    eps has in closed form. CallbackList w_0 and Theta solve

        (S + m_0) w_0 + m_1 Theta = c          m_1 w_0 + (sigma^2 S + m_2) Theta = 0

    and apart only the second, with the best response for w_0. The limits are dw*/dlambda where sigma is 0. A linear
    network's effective weights are not affine in eps, but its linearization is: its limit is that of `separate`.
    """
    identity = torch.eye(ridge.n_features, dtype=lam.dtype)
    spread = (ridge.rate * sigma) ** 2
    m_0 = ridge.penalties(lam)[0] * math.exp(spread / 2)
    m_1, m_2 = ridge.rate * sigma**2 * m_0, sigma**2 * (1 + spread) * m_0
    response_hessian = sigma**2 * ridge.second_moments + m_2 * identity
    apart = -m_1 * torch.linalg.solve(response_hessian, ridge.best_response(lam)[:, None])
    both = torch.cat(
        [
            torch.cat([ridge.second_moments + m_0 * identity, m_1 * identity], dim=1),
            torch.cat([m_1 * identity, response_hessian], dim=1),
        ]
    )
    constants = torch.cat([ridge.target_moments, torch.zeros_like(ridge.target_moments)])
    together = torch.linalg.solve(both, constants)[ridge.n_features :, None]
    return {"affine": together, "centered": together, "separate": apart, "linearized": apart}


def rank_one_error(jacobian: Tensor) -> float:
    """The least relative error of a Jacobian (d, n) of rank one, all that a hyper-layer of one output can have."""
    values = torch.linalg.svdvals(jacobian)
    return float(values[1:].norm() / values.norm())


def diabetes(n_train: int, groups: Tensor, rate: float, split_seed: int) -> Ridge:
    """Scikit-learn's diabetes data (442 rows, 10 features), standardized: n_train rows to learn from, the rest to
    validate. Few rows, so that the best penalty is not zero."""
    inputs, targets = (torch.as_tensor(values, dtype=torch.float64) for values in load_diabetes(return_X_y=True))
    inputs = (inputs - inputs.mean(dim=0)) / inputs.std(dim=0)
    targets = (targets - targets.mean()) / targets.std()
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(split_seed))
    train, validation = order[:n_train], order[n_train:]
    return Ridge(Rows(inputs[train], targets[train]), Rows(inputs[validation], targets[validation]), groups, rate)


def relative_limits(ridge: Ridge, held: float, sigma: float, depth: int) -> dict[str, float | None]:
    """By response, the relative error of the Jacobian that remains for ever at a held lambda; None where it is unknown.

    With several lambdas, the least error of a hyper-layer of one output. In a deep linear network only the linearized
    response has the limit of linear regression.
    """
    lam = torch.full((ridge.n,), held, dtype=torch.float64)
    true = ridge.best_response_jacobian(lam)
    if ridge.n > 1:
        return dict.fromkeys(("affine", "centered", "separate", "linearized"), rank_one_error(true))
    errors = {
        name: float((limit - true).norm() / true.norm()) for name, limit in jacobian_limits(ridge, lam, sigma).items()
    }
    return {name: error if depth == 1 or name == "linearized" else None for name, error in errors.items()}
