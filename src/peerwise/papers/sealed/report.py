"""Numbers of the study of sealed sums."""

from collections.abc import Iterator

from peerwise.papers.items import Number, View
from peerwise.papers.sealed.items import EPSILONS

METRICS = ("accuracy", "auc")


def utilities(view: View) -> Iterator[Number]:
    """Accuracy and AUC by epsilon; without noise once for a data set."""
    for fields, arrays in view.runs:
        nodes = fields["nodes"]
        kind = "curator" if nodes == "1" else "sealed"
        for metric, numbers in zip(METRICS, arrays[kind], strict=True):
            for epsilon, values in zip(EPSILONS, numbers, strict=True):
                of = {"nodes": nodes, "method": kind, "kind": kind, "epsilon": epsilon}
                yield Number(fields["dataset"], metric, values, of)
        if nodes == "1":
            for metric, value in zip(METRICS, arrays["none"], strict=True):
                of = {"nodes": nodes, "method": "none", "kind": "none", "epsilon": "any"}
                yield Number(fields["dataset"], metric, [value], of)


def errors(view: View) -> Iterator[Number]:
    """Test errors by method and epsilon."""
    for fields, arrays in view.runs:
        of = {"method": fields["method"], "epsilon": fields["epsilon"]}
        yield Number(fields["dataset"], "test_error", arrays["error"], of)
