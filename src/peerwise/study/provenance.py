"""What the numbers of a job depend on, and the versions and machine that made them."""

import platform
import sys
from datetime import UTC, datetime
from importlib import import_module, metadata
from typing import Any

from peerwise import __version__, data, own
from peerwise.core import NUMERICS
from peerwise.errors import PeerwiseError
from peerwise.methods import leading
from peerwise.privacy.aware import REVISION
from peerwise.study.jobs import Job, sources

LIBRARIES = ("jax", "jaxlib", "numpy", "pandas", "scikit-learn", "networkx")


def depends(job: Job) -> dict[str, Any]:
    """Hashes of the data and of the user's modules, and the version of the package's numerics.

    And that of the noise-aware models and of lead, where they are asked for.
    """
    return {
        "numerics": NUMERICS,
        **_aware(job.asked),
        **_lead(job.asked),
        "data": {name: _data(name) for name in sorted(set(sources(job.asked)))},
        "code": own.code_of(job.asked),
    }


def _aware(asked: Any) -> dict[str, int]:
    if isinstance(asked, dict):
        uses = bool(asked.get("privacy")) and asked["privacy"]["aware"]
    else:  # of a task: its function, whose module says so, and its arguments
        module, _, function = asked[0].partition(":")
        uses = function in getattr(import_module(module), "AWARE", ())
    return {"aware": REVISION} if uses else {}


def _lead(asked: Any) -> dict[str, int]:
    method = asked.get("method") if isinstance(asked, dict) else None
    return {"lead": leading.REVISION} if method and method.get("lead", 0) != 0 else {}


def _data(name: str) -> str:
    try:
        return data.fingerprint(name)[:16]
    except PeerwiseError:  # the run itself says what is wrong with it
        return "not at hand"


def changes(before: dict[str, Any] | None, now: dict[str, Any]) -> str:
    """What has changed, in words; empty if nothing has."""
    if before is None:
        return "what it was made from is not known"
    if before.get("numerics") != now["numerics"]:
        return "this version of the package computes other numbers"
    if before.get("aware") != now.get("aware"):
        return "noise-aware models of this version compute other numbers"
    if before.get("lead") != now.get("lead"):
        return "this version carries late sums forward otherwise"
    for what in ("data", "code"):
        old, new = before.get(what, {}), now[what]
        if changed := sorted(k for k in old.keys() | new.keys() if old.get(k) != new.get(k)):
            return f"the {what} of {', '.join(changed)} changed"
    return ""


def environment() -> dict[str, str]:
    """The versions of the libraries that compute, and the kind of machine."""
    import jax

    return {
        "peerwise": __version__,
        "python": sys.version.split()[0],
        "system": platform.platform(),
        "processor": platform.machine(),
        "device": jax.devices()[0].device_kind,
        **{name: metadata.version(name) for name in LIBRARIES},
    }


def provenance(seconds: float) -> dict[str, Any]:
    """The versions and machine of a job's run, its date and how long it took."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {**environment(), "seconds": round(seconds, 3), "date": now}
