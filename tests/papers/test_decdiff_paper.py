"""The DecDiff paper's claims on a small network; its tables at full scale are in results/."""

from functools import cache
from itertools import pairwise

import numpy as np
import pytest

from peerwise import data
from peerwise.papers.decdiff.items import ITEMS
from peerwise.papers.decdiff.runs import learn
from peerwise.papers.items import Scale, merged
from peerwise.papers.learning import deal, graph

pytestmark = pytest.mark.skipif(
    "mnist" not in {entry["name"] for entry in data.available()},
    reason="needs MNIST: set PEERWISE_DATA to a folder that has it",
)
SMALL = {
    "split": {"nodes": 12, "train_rows": 3000, "test_rows": 1000},
    "method": {"lr": 0.05},
    "run": {"rounds": 25, "record": 5, "repetitions": 1},
}
# measures less, of fewer rows and rounds
FEW = {
    "split": {"nodes": 8, "train_rows": 1000, "test_rows": 500},
    "run": {"rounds": 10, "stages": ["adapt"], "early": False},
}


def described(item, variant, quick=True):
    return ITEMS[item].runs(["mnist"], Scale(quick))[variant].arguments["description"]


@cache
def trained(variant, quick=False):
    return learn(merged(described("table-4", f"mnist {variant}"), SMALL, FEW if quick else {}))


def accuracy(variant):
    return trained(variant)["accuracy"][0, -1].mean()


@pytest.mark.full  # in a smaller network CFA-GE and DecHetero are not told apart
@pytest.mark.optimised  # computes for long
def test_the_order_of_the_methods():
    """Table 2: what is shared makes the difference, and how."""
    order = ("centralised", "cfa-ge", "dechetero", "cfa", "isolation")
    final = [accuracy(method) for method in order]
    assert all(a > b for a, b in pairwise(final)), final
    assert accuracy("fedavg") > accuracy("dechetero")
    assert accuracy("decdiff+vt") > accuracy("cfa")


@pytest.mark.full  # `make test`: the first aggregation, methods/test_neural.py
def test_the_virtual_teacher_lowers_the_loss_of_decdiff():
    """Table 3 and figure 5: soft labels keep a node from learning its own rows by heart."""
    plain, taught = (
        trained(variant, quick=True)["loss"][0, -1].mean() for variant in ("decdiff", "decdiff+vt")
    )
    assert taught < plain


@pytest.mark.full  # on a few made-up rows: tests/methods/test_neural.py
def test_the_first_average_destroys_what_nodes_learnt_and_decdiff_does_not():
    """Figure 1, with two hidden layers: with the one of the other tests 0.12 is lost, not 0.2."""
    more = {"net": "mlp_200", "split": {"nodes": 20}, "run": {"rounds": 1}}
    drop = {}
    for variant in ("dechetero", "decdiff"):
        description = merged(described("figure-1", f"mnist {variant}"), SMALL, more)
        arrays = learn(description, begun=True)
        drop[variant] = arrays["begun_accuracy"].mean() - arrays["aggregated_accuracy"][:, 0].mean()
    assert drop["dechetero"] > 0.2
    assert drop["decdiff"] < drop["dechetero"] / 5


@pytest.mark.full
def test_the_allocation_is_as_unequal_as_the_papers():
    """Figure 4: the Gini index of a class over the nodes, on average."""
    found = deal(described("figure-4", "mnist", quick=False))
    assert found["counts"].shape == (50, 10)
    assert found["counts"].min() >= 1
    assert found["counts"].sum() == 60_000
    assert 0.7 <= found["gini"].mean() <= 0.85


def test_the_graph_is_one_in_all_runs():
    """Figure 3: an Erdos-Renyi graph of 50 nodes with about 10 neighbours each."""
    first, second = (graph(described("figure-3", "graph", quick=False)) for _ in range(2))
    np.testing.assert_array_equal(first["src"], second["src"])
    assert 8 < len(first["src"]) / 50 < 12
