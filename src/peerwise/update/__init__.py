"""What a node does alone, between two messages."""

from peerwise.update.calibrate import calibrate, soft_error
from peerwise.update.expectation import em

__all__ = ["calibrate", "em", "soft_error"]
