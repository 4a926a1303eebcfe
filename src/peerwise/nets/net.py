"""What a neural classifier is to a method: weights, and a function of weights and rows.

A user's own net is any function from a key to an equinox module that maps one row to a number a
class. Its inexact arrays are the weights that nodes train and exchange; everything else
must be the same whatever the key. A module that takes a keyword `key` (for dropout) gets one for
every row in training and None in prediction.
"""

import inspect
import math
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from peerwise.core import Array, Tree
from peerwise.errors import BadSetting


class Net(NamedTuple):
    """A neural classifier of rows of `features` numbers. The same function gives the same net."""

    init: Callable[[Array], Tree]  # key -> weights
    logits: Callable[..., Array]  # weights, x [m, d], key=None -> [m, c]
    features: int
    classes: int
    size: int  # how many weights
    noisy: bool = False  # whether logits depends on its key, given in training
    samples: int = 0  # how many keys it predicts with; 0: once, without a key
    vary: Callable[[Array, Array], Array] | None = None  # key, x -> augmented x to train on


@cache
def network_of(make: Callable[[Array], Any], features: int, classes: int, samples: int = 0) -> Net:
    """The net that `make(key)` builds, checked to give a number for every class.

    With `samples`, the probabilities of so many draws of a net that takes a key (with Bayesian
    layers, or dropout) are averaged in prediction.
    """
    if samples < 0:
        raise BadSetting(f"samples must be 1 or more (0: predict without a key), got {samples}")
    module = _built(make)
    if not callable(module):
        raise BadSetting("make(key) must give a function of a row, such as an equinox module")
    weights, rest = eqx.partition(module, _is_weight)
    structure = jax.tree.structure(weights)
    noisy = "key" in inspect.signature(module).parameters
    if samples and not noisy:
        raise BadSetting(
            "samples are for a net that takes a key: this one gives the same each time"
        )

    def init(key: Array) -> Tree:
        # Functions that make(key) defines anew must not make two nodes' weights two kinds of tree.
        drawn = eqx.filter(make(key), eqx.is_inexact_array)
        return jax.tree.unflatten(structure, jax.tree.leaves(drawn))

    def logits(weights: Tree, x: Array, key: Array | None = None) -> Array:
        one = eqx.combine(weights, rest)
        if not noisy:
            return jax.vmap(one)(x)
        if key is None:
            still = eqx.nn.inference_mode(one)  # for dropout of equinox, which has a switch
            return jax.vmap(lambda row: still(row, key=None))(x)
        return jax.vmap(lambda row, k: one(row, key=k))(x, jax.random.split(key, x.shape[0]))

    for key in (None, jax.random.key(0)) if noisy else (None,):
        _check_logits(logits, weights, features, classes, key)
    size = sum(int(np.prod(a.shape)) for a in jax.tree.leaves(weights))
    if not size:
        raise BadSetting("the net has no weights: they must be arrays in fields of its module")
    return Net(init, logits, features, classes, size, noisy, samples)


def log_probabilities(net: Net, weights: Tree, x: Array, key: Array) -> Array:
    """log p(y | x) [m, c]; of the mean of the probabilities where a net predicts by draws."""
    if not net.samples:
        return jax.nn.log_softmax(net.logits(weights, x))

    def add(total: Array, one: Array) -> tuple[Array, None]:
        drawn = jax.nn.log_softmax(net.logits(weights, x, one))
        return jnp.logaddexp(total, drawn), None

    none = jnp.full((x.shape[0], net.classes), -jnp.inf, x.dtype)
    total, _ = jax.lax.scan(add, none, jax.random.split(key, net.samples))
    return total - math.log(net.samples)


def _built(make: Callable[[Array], Any]) -> Any:
    """The module that make(key) builds; only the values of weights may depend on the key.

    Tracing fails if Python looks at the key; two builds show other fixed arrays, sizes or layers.
    A module whose only arrays are weights is returned with their shapes alone: drawing each would
    compile a program.
    """
    try:
        first, second = (eqx.filter_eval_shape(make, jax.random.key(k)) for k in (0, 1))
        if not _only_weights(first):
            first, second = (make(jax.random.key(k)) for k in (0, 1))
        same = _shapes(first) == _shapes(second) and eqx.tree_equal(_fixed(first), _fixed(second))
    except (
        jax.errors.ConcretizationTypeError,
        jax.errors.TracerArrayConversionError,
        jax.errors.TracerIntegerConversionError,
    ):
        same = False
    if not same:
        raise BadSetting(
            "make(key) must build the same net whatever the key: nodes with different "
            "architectures are not supported. Only weights may depend on the key, not sizes, "
            "layers or arrays of integers; give those to the function that returns make"
        )
    return first


def _is_weight(leaf: Any) -> bool:
    """Whether a leaf of a net is an array of weights, or the shape of one."""
    if isinstance(leaf, jax.ShapeDtypeStruct):
        return bool(jnp.issubdtype(leaf.dtype, jnp.inexact))
    return bool(eqx.is_inexact_array(leaf))


def _only_weights(shapes: Any) -> bool:
    """Whether all arrays of a net that was not drawn are weights."""
    arrays = [a for a in jax.tree.leaves(shapes) if hasattr(a, "shape")]
    return all(isinstance(a, jax.ShapeDtypeStruct) and _is_weight(a) for a in arrays)


def _shapes(module: Any) -> list[Any]:
    """Where the weights of a net are, and their shapes."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(eqx.filter(module, _is_weight))
    return [(jax.tree_util.keystr(path), a.shape, a.dtype) for path, a in leaves]


def _fixed(module: Any) -> list[Any]:
    """The arrays of a net that are not weights."""
    arrays = jax.tree.leaves(eqx.filter(module, eqx.is_array))
    return [a for a in arrays if not eqx.is_inexact_array(a)]


def _check_logits(
    logits: Callable[..., Array], weights: Tree, features: int, classes: int, key: Array | None
) -> None:
    rows = jax.ShapeDtypeStruct((1, features), np.float32)
    try:
        out = jax.eval_shape(logits, weights, rows, key)
    except (TypeError, ValueError, RuntimeError) as error:
        reason = str(error).partition("\n")[0]
        when = "in training" if key is not None else "in prediction (where a key is None)"
        raise BadSetting(
            f"the net cannot take a row of {features} numbers {when}: {reason}"
        ) from None
    if getattr(out, "shape", None) != (1, classes):
        got = f"shape {out.shape[1:]}" if hasattr(out, "shape") else type(out).__name__
        raise BadSetting(f"the net must give a number for each of the {classes} classes, got {got}")
