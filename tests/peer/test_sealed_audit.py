"""Membership inference against sealed sums: a peer records all letters, and knows the rest.

Letters are those of real peers, made, masked, signed, opened and heard as ever; they go from hand
to hand, without a network, a disk or a clock, so that there are enough of them.
"""

from types import SimpleNamespace

import networkx as nx
import numpy as np
import pytest
from scipy.stats import chisquare

from audits import CLIP, COLUMNS, DELTA, frame_of, gaussian_bound, ratio
from federation import Federation
from peerwise.data.loaders import Table
from peerwise.methods import words
from peerwise.methods.private_crc import noise_multiplier
from peerwise.peer import sealing
from peerwise.peer.computing import Computing
from peerwise.peer.drafting import Known, draft
from peerwise.peer.identity import load_identity, make_authority, make_certificate
from peerwise.peer.letters import Letters
from peerwise.peer.local import free_ports
from peerwise.peer.plan import Plan
from peerwise.peer.protocol.messages import Compute, Envelope, Place
from peerwise.peer.site import Head
from peerwise.privacy import audit, vetted
from peerwise.privacy.sealing import fresh_secret, public_key

pytestmark = pytest.mark.full  # of tests/audits.py, a sealed sum, which goes without letters

THREE = nx.star_graph(["a", "b", "c"])  # a is between the others, and records
TICKS = 2  # that a sum takes
EACH = 4.0  # epsilon of one sum
SUMS, FEWER = 600, 400  # a side


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
        {"method": method, "privacy": spends, "run": {"rounds": TICKS * sums + 4}},
        name="audit", addresses={n: f"127.0.0.1:{p}" for n, p in zip(THREE, ports, strict=True)},
        known=known, limits={"rows": 90}, budget=spends,
    )  # fmt: skip
    make_authority(folder / "keys")
    for name in THREE:
        make_certificate(folder / "keys", name)
    return Federation(charter, folder / "keys", tables, folder, None)


class Hands:
    """Peers whose letters go from hand to hand, each as the bytes that a real one sends."""

    def __init__(self, fed, noise):
        secrets = {name: fresh_secret() for name in THREE}
        agreed = {"keys": {name: public_key(s).hex() for name, s in secrets.items()}}
        self.peers, self.letters = {}, {}
        for name in THREE:
            plan = Plan(fed.charter, name, fed.tables[name], noise=noise)
            identity = load_identity(fed.keys, name)
            plan.seal_with(identity, secrets[name])
            letters = Letters(fed.charter, identity)
            letters.book = SimpleNamespace(head=lambda: Head(0, "0" * 64))
            peer = self.peers[name] = Computing(plan, letters)
            outcome = peer.begun(1, agreed, None)
            peer.adopt(outcome, Place(1, 0))
            self.letters[name] = outcome.bodies

    def round(self, t):
        """All do a round; what each neighbour told a, as a opens it."""
        heard = {name: self._opened(name, t) for name in THREE}
        for name, peer in self.peers.items():
            offered = {n: {t: (Place(1, t), letter)} for n, letter in heard[name].items()}
            done = peer.computed(Compute(Place(1, t), Place(1, t + 1), offered))
            assert set(done.heard) == set(THREE[name])
            peer.adopt(done.result, Place(1, t + 1))
            self.letters[name] = done.bodies
        return heard["a"]

    def _opened(self, name, t):
        letters = self.peers[name].letters
        bodies = {n: self.letters[n][name] for n in THREE[name]}
        assert all(letters.written(body) == Envelope(n, 1, t) for n, body in bodies.items())
        return {n: letters.opened(body, 1) for n, body in bodies.items()}


def recorded(fed, sums, noise=vetted):
    """By sum: what a heard of b and of c, its own term and what it sent of it; and a peer."""
    hands, heard, own = Hands(fed, noise), {}, {}
    masked = sealing.Sealing.masked

    def noting(self, term, sums_):
        out = masked(self, term, sums_)
        if self._masks.me == "a":
            own[int(self._sealed.sums.stage(sums_))] = term, out
        return out

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sealing.Sealing, "masked", noting)
        for t in range(fed.charter.rounds - 1):
            for sender, letter in hands.round(t).items():
                part = letter.part
                if not int(part["fact"]) and int(part["count"]):
                    heard[sender, int(part["round"])] = words.as_integers(part["sum"])
    peer = hands.peers["a"]
    assert int(peer.memory.state.value["sums"]["done"]) == sums
    return heard, own, peer


def ratios(folder, there, sums, noise=vetted):
    """Of each sum the likelihood ratio of what a has; and all that b told it."""
    folder.mkdir()
    fed = federation(folder, there, sums)
    heard, own, peer = recorded(fed, sums, noise)
    sealed, start = peer.node._adapt._sealed, peer.node.begin().state
    both = []
    for each in (True, False):
        rows = fed.charter.rows(Table("rows", *frame_of(each), "ill"), exact=True)
        both.append(sealed.exact(start, *rows).astype(np.int64))
    scale = sealed.grid.std * np.sqrt(sealed.grid.honest)
    found = []
    for at in range(1, sums + 1):
        term, out = own[at]
        total = heard["b", at] + heard["c", at] + out
        others = (total - term).view(np.int64) - both[0]
        found.append(ratio("gaussian", others[None], both[1], both[0] - both[1], scale)[0])
    return np.array(found), np.stack([heard["b", at] for at in range(1, sums + 1)])


def test_a_neighbour_that_records_all_letters_learns_no_more_than_epsilon_allows(tmp_path):
    """And as much as the noise allows, so that the audit would notice if it were less."""
    found = {there: ratios(tmp_path / str(there), there, SUMS) for there in (True, False)}
    with_it, without = (found[there][0] for there in (True, False))
    plain = audit(lambda there, n: found[there][0], True, False, SUMS, 0.99, DELTA)
    bound = gaussian_bound(with_it, without, 0.99, DELTA)
    print(f"{SUMS} sums a side, claimed {EACH}: lower bound {bound:.2f}, of any noise {plain:.2f}, "
          f"ratios {with_it.mean() - without.mean():.2f} apart")  # fmt: skip
    assert bound > EACH / 4
    assert gaussian_bound(with_it, without, 1 - 1e-6, DELTA) <= EACH  # noise is unseeded
    assert plain <= EACH
    # of what b itself sent it learns nothing
    told = {there: terms for there, (_, terms) in found.items()}
    octets = np.concatenate(list(told.values())).astype("<u8").view(np.uint8)
    assert chisquare(np.bincount(octets.ravel(), minlength=256)).pvalue > 1e-6
    alone = [told[there][:, 0].view(np.int64).astype(float) for there in (True, False)]
    assert gaussian_bound(*alone, 1 - 1e-6, DELTA) == 0


def test_the_audit_notices_noise_that_is_half_of_what_it_should_be(tmp_path):
    def half(kind, values, scale, **more):
        return vetted(kind, values, np.asarray(scale) / 2, **more)

    found = [ratios(tmp_path / str(there), there, FEWER, half)[0] for there in (True, False)]
    bound = gaussian_bound(*found, 0.99, DELTA)
    print(f"half the noise, {FEWER} sums a side, claimed {EACH}: lower bound {bound:.2f}")
    assert bound > EACH
