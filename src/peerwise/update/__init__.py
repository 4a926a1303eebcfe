"""What a node does alone, between two messages."""

from peerwise.update.calibrate import calibrate, soft_error

__all__ = ["calibrate", "soft_error"]
