"""Settings of a policy search."""

import dataclasses
from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, Self

import pydantic
from pydantic import AfterValidator, BeforeValidator, Field

from hba.config.fields import Color, Decay, NotNegative, Positive
from hba.config.inheritance import values_of
from hba.config.presets import DEFAULT_PRESETS, PAPER_SETTINGS, SEARCH_PRESETS, find_preset
from hba.config.training import TrainingConfig
from hba.data.config import Seed, Size, resolved_data
from hba.errors import SettingsError
from hba.hypernet.sharing import SHARING
from hba.policy.space import SearchSpace
from hba.policy.spaces import search_space
from hba.runtime.unknown import unknown
from hba.runtime.validation import words


def _known_sharing(name: str) -> str:
    if name not in SHARING:
        raise SettingsError(unknown("sharing", name, SHARING))
    return name


class SearchConfig(TrainingConfig):
    """A policy search; symbols as in the paper's Algorithm 2."""

    algorithm: Literal["lookahead", "hba", "hba-lookahead", "fixed-noise", "hyper-population", "population"] = (
        "lookahead"
    )
    """lookahead, which needs no hypernetwork, hba (the paper's method, its Algorithm 6), both at once (hba-lookahead),
    or what hba is derived from: fixed-noise (5), hyper-population (4), population (3). Some of the settings below are
    for some of them only; what is for (6) or for lookahead is for hba-lookahead."""
    population_size: Annotated[int, Field(ge=2)] | None = None
    """Members of a population, each on its part of a batch; the batch size, as in the paper. For (3) and (4)."""
    weight_sigma: NotNegative = 0.001
    """Standard deviation of the noise on a member's weights when it explores (sigma'). For (3)."""
    batched_members: bool = True
    """Train all members in one computation rather than one after the other; the same numbers, but for layers that draw
    at random. For (3)."""
    space: str = "hba"
    """Search space: hba (ranges of the paper's Table 9) or pba (those of Population Based Augmentation)."""
    operations: Annotated[tuple[str, ...], BeforeValidator(words), Field(min_length=1)] | None = None
    """Operations to search over, separated by commas, where `all` stands for all of the space; all."""
    interpolation: Literal["nearest", "bilinear"] = "nearest"
    """How shears, translations and rotations find pixels between pixels: nearest or bilinear."""

    fill: Color | None = None
    """Colour of what shears, translations, rotations and Cutout uncover: 1 or 3 numbers in [0, 1], separated by commas;
    the mean of the training images."""
    sharing: Annotated[str, AfterValidator(_known_sharing)] = "first-bn"
    """Weight sharing strategy: which layers depend on lambda. For (4) to (6)."""
    response: Literal["affine", "centered", "separate", "linearized"] = "affine"
    """How the weights answer a change of lambda: affine in lambda (the paper); affine in its distance from where the
    search stands (centered); so, and the current weights learnt apart from the response, at twice the cost (separate);
    so, and the response learnt in the linearized network (linearized). For (5) and (6)."""
    response_weight_decay: NotNegative | None = None
    """Weight decay of the response in the hyper-layers; as weight_decay. For (4) to (6)."""
    initial_fraction: Annotated[float, Field(gt=0, lt=1)] = 0.5
    """Where in its range every hyperparameter starts."""
    warm_up_epochs: Annotated[int, Field(ge=0)] = 0
    """Epochs before the first lambda step. For (5), (6) and lookahead."""
    lambda_learning_rate: Positive = 0.03
    """Learning rate of the hyperparameters (alpha'). For (5), (6) and lookahead."""
    lambda_betas: Annotated[tuple[Decay, Decay], BeforeValidator(words)] = (0.9, 0.999)
    """Adam's two decay rates on the hyperparameters, separated by commas. For (5), (6) and lookahead."""
    trust_radius: Positive | None = None
    """Largest Euclidean length of a lambda step, in logits; no limit. For (5), (6) and lookahead."""
    logit_bound: Positive | None = None
    """Largest absolute logit of a hyperparameter; no limit. For (5), (6) and lookahead."""
    train_steps: Size = 4
    """Training steps between lambda steps, or between selections from a population (T_train)."""
    val_steps: Annotated[int, Field(ge=0)] = 1
    """Lambda steps in a row (T_val); 0 switches the search off. For (5), (6) and lookahead."""
    val_batch_size: Size | None = None
    """Validation images of a batch; as batch_size. For (5), (6) and lookahead."""
    val_batches: Size = 1
    """Validation batches whose gradients are averaged in a lambda step. For (5), (6) and lookahead."""
    val_statistics: Literal["running", "batch"] = "running"
    """What BatchNorm normalizes validation images of a lambda step with. For (5), (6) and lookahead."""
    sigma: NotNegative = 1.0
    """Standard deviation of the noise on lambda, in logits."""
    sigma_end: NotNegative | None = None
    """The same at the end of the search, reached linearly; as sigma. For (5), (6) and lookahead."""
    calibrate: bool = False
    """Divide the validation logits of a lambda step by the temperature that suits them best. For (5), (6) and
    lookahead."""
    reward_draws: Size = 4
    """Draws for each image that a lambda step compares with each other; 1 compares images instead, and look-ahead's
    first lambda step then by what was drawn for each when it was trained on. For lookahead."""
    reward_limit: Positive | None = None
    """Largest absolute reward, in standard deviations of those of its lambda step; no limit. For lookahead."""
    probes: Annotated[int, Field(ge=0)] = 10
    """Times, at most, when the search tries out whether its last moves lowered the validation loss, by two short
    trainings; fewer where they would cost more than a tenth of the search. The schedule does not depend on it. For (5),
    (6) and lookahead."""
    validate_every: Size = 10
    """Epochs between two measurements on the whole validation set."""
    seed: Seed = 0
    """Decides weights, batches and draws."""

    @classmethod
    def from_preset(
        cls, settings: Mapping[str, Any], preset: str | None = None, *, paper: bool = False
    ) -> "SearchConfig":
        """The preset's values, which settings override. None takes the preset of the dataset, if it has one.

        paper: what neither the paper's tables nor settings say is as in the paper, not the default.
        """
        settings = resolved_data(settings)
        data = settings.get("data") or (find_preset(preset)["data"] if preset else "digits")
        preset = preset or (DEFAULT_PRESETS.get(data) if isinstance(data, str) else None)
        values = values_of(preset, SEARCH_PRESETS, data, settings) if preset else {}
        as_in_paper = _paper_settings(settings.get("algorithm")) if paper else {}
        config = cls.make({**values, **as_in_paper, "data": data, **settings})
        config.check_idle(settings)
        return config

    @pydantic.model_validator(mode="after")
    def _check_space(self) -> Self:
        self.search_space()
        return self

    @pydantic.model_validator(mode="after")
    def _check_lambda_steps(self) -> Self:
        if self.warm_up_epochs and self.warm_up_epochs >= self.epochs:
            raise SettingsError(
                f"warm_up_epochs must leave epochs for lambda steps, got {self.warm_up_epochs} of {self.epochs} epochs"
            )
        if "reward_draws" not in IDLE_SETTINGS[self.algorithm] and (self.sigma == 0 or self.sigma_end == 0):
            raise SettingsError(
                f"{self.algorithm} learns magnitudes from the noise on them: sigma and sigma_end must be above 0"
            )
        return self

    @pydantic.model_validator(mode="after")
    def _check_population(self) -> Self:
        if self.population_size is not None and self.batch_size % self.population_size:
            raise SettingsError(
                "every member must get the same number of images of a batch, "
                f"got batch_size {self.batch_size} for population_size {self.population_size}"
            )
        return self

    def check_idle(self, given: Mapping[str, Any]) -> None:
        """SettingsError for a setting given, other than its default, that the algorithm does not read."""
        for name in IDLE_SETTINGS[self.algorithm]:
            if name in given and getattr(self, name) != type(self).model_fields[name].default:
                raise SettingsError(f"{name} has no effect on the algorithm {self.algorithm}; leave it away")

    def search_space(self) -> SearchSpace:
        """The space that these settings name."""
        return search_space(self.space, self.operations, self.interpolation)

    def resolved(self) -> "SearchConfig":
        """The same settings with the image size and the baseline that they stand for written out."""
        baseline = self.baseline_augmentation()
        return self.model_copy(update={"image_size": self.side, **dataclasses.asdict(baseline)})


_OF_POPULATIONS = ("population_size", "weight_sigma", "batched_members")
_OF_HYPER_LAYERS = ("sharing", "response", "response_weight_decay")
_OF_REWARDS = ("reward_draws", "reward_limit")
_OF_LAMBDA_STEPS = (
    "lambda_learning_rate",
    "lambda_betas",
    "trust_radius",
    "logit_bound",
    "warm_up_epochs",
    "val_steps",
    "val_batch_size",
    "val_batches",
    "val_statistics",
    "sigma_end",
    "calibrate",
    "probes",
)

IDLE_SETTINGS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "hba": (*_OF_POPULATIONS, *_OF_REWARDS),
        "lookahead": (*_OF_POPULATIONS, *_OF_HYPER_LAYERS),
        "hba-lookahead": _OF_POPULATIONS,
        "fixed-noise": (*_OF_POPULATIONS, *_OF_REWARDS),
        "hyper-population": ("weight_sigma", "batched_members", "response", *_OF_REWARDS, *_OF_LAMBDA_STEPS),
        "population": (*_OF_REWARDS, *_OF_HYPER_LAYERS, *_OF_LAMBDA_STEPS),
    }
)
"""By algorithm, the settings that it does not read."""


def _paper_settings(algorithm: Any) -> dict[str, Any]:
    """Those that the algorithm reads; None is the paper's. What is no algorithm is found out later."""
    name = PAPER_SETTINGS["algorithm"] if algorithm is None else algorithm
    idle = IDLE_SETTINGS.get(name, ()) if isinstance(name, str) else ()
    return {name: value for name, value in PAPER_SETTINGS.items() if name not in idle}
