"""Peerwise: classifiers learnt between neighbours, with no server.

    import peerwise as pw

    result = pw.run(data="digits", method=["crc", "relay"], network="ring", run={"rounds": 32})
    result.table, result.history, result.plot()

What is named here is imported when it is first used, so that `import peerwise` costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from peerwise.channel import Channel
    from peerwise.core import Chart, Inbox, Links, Mean, Message, Method, Shard, Slots, State
    from peerwise.data import Schema, encode, load, standardise
    from peerwise.declare import Named, declares
    from peerwise.errors import BadData, BadFile, BadSetting, Diverged, PeerwiseError, UnknownName
    from peerwise.estimators import DecentralizedClassifier, RiskCalibratedClassifier
    from peerwise.learner import Cell, cell, expand
    from peerwise.models.algebra import Statistics
    from peerwise.models.family import Model
    from peerwise.models.registry import model_for
    from peerwise.names import listed
    from peerwise.nets.net import Net
    from peerwise.nets.registry import network
    from peerwise.peer.charter import Charter
    from peerwise.privacy import Ledger
    from peerwise.report.result import Result, run
    from peerwise.shards import Shards, pack
    from peerwise.study.join import join
    from peerwise.topology import Topology, from_graph

__version__ = "0.7.0"

_HOMES = {
    "channel": ["Channel"],
    "core": ["Chart", "Inbox", "Links", "Mean", "Message", "Method", "Shard", "Slots", "State"],
    "data": ["Schema", "encode", "load", "standardise"],
    "declare": ["Named", "declares"],
    "errors": ["BadData", "BadFile", "BadSetting", "Diverged", "PeerwiseError", "UnknownName"],
    "estimators": ["DecentralizedClassifier", "RiskCalibratedClassifier"],
    "learner": ["Cell", "cell", "expand"],
    "models.algebra": ["Statistics"],
    "models.family": ["Model"],
    "models.registry": ["model_for"],
    "names": ["listed"],
    "nets.net": ["Net"],
    "nets.registry": ["network"],
    "peer.charter": ["Charter"],
    "privacy": ["Ledger"],
    "report.result": ["Result", "run"],
    "shards": ["Shards", "pack"],
    "study.join": ["join"],
    "topology": ["Topology", "from_graph"],
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "BadData",
    "BadFile",
    "BadSetting",
    "Cell",
    "Channel",
    "Chart",
    "Charter",
    "DecentralizedClassifier",
    "Diverged",
    "Inbox",
    "Ledger",
    "Links",
    "Mean",
    "Message",
    "Method",
    "Model",
    "Named",
    "Net",
    "PeerwiseError",
    "Result",
    "RiskCalibratedClassifier",
    "Schema",
    "Shard",
    "Shards",
    "Slots",
    "State",
    "Statistics",
    "Topology",
    "UnknownName",
    "cell",
    "declares",
    "encode",
    "expand",
    "from_graph",
    "join",
    "listed",
    "load",
    "model_for",
    "network",
    "pack",
    "run",
    "standardise",
]


def __getattr__(name: str) -> Any:
    if name in _HOME_OF:
        return getattr(import_module(f"peerwise.{_HOME_OF[name]}"), name)
    try:  # a room, such as pw.topology
        return import_module(f"peerwise.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"peerwise.{name}":
            raise
    raise AttributeError(f"peerwise has no '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
