"""One node of a network as a real process: it talks to its neighbours over mutual TLS."""

from peerwise.errors import extra

for library in ("cryptography", "grpc", "prometheus_client"):
    extra(library)
