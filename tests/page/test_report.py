"""A run as one file, in a real browser: its numbers, its policy, and who can read it."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from peerwise.errors import PeerwiseError
from peerwise.learner.noise import EPSILON, LOCAL
from peerwise.page import thin
from peerwise.page.document import as_json, one_file
from peerwise.page.run import gather, write
from peerwise.study.results import Record, write_folder
from peerwise.study.store import Store

HOSTILE = '<script>window.bad=1</script><img src=x onerror="window.bad=1">'


@pytest.fixture(scope="module")
def report(run_folder):
    return write(run_folder).as_uri()


def axe(tab):
    """Serious findings of axe, for people who cannot see or point."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(tab.page).response["violations"]
    return [
        (v["id"], v["nodes"][0]["html"][:200])
        for v in found
        if v["impact"] in ("serious", "critical")
    ]


def test_the_page_has_the_numbers_of_the_run(tab, report, run_folder):
    tab.open(report)
    records = json.loads((run_folder / "results.json").read_text())["records"]
    tab.page.get_by_role("button", name="all", exact=True).click()  # columns
    head = tab("[...document.querySelectorAll('thead button')].map(b => b.dataset.column)")
    rows = tab(
        "[...document.querySelector('table').tBodies[0].rows].map(r => [...r.cells].map(c => "
        "[c.dataset.metric || null, c.innerText]))"
    )
    assert len(rows) == 3
    assert len(head) >= len(rows[0])
    shown = {(row[0][1].split()[0], name): text for row in rows for name, text in row[1:]}
    checked = 0
    for record in records:
        if record["value"] is None or record["metric"].startswith("bytes"):
            continue
        text = shown[record["setting"]["method"], record["metric"]]
        number = float(text.split("±")[0])
        assert number == pytest.approx(record["value"], abs=5.1e-4), record
        checked += 1
    assert checked > 15


def test_what_is_to_be_said_of_the_numbers_stands_below_the_table(tab, run_folder, tmp_path):
    page = gather(run_folder) | {"notes": [EPSILON, LOCAL]}
    (tmp_path / "report.html").write_text(one_file("run", "run", page))
    tab.open((tmp_path / "report.html").as_uri())
    assert EPSILON in tab.text
    assert LOCAL.removeprefix("Warning: ") in tab.text


def test_curves_graph_classes_and_reliability_are_there(tab, report):
    tab.open(report)
    assert (
        tab("[...document.querySelectorAll('path.mean')].map(p => p.dataset.points)") == ["6"] * 3
    )
    assert tab("document.querySelectorAll('circle.node').length") == 5
    for words in ("Who holds what", "Can its probabilities be believed?", "Compared with", "ECE"):
        assert words in tab.page.inner_text("body")
    # single nodes, and against bytes: methods that send nothing are left out
    tab.page.get_by_role("button", name="nodes", exact=True).click()
    assert tab("document.querySelectorAll('path.thin').length") == 5
    tab.page.get_by_role("button", name="bytes", exact=True).click()
    assert tab("document.querySelectorAll('path.mean').length") == 1
    tab.page.get_by_role("button", name="seconds", exact=True).click()
    assert tab("document.querySelectorAll('path.mean').length") == 3
    # the slider goes with the keyboard
    slider = tab.page.get_by_role("slider", name="round")
    slider.focus()
    tab.page.keyboard.press("Home")
    assert "round 1:" in tab.text
    tab.page.get_by_role("button", name="error by class").click()
    assert "Error of crc" in tab.text


def test_the_table_sorts_filters_and_copies(tab, report):
    tab.open(report)
    first = "document.querySelector('table tbody th').innerText"
    tab.page.locator("button[data-column='test error']").click()
    cells = "[...document.querySelectorAll('td[data-metric=test_error]')]"
    errors = f"{cells}.map(c => parseFloat(c.innerText))"
    assert tab(errors) == sorted(tab(errors))
    tab.page.locator("button[data-column='test error']").click()
    assert tab(errors) == sorted(tab(errors), reverse=True)
    tab.page.get_by_label("method").first.select_option("isolated")
    assert tab(first).startswith("isolated")
    assert len(tab(errors)) == 1
    tab(
        "navigator.clipboard.writeText = "
        "text => { window.copied = text; return Promise.resolve(); }"
    )
    tab.page.get_by_role("button", name="Copy CSV").first.click()
    lines = tab.until("window.copied").splitlines()
    assert lines[0].startswith("method,test_error")
    assert lines[1].startswith("isolated,0.")
    tab("window.copied = null")
    tab.page.get_by_role("button", name="Copy LaTeX").first.click()
    assert r"\begin{tabular}{lr" in tab.until("window.copied")


def test_nothing_leaves_and_nothing_else_runs(tab, report):
    tab.open(report)
    assert [u for u in tab.asked if not u.startswith("file:")] == []
    assert tab.said == []
    html = tab.page.content()
    assert not re.search(r"\son[a-z]+=", html)
    assert ' style="' not in html.partition("<main")[0]
    tab(
        "(() => { const s = document.createElement('script'); s.textContent = 'window.bad = 1'; "
        "document.body.append(s); const i = new Image(); i.src = 'http://127.0.0.1:1/x.png'; })()"
    )
    tab.until("true")
    assert tab("window.bad") is None
    assert any("Content Security Policy" in text for text in tab.said)


@pytest.mark.parametrize(("width", "scheme"), [(1200, "light"), (390, "dark")])
def test_everybody_can_read_it(browser, report, width, scheme):
    from page.conftest import Tab

    context = browser.new_context(
        viewport={"width": width, "height": 800}, color_scheme=scheme, bypass_csp=True
    )
    tab = Tab(context.new_page()).open(report)
    assert axe(tab) == []
    assert tab("document.documentElement.scrollWidth <= innerWidth")
    context.close()


def test_hostile_names_are_text(tab, tmp_path):
    def record(metric, value):
        return Record(paper=None, item="run", dataset=HOSTILE, setting={"method": HOSTILE},
                      metric=metric, value=value, std=None, reps=1)  # fmt: skip

    history = pd.DataFrame(
        {"dataset": HOSTILE, "method": HOSTILE, "repetition": 0, "round": [1, 1, 2, 2],
         "node": [0, 1, 0, 1], "test_error": [0.5, 0.4, 0.3, 0.2]}
    )  # fmt: skip
    write_folder(tmp_path, config={"data": HOSTILE}, records=[record("test_error", 0.25)],
                 history=history, rows=[], reading={HOSTILE: [HOSTILE]})  # fmt: skip
    text = write(tmp_path).read_text()
    assert HOSTILE not in text
    assert "<script>window" not in text
    tab.open((tmp_path / "report.html").as_uri())
    tab.page.locator("summary").first.click()
    assert HOSTILE in tab.text
    assert tab("window.bad") is None
    assert tab.said == []


def test_data_cannot_end_its_element():
    text = as_json({"</script>": "<!-- & \u2028"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"</script>": "<!-- & \u2028"}
    assert one_file("runs", "<b>", {"folder": "x", "runs": []}).count("<b>") == 0


def _folders(run_folder, tmp_path):
    """Folders that are damaged, half written or of another version, and what is said of each."""
    import shutil

    def copy(name):
        shutil.copytree(run_folder, tmp_path / name)
        return tmp_path / name

    gone = copy("gone")
    (gone / "results.json").unlink()
    yield gone, "the run is not finished"
    cut = copy("cut")
    (cut / "results.json").write_bytes((cut / "results.json").read_bytes()[:300])
    yield cut, "damaged"
    parquet = copy("parquet")
    content = bytearray((parquet / "history.parquet").read_bytes())
    content[len(content) // 2] ^= 1
    (parquet / "history.parquet").write_bytes(content)
    yield parquet, "damaged"
    old = copy("old")
    members = json.loads((old / "results.json").read_text())
    del members["hash"]
    (old / "results.json").write_text(json.dumps(members))
    yield old, "earlier version"
    yield tmp_path / "absent", "there is no folder"


def test_a_folder_that_is_no_whole_run_is_one_line(run_folder, tmp_path):
    for folder, says in _folders(run_folder, tmp_path):
        with pytest.raises(PeerwiseError, match=says) as error:
            write(folder)
        assert "\n" not in str(error.value)


def test_a_run_of_an_earlier_version_lacks_only_what_it_did_not_keep(run_folder, tmp_path):
    """Cells without details: no graph, no classes, and everything else."""
    import shutil

    shutil.copytree(run_folder, tmp_path / "old")
    store = Store(tmp_path / "old")
    rows = [row for row in store.rows() if not row.metric.startswith("detail:")]
    (tmp_path / "old" / "reading.json").unlink()
    store.collect(rows)
    page = gather(tmp_path / "old")
    assert page["networks"] == {"graphs": [], "held": []}
    assert page["table"]["rows"]
    assert page["series"]


def test_what_is_thinned_keeps_its_ends_and_its_numbers():
    assert thin.places(1000, 5).tolist() == [0, 250, 500, 749, 999]
    assert thin.places(3, 10).tolist() == [0, 1, 2]
    last = np.array([0.3, 0.1, np.nan, 0.9, 0.2])
    assert {1, 3} <= set(thin.chosen_nodes(np.nan_to_num(last, nan=0.5), 3).tolist())
    nodes, rounds = thin.room(10, 1000, 1000)
    assert nodes == 1000
    assert 10 * nodes * rounds <= thin.NUMBERS
    values = np.random.default_rng(0).random((7, 9))
    packed = thin.packed(values)
    import base64

    whole = np.frombuffer(base64.b64decode(packed["data"]), "<u2").reshape(7, 9)
    back = packed["lo"] + whole / 65534 * (packed["hi"] - packed["lo"])
    np.testing.assert_allclose(back, values, atol=1e-5)


@pytest.mark.full  # for which test_what_is_thinned_keeps_its_ends_and_its_numbers stands
def test_a_thousand_rounds_of_a_thousand_nodes_stay_usable(tab, tmp_path):
    from page.large import write_large

    path = write(write_large(tmp_path))
    assert path.stat().st_size < 3_000_000
    tab.open(path.as_uri())
    assert tab("document.querySelectorAll('path.mean').length") == 10
    assert tab("document.querySelectorAll('circle.node').length") == 1000
    slider = tab.page.get_by_role("slider", name="round")
    slider.focus()
    tab.page.keyboard.press("Home")
    assert "round 1:" in tab.text
    assert tab.said == []
