"""Nets by name, for rows that are images or plain features."""

import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from annotated_types import Ge

from peerwise.core import Array
from peerwise.declare import build, canonical, declares
from peerwise.errors import BadSetting
from peerwise.nets import conv, dense
from peerwise.nets.bayes import bayesian
from peerwise.nets.net import Net, network_of
from peerwise.nets.vary import crop_and_flip

Make: TypeAlias = Callable[[Array], Any]  # key -> module
Init: TypeAlias = Annotated[Literal["he_uniform", "pytorch"], "how the weights begin"]


class Layers(NamedTuple):
    """Options that every listed net has."""

    init: Init = "he_uniform"
    bayesian_layers: Annotated[int, Ge(0), "how many of the last dense layers are Bayesian"] = 0
    samples: Annotated[int, Ge(1), "draws that a Bayesian net averages to predict"] = 10
    paper_init: Annotated[bool, "variances begin as in BA-BFL's code, clamped"] = False
    moved: Annotated[bool, "it trains on images moved and mirrored at random"] = False

    def net(self, make: Make, shape: Sequence[int], classes: int) -> Net:
        """The net of `make` with these options."""
        bayes = self.bayesian_layers, self.samples, self.paper_init
        built = bayesian_network(make, math.prod(shape), classes, *bayes)
        return built._replace(vary=crop_and_flip(shape)) if self.moved else built


@declares("net")
def mlp(shape: Sequence[int], classes: int, *, layers: Layers = Layers()) -> Net:
    """Dense layers of 512, 256 and 128 rectified linear units: the DecDiff paper's for MNIST."""
    return layers.net(dense.mlp(math.prod(shape), classes, init=layers.init), shape, classes)


@declares("net")
def mlp_200(shape: Sequence[int], classes: int, *, layers: Layers = Layers()) -> Net:
    """Two dense layers of 200 rectified linear units."""
    make = dense.mlp(math.prod(shape), classes, (200, 200), layers.init)
    return layers.net(make, shape, classes)


@declares("net")
def mlp_64(shape: Sequence[int], classes: int, *, layers: Layers = Layers()) -> Net:
    """One dense layer of 64 rectified linear units."""
    return layers.net(dense.mlp(math.prod(shape), classes, (64,), layers.init), shape, classes)


@declares("net")
def cnn(shape: Sequence[int], classes: int, *, layers: Layers = Layers()) -> Net:
    """Two convolutions and two dense layers: the DecDiff paper's for Fashion-MNIST."""
    return layers.net(conv.cnn(tuple(shape), classes, layers.init), shape, classes)


@declares("net")
def cnn_dropout(shape: Sequence[int], classes: int, *, layers: Layers = Layers()) -> Net:
    """The net `cnn` with dropout of .25 and .5: the DecDiff paper's for EMNIST."""
    make = conv.cnn(tuple(shape), classes, layers.init, dropout=True)
    return layers.net(make, shape, classes)


@declares("net")
def lenet(shape: Sequence[int], classes: int, *, layers: Layers = Layers()) -> Net:
    """LeNet-5 with rectified linear units: the BA-BFL paper's."""
    return layers.net(conv.lenet(tuple(shape), classes, layers.init), shape, classes)


def network(name: str, shape: Sequence[int], classes: int, **options: Any) -> Net:
    """The net called `name` of flat rows that hold images or features of `shape`.

    With `bayesian_layers`, its last dense layers are Bayesian (see `nets.bayesian`) and it predicts
    by so many `samples`. Other options are those of `Layers`.

    >>> network("lenet", (28, 28), 10).size
    61706
    """
    table = canonical("net", {"name": name, **options}, ("net",), sweeps=False)
    net: Net = build("net", table, {"shape": tuple(shape), "classes": classes})
    return net


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
