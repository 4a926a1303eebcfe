"""What a node may be called: its name is also a file's name and the name in its certificate."""

import re
from ipaddress import ip_address

from peerwise.errors import BadSetting

LONGEST = 64  # characters that a certificate's common name has room for
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_-]*[A-Za-z0-9_])?")
_TAKEN = {
    "ca": "ca.pem and ca.key are the authority's",
    "localhost": "it is every machine's name for itself",
}


def check_node(name: str) -> str:
    """The name, if a node may have it; BadSetting says what is wrong with it otherwise."""
    if _is_address(name):  # TLS would look for it among a certificate's addresses, not its names
        raise BadSetting(f"a node cannot be called {name!r}, which is an address; give it a name")
    if len(name) > LONGEST or not _NAME.fullmatch(name):
        raise BadSetting(
            f"a node cannot be called {name!r}: use letters, digits, '-' and '_' (a dot is for "
            f"names of machines), at most {LONGEST}, with a letter or digit first and no '-' last"
        )
    if name.lower() in _TAKEN:
        raise BadSetting(f"a node cannot be called {name!r}: {_TAKEN[name.lower()]}")
    return name


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
