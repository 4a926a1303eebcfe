"""Everything that can be named on the command line or in a configuration, and how it is found."""

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterable
from typing import Any

from peerwise import channel, combine, methods, metrics, partition, topology
from peerwise.errors import BadSetting, UnknownName
from peerwise.experiments.baselines import BASELINES
from peerwise.models.registry import MODELS
from peerwise.nets import NETS

__all__ = ["KINDS", "find", "first_line", "listed"]

_METRICS = ("consensus", "guards")  # probes that need no rows; errors are always recorded

_CHANNELS = ("perfect", "erasure", "bursty", "churn", "delay", "random_delay", "trace")

# Kind -> name -> what it names.
KINDS: dict[str, dict[str, Callable[..., Any]]] = {
    "methods": {**{name: getattr(methods, name) for name in methods.__all__}, **BASELINES},
    "models": dict(MODELS),
    "nets": dict(NETS),
    "topologies": {name: getattr(topology, name) for name in topology.GRAPHS},
    "channels": {name: getattr(channel, name) for name in _CHANNELS},
    "partitions": dict(partition.PARTITIONS),
    "sizes": dict(partition.SIZES),
    "shifts": {"none": partition.unshifted, **partition.SHIFTS},
    "rules": {name: getattr(combine, name) for name in combine.__all__},
    "metrics": {name: getattr(metrics, name) for name in _METRICS},
}


def find(kind: str, name: str) -> Callable[..., Any]:
    """The thing of a kind called `name`, or a user's own, named as `module:function`."""
    if ":" in name:
        return _own(kind, name)
    if name not in KINDS[kind]:
        raise UnknownName(_singular(kind), name, KINDS[kind])
    return KINDS[kind][name]


def _singular(kind: str) -> str:
    return {"topologies": "topology", "sizes": "sizes"}.get(kind, kind.removesuffix("s"))


def _own(kind: str, name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    if os.getcwd() not in sys.path:  # a user's file beside the configuration is found
        sys.path.insert(0, os.getcwd())
    try:
        found = getattr(importlib.import_module(module), function)
    except ImportError as error:
        raise BadSetting(f"cannot import {_singular(kind)} '{name}': {error}") from None
    except AttributeError:
        raise BadSetting(f"module '{module}' has no function '{function}'") from None
    if not callable(found):
        raise BadSetting(f"{_singular(kind)} '{name}' is not a function")
    return found


def first_line(thing: Any) -> str:
    """The first sentence of a docstring."""
    text = inspect.getdoc(thing) or ""
    return text.partition("\n\n")[0].replace("\n", " ")


def listed(kind: str) -> Iterable[tuple[str, str]]:
    """Names of a kind with a line about each."""
    if kind not in KINDS:
        raise UnknownName("kind of things", kind, KINDS)
    return [(name, first_line(thing)) for name, thing in KINDS[kind].items()]
