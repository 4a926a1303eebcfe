"""Relay: sums that reach every node exactly."""
