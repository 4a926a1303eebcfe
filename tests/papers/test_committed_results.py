"""What was run and committed: the docs' tables come from it, without any data at hand."""

import json
import runpy
from collections import Counter
from pathlib import Path

import pytest

from peerwise.errors import BadFile
from peerwise.papers.items import Scale, as_run_on
from peerwise.papers.reproduce import PAPERS, jobs_of, reproduce
from peerwise.papers.show import page
from peerwise.study.provenance import depends
from peerwise.study.results import read_folder
from peerwise.study.store import WHOLE, Store

ROOT = Path(__file__).parents[2]
TABLES = runpy.run_path(str(ROOT / "scripts" / "tables"))
PAGES = TABLES["PAGES"]
# Runs that were kept and that some item shows; a changed description would lose them silently.
RUNS = {
    "ba-bfl": 114, "crc": 1309, "cvar-cta": 142, "decdiff": 55, "gossip-nb": 170, "privacy": 67,
    "relay": 820, "sealed": 45,
}  # fmt: skip


@pytest.fixture(scope="module", params=RUNS)
def folder(request, tmp_path_factory):
    """A folder with the committed file of a paper and nothing else, shown again."""
    copy = tmp_path_factory.mktemp("kept") / request.param
    copy.mkdir()
    (copy / WHOLE).write_bytes((ROOT / "results" / request.param / WHOLE).read_bytes())
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("PEERWISE_DATA", raising=False)
        paper = PAPERS[copy.name]
        done = reproduce(paper, list(paper.items), copy, only_kept=True)
        assert not done.failures
    return copy


def test_every_paper_has_committed_results():
    assert {path.parent.name for path in ROOT.glob(f"results/*/{WHOLE}")} == set(RUNS)


def test_a_folder_without_results_has_nothing_to_show(tmp_path, monkeypatch):
    monkeypatch.delenv("PEERWISE_DATA", raising=False)
    with pytest.raises(BadFile, match="run holds no results of a run; give the folder that does"):
        reproduce(PAPERS["decdiff"], ["table-2"], tmp_path / "run", only_kept=True)
    assert not (tmp_path / "run").exists()


def test_the_tables_of_the_docs_are_those_of_the_committed_results(folder):
    assert page(folder) == (ROOT / "docs" / f"{PAGES[folder.name]}-tables.md").read_text()


def test_tables_within_pages_are_those_of_the_committed_results(folder):
    records, _, _ = read_folder(folder)
    missing = TABLES["missing_of"](folder.name, folder)
    papers = {folder.name: TABLES["Shown"]("", 0, Counter(), records, missing)}
    for path in (ROOT / "docs").glob("*.md"):
        text = path.read_text()
        assert TABLES["filled"](text, papers) == text, path.name


def test_the_claims_are_counted_as_they_are_graded(folder):
    _, claims, _ = read_folder(folder)
    verdicts = Counter(claim.verdict for claim in claims)
    shown = TABLES["Shown"]("", RUNS[folder.name], verdicts)
    for name in TABLES["SUMMED"]:
        docs = "" if name.startswith("docs/") else "docs/"
        line = TABLES["summary"]({folder.name: shown}, docs).splitlines()[-1]
        assert line in (ROOT / name).read_text(), name


def test_every_committed_run_is_shown(folder):
    paper, store = PAPERS[folder.name], Store(folder)
    with as_run_on(store.asked()["at_hand"]):
        sets = paper.datasets(None, False)
        shown = {j.key for i in paper.items for j in jobs_of(paper, i, sets, Scale()).values()}
    held = {row.cell for row in store.rows()}
    assert held <= shown
    assert len(held) == RUNS[folder.name]


def test_every_committed_run_says_how_it_was_made(folder):
    store = Store(folder)
    keys = sorted({row.cell for row in store.rows()})
    for key in keys[:: max(len(keys) // 5, 1)]:
        about = store.get(key).about
        assert about["asked"]
        assert about["made"]["peerwise"]
        # what uses noise-aware models also says which of them
        assert about["depends"].keys() - {"aware"} == {"numerics", "data", "code"}
        assert all(len(mark) == 16 for mark in about["depends"]["data"].values())


def test_committed_runs_are_of_the_data_at_hand(data_folder, folder):
    """Runs of other bytes would be run again by `peerwise reproduce`, and must not look current."""
    for key in sorted({row.cell for row in Store(folder).rows()})[::50]:
        about = Store(folder).get(key).about
        job = type("Job", (), {"asked": about["asked"]})
        assert json.dumps(depends(job)["data"]) == json.dumps(about["depends"]["data"])
