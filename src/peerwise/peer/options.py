"""What a site decides for its own peer, beside the charter that all agree on."""

from typing import Any

from peerwise.peer.renewing import Renewals

PATIENCE = 259_200.0  # seconds: three days, in which a machine that is down is noticed


class Options:
    """Where a peer listens, how long it waits, and what it measures itself on."""

    def __init__(
        self,
        listen: str | None = None,
        linger: float = 600.0,
        call_timeout: float = 30.0,
        held_out: Any = None,
        addresses: dict[str, str] | None = None,
        watch: float = 1.0,
        compare: float = 10.0,
        patience: float = PATIENCE,
        renewals: Renewals | None = None,
    ):
        self.listen, self.linger, self.call_timeout = listen, linger, call_timeout
        self.patience = patience  # seconds without a message from any that a round waits for
        self.held_out = held_out  # rows (x, y) in the charter's units to measure errors on, or None
        self.addresses = addresses or {}  # of neighbours, if they differ from the charter's
        self.watch = watch  # seconds between two looks at what the operator changed in the file
        self.renewals = renewals  # looks whether the certificate was renewed; None: never
        self.compare = compare  # seconds between two comparisons of what neighbours signed
