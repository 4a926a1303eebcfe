"""What is measured: probes of a running network, and what clinicians ask of a classifier."""

from peerwise.metrics.clinical import (
    Difference,
    by_node,
    confusion,
    difference,
    report,
    should_join,
)
from peerwise.metrics.curves import (
    Reached,
    box,
    characteristic_time,
    characteristic_times,
    confidence,
    traffic,
)
from peerwise.metrics.probes import (
    bytes_per_link,
    consensus,
    errors,
    federated_weights,
    gap,
    guards,
    node_std,
    rounds_to_gap,
    together,
)

__all__ = [
    "Difference",
    "Reached",
    "box",
    "by_node",
    "bytes_per_link",
    "characteristic_time",
    "characteristic_times",
    "confidence",
    "confusion",
    "consensus",
    "difference",
    "errors",
    "federated_weights",
    "gap",
    "guards",
    "node_std",
    "report",
    "rounds_to_gap",
    "should_join",
    "together",
    "traffic",
]
