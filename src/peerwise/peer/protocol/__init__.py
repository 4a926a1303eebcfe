"""What peers tell each other and when: a state machine without input or output."""

from peerwise.peer.protocol.core import Core
from peerwise.peer.protocol.ground import Rules

__all__ = ["Core", "Rules"]
