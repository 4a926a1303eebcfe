"""A certificate that is renewed while its peer runs: noticed by its file, and used from then on."""

from pathlib import Path

from peerwise.errors import PeerwiseError
from peerwise.peer.identity import Identity, expires, load_identity
from peerwise.peer.journal import log


class Renewals:
    """The files of a node's identity; whoever has the passphrase of its key can look again."""

    def __init__(self, keys: Path, identity: Identity, passphrase: bytes | None = None):
        self._path, self._keys = keys / f"{identity.node}.pem", keys
        self._identity, self._passphrase = identity, passphrase
        self._seen = self._stamp()

    def look(self) -> Identity | None:
        """The identity of now, if it is another than when it was last looked for."""
        stamp = self._stamp()
        if stamp == self._seen:
            return None
        self._seen = stamp
        try:
            new = load_identity(self._keys, self._identity.node, self._passphrase)
        except PeerwiseError as error:
            log.warning("not renewed", extra={"facts": {"why": str(error)[:500]}})
            return None
        if new.authority != self._identity.authority:
            why = "ca.pem is of another authority, which neighbours do not trust"
            log.warning("not renewed", extra={"facts": {"why": why}})
            return None
        if new == self._identity:
            return None
        self._identity = new
        facts = {"valid until": f"{expires(new.certificate):%Y-%m-%d %H:%M}"}
        log.info("certificate renewed", extra={"facts": facts})
        return new

    def _stamp(self) -> tuple[int, int] | None:
        try:
            about = self._path.stat()
        except OSError:
            return None
        return about.st_mtime_ns, about.st_size
