"""Under a budget letters depend on a node's rows by what got noise, and by nothing else.

Noise that tells nothing of the values takes the place of the real one: it is the same whatever it
is added to. Then all letters must be the same to the byte, whatever the rows are.
"""

import hashlib
import json

import jax
import networkx as nx
import numpy as np
import pandas as pd
import pytest

from audits import COLUMNS, DELTA, NoLedger
from peerwise.data.loaders import Table
from peerwise.peer.drafting import Known, draft
from peerwise.peer.plan import Plan
from peerwise.peer.protocol.messages import Envelope
from peerwise.peer.sealing import Sealing
from peerwise.peer.wire import Format
from peerwise.privacy.sealing import public_key

PAIR = nx.relabel_nodes(nx.path_graph(2), {0: "a", 1: "b"})
SECRETS = {name: hashlib.sha256(name.encode()).digest() for name in PAIR}
FEATURES = [*COLUMNS, "stage"]
COUNTERS = ("printed", "total", "walk", "cumulative", "relay")
RULES = ("equal", "metropolis", "alone")
CASES = {
    **{f"gossip_nb, {c}": {"method": {"name": "gossip_nb", "counter": c}} for c in COUNTERS},
    **{f"private_crc, {r}": {"method": {"name": "private_crc", "rule": r}} for r in RULES},
    "robust_nb": {"method": "robust_nb"},
    "Laplace, optimal": {"method": "gossip_nb", "mechanism": "laplace", "split": "optimal"},
    "lda": {"method": "gossip_nb", "model": "lda"},
    "qda, gaps": {"method": "gossip_nb", "model": "qda", "missing": True},
    "gaps": {"method": "gossip_nb", "missing": True},
    "private_crc, gaps": {"method": "private_crc", "missing": True},
    "persons": {"method": "gossip_nb", "person": "who", "person_rows": 2},
    "private_crc, persons": {"method": "private_crc", "person": "who", "person_rows": 2},
    "sealed_nb": {"method": "sealed_nb"},
    "sealed_nb, tan": {"method": "sealed_nb", "model": "tan"},
    "sealed_nb, gaps, persons": {
        "method": {"name": "sealed_nb", "select": 2, "units": "sealed"},
        "missing": True, "person": "who", "person_rows": 2,
    },
    "sealed_crc": {"method": {"name": "sealed_crc", "units": "sealed", "releases": 2}},
}  # fmt: skip
SOME = ("gossip_nb, relay", "private_crc, equal", "robust_nb", "sealed_nb, gaps, persons")


def rows_of(kind):
    """Rows of a site: as they are, without one, with a hostile one, far fewer, or none."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(0, 100, 30), "dose": rng.uniform(0, 4, 30)})
    frame["sex"] = np.where(rng.random(30) < 0.5, "f", "m")
    frame["stage"] = rng.choice(["i", "ii", "iii"], 30)
    frame["who"] = np.arange(30) // 2
    labels = np.where(rng.random(30) < 0.5, "no", "yes").astype(object)
    if kind == "a hostile row":
        frame = frame.astype(object)
        frame.loc[0] = ["1e300", np.nan, "x", None, 77]
        labels[0] = "maybe"
    keep = {"one less": range(1, 30), "one": range(1), "none": range(0)}.get(kind, range(30))
    keep = list(keep)
    return Table("rows", frame.iloc[keep].reset_index(drop=True), labels[keep], "ill")


def plan_of(case, name, kind):
    """What a peer with these rows runs, with noise that tells nothing of what it is added to."""
    case = dict(case)
    parts = {key: case.pop(key) for key in ("method", "model", "missing") if key in case}
    missing = parts.pop("missing", False)
    numbers = {c: b for c, b in COLUMNS.items() if c != "sex"}
    known = Known(numbers, {"sex": ("f", "m"), "stage": ("i", "ii", "iii")}, ("no", "yes"))
    sample = rows_of("all")
    budget = {"epsilon": 4.0, "delta": DELTA}
    charter = draft(
        sample._replace(frame=sample.frame[FEATURES]), PAIR,
        {**parts, "privacy": {"epsilon": 4.0, **case}, "run": {"rounds": 12}},
        name="letters", addresses={"a": "127.0.0.1:7400"}, known=known, limits={"rows": 1000},
        budget=budget, missing=missing,
    )  # fmt: skip
    rng = np.random.default_rng([1, *name.encode()])

    def noise(kind, values, scale, *, off=False):
        drawn = rng.normal(size=np.shape(values)) * np.asarray(scale)
        return np.rint(drawn) if kind == "discrete" else drawn

    plan = Plan(charter, name, rows_of(kind), noise=noise)
    plan.seal_with(None, SECRETS[name])
    return plan


def all_letters(case, kind):
    """Every letter of two peers, as bytes without seal and ledger; `a` has rows of this kind."""
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
    return sent


@pytest.fixture
def hidden_terms(monkeypatch):
    """Terms of sealed sums that are noise alone: it is added to them, not by the noise."""

    def term(self, state, shard):
        self._sealed.exact(state, *self._rows)  # rows are looked at, as otherwise
        std = self._sealed.grid.std
        return self._noise("discrete", np.zeros(len(std)), std).astype(np.int64).view(np.uint64)

    monkeypatch.setattr(Sealing, "term", term)


@pytest.mark.some(*SOME)
@pytest.mark.parametrize("case", CASES)
def test_letters_tell_nothing_of_rows_but_what_got_noise(case, hidden_terms):
    whole = all_letters(CASES[case], "all")
    assert len(set(whole)) > 2
    for kind in ("one less", "a hostile row", "one", "none"):
        other = all_letters(CASES[case], kind)
        assert len(other) == len(whole)
        for a, b in zip(whole, other, strict=True):
            assert a == b, kind
    jax.clear_caches()
