"""A run folder as what its page shows: tables, lines, the network, comparisons, claims."""

import hashlib
import warnings
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import tomli_w

from peerwise import __version__
from peerwise.errors import BadFile, PeerwiseError
from peerwise.files import read_json, write_whole
from peerwise.page import layout, thin
from peerwise.page.document import one_file
from peerwise.report import comparison, curves, tables
from peerwise.report.better import lower_is_better
from peerwise.study.jobs import DETAIL
from peerwise.study.results import Claim, Record, read_asked, read_folder, read_values
from peerwise.study.store import WHOLE, Kept, Store

FORMAT = 1  # of the data in a page
SERIES = 60  # lines that a page keeps; more are in the table alone
COMPARED = 40  # methods, at most, that are compared in a page


def gather(folder: Path) -> dict[str, Any]:
    """Everything of a run folder that its page shows."""
    if not folder.is_dir():
        raise BadFile(f"there is no folder {folder}; runs are in runs/ unless --out said else")
    records, claims, history = read_folder(folder)
    asked = read_asked(folder)
    paper = (bool(records) and records[0].paper is not None) or asked.get("command") == "reproduce"
    page: dict[str, Any] = {
        "format": FORMAT,
        "kind": "paper" if paper else "run",
        "name": folder.resolve().name,
        "sources": _sources(folder, asked),
        "claims": [claim.model_dump(mode="json") for claim in claims],
    }
    kept = {} if paper else _details(folder)
    series = [] if history is None else _series(history, kept, folder)
    page["series"], page["left_out"] = series[:SERIES], max(len(series) - SERIES, 0)
    page["points"] = thin.POINTS
    if paper:
        return page | _paper(folder, records, claims, asked)
    page["table"] = _table(records)
    page["networks"] = _networks(page["series"], kept)
    page["comparison"] = _comparison(folder)
    return page | _words(page, records, asked, folder)


def write(folder: Path, path: Path | None = None) -> Path:
    """Write the page of a run folder as one HTML file; returns its path."""
    page = gather(folder)
    path = path or folder / "report.html"
    write_whole(path, one_file("run", f"{page['title']} | Peerwise", page).encode())
    return path


def _sources(folder: Path, asked: dict[str, Any]) -> dict[str, Any]:
    """Where the numbers come from."""
    results = folder / "results.json"
    made = datetime.fromtimestamp(results.stat().st_mtime, UTC).strftime("%Y-%m-%d %H:%M UTC")
    found: dict[str, Any] = {
        "made": made,
        "asked": tomli_w.dumps(asked),
        "sha256": hashlib.sha256(results.read_bytes()).hexdigest(),
        "written_by": __version__,
    }
    for name, member in (("environment", None), ("reading", "data")):
        path = folder / f"{name}.json"
        if path.exists():
            content = read_json(path, "run the command again")
            found[name] = content if member is None else content.get(member, {})
    return found


# ------------------------------------------------------------------------------ the table


def _table(records: Sequence[Record]) -> dict[str, Any]:
    """A row a setting with every metric, and which columns tell rows apart."""
    labels = tables.label_columns(records)
    measured = list(dict.fromkeys(r.metric for r in records))
    first = [m for m in tables.FIRST if m in measured]
    last = [m for m in tables.LAST if m in measured]
    hidden = [m for m in tables.HIDDEN if m in measured]
    middle = [m for m in measured if m not in (*first, *last, *hidden)]
    rows = []
    for row in tables.labelled_rows(records, labels):
        values = {m: [r.value, r.std, r.reps] for m, r in row.values.items() if r.value is not None}
        rows.append({"labels": list(row.labels), "values": values})
    ordered = [*first, *middle, *last, *hidden]
    return {
        "labels": labels,
        "metrics": [{"name": m, "lower": lower_is_better(m)} for m in ordered],
        "shown": [m for m in (*first, *middle, *last) if m != "train_error"],
        "rows": rows,
    }


# ------------------------------------------------------------------------------ the lines


def _details(folder: Path) -> dict[tuple[tuple[str, str], ...], tuple[str, Kept]]:
    """What is kept of every cell of the first seed, by what tells it from others."""
    import pyarrow.parquet as pq

    path = folder / WHOLE
    if not path.exists():
        return {}
    names = pq.read_schema(path).names
    if "cell" not in names:  # it holds nothing
        return {}
    told = names[names.index("cell") + 1 : names.index("metric")]
    frame = pq.read_table(path, columns=["cell", *told]).to_pandas().drop_duplicates()
    store = Store(folder).whole()
    found: dict[tuple[tuple[str, str], ...], tuple[str, Kept]] = {}
    for line in frame.to_dict("records"):
        cell = line.pop("cell")
        line.pop("seed", None)
        if line.get("method") is None or cell not in store:
            continue
        key = tuple(sorted((k, v) for k, v in line.items() if v is not None))
        found.setdefault(key, (cell, store[cell]))
    return found


def _series(history: pd.DataFrame, kept: dict[Any, Any], folder: Path) -> list[dict[str, Any]]:
    """A line for each setting: metrics by recorded round with bands, and single nodes."""
    factors = curves.factors_of(history)
    labels = ["dataset", "method", *factors]
    fixed = {*labels, "repetition", "round", "node"}
    metrics = [c for c in history if c not in fixed and not str(c).startswith("train")]
    metrics = [c for c in metrics if "soft" not in str(c)]
    groups: list[tuple[Any, pd.DataFrame]] = list(history.groupby(labels, dropna=False, sort=False))
    rounds = max((g["round"].nunique() for _, g in groups), default=1)
    nodes = max((g["node"].nunique() for _, g in groups), default=1)
    few_nodes, few_rounds = thin.room(min(len(groups), SERIES), nodes, rounds)
    found = []
    for values, group in groups[: SERIES + 1]:
        told = {k: str(v) for k, v in zip(labels, values, strict=True) if not pd.isna(v)}
        line: dict[str, Any] = {"labels": told, "name": _name(told, groups, labels)}
        line |= _lines(group, [str(m) for m in metrics])
        line["nodes"] = _nodes(group, few_nodes, few_rounds)
        line |= _traffic(kept.get(tuple(sorted(told.items()))), int(group["round"].max()))
        found.append(line)
    return found + [{}] * max(len(groups) - SERIES - 1, 0)


def _name(told: dict[str, str], groups: Sequence[Any], labels: Sequence[str]) -> str:
    """What a line is called: the values that differ between lines."""
    varied = [
        k
        for i, k in enumerate(labels)
        if len({str(values[i]) for values, _ in groups if not pd.isna(values[i])}) > 1
    ]
    words = [told[k] for k in ("method", *(v for v in varied if v != "method")) if k in told]
    return " · ".join(dict.fromkeys(words))


def _grid(group: pd.DataFrame, metric: str) -> np.ndarray:
    """A metric by recorded round, whatever node and repetition: [rounds, values]."""
    rounds = group["round"].to_numpy()
    order = np.argsort(rounds, kind="stable")
    values, counts = np.unique(rounds, return_counts=True)
    most = int(counts.max())
    column = group[metric].to_numpy(float)[order]
    if (counts == most).all():
        return column.reshape(len(values), most)
    wide = np.full((len(values), most), np.nan)  # not every repetition has every round
    wide[np.arange(most) < counts[:, None]] = column
    return wide


def _lines(group: pd.DataFrame, metrics: Sequence[str]) -> dict[str, Any]:
    """Mean over nodes and repetitions, and the band of four of five, by recorded round."""
    x = np.unique(group["round"].to_numpy())
    at = thin.places(len(x), thin.POINTS)
    found: dict[str, Any] = {"x": x[at].tolist(), "recorded": len(x), "metrics": {}}
    for metric in metrics:
        values = _grid(group, metric)[at]
        if not np.isfinite(values).any():
            continue
        with warnings.catch_warnings(), np.errstate(invalid="ignore"):
            warnings.simplefilter("ignore", RuntimeWarning)  # a round without a value
            line = {"mean": thin.plain(np.nanmean(values, axis=1))}
            if len(group) > len(x):
                low, high = np.nanquantile(values, (0.1, 0.9), axis=1)
                line |= {"lo": thin.plain(low), "hi": thin.plain(high)}
        found["metrics"][metric] = line
    return found


def _nodes(group: pd.DataFrame, most_nodes: int, most_rounds: int) -> dict[str, Any] | None:
    """The test error of single nodes in the first repetition."""
    first = group[group["repetition"] == group["repetition"].min()]
    node, rounds = first["node"].to_numpy(), first["round"].to_numpy()
    ids, x = np.unique(node), np.unique(rounds)
    if len(ids) < 2:
        return None
    values = np.full((len(ids), len(x)), np.nan)
    error = first["test_error"].to_numpy(float)
    values[np.searchsorted(ids, node), np.searchsorted(x, rounds)] = error
    which = thin.chosen_nodes(values[:, -1], most_nodes)
    at = thin.places(len(x), most_rounds)
    return {
        "of": len(ids),
        "ids": ids[which].tolist(),
        "x": x[at].tolist(),
        "values": thin.packed(values[np.ix_(which, at)]),
    }


def _traffic(known: tuple[str, Kept] | None, rounds: int) -> dict[str, Any]:
    """Bytes and seconds a round; seconds were marked while somebody watched, or are spread."""
    if known is None:
        return {}
    cell, kept = known
    size, sent = (int(kept.arrays.get(n, 0)) for n in ("bytes_per_link", "messages"))
    found: dict[str, Any] = {"cell": cell}
    if rounds and size * sent:
        found["bytes"] = size * sent / rounds
    seconds = kept.about.get("made", {}).get("seconds") if kept.about.get("made") else None
    marks = kept.arrays.get(DETAIL + "seconds")
    if marks is not None and len(marks):
        at = thin.places(len(marks), 60)
        found["marks"] = [[int(r), round(float(s), 3)] for r, s in marks[at]]
    elif seconds and rounds:
        found["seconds"] = seconds / rounds
    return found


# ------------------------------------------------------------------------------ the network


def _networks(series: list[dict[str, Any]], kept: dict[Any, Any]) -> dict[str, list[Any]]:
    """Graphs, rows held and what was predicted, each once; series say which are theirs."""
    found: dict[str, list[Any]] = {"graphs": [], "held": []}
    marks: dict[str, int] = {}

    def place(kind: str, arrays: Sequence[np.ndarray], make: Any) -> int:
        mark = hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays))
        key = kind + mark.hexdigest()
        if key not in marks:
            marks[key] = len(found[kind])
            found[kind].append(make())
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
    return found


MOST_HELD = 200  # nodes in a heat map


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


# ------------------------------------------------------------------------------ comparison


def _comparison(folder: Path) -> dict[str, Any] | None:
    """Differences between methods with intervals and tests, as `peerwise compare` prints them."""
    try:
        values = read_values(folder)
        if values["method"].nunique() < 2 or values["method"].nunique() > COMPARED:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = comparison.compare(values, None)
    except (PeerwiseError, KeyError):  # nothing to compare: the table says it all
        return None
    columns = ("pairs", "difference", "low", "high", "p", "p_holm", "wins", "ties", "losses")
    rows = [
        {"method": str(m), **{c: _number(line[c]) for c in columns}}
        for m, line in found.against.iterrows()
    ]
    ranks = None
    if found.ranks is not None:
        mean = [[str(m), float(r)] for m, r in found.ranks.mean.items()]
        ranks = {
            "mean": mean, "critical": _number(found.ranks.critical), "p": _number(found.ranks.p),
            "sets": len(found.ranks.sets),
        }  # fmt: skip
    return {
        "metric": found.metric,
        "lower": found.lower,
        "baseline": found.baseline,
        "rows": rows,
        "ranks": ranks,
        "notes": found.notes,
        "level": comparison.LEVEL,
    }


def _number(value: Any) -> float | None:
    return float(f"{float(value):.6g}") if np.isfinite(value) else None


# ------------------------------------------------------------------------------ words


def _words(
    page: dict[str, Any], records: Sequence[Record], asked: dict[str, Any], folder: Path
) -> dict[str, Any]:
    """Title, what was run in a line, and the result in a sentence."""
    sets = list(dict.fromkeys(r.dataset for r in records))
    kept = Store(folder).whole()
    known = [kept[s["cell"]] for s in page["series"] if s.get("cell") in kept]
    first: dict[str, Any] = (known[0].about.get("asked") if known else None) or {}
    split: dict[str, Any] = first.get("split", {})
    run: dict[str, Any] = first.get("run", {})
    network: dict[str, Any] = first.get("network", {}).get("topology", {})
    shown = ", ".join(Path(s).name for s in sets[:3]) + (" and more" if len(sets) > 3 else "")
    varied = set(page["table"]["labels"])
    parts = []
    if split.get("nodes") and not {"nodes", "split.nodes"} & varied:
        parts.append(f"{split['nodes']} nodes")
    if network.get("name") and not {"topology", "network"} & varied:
        parts.append(str(network["name"]).replace("_", " "))
    title = shown + (f": {', '.join(parts)}" if parts else "")
    facts = []
    if run.get("rounds") is not None and "rounds" not in varied:
        facts.append(f"{run['rounds']} rounds")
    partition: dict[str, Any] = split.get("partition", {})
    if partition.get("name") and "partition" not in varied:
        alpha = f", alpha {partition['alpha']:g}" if "alpha" in partition else ""
        facts.append(f"{partition['name'].replace('_', ' ')} rows{alpha}")
    reps = max((r.reps for r in records), default=1)
    facts.append(f"{reps} repetition{'s' * (reps > 1)}")
    if varied - {"method"}:
        facts.append("varied: " + ", ".join(sorted(varied - {"method"})))
    places = {m: _place(m) for m in {str(r.setting.get("method")) for r in records}}
    return {
        "title": title,
        "about": " · ".join(facts),
        "lead": _lead(records, places),
        "reps": reps,
        "places": places,
    }


def _place(method: str) -> str:
    """Where a method's rows are: in one place, each node's alone, at nodes that talk."""
    from peerwise.declare import find

    try:
        traits = find("method", method).traits
    except PeerwiseError:  # called by its options, or by a user's own name
        return "network"
    return "pooled" if traits.reference else str(traits.place)


def _lead(records: Sequence[Record], places: dict[str, str]) -> str:
    """The result in a sentence: the best method, and how far all rows in one place would come."""
    found: dict[str, list[float]] = {}
    for r in records:
        if r.metric == "test_error" and r.value is not None and "subgroup" not in r.setting:
            found.setdefault(str(r.setting.get("method")), []).append(r.value)
    means = {m: float(np.mean(v)) for m, v in found.items()}

    among = {m: v for m, v in means.items() if places[m] not in ("pooled", "alone")} or means
    if not among:
        return ""
    best = min(among, key=lambda m: among[m])
    over = "" if all(len(v) == 1 for v in found.values()) else ", mean over what was varied"
    words = [f"{best} reaches a test error of {means[best]:.3f}{over}."]
    pooled = {m: v for m, v in means.items() if places[m] == "pooled" and m != best}
    alone = {m: v for m, v in means.items() if places[m] == "alone" and m != best}
    if pooled:
        m = min(pooled, key=lambda k: pooled[k])
        words.append(f"All rows in one place give {pooled[m]:.3f} ({m}).")
    if alone:
        m = min(alone, key=lambda k: alone[k])
        words.append(f"Each node alone gives {alone[m]:.3f}.")
    return " ".join(words)


def _paper(
    folder: Path, records: Sequence[Record], claims: Sequence[Claim], asked: dict[str, Any]
) -> dict[str, Any]:
    """A reproduction: its items' tables beside the paper's numbers, and the claims."""
    from peerwise.page.paper import items

    names = asked.get("items", [])
    verdicts = [c.verdict for c in claims]
    counts = {v: verdicts.count(v) for v in ("held", "undecided", "not held") if v in verdicts}
    told = ", ".join(f"{n} {v}" for v, n in counts.items())
    sets = asked.get("datasets", [])
    title = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return {
        "title": title or page_name(folder),
        "about": "Reproduction of a paper" + (" · quick" if asked.get("quick") else ""),
        "lead": f"Of {len(claims)} claims: {told}." if claims else f"On {', '.join(sets)}.",
        "items": items(folder, records),
        "reps": max((r.reps for r in records), default=1),
    }


def page_name(folder: Path) -> str:
    """What a folder is called where nothing better is known."""
    return folder.resolve().name
