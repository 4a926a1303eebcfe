"""Membership inference against sealed sums, by a real peer that records all it hears."""

import networkx as nx
import numpy as np
import pytest
from scipy.stats import chisquare

from audits import CLIP, COLUMNS, DELTA, frame_of, ratio
from federation import Federation, run_all
from peerwise.data.loaders import Table
from peerwise.methods import words
from peerwise.methods.private_crc import noise_multiplier
from peerwise.peer import sealing
from peerwise.peer.drafting import Known, draft
from peerwise.peer.identity import make_authority, make_certificate
from peerwise.peer.local import free_ports
from peerwise.peer.wire import Format
from peerwise.privacy import audit

THREE = nx.star_graph(["a", "b", "c"])  # a is between the others, and records
TICKS = 4  # that a sum may take
EACH = 4.0  # epsilon of one sum: of less, so few would show nothing


def federation(folder, there, sums):
    """Three peers that sum the same steps again and again: the model hardly moves."""
    tables = {n: Table("rows", *frame_of(there or n != "b"), "ill") for n in THREE}
    known = Known({c: b for c, b in COLUMNS.items() if c != "sex"}, {"sex": ("f", "m")},
                  ("no", "yes"))  # fmt: skip
    # so much for all of them that each has the noise of epsilon EACH
    one = noise_multiplier(EACH, DELTA, 1)
    epsilon = next(e for e in np.geomspace(EACH, 1e4, 4000)
                   if noise_multiplier(float(e), DELTA, sums) <= one)  # fmt: skip
    spends = {"epsilon": float(epsilon), "delta": DELTA}
    method = {"name": "sealed_crc", "releases": sums, "clip": CLIP, "lr": 1e-6}
    ports = free_ports(3)
    charter = draft(
        tables["c"], THREE,
        {"method": method, "privacy": spends, "run": {"rounds": TICKS * sums}},
        name="audit", addresses={n: f"127.0.0.1:{p}" for n, p in zip(THREE, ports, strict=True)},
        known=known, limits={"rows": 90}, budget=spends,
    )  # fmt: skip
    make_authority(folder / "keys")
    for name in THREE:
        make_certificate(folder / "keys", name)
    return Federation(charter, folder / "keys", tables, folder, None)


def recorded(folder, there, sums, monkeypatch):
    """By sum: what a heard of b and of c, its own term, and the peers."""
    heard, own = {}, {}
    decode, masked = Format.decode, sealing.Sealing.masked

    def listening(self, body, *more):
        letter = decode(self, body, *more)
        part, sender = letter.part, self.written(body).sender
        if part is not None and sender != "a" and not int(part["fact"]) and int(part["count"]):
            heard[sender, int(part["round"])] = words.as_integers(part["sum"])
        return letter

    def noting(self, term, sums_):
        out = masked(self, term, sums_)
        if self._masks.me == "a":
            own[int(self._sealed.sums.stage(sums_))] = term, out
        return out

    monkeypatch.setattr(Format, "decode", listening)
    monkeypatch.setattr(sealing.Sealing, "masked", noting)
    folder.mkdir()
    fed = federation(folder, there, sums)
    daemons = {n: fed.daemon(n) for n in THREE}
    assert all(run_all(*daemons.values()))
    assert int(daemons["a"].memory.state.value["sums"]["done"]) == sums
    return heard, own, daemons


def ratios(folder, there, sums, monkeypatch):
    """Of each sum the likelihood ratio of what a has; and all that b told it."""
    heard, own, daemons = recorded(folder, there, sums, monkeypatch)
    node = daemons["c"].node
    sealed, start = node._adapt._sealed, node.begin().state
    both = []
    for each in (True, False):
        frame, labels = frame_of(each)
        rows = daemons["c"].charter.rows(Table("rows", frame, labels, "ill"), exact=True)
        both.append(sealed.exact(start, *rows).astype(np.int64))
    scale = sealed.grid.std * np.sqrt(sealed.grid.honest)
    found = []
    for at in range(1, sums + 1):
        term, out = own[at]
        total = heard["b", at] + heard["c", at] + out
        others = (total - term).view(np.int64) - both[0]
        found.append(ratio("gaussian", others[None], both[1], both[0] - both[1], scale)[0])
    return np.array(found), np.stack([heard["b", at] for at in range(1, sums + 1)])


@pytest.mark.full  # of tests/audits.py, a sealed sum, which goes without letters
def test_a_neighbour_that_records_all_learns_no_more_than_epsilon_allows(tmp_path, monkeypatch):
    sums = 150
    found = {
        there: ratios(tmp_path / str(there), there, sums, monkeypatch) for there in (True, False)
    }

    def bound(sure):
        return audit(lambda there, n: found[there][0], True, False, sums, sure, DELTA)

    apart = found[True][0].mean() - found[False][0].mean()
    print(f"lower bound {bound(0.95):.2f} of {EACH}, {sums} sums a side, ratios {apart:.2f} apart")
    assert bound(1 - 1e-9) <= EACH  # noise is unseeded: it must not fail by chance
    # the adversary is no weak one: it has the sum, and its ratios lie as far apart as noise allows
    assert 0.3 < apart < 1.1  # 0.70 expected, 0.10 its error
    told = {there: terms for there, (_, terms) in found.items()}
    octets = np.concatenate(list(told.values())).astype("<u8").view(np.uint8)
    assert chisquare(np.bincount(octets.ravel(), minlength=256)).pvalue > 1e-6

    def alone(there, n):  # of what b itself sent
        return told[there][:, 0].astype(float)

    assert audit(alone, True, False, sums, 0.999, DELTA) <= 0.1
