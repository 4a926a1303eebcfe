"""What a peer counts, for Prometheus, and how it is, for whoever watches it."""

from collections.abc import Iterable
from socketserver import ThreadingMixIn
from threading import Thread
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, make_wsgi_app

from peerwise.errors import BadSetting
from peerwise.peer.health import Health

HERE = "127.0.0.1"  # of this machine, and of no other
SECONDS = 10  # in which a caller must have asked


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Silent(WSGIRequestHandler):
    timeout = SECONDS

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing: every scrape would be a line."""


class Meters:
    """Counters of one peer, and its health."""

    def __init__(self, unit: str | None = None) -> None:
        """`unit`: what the charter's budget hides, a row or a person."""
        self.health = Health()
        self.registry = CollectorRegistry()
        options: Any = {"registry": self.registry}
        self._round = Gauge("peerwise_round", "Rounds done in this phase", **options)
        self._phase = Gauge("peerwise_phase", "Phase: the last one learns", **options)
        self._heard = Gauge("peerwise_heard", "Neighbours heard in the last round", **options)
        self._waiting = Gauge("peerwise_waiting", "Neighbours waited for now", **options)
        self._missed = Counter("peerwise_missed", "Letters that came too late or never", **options)
        self._sent = Counter("peerwise_sent_bytes", "Bytes of acknowledged letters", **options)
        self._received = Counter("peerwise_received_bytes", "Bytes of letters that came", **options)
        self._refused = Counter("peerwise_refused", "Calls refused", ["why"], **options)
        self._seconds = Histogram("peerwise_round_seconds", "Seconds of a round", **options)
        self._error = Gauge("peerwise_error", "Error on the node's own rows", **options)
        spent = "Privacy budget spent" + (f", epsilon for one {unit}" if unit else "")
        self._epsilon = Gauge("peerwise_epsilon_spent", spent, **options)

    def serve(self, port: int, host: str = HERE) -> None:
        """Answer at a port: /health, /live and /ready in JSON, anything else for Prometheus."""
        metrics = make_wsgi_app(self.registry)

        def app(environ: dict[str, Any], start: Any) -> Any:
            answer = self.health.answer(environ.get("PATH_INFO", ""))
            if answer is None:
                return metrics(environ, start)
            well, body = answer
            start("200 OK" if well else "503 Service Unavailable",
                  [("Content-Type", "application/json")])  # fmt: skip
            return [body]

        try:
            server = make_server(host, port, app, _Server, _Silent)
        except OSError as error:
            raise BadSetting(f"cannot serve metrics at port {port}: {error.strerror}") from None
        Thread(target=server.serve_forever, daemon=True, name="metrics").start()

    def round(
        self, phase: int, t: int, heard: int, missed: int, seconds: float, error: float | None
    ) -> None:
        """A round is done."""
        self.health.round(phase, t)
        self._waiting.set(0)
        self._phase.set(phase)
        self._round.set(t)
        self._heard.set(heard)
        self._missed.inc(missed)
        self._seconds.observe(seconds)
        if error is not None:
            self._error.set(error)

    def waiting(self, names: Iterable[str]) -> None:
        """A round waits for these neighbours."""
        names = list(names)
        self.health.waiting(names)
        self._waiting.set(len(names))

    def sent(self, size: int) -> None:
        """A neighbour has a letter."""
        self._sent.inc(size)

    def received(self, size: int) -> None:
        """A letter came, good or bad."""
        self._received.inc(size)

    def refused(self, why: str) -> None:
        """A call was refused."""
        self._refused.labels(why).inc()

    def spent(self, epsilon: float) -> None:
        """So much of the budget is spent."""
        self._epsilon.set(epsilon)
