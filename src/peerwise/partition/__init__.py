"""Who holds which rows: ways to deal a table to the nodes, and how many rows each gets.

A partitioner is `name(rng, x, y, sizes)` and gives, for each node, the numbers of its rows: as many
as `sizes` says, and no row twice. Where the table has more rows than are asked for, the rows used
are a random draw, so that what all nodes hold together is an i.i.d. sample; where it has as many,
each is used once. (`label_drift`, `label_feature_drift`, `sole_holder` and `zipf` depart from this:
see there. `dirichlet_by_class` and `zipf` deal as many rows in all, but not to each node.)

A shift is `name(rng, x, y, owned, cardinalities)` and changes the rows that nodes hold, each node's
in its own way: what they see, or how they label it.
"""

from peerwise.partition.drawn import dirichlet, dirichlet_by_class, zipf
from peerwise.partition.labels import (
    label_drift,
    label_feature_drift,
    label_sorted,
    mixed,
    sole_holder,
)
from peerwise.partition.shifts import (
    concept_drift,
    concept_shift,
    feature_skew,
    unshifted,
)
from peerwise.partition.sizes import (
    equal_sizes,
    exponential_sizes,
    log_uniform_sizes,
    uniform_sizes,
)
from peerwise.partition.skew import allocation, gini, gini_by_class, gini_of_totals
from peerwise.partition.ways import clusters, feature_drift, first_component, iid

__all__ = [
    "allocation",
    "clusters",
    "concept_drift",
    "concept_shift",
    "dirichlet",
    "dirichlet_by_class",
    "equal_sizes",
    "exponential_sizes",
    "feature_drift",
    "feature_skew",
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
    "unshifted",
    "zipf",
]
