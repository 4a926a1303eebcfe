"""Peers in a thread, and whoever dials them: for tests in which the test plays the neighbours."""

import asyncio
import json
import threading
import time

import grpc
import jax
import networkx as nx
import numpy as np

from federation import signed
from peerwise.peer.greeting import greeting, summary
from peerwise.peer.identity import load_identity
from peerwise.peer.transport import CHARTER, LIFE, SERVICE, Code, told
from peerwise.peer.wire import Envelope

LONG = 60.0  # seconds, which only a fault takes


class Host:
    """A thread in which peers live, while the test plays their neighbours."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever)
        self.thread.start()
        self.running = []

    def run(self, work):
        return asyncio.run_coroutine_threadsafe(work, self.loop)

    def start(self, daemon):
        done = self.run(daemon.run())
        self.running.append((daemon, done))
        return done

    def close(self):
        for daemon, done in self.running:
            self.loop.call_soon_threadsafe(daemon.stop)
            done.exception(LONG)
            daemon.store.close()
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.loop.close()


def path(*names):
    return nx.relabel_nodes(nx.path_graph(len(names)), dict(enumerate(names)))


class Mallory:
    """Somebody with a certificate who dials a peer."""

    def __init__(self, fed, name="a", to="b", keys=None, charter=None, life=None, **told):
        own = load_identity(keys or fed.keys, name)
        parts = {
            "root_certificates": (fed.keys / "ca.pem").read_bytes(),
            "private_key": own.key,
            "certificate_chain": own.certificate,
        } | told
        most = 1 << 28
        self.channel = grpc.secure_channel(
            fed.charter.nodes[to].address,
            grpc.ssl_channel_credentials(**parts),
            [("grpc.ssl_target_name_override", to), ("grpc.max_send_message_length", most)],
        )
        self.headers = [(CHARTER, fed.charter.hash if charter is None else charter)]
        self.headers += [] if life is None else [(LIFE, str(life))]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.channel.close()

    def call(self, method, body=b"", timeout=LONG, service=SERVICE):
        """The code and the answer or reason."""
        call = self.channel.unary_unary(f"/{service}/{method}")
        try:
            answer = call(body, timeout=timeout, metadata=self.headers)
        except grpc.RpcError as error:
            return error.code(), error.details()
        return Code.OK, answer

    def pull(self, timeout=LONG, **asked):
        return self.call("Pull", json.dumps(asked).encode(), timeout)


def hello(charter):
    """A first message as a peer with this charter writes it."""
    return greeting({"phase": 0, "round": 0, "life": 0}, summary(charter))


def serving(fed, name="a", to="b"):
    """Wait until a peer answers one who may ask; whether it does."""
    with Mallory(fed, name, to) as caller:
        until = time.monotonic() + LONG
        while time.monotonic() < until:
            code, answer = caller.call("Hello", hello(fed.charter))
            if code is Code.OK:
                return isinstance(told(answer).get("round"), int)
            time.sleep(0.05)
    return False


def letter(victim, sender="a", phase=0, t=0, scale=1.0):
    """A letter as a neighbour would write it."""
    own = next(iter(victim.node.letters(victim.memory, 0).values()))
    scaled = jax.tree.map(lambda a: np.asarray(a * np.asarray(scale, a.dtype)), own)
    body = victim.format.encode(scaled, Envelope(sender, phase, t))
    return signed(victim, body, sender, (phase, t))
