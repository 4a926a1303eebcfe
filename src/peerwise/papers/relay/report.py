"""Numbers of the relay experiments."""

from collections.abc import Iterator

import numpy as np

from peerwise.papers.items import Arrays, Number, Run, View
from peerwise.papers.relay.items import EARLY, LATE


def _at(arrays: Arrays, rounds: int) -> np.ndarray:
    return np.asarray(arrays["error"][:, list(arrays["rounds"]).index(rounds)])


def references(view: View) -> dict[tuple[str, str], Arrays]:
    """What RC gave, by data set and way of dealing; among liars rows are dealt at random."""
    rc = [run for run in view.runs if run.fields["method"] == "rc"]
    return {_rows(run): run.arrays for run in rc}


def gap_at(run: Run, rc: dict[tuple[str, str], Arrays], rounds: int) -> np.ndarray:
    """Error of a run less RC's of 64 rounds on the same rows, a repetition."""
    return _at(run.arrays, rounds) - _at(rc[_rows(run)], EARLY)


def _rows(run: Run) -> tuple[str, str]:
    return run.fields["dataset"], run.fields.get("dealt", "iid")


def compared(run: Run, rc: dict[tuple[str, str], Arrays]) -> bool:
    """Whether RC ran on the same rows: its run may have failed."""
    return _rows(run) in rc


def gaps(view: View) -> Iterator[Number]:
    """Gaps after 64 and after 256 rounds."""
    rc = references(view)
    for run in view.runs:
        setting = {k: v for k, v in run.fields.items() if k != "dataset"}
        for rounds in (EARLY, LATE) if setting["method"] != "rc" else ():
            values = gap_at(run, rc, rounds) if compared(run, rc) else np.array([])
            yield Number(run.fields["dataset"], "test_gap", values, {**setting, "rounds": rounds})
