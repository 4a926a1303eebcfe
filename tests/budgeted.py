"""Two peers under a budget, for every method: what they add noise to, and all that they say.

Noise that tells nothing of the values takes the place of the real one: it is the same whatever it
is added to. So peers with other rows go through the same states, and can be compared.
"""

import hashlib
import json

import networkx as nx
import numpy as np
import pandas as pd

from audits import COLUMNS, DELTA, NoLedger
from peerwise.data.loaders import Table
from peerwise.peer.drafting import Known, draft
from peerwise.peer.plan import Plan
from peerwise.peer.protocol.messages import Envelope
from peerwise.peer.sealing import Sealing
from peerwise.peer.wire import Format
from peerwise.privacy import gaussian_sigma
from peerwise.privacy.sealing import public_key

PAIR = nx.relabel_nodes(nx.path_graph(2), {0: "a", 1: "b"})
SECRETS = {name: hashlib.sha256(name.encode()).digest() for name in PAIR}
EPSILON = 4.0
FEATURES = [*COLUMNS, "stage"]
COUNTERS = ("printed", "total", "walk", "cumulative", "relay")
RULES = ("equal", "metropolis", "alone")
COUNTS = {"name": "multinomial", "length": 60.0}
CRC = {"name": "private_crc", "clip": 0.1}
CASES = {
    **{f"gossip_nb, {c}": {"method": {"name": "gossip_nb", "counter": c}} for c in COUNTERS},
    **{f"private_crc, {r}": {"method": {**CRC, "rule": r}} for r in RULES},
    "robust_nb": {"method": "robust_nb"},
    "Laplace, optimal": {"method": "gossip_nb", "mechanism": "laplace", "split": "optimal"},
    "bernoulli": {"method": "gossip_nb", "model": "bernoulli", "features": ["age", "dose"]},
    "multinomial": {"method": "gossip_nb", "model": COUNTS, "features": ["age", "dose"]},
    "private_crc, multinomial": {"method": CRC, "model": COUNTS, "features": ["age", "dose"]},
    "lda": {"method": "gossip_nb", "model": "lda"},
    "qda, gaps": {"method": "gossip_nb", "model": "qda", "missing": True},
    "gaps": {"method": "gossip_nb", "missing": True},
    "private_crc, gaps": {"method": CRC, "missing": True},
    "persons": {"method": "gossip_nb", "person": "who", "person_rows": 2},
    "private_crc, persons": {"method": CRC, "person": "who", "person_rows": 2},
    "sealed_nb": {"method": "sealed_nb"},
    "sealed_nb, tan": {"method": "sealed_nb", "model": "tan"},
    "sealed_nb, gaps, persons": {
        "method": {"name": "sealed_nb", "select": 2, "units": "sealed"},
        "missing": True, "person": "who", "person_rows": 2,
    },
    "sealed_crc": {"method": {"name": "sealed_crc", "units": "sealed", "releases": 2, "clip": 0.1}},
}  # fmt: skip
SOME = (
    "gossip_nb, relay",
    "bernoulli",
    "private_crc, equal",
    "robust_nb",
    "sealed_nb, gaps, persons",
)


def rows_of(kind):
    """Rows of a site: as they are, without one or a person, with a hostile one, one, or none."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(0, 100, 30), "dose": rng.uniform(0, 4, 30)})
    frame["sex"] = np.where(rng.random(30) < 0.5, "f", "m")
    frame["stage"] = rng.choice(["i", "ii", "iii"], 30)
    frame["who"] = np.arange(30) // 2
    labels = np.where(rng.random(30) < 0.5, "no", "yes").astype(object)
    # the first person's rows lie at all bounds, and move a release as far as rows can
    frame.loc[:1, list(COLUMNS)], labels[:2] = [100.0, 4.0, "f"], "yes"
    if kind == "a hostile row":
        frame = frame.astype(object)
        frame.loc[0] = ["1e300", np.nan, "x", None, 77]
        labels[0] = "maybe"
    keep = {
        "one less": range(1, 30),
        "no such person": range(2, 30),
        "one": range(1),
        "none": range(0),
    }.get(kind, range(30))
    keep = list(keep)
    return Table("rows", frame.iloc[keep].reset_index(drop=True), labels[keep], "ill")


class Blind:
    """Noise that is the same whatever it is added to, and what it was to be added to.

    `seen`: the kind of noise, values, and its scale.
    """

    def __init__(self, name):
        self._rng, self.seen = np.random.default_rng([1, *name.encode()]), []

    def __call__(self, kind, values, scale, *, off=False):
        """The next noise, without the values."""
        scale = np.broadcast_to(np.asarray(scale, float), np.shape(values))
        self.seen.append((kind, np.array(values, float), scale))
        drawn = self._rng.normal(size=np.shape(values)) * scale
        return np.rint(drawn) if kind == "discrete" else drawn

    def sum_of(self, sealed, exact):
        """The same for a term of a sealed sum, to which noise is added afterwards."""
        std = sealed.grid.std
        drawn = self("discrete", exact, std)
        self.seen[-1] = ("discrete", exact, std * np.sqrt(sealed.grid.honest))
        return drawn.astype(np.int64).view(np.uint64)


def without_values(monkeypatch):
    """Have terms of sealed sums be blind noise alone, too."""

    def term(self, state, shard):
        return self._noise.sum_of(self._sealed, self._sealed.exact(state, *self._rows))

    monkeypatch.setattr(Sealing, "term", term)


def told(whole, less, epsilon, delta):
    """How far two series of what got noise are apart, as a share of what a budget allows."""
    assert [(kind, np.shape(values)) for kind, values, _ in whole] == [
        (kind, np.shape(values)) for kind, values, _ in less
    ]
    far = {"laplace": 0.0, "gaussian": 0.0}
    for (kind, a, scale), (_, b, other) in zip(whole, less, strict=True):
        np.testing.assert_array_equal(scale, other)  # noise depends on no row
        assert (scale > 0).all()
        step = np.abs(a - b) / scale
        far["laplace" if kind == "laplace" else "gaussian"] += (
            step.sum() if kind == "laplace" else (step**2).sum()
        )
    assert not (far["laplace"] and far["gaussian"])
    return far["laplace"] / epsilon or far["gaussian"] ** 0.5 * gaussian_sigma(1.0, epsilon, delta)


def plan_of(case, name, kind):
    """What a peer with these rows runs, with blind noise."""
    case = dict(case)
    parts = {key: case.pop(key) for key in ("method", "model", "missing") if key in case}
    missing, features = parts.pop("missing", False), case.pop("features", FEATURES)
    numbers = {c: b for c, b in COLUMNS.items() if c != "sex"}
    texts = {"sex": ("f", "m"), "stage": ("i", "ii", "iii")} if "sex" in features else {}
    known = Known(numbers, texts, ("no", "yes"))
    sample = rows_of("all")
    budget = {"epsilon": EPSILON, "delta": DELTA}
    charter = draft(
        sample._replace(frame=sample.frame[features]), PAIR,
        {**parts, "privacy": {"epsilon": EPSILON, **case}, "run": {"rounds": 12}},
        name="letters", addresses={"a": "127.0.0.1:7400"}, known=known, limits={"rows": 1000},
        budget=budget, missing=missing,
    )  # fmt: skip
    plan = Plan(charter, name, rows_of(kind), noise=Blind(name))
    plan.seal_with(None, SECRETS[name])
    return plan


def all_letters(case, kind):
    """Every letter of two peers, as bytes without seal and ledger, and what got noise at `a`.

    `a` has rows of this kind; what it predicts in the end goes with the letters.
    """
    plans = [plan_of(case, "a", kind), plan_of(case, "b", "all")]
    sealed = plans[0].learning.sealed
    keys = {name: public_key(secret).hex() for name, secret in SECRETS.items()}
    agreed, sent = ({"keys": keys} if sealed else None), []
    for phase in range(int(sealed), plans[0].phases):
        mark = json.dumps(agreed, sort_keys=True)
        mark = None if agreed is None else hashlib.sha256(mark.encode()).hexdigest()
        begun = [p.begin(phase, agreed, NoLedger()) for p in plans]
        nodes, memories = [n for n, _ in begun], [m for _, m in begun]
        for t in range(plans[0].rounds(phase)):
            letters = [n.letters(m, t) for n, m in zip(nodes, memories, strict=True)]
            for i, (node, memory) in enumerate(zip(nodes, memories, strict=True)):
                charter, ranges = plans[i].charter.hash, node.method.ranges
                form = Format(node.like(memory), charter, 1 << 20, ranges, mark)
                sent.append(form.encode(letters[i][1 - i], Envelope("ab"[i], phase, t)))
            memories = [
                node.step(memory, t, {1 - i: (letters[1 - i][i], t)})
                for i, (node, memory) in enumerate(zip(nodes, memories, strict=True))
            ]
        if not plans[0].learns(phase):
            found = [p.agreed(phase, m, agreed) for p, m in zip(plans, memories, strict=True)]
            assert found[0] == found[1]
            agreed = found[0]
    width = nodes[0]._shard.x.shape[1]
    asked = np.tile([[-1.0], [0.0], [1.0]], width)
    sent.append(nodes[0].predict(memories[0], asked).tobytes())
    return sent, plans[0]._noise.seen
