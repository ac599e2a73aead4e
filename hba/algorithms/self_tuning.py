"""Self-Tuning Networks, which HBA builds on: STN (MacKay et al. 2019) and Delta-STN
(Bae and Grosse 2020).

Both make HBA's steps with other settings; symbols as in hypergradient.py. All layers
depend on lambda, including the last, and the noise is learnt: sigma has an entry for
each hyperparameter. As in the papers, the metrics of a search are measured at lambda,
without noise.

The optimizers of the papers are not part of the algorithm: SGD with classical momentum,
and a learning rate that falls when the validation loss stops falling (STN), or drops to
a fifth three times (Delta-STN). To use them, give the settings optimizer,
learning_rate, learning_rate_schedule and weight_decay.
"""

from typing import ClassVar

from hba.algorithms.hypergradient import Entropy, Hypergradient, Response
from hba.algorithms.lambda_steps import AtLeastZero, LambdaOptimizer
from hba.config.training import NotNegative, Positive, Sharing
from hba.data.config import Size


class SelfTuning(Hypergradient):
    """STN. The defaults are those of its CIFAR-10 experiment (4.3, appendix E)."""

    name: ClassVar[str] = "stn"
    has_presets: ClassVar[bool] = False

    sharing: Sharing = "every"
    sigma: NotNegative = 0.5
    sigma_entropy: Entropy | None = 0.001
    warm_up_epochs: AtLeastZero = 5
    lambda_learning_rate: Positive = 0.003


class DeltaSelfTuning(SelfTuning):
    """Delta-STN. The defaults are the settings of its image experiments (section 5.2
    and the authors' public code).

    There, the response learns at the w_0 after its step; here, both learn at the same
    w_0, in one step.
    """

    name: ClassVar[str] = "delta-stn"

    train_steps: Size = 5
    response: Response = "linearized"
    sigma: NotNegative = 1.0
    lambda_learning_rate: Positive = 0.01
    lambda_optimizer: LambdaOptimizer = "rmsprop"
