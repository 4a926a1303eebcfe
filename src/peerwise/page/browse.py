"""A folder of runs, to look through."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from peerwise.errors import BadFile, PeerwiseError
from peerwise.page.guard import Access
from peerwise.page.run import gather
from peerwise.page.serve import Page
from peerwise.study.results import read_records
from peerwise.study.store import LOOSE, WHOLE

MARKS = ("results.json", WHOLE, LOOSE)  # one of which every run folder has


def is_run(folder: Path) -> bool:
    """Whether a folder is of a run, finished or not."""
    return folder.is_dir() and any((folder / name).exists() for name in MARKS)


def runs_in(folder: Path) -> dict[str, Path]:
    """The runs of a folder by name: itself, or those in it."""
    if not folder.is_dir():
        raise BadFile(
            f"there is no folder {folder}; runs are in runs/ unless --out named another folder"
        )
    if is_run(folder):
        return {folder.resolve().name: folder}
    return {path.name: path for path in sorted(folder.iterdir()) if is_run(path)}


def _line(name: str, folder: Path) -> dict[str, Any]:
    results = folder / "results.json"
    latest = max((p.stat().st_mtime for p in folder.iterdir()), default=folder.stat().st_mtime)
    line: dict[str, Any] = {
        "name": name, "title": "", "state": "finished", "why": "", "error": None, "best": "",
        "made": datetime.fromtimestamp(latest, UTC).strftime("%Y-%m-%d %H:%M"),
    }  # fmt: skip
    if not results.exists():
        done = len(list((folder / LOOSE).glob("*.npz"))) if (folder / LOOSE).is_dir() else 0
        return line | {"state": "unfinished", "why": f"{done} cells are kept; run it again"}
    try:
        records = read_records(folder)
    except PeerwiseError as error:
        return line | {"state": "damaged", "why": str(error)}
    sets = list(dict.fromkeys(r.dataset for r in records))
    methods = list(dict.fromkeys(str(r.setting.get("method")) for r in records))
    errors = {str(r.setting.get("method")): r.value for r in records
              if r.metric == "test_error" and r.value is not None}  # fmt: skip
    best = min(errors, key=lambda m: errors[m] or 0.0) if errors else ""
    paper = next((r.paper for r in records if r.paper), None)
    what = f"{paper}: " if paper else ""
    what += ", ".join(sets[:3]) + (" and more" if len(sets) > 3 else "")
    shown = [m for m in methods if m != "None"]
    what += f" · {', '.join(shown[:5])}{' and more' * (len(shown) > 5)}" if shown else ""
    return line | {"title": what, "error": errors.get(best), "best": best}


def browser(folder: Path, access: Access) -> Page:
    """A server of the runs in a folder."""
    runs_in(folder)  # says what is wrong with it

    def show(path: str) -> tuple[str, str, Any] | None:
        runs = runs_in(folder)
        if path == "/" and is_run(folder):
            data = gather(folder)
            return "run", f"{data['title']} | Peerwise", data
        if path == "/":
            lines = [_line(name, one) for name, one in runs.items()]
            return "runs", "Runs | Peerwise", {"folder": str(folder), "runs": lines}
        name = path.removeprefix("/run/")
        if not path.startswith("/run/") or name not in runs:
            return None
        data = gather(runs[name])
        return "run", f"{data['title']} | Peerwise", data

    return Page(show, access)
