"""Numbers of the CVaR-CTA experiments.

The paper prints none, so that there is no column of its own: its claims are what is compared.
"""

from collections.abc import Iterator

from peerwise.papers.items import Number, View


def stage_of(variant: str) -> str:
    """Which accuracy counts: after local steps, or after combining where that comes last."""
    return "combined_" if variant.endswith(" atc") else ""


def networks(view: View) -> Iterator[Number]:
    """Accuracy after the last round: mean, worst node and class; how far models are apart."""
    for fields, arrays in view.runs:
        stage = stage_of(fields["variant"])
        other = "" if stage else "combined_"
        last = arrays[f"{stage}accuracy"][:, -1]
        measured = {
            "accuracy": last.mean(-1),
            "worst_node": last.min(-1),
            "worst_class": arrays[f"{stage}class_accuracy"][:, -1].min(-1),
            "other_stage": arrays[f"{other}accuracy"][:, -1].mean(-1),
            "consensus": arrays[f"{stage}consensus"][:, -1],
        }
        setting = {key: fields[key] for key in ("variant", "graph", "q")}
        for metric, values in measured.items():
            yield Number(fields["dataset"], metric, values, setting)
