"""One node of a network as a real process: it talks to its neighbours over mutual TLS."""
