"""Hypernetworks: hyper-layers, and the network into which they are inserted."""

from hba.hypernet.dropout import RatedDropout, TunedRates
from hba.hypernet.layers import HyperLayer
from hba.hypernet.network import HyperNetwork
from hba.hypernet.sharing import SHARING

__all__ = ["SHARING", "HyperLayer", "HyperNetwork", "RatedDropout", "TunedRates"]
