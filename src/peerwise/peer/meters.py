"""What a peer counts, for Prometheus."""

from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server

from peerwise.errors import BadSetting


class Meters:
    """Counters of one peer."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        options: Any = {"registry": self.registry}
        self._round = Gauge("peerwise_round", "Rounds done in this phase", **options)
        self._phase = Gauge("peerwise_phase", "Phase: the last one learns", **options)
        self._heard = Gauge("peerwise_heard", "Neighbours heard in the last round", **options)
        self._missed = Counter("peerwise_missed", "Letters that came too late or never", **options)
        self._sent = Counter("peerwise_sent_bytes", "Bytes of acknowledged letters", **options)
        self._received = Counter("peerwise_received_bytes", "Bytes of letters that came", **options)
        self._refused = Counter("peerwise_refused", "Calls refused", ["why"], **options)
        self._seconds = Histogram("peerwise_round_seconds", "Seconds of a round", **options)
        self._error = Gauge("peerwise_error", "Error on the node's own rows", **options)
        self._epsilon = Gauge("peerwise_epsilon_spent", "Privacy budget spent", **options)

    def serve(self, port: int) -> None:
        """Answer at a port of this machine, and of no other."""
        try:
            start_http_server(port, addr="127.0.0.1", registry=self.registry)
        except OSError as error:
            raise BadSetting(f"cannot serve metrics at port {port}: {error.strerror}") from None

    def round(
        self, phase: int, t: int, heard: int, missed: int, seconds: float, error: float | None
    ) -> None:
        """A round is done."""
        self._phase.set(phase)
        self._round.set(t)
        self._heard.set(heard)
        self._missed.inc(missed)
        self._seconds.observe(seconds)
        if error is not None:
            self._error.set(error)

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
