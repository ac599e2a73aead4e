"""Layers that normalise over a whole batch, or draw for it, while each process has only
some of its images.

Synchronised batch normalisation uses sums over the processes, with backward and forward
derivatives; nn.Dropout draws its mask for the whole batch. A TorchFunctionMode replaces
F.batch_norm and F.dropout, so networks are not changed.
"""

import contextlib
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.autograd import forward_ad
from torch.overrides import TorchFunctionMode

from hba.distributed.collectives import local_shard, total
from hba.distributed.process_info import size


class _Sum(torch.autograd.Function):
    """The sum of a tensor over the processes. All of them use it, so its gradient is
    the sum of theirs.
    """

    @staticmethod
    def forward(tensor: Tensor) -> Tensor:
        return total(tensor.contiguous())

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        """A sum is linear and needs nothing for its derivative."""

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return all_sum(gradient)

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Tensor:
        return all_sum(tangent)


def all_sum(tensor: Tensor) -> Tensor:
    """The sum over the processes, with backward and forward derivatives."""
    return _Sum.apply(tensor)


def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """F.batch_norm of (B, C, ...).

    In training mode, it uses the statistics of the whole batch.
    """
    if not training:
        return F.batch_norm(
            input, running_mean, running_var, weight, bias, training, momentum, eps
        )
    # Like PyTorch's own function, which computes in single precision.
    exact = input.float() if input.dtype in (torch.bfloat16, torch.float16) else input
    reduced = [0, *range(2, input.ndim)]
    count = input.numel() // input.shape[1] * size()
    shape = (1, -1, *[1] * (input.ndim - 2))
    mean = all_sum(exact.sum(dim=reduced)) / count
    centered = exact - mean.view(shape)
    variance = all_sum(centered.square().sum(dim=reduced)) / count
    if running_mean is not None and running_var is not None:
        with torch.no_grad():
            running_mean.lerp_(_value(mean).to(running_mean), momentum)
            running_var.lerp_(
                _value(variance).to(running_var) * (count / (count - 1)), momentum
            )
    normalized = centered * (variance + eps).rsqrt().view(shape)
    if weight is not None:
        normalized = normalized * weight.view(shape)
    return (normalized if bias is None else normalized + bias.view(shape)).to(
        input.dtype
    )


def dropout(
    input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False
) -> Tensor:
    """F.dropout of (B, ...).

    In training mode, the mask is drawn for the whole batch; on a CPU, it is the mask
    that one process would draw.
    """
    if not training or p in (0, 1):
        # PyTorch draws nothing then.
        return F.dropout(input, p, training, inplace)
    mask = torch.empty(
        len(input) * size(), *input.shape[1:], dtype=input.dtype, device=input.device
    )
    scaled = local_shard(mask.bernoulli_(1 - p).div_(1 - p))
    return input.mul_(scaled) if inplace else input * scaled


class _WholeBatch(TorchFunctionMode):
    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        if size() > 1:
            func = {F.batch_norm: batch_norm, F.dropout: dropout}.get(func, func)
        return func(*args, **(kwargs or {}))


def whole_batch_layers() -> contextlib.AbstractContextManager[object]:
    """Within this context, layers work on the batch of all processes.

    These are F.batch_norm and F.dropout.
    """
    return _WholeBatch() if size() > 1 else contextlib.nullcontext()


def _value(tensor: Tensor) -> Tensor:
    """The tensor without a graph and without a tangent."""
    return forward_ad.unpack_dual(tensor).primal.detach()
