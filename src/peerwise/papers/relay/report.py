"""Numbers of the relay experiments."""

from collections.abc import Iterator

import numpy as np

from peerwise.papers.items import Arrays, Number, Run, View
from peerwise.papers.relay.items import EARLY, LATE

READ = ((EARLY, EARLY), (LATE, EARLY), (LATE, LATE))  # rounds, and those of the RC beside


def _at(arrays: Arrays, rounds: int) -> np.ndarray:
    return np.asarray(arrays["error"][:, list(arrays["rounds"]).index(rounds)])


def references(view: View) -> dict[tuple[str, str], Arrays]:
    """What RC gave, by data set and way of dealing; among liars rows are dealt at random."""
    rc = [run for run in view.runs if run.fields["method"] == "rc"]
    return {_rows(run): run.arrays for run in rc}


def gap_at(run: Run, rc: dict[tuple[str, str], Arrays], rounds: int, to: int = EARLY) -> np.ndarray:
    """Error of a run less that of RC of `to` rounds on the same rows, a repetition."""
    return _at(run.arrays, rounds) - _at(rc[_rows(run)], to)


def _rows(run: Run) -> tuple[str, str]:
    return run.fields["dataset"], run.fields.get("dealt", "iid")


def compared(run: Run, rc: dict[tuple[str, str], Arrays]) -> bool:
    """Whether RC ran on the same rows: its run may have failed."""
    return _rows(run) in rc


def gaps(view: View) -> Iterator[Number]:
    """Gaps after 64 and after 256 rounds, to RC of 64 rounds and of as many."""
    rc = references(view)
    for run in view.runs:
        setting = {k: v for k, v in run.fields.items() if k != "dataset"}
        for rounds, to in READ if setting["method"] != "rc" else ():
            values = gap_at(run, rc, rounds, to) if compared(run, rc) else np.array([])
            more = {"rounds": rounds, "to": to}
            yield Number(run.fields["dataset"], "test_gap", values, {**setting, **more})


def parts(view: View) -> Iterator[Number]:
    """The same; and what RC itself gains by as many rounds, beside every network."""
    yield from gaps(view)
    rc = references(view)
    for graph in dict.fromkeys(
        run.fields["graph"] for run in view.runs if run.fields["graph"] != "-"
    ):
        for run in view.runs:
            if run.fields["method"] == "rc":
                setting = {"graph": graph, "dealt": run.fields["dealt"], "method": "rc"}
                values = gap_at(run, rc, LATE, EARLY)
                more = {"rounds": LATE, "to": EARLY}
                yield Number(run.fields["dataset"], "test_gap", values, {**setting, **more})
