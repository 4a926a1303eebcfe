"""What a run will cost: counted by hand, compared with what a run says, shown by the command."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from helpers import command
from peerwise import topology
from peerwise.learner import cell, run
from peerwise.learner import plan as planning
from peerwise.learner.plan import Machine, Timing
from peerwise.simulate.cost import flop_of

SMALL = {
    "data": "wine",
    "split": {"nodes": 3, "rows": 20, "test_rows": 50},
    "network": "chain",
    "run": {"rounds": 2, "repetitions": 2},
}


def counted(f, *shapes):
    return flop_of(jax.make_jaxpr(f)(*(jnp.zeros(shape) for shape in shapes)).jaxpr)


def test_flop_of_a_product_a_sum_and_a_loop_by_hand():
    assert counted(lambda a, b: a @ b, (3, 4), (4, 5)) == 2 * 3 * 4 * 5
    assert counted(lambda a: a.sum(), (3, 4)) == 12
    assert counted(lambda a: jnp.exp(a) + 1, (3, 4)) == 24
    assert counted(lambda a: a.reshape(-1)[::2].astype(int), (3, 4)) == 0
    looped = counted(lambda a: jax.lax.fori_loop(0, 7, lambda i, x: x * 2.0, a), (3, 4))
    assert looped == 7 * 12
    batched = counted(jax.vmap(lambda a, b: a @ b), (6, 3, 4), (6, 4, 5))
    assert batched == 6 * 2 * 3 * 4 * 5


def test_a_plan_knows_what_the_run_will_send():
    described = cell(SMALL)
    planned, outcome = planning.plan(described), run(described)
    assert planned.cost.message == outcome.bytes_per_link
    assert planned.messages * 2 == outcome.messages  # two rounds
    assert planned.traffic == 4 * outcome.bytes_per_link  # a chain of three has four links
    assert planned.flop == 2 * planned.cost.flop  # two repetitions
    # 3 nodes of 20 rows, 13 numbers each, a class and a weight
    assert planned.cost.rows == 3 * 20 * (13 + 2) * 4
    assert planned.cost.touched == 3 * planned.cost.state + planned.cost.rows


def test_a_pooled_learner_sends_nothing():
    planned = planning.plan(cell({**SMALL, "method": "rc"}))
    assert (planned.cost.message, planned.traffic) == (0, 0)


def test_seconds_add_up_and_scale_with_the_work():
    timing = Timing(once=1.0, compiling=2.0, round=0.5, record=0.25)
    assert timing.total(10, 4) == 1 + 2 + 5 + 1
    assert timing.scaled(2).total(10, 4) == 1 + 2 + 10 + 2


@pytest.mark.parametrize(
    ("flops", "bandwidth", "seconds", "limit"),
    [
        (1e3, 1e12, None, "arithmetic"),
        (1e12, 1e3, None, "memory"),
        (1e12, 1e12, 1.0, "many small operations"),
        (1e12, 1e12, 0.0, "reading and measuring, not rounds"),
    ],
)
def test_what_limits_is_what_needs_most_of_the_time(flops, bandwidth, seconds, limit):
    planned = planning.plan(cell(SMALL))
    here = Machine(flops, bandwidth)
    if seconds is None:
        touched = planned.cost.touched * planned.repetitions
        seconds = 1.5 * max(planned.flop / flops, touched / bandwidth)
    assert planning.limit_of(planned, Timing(0, 0, seconds, 0), here) == limit


def test_messages_between_devices_by_hand():
    # a chain cut in three: the middle hears one node on either side
    assert planning.crossing(topology.chain(9), 3) == 2
    assert planning.crossing(topology.chain(9), 2) == 1
    # everybody hears all others: half of the nodes are on the other device
    assert planning.crossing(topology.complete(8), 2) == 4
    assert planning.crossing(topology.alone(8), 2) == 0


def test_devices_share_the_work_and_bring_each_other_messages():
    planned = planning.plan(cell(SMALL))._replace(links=topology.chain(9))
    shared = planning.shared(planned, Timing(0, 0, 1.0, 0), 3, bandwidth=1e9)
    assert shared.crossing == 2 * planned.cost.message * 2  # two repetitions
    assert shared.seconds == pytest.approx(1 / 3 + shared.crossing / 1e9)
    assert shared.limit == "each device's own part"


def test_the_command_says_what_a_run_will_cost(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.toml").write_text(
        'data = "wine"\nnetwork = "chain"\nsplit = {nodes = [3, 6], rows = 10, test_rows = 50}\n'
        "run = {rounds = 2, repetitions = 2}\n"
    )
    call = command(monkeypatch, capsys)
    code, out, said = call("plan", "mine.toml", "--no-calibrate")
    assert code == 0, said
    assert {"crc,", "= 3", "= 6"} <= {w.strip() for w in re.split(r"[│\n]|split.nodes", out)}
    assert "1.31 kB" in out  # four messages of 328 bytes
    assert not list(tmp_path.glob("runs/*"))  # nothing was run
    code, _, said = call("plan", "mine.toml", "--no-calibrate", "--devices", "2")
    assert code == 2
    assert "--devices needs the calibration" in said
    code, _, said = call("plan", "none.toml")
    assert code == 2
    assert "there is no run file none.toml" in said


@pytest.mark.full  # compiles and times; the parts are in the tests above
def test_a_calibrated_estimate_is_near_the_run(monkeypatch, capsys, tmp_path):
    described = cell({**SMALL, "split": {"nodes": 60, "rows": 2, "test_rows": 50},
                      "run": {"rounds": 4000, "repetitions": 1}})  # fmt: skip
    timing = planning.calibrate(described)
    run(described)  # compiled
    took = planning._timed(lambda: run(described))
    estimate = timing.total(4000, 1) - timing.compiling
    assert 0.2 < estimate / took < 5, (estimate, took)  # others may use this machine
    assert np.isfinite(planning.machine(0.05)).all()
