"""Rows in the host's memory, moved to the device block by block: the same numbers, to the bit."""

import jax
import numpy as np
import pytest

from helpers import assert_equal_runs, command
from peerwise.core import near, on_host
from peerwise.errors import BadSetting, UnknownName
from peerwise.learner import cell
from peerwise.learner.run import assembled
from peerwise.simulate import simulate
from peerwise.study.store import Store


def part(method, nodes, rows):
    described = cell(
        {
            "data": "digits",
            "method": method,
            "split": {"nodes": nodes, "rows": rows, "test_rows": 40},
            "network": "ring",
            "run": {"rounds": 2, "repetitions": 1},
        }
    )
    return assembled(described)[1][0]


def kinds(tree):
    return {a.sharding.memory_kind for a in jax.tree.leaves(tree)}


def test_rows_are_put_into_the_hosts_memory_and_moved_within_the_program():
    rows = on_host({"x": np.ones((3, 2)), "y": np.arange(3)}, np.float32)
    assert kinds(rows) == {"pinned_host"}
    assert rows["x"].dtype == np.float32
    moved = jax.jit(near)(rows)
    assert kinds(moved) == {"device"}
    np.testing.assert_array_equal(moved["x"], np.ones((3, 2)))
    here = jax.make_jaxpr(near)(np.ones(3))
    assert not here.eqns  # nothing is done where nothing must be moved


# 600 nodes: more than one block, so that the loop over blocks moves each
@pytest.mark.bits
@pytest.mark.some("crc-600")
@pytest.mark.parametrize(
    ("method", "nodes", "rows"),
    [("crc", 600, 2), ("decavg", 12, 20), ("relay", 20, 20), ("decdiff", 600, 2), ("crc", 20, 20)],
    ids=lambda v: str(v),
)
def test_the_same_bits_wherever_the_rows_lie(method, nodes, rows):
    p = part(method, nodes, rows)
    ours, theirs = (
        simulate(p.method, p.shards, p.links, 2, probe=p.probe, rows=place)
        for place in ("host", "device")
    )
    assert_equal_runs(ours, theirs)


def test_replicas_and_unknown_places_are_refused():
    p = part("crc", 3, 5)
    with pytest.raises(BadSetting, match="one network at a time"):
        simulate(p.method, [p.shards], p.links, 1, rows="host")
    with pytest.raises(UnknownName, match="place for rows"):
        simulate(p.method, p.shards, p.links, 1, rows="disk")


@pytest.mark.optimised
@pytest.mark.full  # its parts are in the tests above
def test_a_run_with_rows_on_the_host_gives_the_same_table(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(
        'data = "digits"\nmethod = ["crc", "decavg"]\nnetwork = "ring"\n'
        "split = {nodes = 6, rows = 20, test_rows = 50}\nrun = {rounds = 3, repetitions = 2}\n"
    )
    call = command(monkeypatch, capsys)
    monkeypatch.setenv("PEERWISE_ROWS", "device")  # restored after the test
    found = {}
    for place in ("device", "host"):
        code, _, said = call("run", "mine.toml", "--workers", 1, "--rows", place, "--out", place)
        assert code == 0, said
        found[place] = {r.cell + r.metric: r.array for r in Store(tmp_path / place).rows()}
    assert found["host"].keys() == found["device"].keys()
    for name, array in found["device"].items():  # repetitions run one by one: to rounding
        if array.dtype.kind in "US":  # names of classes
            assert (found["host"][name] == array).all(), name
            continue
        np.testing.assert_allclose(found["host"][name], array, rtol=2e-3, atol=2e-5, err_msg=name)
