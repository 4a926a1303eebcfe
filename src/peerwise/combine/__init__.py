"""Combination rules: weigh, average in a chart, step; and rules over slots.

`__all__` names the rules. Barycenters of arrays (`barycenter_of` and the like) and divergences can
be imported from here too, but are not rules.
"""

from peerwise.combine.alpha import alpha_barycenter
from peerwise.combine.alpha import alpha_barycenter_of as alpha_barycenter_of
from peerwise.combine.barycenter import barycenter
from peerwise.combine.barycenter import barycenter_of as barycenter_of
from peerwise.combine.full import FullGaussian as FullGaussian
from peerwise.combine.full import full_barycenter
from peerwise.combine.full import full_barycenter_of as full_barycenter_of
from peerwise.combine.slots import median, trimmed_mean
from peerwise.combine.step import decdiff
from peerwise.combine.weigh import alone, cfa, data_size, equal, metropolis, worst

__all__ = [
    "alone",
    "alpha_barycenter",
    "barycenter",
    "cfa",
    "data_size",
    "decdiff",
    "equal",
    "full_barycenter",
    "median",
    "metropolis",
    "trimmed_mean",
    "worst",
]
