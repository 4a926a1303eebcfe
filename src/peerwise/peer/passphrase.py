"""The passphrase of a private key: from a file of its own, or from the environment."""

import os
from pathlib import Path

from peerwise.errors import BadFile, BadSetting

NODE, AUTHORITY = "PEERWISE_KEY_PASSPHRASE", "PEERWISE_CA_PASSPHRASE"
LONGEST = 1023  # bytes, which is what libraries take


def passphrase(file: str | Path | None = None, variable: str = NODE) -> bytes | None:
    """What the file holds, else what the environment variable does; None where neither is given.

    One line break at the end of a file does not count.
    """
    if file is not None:
        return checked(_read(Path(file)), f"the passphrase file {file}")
    text = os.environ.get(variable)
    return None if text is None else checked(text.encode(errors="surrogateescape"), variable)


def checked(secret: bytes, what: str) -> bytes:
    """A passphrase that can be one; `what`: how to call the place that it is from."""
    if not 0 < len(secret) <= LONGEST:
        raise BadSetting(f"{what} must hold 1 to {LONGEST} bytes, got {len(secret)}")
    return secret


def _read(path: Path) -> bytes:
    try:
        mode = path.stat().st_mode & 0o777
        text = path.read_bytes()
    except OSError as error:
        raise BadFile(f"cannot read the passphrase file {path}: {error.strerror}") from None
    # a pipe of `--passphrase-file <(pass show ward3)` belongs to who made it
    if os.name == "posix" and path.is_file() and mode & 0o077:
        raise BadFile(
            f"{path} can be read by others (mode {mode:o}); keep it to yourself with `chmod 600 "
            f"{path}`"
        )
    return text.removesuffix(b"\n").removesuffix(b"\r")
