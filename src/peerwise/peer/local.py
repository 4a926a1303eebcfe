"""A whole federation on this machine: real processes, certificates, ports and files."""

import contextlib
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import networkx as nx
import numpy as np
import pandas as pd

from peerwise import data, metrics, topology
from peerwise.channel import Channel
from peerwise.data.formats import write_frame
from peerwise.errors import BadData, BadFile, PeerwiseError
from peerwise.peer import views
from peerwise.peer.charter import Charter
from peerwise.peer.drafting import draft
from peerwise.peer.identity import make_authority, make_certificate
from peerwise.peer.passphrase import NODE
from peerwise.peer.plan import Plan
from peerwise.privacy import Ledger
from peerwise.runtime import Run
from peerwise.simulate import simulate

CHARTER, TEST = "charter.toml", "test.parquet"


class Federation(NamedTuple):
    """What is set up in a folder."""

    folder: Path
    charter: Charter

    def rows(self, name: str) -> Path:
        """The file of a node's own rows."""
        return self.folder / "data" / f"{name}.parquet"

    def state(self, name: str) -> Path:
        """The folder of a node's state."""
        return self.folder / "state" / name

    def ledger(self, name: str) -> Path:
        """The privacy ledger of a node's site, made where there is none."""
        path = self.folder / "ledgers" / f"{name}.ledger"
        if self.charter.budget is not None and not path.exists():
            path.parent.mkdir(0o700, exist_ok=True)
            Ledger.open(path, node=name, **self.charter.budget.model_dump()).close()
        return path

    def table(self, path: Path) -> data.Table:
        """The rows in one of its files."""
        return data.load(path, target=self.charter.target)


def free_ports(count: int) -> list[int]:
    """Ports of this machine at which nobody listens now.

    They lie below those that a system gives to outgoing connections (32768 and up on Linux, 49152
    elsewhere), so that no connection takes one before its peer listens.
    """
    ports: list[int] = []
    for port in random.SystemRandom().sample(range(10_000, 32_000), 1_000):
        with socket.socket() as one, contextlib.suppress(OSError):
            one.bind(("127.0.0.1", port))
            ports.append(port)
        if len(ports) == count:
            return ports
    raise PeerwiseError(f"this machine has no {count} free ports between 10000 and 32000")


def _frame(table: data.Table) -> pd.DataFrame:
    """The features with names, as a file has them."""
    if isinstance(table.frame, pd.DataFrame):
        return table.frame
    flat = np.asarray(table.frame).reshape(len(table.labels), -1)
    return pd.DataFrame(flat, columns=[f"f{i}" for i in range(flat.shape[1])])


def set_up(
    folder: Path,
    table: data.Table,
    *,
    nodes: int,
    rows: int,
    description: Mapping[str, Any],
    graph: str = "random_tree",
    seed: int = 0,
    test_rows: int = 2000,
    typing: str = "distinct",
    **terms: Any,
) -> Federation:
    """Deal rows to the nodes of a graph, and write charter, certificates and files in a folder."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadFile(f"{folder} is not an empty folder; give another, or remove it")
    frame = _frame(table).assign(**{table.target: table.labels})
    wanted = nodes * rows
    if len(frame) <= wanted:
        raise BadData(
            f"{table.name} has {len(frame)} rows: too few for {nodes} nodes of {rows} rows and a "
            "test set; ask for fewer nodes or rows"
        )
    order = np.random.default_rng(seed).permutation(len(frame))
    names = [f"node{i}" for i in range(nodes)]
    drawn = topology.graph_of(topology.named(graph, nodes, seed))
    among = nx.relabel_nodes(nx.Graph(drawn), dict(enumerate(names)))
    # categories and units of all rows: here they are no secret, and test rows must be read too
    whole = table._replace(frame=_frame(table), split=None)
    images = not isinstance(table.frame, pd.DataFrame)
    kinds: Any = dict.fromkeys(whole.frame, "numeric") if images else typing
    ports = free_ports(nodes)
    charter = draft(
        whole, among, description, name=f"{table.name} here", typing=kinds,
        addresses={n: f"127.0.0.1:{p}" for n, p in zip(names, ports, strict=True)},
        limits={"rows": wanted}, public=True, **terms,
    )  # fmt: skip
    # all that can be wrong is found out before anything is written
    try:
        (folder / "data").mkdir(parents=True)
    except OSError as error:
        raise BadFile(f"cannot write to {folder}: {error.strerror}") from None
    parts = np.split(order[:wanted], nodes)
    for name, part in zip(names, parts, strict=True):
        write_frame(folder / "data" / f"{name}.parquet", frame.iloc[part])
    write_frame(folder / TEST, frame.iloc[order[wanted:][:test_rows]])
    charter.save(folder / CHARTER)
    keys = folder / "keys"
    make_authority(keys)
    for name in names:
        make_certificate(keys, name)
    return Federation(folder, charter)


class Peers:
    """The processes of a local federation."""

    def __init__(self, federation: Federation, extra: Sequence[str] = ()):
        self.federation, self._extra = federation, list(extra)
        for name in federation.charter.own_code:  # here it is the author's who starts them
            self._extra += ["--allow", name]
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.names = federation.charter.names

    def start(self, name: str) -> None:
        """Start a peer, or start it again."""
        f = self.federation
        f.state(name).mkdir(0o700, parents=True, exist_ok=True)
        command = [
            sys.executable, "-m", "peerwise", "peer", "run", "--quiet",
            "--charter", str(f.folder / CHARTER), "--node", name, "--data", str(f.rows(name)),
            "--state", str(f.state(name)), "--keys", str(f.folder / "keys"), *self._extra,
        ]  # fmt: skip
        if f.charter.budget is not None:
            command += ["--ledger", str(f.ledger(name))]
        # peers share the cores: one that takes all of them for itself slows the others down
        env = {**os.environ, "JAX_PLATFORMS": "cpu"}
        env.setdefault("XLA_FLAGS", "--xla_cpu_multi_thread_eigen=false")
        env.pop(NODE, None)  # the keys that are made here have none
        env["OMP_NUM_THREADS"] = env.get("OMP_NUM_THREADS", "1")
        with open(f.state(name) / "output.txt", "ab") as output:
            self.processes[name] = subprocess.Popen(
                command, stdout=output, stderr=output, env=env, start_new_session=True
            )

    def __enter__(self) -> "Peers":
        for name in self.names:
            self.start(name)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def signal(self, name: str, number: int) -> None:
        """Send a signal to a peer."""
        self.processes[name].send_signal(number)

    def stop(self) -> None:
        """Ask all that still run to stop, and wait for them."""
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.send_signal(signal.SIGTERM)
        for process in self.processes.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def look(self) -> dict[str, views.Status | None]:
        """How every peer stands, by its own file."""
        standing: dict[str, views.Status | None] = {}
        for name in self.names:
            try:
                standing[name] = views.status(self.federation.state(name))
            except PeerwiseError:
                standing[name] = None  # not begun
        return standing

    def failed(self) -> dict[str, str]:
        """Peers that ended with an error, and the last lines of what they said."""
        wrong = {}
        for name, process in self.processes.items():
            if process.poll() not in (None, 0):
                output = (self.federation.state(name) / "output.txt").read_text(errors="replace")
                wrong[name] = output.strip()[-400:] or f"exit status {process.returncode}"
        return wrong

    def wait(
        self,
        seconds: float,
        watch: Callable[[dict[str, Any]], None] | None = None,
        patient: bool = False,
    ) -> bool:
        """Whether all have ended well within so many seconds; `watch` sees them on the way.

        `patient`: a peer that fails, or is stopped before it is done, may be started again.
        """
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            standing = self.look() if watch is not None or patient else {}
            if watch is not None:
                watch(standing)
            if not patient and self.failed():
                return False
            done = all(s is not None and s.done for s in standing.values()) or not patient
            if done and all(p.poll() is not None for p in self.processes.values()):
                return not self.failed()
            time.sleep(0.25)
        return False


def peer_errors(federation: Federation) -> dict[str, float]:
    """The error of every peer's model on rows that nobody trained on."""
    charter = federation.charter
    x, y = charter.rows(federation.table(federation.folder / TEST))
    errors = {}
    for name in charter.names:
        prob = views.learnt(federation.state(name), charter.own_code).of_rows(x)
        errors[name] = float((prob.argmax(1) != y).mean())
    return errors


def simulated(
    federation: Federation,
    agreed: Mapping[str, Any] | None = None,
    channel: Channel | Mapping[str, Any] | None = None,
    probe: bool = False,
) -> Run:
    """What the simulator gives for this very federation; `probe`: with errors on the test rows."""
    charter = federation.charter
    tables = [federation.table(federation.rows(name)) for name in charter.names]
    plans = [
        Plan(charter, name, table, channel=channel)
        for name, table in zip(charter.names, tables, strict=True)
    ]
    learning, sizes = plans[0].learning, [len(p.y) for p in plans]
    x, y = np.concatenate([p.x for p in plans]), np.concatenate([p.y for p in plans])
    owned = np.split(np.arange(len(y)), np.cumsum(sizes)[:-1])
    parts = learning.assembled(learning.world(x, y, agreed)._replace(owned=owned))
    look = None
    if probe:
        xt, yt = charter.rows(federation.table(federation.folder / TEST))
        look = metrics.errors("test", learning.encoded(xt, agreed), yt)
    return simulate(
        parts.method, parts.shards, parts.links, charter.rounds, seed=charter.seed,
        precision=charter.precision, probe=look, channel=plans[0].channel, exact=True,
    )  # fmt: skip
