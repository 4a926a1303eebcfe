"""Ways to deal rows by name."""

from peerwise.partition.drawn import dirichlet, dirichlet_by_class, zipf
from peerwise.partition.labels import (
    label_drift,
    label_feature_drift,
    label_sorted,
    mixed,
    sole_holder,
)
from peerwise.partition.rows import Partition
from peerwise.partition.ways import clusters, feature_drift, iid

__all__ = ["OWN_SIZES", "PARTITIONS"]

# Partitions by name, called as f(rng, x, y, sizes).
PARTITIONS: dict[str, Partition] = {
    "iid": iid,
    "clusters": clusters,
    "feature_drift": feature_drift,
    "label_drift": label_drift,
    "label_feature_drift": label_feature_drift,
    "label_sorted": label_sorted,
    "mixed": mixed,
    "sole_holder": sole_holder,
    "dirichlet": dirichlet,
    "dirichlet_by_class": dirichlet_by_class,
    "zipf": zipf,
}

# Partitions that take from `sizes` only how many nodes and how many rows in all.
OWN_SIZES: set[str] = {"dirichlet_by_class", "zipf"}
