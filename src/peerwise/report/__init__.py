"""Tables and figures of a run."""

from peerwise.report import figures, tables

__all__ = ["figures", "tables"]
