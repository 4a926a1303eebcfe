"""All that a peer must not lose, in one SQLite file: state, round, letters, budget.

Every round is one transaction. A letter is on the disk before it is sent, and one that came is on
the disk before it is acknowledged; after a crash the same bytes are sent again.
Every row has a hash of its own, so that damage is seen before anything is learnt or sent from it.

`store` has the whole, `opening` what is refused; `inbox`, `quarantine`, `outbox` and `neighbours`
have the parts, over one `file`.
"""

from peerwise.peer.store.file import FILE, LOCK
from peerwise.peer.store.store import Store

__all__ = ["FILE", "LOCK", "Store"]
