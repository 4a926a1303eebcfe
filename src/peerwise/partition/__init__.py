"""Who holds which rows: ways to deal a table to the nodes, and how many rows each gets.

A partitioner is `name(rng, x, y, sizes)` and gives, for each node, the numbers of its rows: as many
as `sizes` says, and no row twice. Where the table has more rows than are asked for, the rows used
are a random draw, so that what all nodes hold together is an i.i.d. sample; where it has as many,
each is used once. (`label_drift`, `label_feature_drift` and `zipf` depart from this: see there.
Those in `OWN_SIZES` deal as many rows in all, but not to each node.)
"""

from peerwise.partition.drawn import dirichlet, zipf
from peerwise.partition.labels import (
    label_drift,
    label_feature_drift,
    label_sorted,
    mixed,
    sole_holder,
)
from peerwise.partition.registry import OWN_SIZES, PARTITIONS
from peerwise.partition.rows import Partition
from peerwise.partition.sizes import (
    SIZES,
    equal_sizes,
    exponential_sizes,
    log_uniform_sizes,
    uniform_sizes,
)
from peerwise.partition.skew import allocation, gini, gini_by_class, gini_of_totals
from peerwise.partition.ways import clusters, feature_drift, first_component, iid

__all__ = [
    "OWN_SIZES",
    "PARTITIONS",
    "SIZES",
    "Partition",
    "allocation",
    "clusters",
    "dirichlet",
    "equal_sizes",
    "exponential_sizes",
    "feature_drift",
    "first_component",
    "gini",
    "gini_by_class",
    "gini_of_totals",
    "iid",
    "label_drift",
    "label_feature_drift",
    "label_sorted",
    "log_uniform_sizes",
    "mixed",
    "sole_holder",
    "uniform_sizes",
    "zipf",
]
