"""Numbers of the DecDiff experiments that take more than one array, or more than one run."""

from collections.abc import Iterator

import numpy as np

from peerwise import metrics
from peerwise.papers.decdiff.items import SHARES
from peerwise.papers.items import Number, View

COST = 0.9  # the share at which table 4 also tells traffic


def times(view: View) -> Iterator[Number]:
    """Table 4; and how many bytes the network had sent by then."""
    for (name,), runs in view.by("dataset").items():
        central = [r.arrays for r in runs if r.fields["variant"] == "centralised"]
        for fields, arrays in runs if central else ():
            if fields["variant"] == "centralised":
                continue
            curve, goal = arrays["accuracy"].mean(-1), float(central[0]["accuracy"][:, -1].mean())
            sent = int(arrays["message_bytes"]) * int(arrays["messages"]) / 1e9
            for share in SHARES:
                first = [arrays["rounds"][row][0] for row in curve >= share * goal if row.any()]
                reached = {"reached": f"{len(first)}/{len(curve)}"}
                setting = {"variant": fields["variant"], "share": share, **reached}
                yield Number(name, "rounds", first, setting)
                if share == COST and first and sent:
                    yield Number(name, "gigabytes", np.array(first) * sent, setting)


def degrees(view: View) -> Iterator[Number]:
    """Figure 3: how many neighbours nodes have."""
    for _, arrays in view.runs:
        degree = np.bincount(arrays["dst"], minlength=int(arrays["nodes"]))
        for kind, value in (("mean", degree.mean()), ("min", degree.min()), ("max", degree.max())):
            yield Number("graph", "degree", value, {"of": kind})


def boxes(view: View) -> Iterator[Number]:
    """Figure 6: spread of the nodes' accuracies after the last round, of all replicas at once."""
    for fields, arrays in view.runs:
        last = arrays["accuracy"][:, -1]
        whole, each = metrics.box(last.reshape(-1)), [metrics.box(row) for row in last]
        for of, read in {
            "median": lambda box: box["median"],
            "quartile range": lambda box: box["q3"] - box["q1"],
            "worst": lambda box: box["lowest"],
        }.items():
            setting, shown = {"variant": fields["variant"], "of": of}, {"value": float(read(whole))}
            yield Number(fields["dataset"], "accuracy", [read(box) for box in each], setting, shown)
