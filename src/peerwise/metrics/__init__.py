"""What is measured: probes of a running network, and what clinicians ask of a classifier.

`calibration` and `fairness` here are the probe and the function, not the modules of that name.
"""

from peerwise.metrics.calibration import (
    Reliability,
    binned,
    brier,
    ece,
    entropy,
    nll,
    ood_auroc,
    reliability,
)
from peerwise.metrics.clinical import by_node, confusion, report
from peerwise.metrics.curves import (
    Reached,
    box,
    characteristic_time,
    characteristic_times,
    confidence,
    traffic,
)
from peerwise.metrics.fairness import Fairness, fairness, own_rows
from peerwise.metrics.joining import Difference, difference, should_join
from peerwise.metrics.probes import (
    calibration,
    consensus,
    errors,
    federated_weights,
    guards,
    together,
)

__all__ = [
    "Difference",
    "Fairness",
    "Reached",
    "Reliability",
    "binned",
    "box",
    "brier",
    "by_node",
    "calibration",
    "characteristic_time",
    "characteristic_times",
    "confidence",
    "confusion",
    "consensus",
    "difference",
    "ece",
    "entropy",
    "errors",
    "fairness",
    "federated_weights",
    "guards",
    "nll",
    "ood_auroc",
    "own_rows",
    "reliability",
    "report",
    "should_join",
    "together",
    "traffic",
]
