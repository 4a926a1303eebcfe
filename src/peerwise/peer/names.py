"""What a node may be called: its name is also a file's name and the name in its certificate."""

import re
from ipaddress import ip_address

from peerwise.errors import BadSetting

LONGEST = 64  # characters that a certificate's common name has room for
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.-]*[A-Za-z0-9_])?")


def check_node(name: str) -> str:
    """The name, if a node may have it; BadSetting says what is wrong with it otherwise."""
    if len(name) > LONGEST or not _NAME.fullmatch(name):
        raise BadSetting(
            f"a node cannot be called {name!r}: use letters, digits, '-', '_' and '.', at most "
            f"{LONGEST} of them, with a letter or digit first and no '-' or '.' last"
        )
    if name.lower() == "ca":
        raise BadSetting(f"a node cannot be called {name!r}: ca.pem and ca.key are the authority's")
    try:
        ip_address(name)
    except ValueError:
        return name
    # TLS would look for it among a certificate's addresses and not among its names
    raise BadSetting(f"a node cannot be called {name!r}, which is an address; give it a name")
