"""Networks that devices share, in processes of their own: `python sharing.py OUT DEVICES CASE ...`.

Every case runs on one device and on so many as are named ("1,2,4"); what each gave is written to
OUT. With COORDINATOR, PROCESSES and PROCESS in the environment, several processes do it together
and each of them writes OUT.
"""

import json
import os
import sys
from pathlib import Path

import jax
import numpy as np

from peerwise import channel as channels
from peerwise import topology
from peerwise.methods.bayesian import ba_bfl
from peerwise.methods.crc import crc
from peerwise.methods.diffusion import cvar_cvar
from peerwise.methods.gossip_nb import gossip_nb
from peerwise.methods.neural import cfa_ge, decavg, decdiff, fedavg
from peerwise.methods.relay import relay
from peerwise.metrics import consensus, errors, own_rows, together
from peerwise.models import naive_bayes
from peerwise.nets import mlp, network_of
from peerwise.nets.registry import bayesian_network
from peerwise.shards import pack
from peerwise.simulate import make_devices, mesh_of, simulate, start_processes
from peerwise.update.training import Training


def join():
    """Make devices and find the other processes, before the first array."""
    most = max(json.loads(f"[{sys.argv[2]}]"))
    count = int(os.environ.get("PROCESSES", "1"))
    make_devices(most // count)
    if count > 1:
        start_processes(os.environ["COORDINATOR"], count, int(os.environ["PROCESS"]), wait=120)


if __name__ == "__main__":
    join()

N, D, C = 41, 4, 3
MODEL = naive_bayes((0,) * D, C)
NET = network_of(mlp(D, C, (6,)), D, C)
SHORT = Training(epochs=1, batch=4, lr=0.1)


def lossy():
    return channels.erasure(0.7)


def data(n=N, ragged=False, seed=0):
    """Rows of every node, and a probe of nodes, of rows of their own and of all nodes together."""
    rng = np.random.default_rng(seed)
    size = rng.integers(1, 16, n) if ragged else np.full(n, 8)
    y, centre = rng.integers(C, size=size.sum()), rng.normal(size=(C, D))
    draw = lambda y: (centre[y] + rng.normal(size=(y.size, D))).astype(np.float32)  # noqa: E731
    shards = pack(draw(y), y, np.split(np.arange(y.size), np.cumsum(size)[:-1]))
    test = rng.integers(C, size=24)
    x, owned = draw(test), [np.arange(v % 5) for v in range(n)]
    return shards, together(errors("test", x, test), own_rows("own", x, test, owned), consensus())


def bayesian():
    return bayesian_network(mlp(D, C, (6,)), D, C, 2, 3, False)


def pushes():
    return topology.pushes(N, rounds=4)


def tree():
    return topology.random_tree(N, seed=1)


def case(method, graph, channel=None, rounds=4, ragged=False, **options):
    return {"method": method, "graph": graph, "channel": channel, "rounds": rounds,
            "ragged": ragged, **options}  # fmt: skip


CASES = {
    "crc": lambda: case(crc(MODEL, m0=100.0), tree(), lossy(), stages=("combine", "adapt")),
    "decdiff": lambda: case(decdiff(NET, training=SHORT), tree()),
    "rows differ": lambda: case(decdiff(NET, training=SHORT), tree(), lossy(), ragged=True),
    "push": lambda: case(gossip_nb(MODEL, counter="push_sum"), pushes(), lossy()),
    "relay": lambda: case(relay(MODEL), tree(), lossy(), 6),
    "ba_bfl": lambda: case(ba_bfl(bayesian(), training=SHORT), topology.regular(N + 1), n=N + 1),
    "cvar": lambda: case(cvar_cvar(NET, training=SHORT), topology.ring(N), lossy()),
    "cfa_ge": lambda: case(cfa_ge(NET, training=SHORT), tree(), lossy()),
    "cfa_ge kept": lambda: case(cfa_ge(NET, training=SHORT, smoothing=0.5), tree(), lossy()),
    "hubs": lambda: case(
        crc(MODEL, m0=100.0), topology.barabasi_albert(83, m=3), channels.churn(), n=83, ragged=True
    ),
    "star": lambda: case(crc(MODEL, m0=100.0), topology.star(300), channels.bursty(), n=300),
    "server": lambda: case(fedavg(NET, training=SHORT), topology.server(N), lossy()),
    "late": lambda: case(crc(MODEL, m0=100.0), tree(), channels.random_delay(q=0.5, longest=2)),
    "late pushes": lambda: case(
        crc(MODEL, m0=100.0), topology.pushes(tree(), rounds=4), channels.delay(rounds=1)
    ),
    "redrawn": lambda: case(
        crc(MODEL, m0=100.0), topology.redrawn(lambda seed: topology.random_tree(N, seed=seed),
                                               every=2, rounds=4)),
    "complete": lambda: case(decavg(NET, rule="median", training=SHORT), topology.complete(N)),
    "exact": lambda: case(relay(MODEL), tree(), lossy(), exact=True),
    "double": lambda: case(crc(MODEL, m0=100.0), tree(), lossy(), precision="float64"),
}  # fmt: skip


def run(made, mesh, **options):
    """One run of a case."""
    given = dict(made)
    shards, probe = data(given.pop("n", N), given.pop("ragged"))
    method, graph, rounds = (given.pop(k) for k in ("method", "graph", "rounds"))
    given |= {"seed": 3, "probe": probe, "at": [1, rounds], "mesh": mesh, **options}
    return simulate(method, shards, graph, rounds, **given)


def leaves(done):
    return [np.asarray(a) for a in jax.tree.leaves((done.state, done.history))]


def mesh(count):
    """Of so many devices in all."""
    return None if count == 1 else mesh_of(count // jax.process_count())


def checkpoints(case, out, counts):
    """A run begun on each number of devices goes on with the next; what each ends with."""
    made, ends = CASES[case](), []
    for before, after in zip(counts, [*counts[1:], counts[0]], strict=True):
        file = out.with_name(f"{out.name}-{case}-{before}.saved")
        run(made, mesh(before), until=2, checkpoint=file)
        ends.append(leaves(run(made, mesh(after), checkpoint=file)))
    return ends


def main():
    out, counts, names = Path(sys.argv[1]), json.loads(f"[{sys.argv[2]}]"), sys.argv[3:]
    given = {}
    for name in names:
        if name.startswith("checkpoints of "):
            for i, arrays in enumerate(checkpoints(name[15:], out, counts)):
                given |= {f"{name}|{i}|{j}": a for j, a in enumerate(arrays)}
            continue
        made = CASES[name]()
        for count in counts:
            found = leaves(run(made, mesh(count)))
            given |= {f"{name}|{count}|{j}": a for j, a in enumerate(found)}
    np.savez(out, **given)


if __name__ == "__main__":
    main()
