"""Combination rules: weigh, average in a chart, step; and rules over slots."""

from peerwise.combine.barycenter import barycenter, barycenter_of
from peerwise.combine.slots import median, trimmed_mean
from peerwise.combine.weigh import alone, cfa, data_size, equal, metropolis, worst

__all__ = [
    "alone",
    "barycenter",
    "barycenter_of",
    "cfa",
    "data_size",
    "equal",
    "median",
    "metropolis",
    "trimmed_mean",
    "worst",
]
