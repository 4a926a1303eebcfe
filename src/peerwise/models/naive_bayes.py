"""Naive Bayes with Gaussian and categorical features.

Appendix A of "Decentralized Federated Learning of Probabilistic Generative Classifiers"
(Pérez, Echegoyen, Santafé). The uniform start printed there, moments (m0/r, m0/r, 0), has variance
-1; what is meant, and done here, is (m0/r, 0, m0/r): mean 0, variance 1 for every class.
"""

from collections.abc import Sequence
from functools import cache
from typing import Annotated, Literal

from annotated_types import Gt

from peerwise.declare import declares
from peerwise.models.block import SMALLEST_SHARE, assemble, check_arguments
from peerwise.models.family import Model
from peerwise.models.gaussian import SMALLEST_VARIANCE, diagonal
from peerwise.models.nominal import nominal


@declares("model")
def naive_bayes(
    cardinalities: Sequence[int],
    classes: int,
    missing: bool = False,
    *,
    normalise: Annotated[
        Literal["cells", "rows"], "what the cells of a feature are divided by"
    ] = "cells",
    smallest_share: Annotated[float, Gt(0), "least count, as a share of all rows"] = SMALLEST_SHARE,
    smallest_variance: Annotated[float, Gt(0), "least variance of a feature"] = SMALLEST_VARIANCE,
) -> Model:
    """p(y) prod_i p(x_i | y). `cardinalities`: 0 for a Gaussian feature, else its categories.

    Features come in columns of x in that order: standardised numbers, and category codes 0, 1, ...
    With `missing`, NaN is a missing value: it adds nothing to the statistics (every Gaussian
    feature then counts its own rows) and nothing to the log-likelihood.

    For statistics with noise in them: `normalise` divides the cells of a feature by their own sum
    ("cells") or by the rows of the class ("rows"); no count is less than `smallest_share` of all
    rows, and no variance less than `smallest_variance`.

    >>> naive_bayes((0, 0, 3), classes=2).size  # 1 + (x, x^2) twice + one-hot of 3
    8
    """
    floors = normalise == "rows", float(smallest_share), float(smallest_variance)
    return _naive_bayes(*check_arguments(cardinalities, classes), bool(missing), False, *floors)


@declares("model")
def shared_naive_bayes(cardinalities: Sequence[int], classes: int, missing: bool = False) -> Model:
    """Naive Bayes whose Gaussian features have one variance for all classes.

    Its decisions are linear in x, and the sums of x^2 are stored once for all classes.

    >>> model = shared_naive_bayes((0, 0, 3), classes=2)
    >>> model.size, model.shared  # 1 + x twice + one-hot of 3, and x^2 twice
    (6, 2)
    """
    return _naive_bayes(*check_arguments(cardinalities, classes), bool(missing), True)


@cache
def _naive_bayes(
    cardinalities: tuple[int, ...],
    classes: int,
    missing: bool,
    shared: bool,
    by_rows: bool = False,
    share: float = SMALLEST_SHARE,
    least: float = SMALLEST_VARIANCE,
) -> Model:
    numeric = [i for i, r in enumerate(cardinalities) if r == 0]
    named = [i for i, r in enumerate(cardinalities) if r > 0]
    levels = [cardinalities[i] for i in named]
    blocks = [
        diagonal(numeric, len(cardinalities), shared=shared, missing=missing, least=least),
        nominal(named, levels, [-1] * len(named), missing=missing, by_rows=by_rows),
    ]
    name = "shared_naive_bayes" if shared else "naive_bayes"
    return assemble(name, cardinalities, classes, blocks, share=share)
