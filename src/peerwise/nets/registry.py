"""Nets by name, for rows that are images or plain features."""

import math
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from peerwise.core import Array
from peerwise.errors import BadSetting, UnknownName
from peerwise.nets.bayes import bayesian
from peerwise.nets.conv import cnn, lenet
from peerwise.nets.dense import mlp
from peerwise.nets.net import Net, network_of
from peerwise.nets.vary import crop_and_flip

__all__ = ["NETS", "bayesian_network", "network"]

Make: TypeAlias = Callable[[Array], Any]  # key -> module


def _mlp(shape: Sequence[int], classes: int, init: str = "he_uniform") -> Make:
    """Dense layers of 512, 256 and 128 rectified linear units: the DecDiff paper's for MNIST."""
    return mlp(math.prod(shape), classes, init=init)


def _mlp_200(shape: Sequence[int], classes: int, init: str = "he_uniform") -> Make:
    """Two dense layers of 200 rectified linear units."""
    return mlp(math.prod(shape), classes, (200, 200), init)


def _mlp_64(shape: Sequence[int], classes: int, init: str = "he_uniform") -> Make:
    """One dense layer of 64 rectified linear units."""
    return mlp(math.prod(shape), classes, (64,), init)


def _cnn_dropout(shape: Sequence[int], classes: int, init: str = "he_uniform") -> Make:
    """The net `cnn` with dropout of .25 and .5: the DecDiff paper's for EMNIST."""
    return cnn(shape, classes, init, dropout=True)


# what can be named where a net is expected: (shape of a row, classes, initialisation) -> make
NETS: dict[str, Callable[[Sequence[int], int, str], Make]] = {
    "mlp": _mlp,
    "mlp_200": _mlp_200,
    "mlp_64": _mlp_64,
    "cnn": cnn,
    "cnn_dropout": _cnn_dropout,
    "lenet": lenet,
}


def network(
    name: str,
    shape: Sequence[int],
    classes: int,
    init: str = "he_uniform",
    *,
    bayesian_layers: int = 0,
    samples: int = 10,
    paper_init: bool = False,
    moved: bool = False,
) -> Net:
    """The net called `name` of flat rows that hold images or features of `shape`.

    With `bayesian_layers`, its last dense layers are Bayesian (see `nets.bayesian`) and it predicts
    by so many `samples`. `moved`: it trains on images moved and mirrored at random
    (`crop_and_flip`).

    >>> network("lenet", (28, 28), 10).size
    61706
    """
    if name not in NETS:
        raise UnknownName("net", name, NETS)
    make = NETS[name](tuple(shape), classes, init)
    net = bayesian_network(make, math.prod(shape), classes, bayesian_layers, samples, paper_init)
    return net._replace(vary=crop_and_flip(shape)) if moved else net


def bayesian_network(
    make: Make,
    features: int,
    classes: int,
    layers: int,
    samples: int = 10,
    paper_init: bool = False,
) -> Net:
    """The net of `make` with its last `layers` Bayesian; with none, the net itself."""
    if layers and samples < 1:
        raise BadSetting(f"samples must be 1 or more, got {samples}")
    return network_of(
        bayesian(make, layers, paper_init), features, classes, samples if layers else 0
    )
