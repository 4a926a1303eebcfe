"""Peerwise: classifiers learnt between neighbours, with no server.

    import peerwise as pw

    result = pw.run(data="digits", method=["crc", "relay"], network="ring", run={"rounds": 32})
    result.table, result.history, result.plot()

What is named here is imported when it is first used, so that `import peerwise` costs nothing.
"""

from importlib import import_module
from typing import Any

__version__ = "0.15.0"

_HOMES = {
    "channel": "Channel",
    "core": "Chart Inbox Links Mean Message Method Shard Slots State",
    "data": "Schema encode load standardise",
    "declare": "Named declares",
    "errors": "BadData BadFile BadSetting Diverged PeerwiseError UnknownName",
    "estimators": "DecentralizedClassifier RiskCalibratedClassifier",
    "learner": "Cell cell expand",
    "models.algebra": "Statistics",
    "models.family": "Model",
    "models.registry": "model_for",
    "names": "listed",
    "nets.net": "Net",
    "nets.registry": "network",
    "peer.charter": "Charter",
    "privacy": "Ledger",
    "report.result": "Result run",
    "shards": "Shards pack",
    "study.join": "join",
    "topology": "Topology from_graph",
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = sorted(_HOME_OF)


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
