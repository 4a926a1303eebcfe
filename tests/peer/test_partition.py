"""A link that is cut and heals, through a relay of bytes that the test can close."""

import asyncio
import contextlib

import networkx as nx
import numpy as np
import pytest

from federation import assert_same, federation, run_all, simulated
from peerwise.channel import erasure
from peerwise.peer.local import free_ports

LINE = nx.relabel_nodes(nx.path_graph(3), {0: "a", 1: "b", 2: "c"})


class Relay:
    """Bytes from a port to another, unless it is cut."""

    def __init__(self, port, to):
        self.port, self._to, self.cut = port, to, False
        self._open: set[asyncio.StreamWriter] = set()
        self._meetings: set[asyncio.Task] = set()

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._meet, "127.0.0.1", self.port)
        return self

    async def __aexit__(self, *_):
        self._server.close()
        self.cut = True
        self.break_off()
        await asyncio.gather(*self._meetings)

    def break_off(self):
        for writer in self._open:
            writer.close()

    async def _meet(self, reader, writer):
        self._meetings.add(asyncio.current_task())
        with contextlib.suppress(OSError):
            async with self._kept(writer):
                if self.cut:
                    return
                there, back = await asyncio.open_connection("127.0.0.1", self._to)
                async with self._kept(back):
                    if not self.cut:  # since
                        await asyncio.gather(self._pass(reader, back), self._pass(there, writer))

    @contextlib.asynccontextmanager
    async def _kept(self, writer):
        """Closed in the end, however it comes."""
        self._open.add(writer)
        try:
            yield
        finally:
            self._open.discard(writer)
            writer.close()
            await writer.wait_closed()

    async def _pass(self, reader, writer):
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        writer.close()


def cut_and_healed(fed, more):
    """All peers run; the link between b and c is cut until c did so many `more` rounds.

    With 0, until a was waiting for a while. Returns the rounds of c and a then.
    """
    port_b, port_c = (int(fed.charter.nodes[n].address.split(":")[1]) for n in "bc")
    to_b, to_c = free_ports(2)
    daemons = {
        "a": fed.daemon("a"),
        "b": fed.daemon("b", addresses={"c": f"127.0.0.1:{to_c}"}),
        "c": fed.daemon("c", addresses={"b": f"127.0.0.1:{to_b}"}),
    }

    async def go():
        async with Relay(to_b, port_b) as one, Relay(to_c, port_c) as two:
            tasks = [asyncio.create_task(d.run()) for d in daemons.values()]
            while daemons["c"].place.round < 5:
                await asyncio.sleep(0.01)
            for relay in (one, two):
                relay.cut = True
                relay.break_off()
            cut = daemons["c"].place.round
            while daemons["c"].place.round < cut + more:
                await asyncio.sleep(0.01)
            if not more:
                await asyncio.sleep(1.0)
            at = daemons["c"].place.round, daemons["a"].place.round
            for relay in (one, two):
                relay.cut = False
            return await asyncio.wait_for(asyncio.gather(*tasks), 600), at

    done, at = asyncio.run(go())
    assert done == [True] * 3
    return list(daemons.values()), at


@pytest.mark.full  # `make test`: protocol/test_worlds.py
def test_peers_that_wait_are_where_they_were_when_a_cut_link_heals(tmp_path):
    fed = federation(tmp_path, LINE, {"name": "crc", "lr": 0.05}, rounds=80)
    daemons, (at_c, at_a) = cut_and_healed(fed, 0)
    assert at_c < 80
    assert abs(at_c - at_a) <= 2  # all wait for the one that cannot be heard
    assert_same(simulated(fed, daemons, 80), daemons)


@pytest.mark.full
def test_peers_with_deadlines_go_on_and_find_together_again(tmp_path):
    rounds, pace = 60, {"mode": "deadline", "deadline": 1.0}
    fed = federation(tmp_path, LINE, {"name": "crc", "lr": 0.05}, rounds=rounds, pace=pace)
    daemons, (at_c, _) = cut_and_healed(fed, 3)
    assert at_c < rounds  # it went on without b, and is not at the end
    rounds = daemons[2].store.rows("SELECT round, heard, missed FROM rounds ORDER BY round")
    missed = [t for t, _, missing in rounds if missing]
    assert missed
    assert any(heard for t, heard, _ in rounds if t > max(missed[:3]))  # and is with it again
    whole = simulated(fed, daemons, 60)
    test = fed.charter.rows(fed.test)
    for i, daemon in enumerate(daemons):
        state = daemon.memory.state._replace(value=whole.state.value[i])
        predicted = daemon.node.error(daemon.memory._replace(state=state), *test)
        assert daemon.node.error(daemon.memory, *test) < predicted + 0.1


@pytest.mark.some("True")
@pytest.mark.parametrize("adaptive", [False, True])
def test_a_neighbour_that_never_comes_costs_a_deadline_a_round_or_less_where_it_adapts(
    tmp_path, adaptive
):
    """Once b is known to be heard quickly, c does not wait the whole deadline for it."""
    deadline = 8.0 if adaptive else 0.5  # far longer than a letter takes, however busy all is
    rounds, pace = 5000, {"mode": "deadline", "deadline": deadline, "adaptive": adaptive}
    pair = nx.relabel_nodes(nx.path_graph(2), {0: "a", 1: "b"})
    fed = federation(tmp_path, pair, {"name": "crc", "lr": 0.05}, rounds=rounds, pace=pace)
    a, b = fed.daemon("a"), fed.daemon("b")

    async def go():
        tasks = [asyncio.create_task(d.run()) for d in (a, b)]
        while a.place.round < 12:
            await asyncio.sleep(0.01)
        b.stop()
        await tasks[1]
        last = a.place.round
        while a.place.round <= last + 1:  # whole rounds without b from here
            await asyncio.sleep(0.01)
        begun, clock = a.place.round, asyncio.get_running_loop().time()
        while a.place.round < begun + 6:
            await asyncio.sleep(0.01)
        took = asyncio.get_running_loop().time() - clock
        a.stop()
        await tasks[0]
        return took / 6

    seconds = asyncio.run(go())
    if adaptive:
        assert seconds < 0.8 * deadline
    else:
        assert seconds > 0.9 * deadline


@pytest.mark.full
def test_asynchronous_peers_do_all_rounds_and_come_together(tmp_path):
    """How well they learn is up to the clock; that they hear each other is not."""
    rounds, pace = 60, {"mode": "async", "deadline": 1.0, "staleness": 4}
    fed = federation(tmp_path, LINE, {"name": "crc", "lr": 0.05}, rounds=rounds, pace=pace)
    daemons = [fed.daemon(n) for n in fed.charter.names]
    assert all(run_all(*daemons))
    alone = np.asarray(simulated(fed, daemons, 60, channel=erasure(0.0)).state.value)
    together = np.stack([np.asarray(d.memory.state.value) for d in daemons])

    def spread(values):
        return np.linalg.norm(values - values.mean(0))

    assert spread(together) < spread(alone) / 2
    for daemon in daemons:
        assert daemon.store.rows("SELECT count(*) FROM rounds") == [(60,)]
