"""Claims of the study of privacy: cells below alone, and below whatever else was tested."""

from types import SimpleNamespace

import numpy as np

from peerwise.papers.claims import Numbers
from peerwise.papers.privacy.claims import claims


def record(nodes, kind, values):
    return SimpleNamespace(
        setting={"nodes": str(nodes), "kind": kind, "epsilon": 1.0},
        item="untouched", dataset="adult", metric="auc",
        value=float(np.mean(values)), values=list(values), std=None, reps=len(values),
    )  # fmt: skip


def test_a_cell_may_be_below_by_its_own_interval_and_not_among_many():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(12, 20))
    noise = (noise - noise.mean(1, keepdims=True)) / noise.std(1, ddof=1, keepdims=True)
    mean = np.zeros(12)
    mean[:3] = -0.6, -2.0, 2.0  # deviations: p is .015 and far below for the others
    records = [record(i, "aware", 0.8 + 0.01 * (mean[i] + noise[i])) for i in range(12)]
    records += [record(i, "plain", np.full(20, 0.8)) for i in range(12)]
    (claim,) = claims(Numbers(records))
    assert claim.verdict == "not held"
    assert claim.ours == (
        "10 held, 2 not held of 12; not held: adult 0 1.0, adult 1 1.0; "
        "below after Holm's correction: adult 1 1.0"
    )
