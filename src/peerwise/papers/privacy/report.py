"""Numbers of the study of utility."""

from collections.abc import Iterator

from peerwise.papers.items import Number, View
from peerwise.papers.privacy.items import EPSILONS

METRICS = ("accuracy", "auc")
KINDS = ("plain", "aware", "diffprivlib")


def utilities(view: View) -> Iterator[Number]:
    """Accuracy and AUC by kind of model and epsilon; without noise once for a data set."""
    for fields, arrays in view.runs:
        rest = {k: v for k, v in fields.items() if k != "dataset"}
        if rest["nodes"] == "diffprivlib":
            rest["nodes"] = "1"
        for kind in KINDS:
            for metric, numbers in zip(METRICS, arrays.get(kind, ()), strict=False):
                for epsilon, values in zip(EPSILONS, numbers, strict=True):
                    of = {**rest, "method": kind, "kind": kind, "epsilon": epsilon}
                    yield Number(fields["dataset"], metric, values, of)
        if "none" in arrays and rest["nodes"] == "1":
            for metric, value in zip(METRICS, arrays["none"], strict=True):
                of = {**rest, "method": "none", "kind": "none", "epsilon": "any"}
                yield Number(fields["dataset"], metric, [value], of)
