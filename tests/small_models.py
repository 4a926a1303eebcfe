"""Networks of a few nodes whose models differ, statistics and nets, without any training."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np

from peerwise.core import State
from peerwise.methods import crc, decavg
from peerwise.models import naive_bayes, statistics
from peerwise.nets import mlp, network_of

NODES = 4
MODEL = naive_bayes([0] * 4, 3)
NET = network_of(mlp(4, 3, (8,)), 4, 3)
METHODS = {"crc": crc(MODEL, m0=50.0), "mlp": decavg(NET, batch=8, lr=0.1)}


def rows(seed=0, m=150):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=m)
    return rng.normal(y[:, None] - 1, 1, (m, 4)).astype("f"), y


def values(name, nodes=NODES):
    if name == "mlp":
        return jax.vmap(NET.init)(jax.random.split(jax.random.key(1), nodes))
    x, y = rows(100, 30 * nodes)
    learn = jax.vmap(partial(statistics, MODEL))
    return learn(x.reshape(nodes, 30, 4), y.reshape(nodes, 30), np.ones((nodes, 30), "f"))


@partial(jax.jit, static_argnums=1)
def _seen(probe, method, value):
    return probe(method, State(value, {}))


def seen(probe, method, value):
    """What a probe records of a network of the given values."""
    return jax.tree.map(np.asarray, _seen(probe, method, value))


def said(name, value, v, x):
    """p(y|x) of one node."""
    own = jax.tree.map(lambda a: a[v], value)
    return np.exp(np.asarray(METHODS[name].predict(jax.random.key(0), own, jnp.asarray(x)), float))


def _the_same(key, value, x):
    return jnp.broadcast_to(value, (x.shape[0], value.shape[0]))


# Nodes that say what they are, whatever the rows: their values are log p [c].
PARROT = METHODS["crc"]._replace(predict=_the_same)
