"""Discriminant analysis: numbers that depend on each other, with a full covariance.

Categorical features, where there are some, are independent of them and of each other given the
class, as in naive Bayes.
"""

from collections.abc import Sequence
from functools import cache
from typing import Annotated, TypeAlias

from annotated_types import Ge, Le

from peerwise.declare import declares
from peerwise.models.block import assemble, check_arguments
from peerwise.models.covariance import full
from peerwise.models.family import Model
from peerwise.models.nominal import nominal

Shrinkage: TypeAlias = Annotated[
    float, Ge(0), Le(1), "share of a covariance that is a multiple of the identity"
]


@declares("model")
def qda(
    cardinalities: Sequence[int], classes: int, missing: bool = False, *, shrinkage: Shrinkage = 0.0
) -> Model:
    """Quadratic discriminant analysis: every class has a mean and a covariance of its own.

    An eigenvalue of a covariance is never smaller than 1e-3 of a standardised feature's variance;
    `shrinkage` in 0..1 mixes in the multiple of the identity that has the same trace. Missing
    numbers are integrated out in prediction; in the sums a row counts only with all its numbers.

    >>> qda((0, 0, 3), classes=2).size  # 1 + x twice + x_1^2, x_1 x_2, x_2^2 + one-hot of 3
    9
    """
    return _made("qda", *check_arguments(cardinalities, classes), bool(missing), float(shrinkage))


@declares("model")
def lda(
    cardinalities: Sequence[int], classes: int, missing: bool = False, *, shrinkage: Shrinkage = 0.0
) -> Model:
    """Linear discriminant analysis: the classes have means of their own and share a covariance.

    The sums of x_i x_j are stored once for all classes, and cancel in p(y | x). Otherwise as `qda`.

    >>> model = lda((0, 0, 3), classes=2)
    >>> model.size, model.shared  # 1 + x twice + one-hot of 3; x_1^2, x_1 x_2, x_2^2
    (6, 3)
    """
    return _made("lda", *check_arguments(cardinalities, classes), bool(missing), float(shrinkage))


@cache
def _made(
    name: str, cardinalities: tuple[int, ...], classes: int, missing: bool, shrinkage: float
) -> Model:
    numeric = [i for i, r in enumerate(cardinalities) if r == 0]
    named = [i for i, r in enumerate(cardinalities) if r > 0]
    blocks = [
        full(numeric, shared=name == "lda", missing=missing, shrinkage=shrinkage),
        nominal(named, [cardinalities[i] for i in named], [-1] * len(named), missing=missing),
    ]
    return assemble(name, cardinalities, classes, blocks)
