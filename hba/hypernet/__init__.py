"""Hypernetworks: hyper-layers, and inserting them into an ordinary network."""

from hba.hypernet.dropout import RatedDropout, TunedRates
from hba.hypernet.layers import HyperBatchNorm2d, HyperConv2d, HyperLayer, HyperLinear
from hba.hypernet.network import HyperNetwork
from hba.hypernet.sharing import SHARING

__all__ = [
    "SHARING",
    "HyperBatchNorm2d",
    "HyperConv2d",
    "HyperLayer",
    "HyperLinear",
    "HyperNetwork",
    "RatedDropout",
    "TunedRates",
]
