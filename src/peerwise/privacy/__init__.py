"""Differential privacy: budgets, sensitivities, noise, releases, a ledger and an audit."""

from peerwise.privacy.audit import audit
from peerwise.privacy.bounds import private_bounds
from peerwise.privacy.budget import Queries, check_epsilon, scales, split, split_gaussian
from peerwise.privacy.composition import Spent
from peerwise.privacy.ledger import Ledger, Overspent
from peerwise.privacy.mechanism import (
    Noise,
    Tape,
    gaussian,
    gaussian_sigma,
    laplace,
    summed_laplace,
    vetted,
)
from peerwise.privacy.release import Release, private_statistics, public_schema
from peerwise.privacy.sensitivity import bounded, clip, local, warn_local

__all__ = [
    "Ledger",
    "Noise",
    "Overspent",
    "Queries",
    "Release",
    "Spent",
    "Tape",
    "audit",
    "bounded",
    "check_epsilon",
    "clip",
    "gaussian",
    "gaussian_sigma",
    "laplace",
    "local",
    "private_bounds",
    "private_statistics",
    "public_schema",
    "scales",
    "split",
    "split_gaussian",
    "summed_laplace",
    "vetted",
    "warn_local",
]
