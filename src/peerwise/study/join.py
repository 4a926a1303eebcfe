"""Should my site join? Every site's own model against the network's, on its own held-out rows."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from peerwise import data, metrics
from peerwise.data.columns import where
from peerwise.data.discreet import discreet
from peerwise.data.kinds import WORDS
from peerwise.errors import BadData, BadSetting, UnknownName
from peerwise.estimators import DecentralizedClassifier
from peerwise.metrics.bootstrap import METRICS

LOCAL, NETWORK = "isolated", "crc"
MOST_CLASSES = 50  # a column of more values is a number, or a name


class Joined(NamedTuple):
    """What every site gains by joining."""

    metric: str
    verdicts: pd.DataFrame  # a line a site: local, network, gain and its interval, verdict
    report: pd.DataFrame  # the network's models, each on its own site's rows, by subgroup
    confusion: pd.DataFrame  # of the network's models, all sites together
    rows: dict[str, int]  # site -> rows learnt from
    reading: data.Reading  # how the columns were read, and what looks wrong about them


@discreet()
def join(
    name: str,
    site: str,
    *,
    target: str | None = None,
    positive: str | None = None,
    metric: str = "auroc",
    threshold: float = 0.5,
    by: Sequence[str] = (),
    held_out: float = 0.3,
    seed: int = 0,
    columns: Mapping[str, str] | None = None,
    missing_words: Collection[str] = WORDS,
    **options: Any,
) -> Joined:
    """Compare for every site in column `site`; `options` go to `DecentralizedClassifier`.

    Every site keeps `held_out` of its rows to judge by. The local model is calibrated on the
    site's other rows alone (`isolated`), the network's is the model with which the site's node
    ends (`crc`); center, scale and categories are those of all sites for both. `by` names columns
    whose values get a line each in the report. Columns are numbers or categories as the training
    rows show, or as the source or `columns` declares. Errors quote no cell of a site's rows.
    """
    if not 0 < held_out < 1:
        raise BadSetting(f"held_out must be between 0 and 1, got {held_out}")
    if metric not in METRICS:
        raise UnknownName("metric", metric, METRICS)
    table = data.load(name, target=target)
    frame = table.frame
    if not isinstance(frame, pd.DataFrame):
        raise BadData(f"'{name}' is an array and has no column that names the site of a row")
    named = [str(c) for c in frame.columns]
    if not len(frame):
        raise BadData(f"'{name}' has no rows")
    for column in (site, *by):
        if column == table.target:
            raise BadSetting(f"'{column}' is the column to predict; name another")
        if column not in named:
            raise UnknownName("column", column, named)
    labels = np.asarray(table.labels, object)
    if (gaps := pd.isna(labels)).any():
        raise BadData(f"the target '{table.target}' is missing {where(gaps)}; remove these rows")
    classes, y = np.unique(labels.astype(str), return_inverse=True)
    if not 2 <= len(classes) <= MOST_CLASSES:
        raise BadData(
            f"'{table.target}' has {len(classes)} distinct values: sites can be compared on 2 to "
            f"{MOST_CLASSES} classes"
        )
    absent = frame[site].isna().to_numpy()
    if absent.any():
        raise BadData(f"row {int(absent.argmax())} has no '{site}': fill in its site, or drop it")
    if positive is not None and positive not in classes:
        raise UnknownName("class", positive, classes.tolist())
    owner = frame[site].astype(str).to_numpy()
    train = _kept(owner, held_out, seed)
    features = table._replace(frame=frame.drop(columns=[site]))
    x = data.typed_frame(features, train, columns=columns, words=missing_words)
    how: dict[str, Any] = {"typing": "manifest", "columns": columns, "words": missing_words}
    reading = data.describe(features, **how)
    prob = {}
    for method in (LOCAL, NETWORK):
        network = DecentralizedClassifier(
            method, random_state=seed, handle_unknown="missing", **options
        )
        network.fit(x[train], y[train], groups=owner[train])
        prob[method] = _own_scores(network, x[~train], owner[~train], len(classes))
    asked: dict[str, Any] = {
        "classes": classes.tolist(),
        "positive": positive,
        "threshold": threshold,
        "seed": seed,
    }
    verdicts = metrics.should_join(
        y[~train], prob[LOCAL], prob[NETWORK], owner[~train], metric=metric, **asked
    )
    groups = pd.DataFrame({"site": owner[~train]}).assign(
        **{c: (x if c in x else frame)[c].to_numpy()[~train] for c in by if c != site}
    )
    report = metrics.report(y[~train], prob[NETWORK], subgroups=groups, **asked)
    predicted = prob[NETWORK].argmax(1)
    if len(classes) == 2:
        of = len(classes) - 1 if positive is None else classes.tolist().index(positive)
        predicted = np.where(prob[NETWORK][:, of] >= threshold, of, 1 - of)
    counts = dict(zip(*np.unique(owner[train], return_counts=True), strict=True))
    return Joined(
        metric,
        verdicts,
        report,
        metrics.confusion(y[~train], predicted, classes.tolist()),
        {str(k): int(v) for k, v in counts.items()},
        reading,
    )


def _kept(owner: np.ndarray, held_out: float, seed: int) -> np.ndarray:
    """Which rows are learnt from: of every site the same share, at least one, and never all."""
    rng = np.random.default_rng(seed)
    train = np.zeros(len(owner), bool)
    for name in np.unique(owner):
        rows = rng.permutation(np.flatnonzero(owner == name))
        if len(rows) < 2:
            raise BadData(f"site '{name}' has only one row, and none to hold out; drop it")
        keep = int(np.clip(round(len(rows) * (1 - held_out)), 1, len(rows) - 1))
        train[rows[:keep]] = True
    return train


def _own_scores(
    network: DecentralizedClassifier, x: pd.DataFrame, owner: np.ndarray, classes: int
) -> np.ndarray:
    """p(y | x) of each row by the model of the node that holds it."""
    prob = np.zeros((len(owner), classes))
    for name in np.unique(owner):
        rows = owner == name
        # a class that no site learnt from has probability 0
        prob[np.ix_(rows, network.classes_)] = network.predict_proba(x[rows], node=name)
    return prob
