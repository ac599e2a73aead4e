"""Both gradients at once: what a lambda step is made of, and which of the two finds what."""

import copy

import pytest
import torch
import torch.nn.functional as F
from search_steps import begun, next_validation, respond_at_random, space_of, step

from hba.search import hba_lookahead, lookahead
from hba.search.hba_lookahead import update_lambda
from hba.search.lookahead import Trial, augmented, expected_score


@pytest.mark.parametrize("response", ["affine", "centered"])
@pytest.mark.parametrize("draws", [1, 3])
def test_a_lambda_step_goes_by_both_gradients_at_length_one(draws: int, response: str) -> None:
    """Again, slowly: the gradient of every image apart, and the hypergradient by itself."""
    space = space_of("Rotate", "Invert", "Color", count_probabilities=(0.0, 0.3, 0.7))
    problem, state = begun(algorithm="hba-lookahead", space=space, initial_fraction=0.4, response=response)
    respond_at_random(state.hypernetwork, 0.1)
    step(problem, state, 3)
    batch, batch_labels = state.train_stream.next()
    trial = augmented(problem, state, batch, batch_labels, draws)
    ((images, labels),) = next_validation(problem, state)
    hypernetwork = copy.deepcopy(state.hypernetwork).eval()
    at = state.lam.detach().clone().requires_grad_()
    loss = F.cross_entropy(hypernetwork(images, at), labels)
    through_response, *direction = torch.autograd.grad(loss, [at, *hypernetwork.parameters()])

    def reward(image: int) -> torch.Tensor:
        own_lam = state.lam.detach() + trial.sigma * trial.noise[image]
        logits = hypernetwork(trial.images[image : image + 1], own_lam[None])
        of_image = torch.autograd.grad(
            F.cross_entropy(logits, trial.labels[image : image + 1]), list(hypernetwork.parameters())
        )
        return torch.stack([(mine * v).sum() for mine, v in zip(of_image, direction, strict=True)]).sum()

    rewards = torch.stack([reward(image) for image in range(len(trial.labels))])
    by_draw = rewards.view(draws, -1)
    compared = rewards - rewards.mean() if draws == 1 else (by_draw - by_draw.mean(0)).flatten()
    of_step = -expected_score(space, trial, compared)
    expected = through_response / through_response.norm() + of_step / of_step.norm()
    update_lambda(problem, state, trial)
    torch.testing.assert_close(state.lam.grad, expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(("given", "judged"), [(1, 8), (3, 24)])
def test_as_many_draws_are_judged_as_set(given: int, judged: int, monkeypatch: pytest.MonkeyPatch) -> None:
    problem, state = begun(algorithm="hba-lookahead", reward_draws=given, train_steps=2)
    seen: list[Trial] = []

    def remember(problem: object, state: object, trial: Trial) -> None:
        seen.append(trial)

    monkeypatch.setattr(hba_lookahead, "update_lambda", remember)
    step(problem, state, 4)
    assert [(len(trial.labels), trial.draws) for trial in seen] == [(judged, given)] * 2


def test_before_anything_is_learnt_of_the_response_look_ahead_alone_moves_lambda() -> None:
    """With phi_V at zero the weights do not answer; the rewards are those of look-ahead where phi_V is not trained."""
    together, state = begun(algorithm="hba-lookahead", initial_fraction=0.4, sharing="first-bn")
    alone, plain_state = begun(algorithm="lookahead", initial_fraction=0.4)
    for parameter in state.hypernetwork.response_parameters():
        parameter.requires_grad_(False)
    images, labels = plain_state.train_stream.next()
    trial = augmented(alone, plain_state, images, labels, draws=3)
    update_lambda(together, state, trial)
    lookahead.update_lambda(alone, plain_state, trial)
    torch.testing.assert_close(state.lam.grad, F.normalize(plain_state.lam.grad, dim=0), rtol=1e-4, atol=1e-6)


def test_a_centered_response_goes_with_lambda() -> None:
    problem, state = begun(algorithm="hba-lookahead", response="centered")
    start = state.hypernetwork.center.clone()
    step(problem, state, 4)
    assert not torch.equal(state.hypernetwork.center, start)
    assert torch.equal(state.hypernetwork.center, state.lam.detach())
