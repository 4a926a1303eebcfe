"""Whatever numbers a well-formed letter holds, the peer that hears it ends its rounds."""

import zlib

import jax
import numpy as np
import pytest

from federation import PATH, Alone, federation, written
from peerwise.declare import declared, find
from peerwise.learner import offered
from peerwise.peer.protocol.messages import Place

NAMES = [
    name
    for name, d in declared("method").items()
    if offered(d, "peer") and d.traits.place == "neighbours"
]
COUNTERS = ("unnormalised", "push_sum", "cumulative", "relay")  # the first is the least stable
NET = {"lr": 0.05, "batch": 10}
ROUNDS = 8


def sections(name):
    """The sections of a charter with a method, in its least guarded form."""
    method = {"name": name}
    if name == "gossip_nb":
        return {"method": {**method, "counter": COUNTERS[0]}}
    if name == "private_crc":
        privacy = {"epsilon": 1.0, "delta": 1e-5}
        return {"method": method, "privacy": privacy, "budget": {**privacy, "epsilon": 2.0}}
    if "net" in find("method", name).facts:
        layers = {"bayesian_layers": 1} if name == "ba_bfl" else {}
        return {"method": {**method, **NET}, "net": {"name": "mlp_64", **layers}}
    return {"method": method}


def hostile(rng, leaf):
    """Numbers of any size for a leaf: some of them far out, negative, or none."""
    leaf = np.asarray(leaf)
    how = rng.integers(8)
    if leaf.dtype.kind != "f":
        info = np.iinfo(leaf.dtype) if leaf.dtype.kind in "iu" else None
        ends = [0, 1] if info is None else [info.min, info.max, 0, 1]
        return np.full_like(leaf, rng.choice(ends)) if how < 4 else leaf
    size = np.exp(rng.uniform(-5, 34.5))  # up to what a letter may hold
    sign = rng.choice([-1.0, 1.0], leaf.shape)
    with np.errstate(all="ignore"):
        made = {
            0: leaf,
            1: -leaf,
            2: np.full(leaf.shape, size),
            3: np.full(leaf.shape, -size),
            4: sign * size * rng.random(leaf.shape),
            5: leaf * size,
            6: np.full(leaf.shape, rng.choice([np.nan, np.inf, 0.0, -100.0])),
            7: np.full(leaf.shape, rng.choice([-40.0, -2.0, 9e14, -9e14, 1e-40])),
        }[int(how)]
        return np.asarray(made).astype(leaf.dtype)


def rounds_of(alone, rng):
    """Every round b hears what c might say, and anything at all of a."""
    daemon, honest = alone.daemon, {}
    while not daemon.core.done:
        before = daemon.place
        own = next(iter(daemon.node.letters(daemon.memory, daemon.place.round).values()))
        # an honest neighbour hears no liar: it says what it said at first
        said = honest.setdefault(daemon.place.phase, own)
        lie = jax.tree.map(lambda leaf: hostile(rng, leaf), own)
        alone.accept("c", written(daemon, "c", said))
        alone.accept("a", written(daemon, "a", lie))
        alone.until(lambda before=before: daemon.place > before)


def live(daemon, seed):
    alone = Alone(daemon)
    try:
        rounds_of(alone, np.random.default_rng(seed))
    finally:
        alone.close()


def ends_its_rounds(folder, sections, seeds):
    sections = dict(sections)
    fed = federation(folder, PATH, sections.pop("method"), rounds=ROUNDS, **sections)
    for seed in seeds:
        daemon = fed._replace(folder=folder / str(seed)).daemon("b")
        live(daemon, seed)
        phase = daemon.plan.phases - 1
        assert daemon.place == Place(phase, daemon.plan.rounds(phase))
        assert all(np.isfinite(a).all() for a in jax.tree.leaves(daemon.memory.state.value))


@pytest.mark.long(
    "average_cvar",
    "ba_bfl",
    "cfa",
    "cta",
    "cvar_cvar",
    "decdiff",
    "relay_gd",
    "robust_nb",
    "sealed_crc",
)
@pytest.mark.parametrize("name", NAMES)
def test_whatever_a_neighbour_sends_a_peer_ends_its_rounds(tmp_path, name):
    ends_its_rounds(tmp_path, sections(name), [zlib.crc32(name.encode())])


AGREED = {"method": "crc", "units": "agree"}


def test_whatever_a_neighbour_sends_while_units_are_agreed_on(tmp_path):
    ends_its_rounds(tmp_path, AGREED, [1, 2])


@pytest.mark.full
@pytest.mark.parametrize(
    "case",
    [
        *map(sections, NAMES),
        *({"method": {"name": "gossip_nb", "counter": one}} for one in COUNTERS[1:]),
        AGREED,
        {"method": "crc", "model": "tan"},
    ],
    ids=str,
)
def test_whatever_a_neighbour_sends_many_times(tmp_path, case):
    ends_its_rounds(tmp_path, case, range(60))
