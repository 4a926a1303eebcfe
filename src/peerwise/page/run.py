"""A run folder as what its page shows: tables, lines, the network, comparisons, claims."""

import hashlib
import warnings
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from peerwise import __version__
from peerwise.errors import BadFile, PeerwiseError
from peerwise.files import read_json, write_whole
from peerwise.page import thin
from peerwise.page.document import one_file
from peerwise.page.run_network import networks_of
from peerwise.page.series import SERIES, details_of, series_of
from peerwise.report import comparison, tables
from peerwise.report.better import lower_is_better
from peerwise.study.results import Claim, Record, read_asked, read_folder, read_notes, read_values
from peerwise.study.store import Store

FORMAT = 1  # of the data in a page
COMPARED = 40  # methods, at most, that are compared in a page


def gather(folder: Path) -> dict[str, Any]:
    """Everything of a run folder that its page shows."""
    if not folder.is_dir():
        raise BadFile(
            f"there is no folder {folder}; runs are in runs/ unless --out named another folder"
        )
    records, claims, history = read_folder(folder)
    asked = read_asked(folder)
    paper = (bool(records) and records[0].paper is not None) or asked.get("command") == "reproduce"
    page: dict[str, Any] = {
        "format": FORMAT,
        "kind": "paper" if paper else "run",
        "name": folder.resolve().name,
        "sources": _sources(folder, asked),
        "claims": [claim.model_dump(mode="json") for claim in claims],
        "notes": read_notes(folder),
    }
    kept = {} if paper else details_of(folder)
    series = [] if history is None else series_of(history, kept)
    page["series"], page["left_out"] = series[:SERIES], max(len(series) - SERIES, 0)
    page["points"] = thin.POINTS
    if paper:
        return page | _paper(folder, records, claims, asked)
    page["table"] = _table(records)
    page["networks"] = networks_of(page["series"], kept)
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
    written = datetime.fromtimestamp(results.stat().st_mtime, UTC).strftime("%Y-%m-%d %H:%M UTC")
    sources: dict[str, Any] = {
        "made": written,
        "asked": tomli_w.dumps(asked),
        "sha256": hashlib.sha256(results.read_bytes()).hexdigest(),
        "written_by": __version__,
    }
    for name, member in (("environment", None), ("reading", "data")):
        path = folder / f"{name}.json"
        if path.exists():
            content = read_json(path, "run the command again")
            sources[name] = content if member is None else content.get(member, {})
    return sources


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


# ------------------------------------------------------------------------------ comparison


def _comparison(folder: Path) -> dict[str, Any] | None:
    """Differences between methods with intervals and tests, as `peerwise compare` prints them."""
    try:
        values = read_values(folder)
        if values["method"].nunique() < 2 or values["method"].nunique() > COMPARED:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = comparison.compare(values, None)
    except (PeerwiseError, KeyError):  # nothing to compare: the table says it all
        return None
    columns = ("pairs", "difference", "low", "high", "p", "p_holm", "wins", "ties", "losses")
    rows = [
        {"method": str(m), **{c: _number(line[c]) for c in columns}}
        for m, line in result.against.iterrows()
    ]
    ranks = None
    if result.ranks is not None:
        mean = [[str(m), float(r)] for m, r in result.ranks.mean.items()]
        ranks = {
            "mean": mean, "critical": _number(result.ranks.critical), "p": _number(result.ranks.p),
            "sets": len(result.ranks.sets),
        }  # fmt: skip
    return {
        "metric": result.metric,
        "lower": result.lower,
        "baseline": result.baseline,
        "rows": rows,
        "ranks": ranks,
        "notes": result.notes,
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
    errors: dict[str, list[float]] = {}
    for r in records:
        if r.metric == "test_error" and r.value is not None and "subgroup" not in r.setting:
            errors.setdefault(str(r.setting.get("method")), []).append(r.value)
    means = {m: float(np.mean(v)) for m, v in errors.items()}

    among = {m: v for m, v in means.items() if places[m] not in ("pooled", "alone")} or means
    if not among:
        return ""
    best = min(among, key=lambda m: among[m])
    over = "" if all(len(v) == 1 for v in errors.values()) else ", mean over what was varied"
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
    tally = ", ".join(f"{n} {v}" for v, n in counts.items())
    sets = asked.get("datasets", [])
    title = ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
    return {
        "title": title or page_name(folder),
        "about": "Reproduction of a paper" + (" · quick" if asked.get("quick") else ""),
        "lead": f"Of {len(claims)} claims: {tally}." if claims else f"On {', '.join(sets)}.",
        "items": items(folder, records),
        "reps": max((r.reps for r in records), default=1),
    }


def page_name(folder: Path) -> str:
    """What a folder is called where nothing better is known."""
    return folder.resolve().name
