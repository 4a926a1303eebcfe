"""The network of a run's page: graphs, who holds which classes, what was predicted."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from peerwise.page import layout, thin
from peerwise.study.jobs import DETAIL

MOST_HELD = 200  # nodes in a heat map


def networks_of(series: list[dict[str, Any]], kept: dict[Any, Any]) -> dict[str, list[Any]]:
    """Graphs, rows held and what was predicted, each once; series say which are theirs."""
    networks: dict[str, list[Any]] = {"graphs": [], "held": []}
    marks: dict[str, int] = {}

    def place(kind: str, arrays: Sequence[np.ndarray], make: Any) -> int:
        mark = hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays))
        key = kind + mark.hexdigest()
        if key not in marks:
            marks[key] = len(networks[kind])
            networks[kind].append(make())
        return marks[key]

    for line in series:
        known = kept.get(tuple(sorted(line["labels"].items())))
        if known is None:
            continue
        arrays = known[1].arrays
        seen = {k.removeprefix(DETAIL): v for k, v in arrays.items() if k.startswith(DETAIL)}
        if "held" in seen:
            held, classes = seen["held"], seen["classes"]
            line["held"] = place("held", [held, classes], lambda h=held, c=classes: _held(h, c))
        if "edges" in seen:
            edges, nodes = seen["edges"].astype(int), len(seen["held"])
            about = [edges, np.array([nodes, int(seen["links"])])]
            line["graph"] = place(
                "graphs", about, lambda n=nodes, e=edges, s=seen: _graph(n, e, int(s["links"]))
            )
        if "class_error" in seen:
            which = _few(len(seen["class_error"]))
            line["class_error"] = thin.packed(seen["class_error"][which])
        if "bins" in seen:
            line["bins"] = [[float(f"{v:.6g}") for v in row] for row in seen["bins"].tolist()]
    return networks


def _few(nodes: int) -> np.ndarray:
    return thin.places(nodes, MOST_HELD)


def _held(held: np.ndarray, classes: np.ndarray) -> dict[str, Any]:
    which = _few(len(held))
    return {
        "of": len(held),
        "ids": which.tolist(),
        "classes": [str(c) for c in classes],
        "counts": held[which].astype(int).tolist(),
    }


def _graph(nodes: int, edges: np.ndarray, links: int) -> dict[str, Any]:
    whole = len(edges) == links
    at = layout.places(nodes, edges) if whole else None
    drawn = edges if whole and len(edges) <= layout.DRAWN else edges[:0]
    degree = np.bincount(edges.ravel(), minlength=nodes) if whole else np.zeros(0, int)
    return {
        "nodes": nodes,
        "links": links,
        "at": at,
        "edges": drawn.tolist(),
        "degree": degree.tolist(),
    }
