"""Pages that are served: who may ask, what a live run shows, a folder of runs."""

import http.client
import json
import socket
import ssl
import threading
from pathlib import Path

import pytest

from peerwise.errors import PeerwiseError
from peerwise.page.browse import browser as browse
from peerwise.page.guard import WRONG, Access, Guard, read_token
from peerwise.page.serve import Feed, Page

TOKEN = "a-token-for-this-test"


def ask(page, method="GET", path="/", body=None, context=None, **headers):
    """The answer to a call: status, headers, text."""
    kind = http.client.HTTPConnection if context is None else http.client.HTTPSConnection
    more = {} if context is None else {"context": context}
    calling = kind(page.access.host, page.port, timeout=20, **more)
    given = {k.replace("_", "-"): v for k, v in headers.items()}
    calling.request(method, path, body, given)
    answer = calling.getresponse()
    text = answer.read().decode()
    calling.close()
    return answer.status, dict(answer.getheaders()), text


def say(page, path, value, **headers):
    """The same for what is told in JSON."""
    more = {"Content-Type": "application/json", **headers}
    return ask(page, "POST", path, json.dumps(value), **more)


@pytest.fixture(scope="module")
def page():
    """A page that shows nothing much and can do one thing."""
    done = []

    def act(do, given):
        done.append(do)
        return {"said": "done"}

    show = {"/": ("runs", "t", {"folder": "f", "runs": []})}.get
    with Page(show, Access(token=TOKEN), feed=Feed(lambda: {"n": len(done)}), act=act) as served:
        served.done = done
        yield served


def test_every_answer_is_guarded(page):
    status, headers, text = ask(page)
    assert status == 200
    assert "<main" in text
    policy = headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert not any(name.startswith("access-control") for name in headers)
    assert ask(page, path="/static/dom.js")[0] == 200
    for path in ("/nothing", "/static/../document.py", "/static/%2e%2e/run.py", "/run/../../etc"):
        assert ask(page, path=path)[0] == 404


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 421),  # a name that was made to mean this machine
        ({"Sec_Fetch_Site": "cross-site"}, 403),
        ({"Sec_Fetch_Site": "same-site"}, 403),
        ({"Origin": "http://evil.example"}, 403),
    ],
)
def test_other_sites_are_refused(page, headers, status):
    headers = {k.replace("_", "-"): v for k, v in headers.items()}
    assert ask(page, **headers)[0] == status
    assert ask(page, path="/events", **headers)[0] == status
    assert say(page, "/act", {"do": "stop"}, **headers)[0] == status
    assert page.done == []


def test_only_the_token_lets_callers_act(page):
    assert say(page, "/act", {"do": "stop"})[0] == 401
    status, headers, text = say(page, "/login", {"token": "wrong-wrong-wrong"})
    assert status == 403
    assert "not the token" in text
    assert "set-cookie" not in headers
    assert say(page, "/act", {"do": "stop"}, Cookie="peerwise=guessed")[0] == 401
    assert ask(page, "POST", "/login", "token=x", Content_Type="text/plain")[0] == 415
    status, headers, _ = say(page, "/login", {"token": TOKEN})
    cookie = headers["set-cookie"]
    assert status == 200
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    assert page.done == []
    assert say(page, "/act", {"do": "stop"}, Cookie=cookie.partition(";")[0])[0] == 200
    assert page.done == ["stop"]


def test_a_token_cannot_be_guessed_for_long():
    guard = Guard(None, Access(token=TOKEN), clock=lambda: 0.0)
    assert [guard.log_in("x" * 20)[0] for _ in range(WRONG + 1)] == [403] * WRONG + [429]
    assert guard.log_in(TOKEN)[0] == 429
    assert Guard(None, Access()).log_in(TOKEN)[0] == 403


def test_a_page_for_other_machines_needs_tls_and_a_token(tmp_path):
    with pytest.raises(PeerwiseError, match="needs TLS and a token: give --page-token-file and"):
        Access("0.0.0.0").checked()
    with pytest.raises(PeerwiseError, match="give --page-tls"):
        Access("192.0.2.1", token=TOKEN).checked()
    with pytest.raises(PeerwiseError, match="16 characters"):
        Access(token="short").checked()
    (tmp_path / "bad.pem").write_text("nothing")
    with pytest.raises(PeerwiseError, match="PEM file"):
        Access("0.0.0.0", token=TOKEN, tls=tmp_path / "bad.pem").checked()
    (tmp_path / "token").write_text("two words\n")
    with pytest.raises(PeerwiseError, match="nothing else"):
        read_token(tmp_path / "token")


def test_over_tls_nothing_is_shown_without_the_token(tmp_path):
    from peerwise.peer.identity import make_authority, make_certificate

    make_authority(tmp_path)
    make_certificate(tmp_path, "node", hosts=["127.0.0.1"])
    pem = tmp_path / "page.pem"
    pem.write_bytes((tmp_path / "node.pem").read_bytes() + (tmp_path / "node.key").read_bytes())
    context = ssl.create_default_context(cafile=str(tmp_path / "ca.pem"))
    context.check_hostname = False

    class Elsewhere(Access):  # as if other machines reached it
        @property
        def local(self):
            return False

    def show(path):
        return "runs", "secret", {"folder": "secret", "runs": []}

    access = Elsewhere("127.0.0.1", 0, TOKEN, pem)
    with Page(show, access, feed=Feed(lambda: {"secret": 1})) as page:
        status, _, text = ask(page, context=context)
        assert status == 200
        assert "secret" not in text
        assert "notice.js" in text
        assert ask(page, path="/events", context=context)[0] == 401
        assert say(page, "/login", {"token": "wrong-wrong-wrong"}, context=context)[0] == 403
        _, headers, _ = say(page, "/login", {"token": TOKEN}, context=context)
        assert "Secure" in headers["set-cookie"]
        known = headers["set-cookie"].partition(";")[0]
        assert "secret" in ask(page, context=context, Cookie=known)[2]


def test_a_port_that_is_taken_is_one_line():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PeerwiseError, match=f"port {port}: Address already in use") as error:
            Page(lambda path: None, Access(port=port))
    assert "\n" not in str(error.value)


def test_a_live_run_grows_and_ends_as_its_report(tab, config, tmp_path):
    from peerwise.learner import expand
    from peerwise.page.live import Following, LivePage
    from peerwise.study import live
    from peerwise.study.engine import ThisMachine
    from peerwise.study.sweep import sweep

    folder, seen = tmp_path / "wine", threading.Event()
    cells = expand(config)
    page = LivePage(Following("wine", folder, cells), 0)
    told = live.writer

    def slow(path):  # a line is written only after the one before was seen
        write = told(path)

        def tell(state):
            write(state)
            if path.stem == cells[0].key and state.rounds < state.total:
                assert seen.wait(60)
                seen.clear()

        return tell

    live.writer, live.PAUSE = slow, 0.0
    try:
        with page.server as server:

            def go():
                sweep(config, folder, engine=ThisMachine(1), live=True, predictions=True,
                      progress=page.told(lambda done, total: None))  # fmt: skip
                page.end(folder)

            learning = threading.Thread(target=go)
            learning.start()
            points = (
                "Number(document.querySelector('#curves [data-name=crc]')?.dataset.points || 0)"
            )
            tab.open(server.address)
            counts = []
            for least in range(1, 6):
                counts.append(tab.until(f"{points} >= {least} && {points}"))
                seen.set()
            assert counts == sorted(counts)
            assert counts[0] < counts[-1]
            # the last page is the report, with everything in it
            tab.until("document.querySelectorAll('td[data-metric=test_error]').length === 3")
            learning.join(60)
    finally:
        live.writer, live.PAUSE = told, 0.1
    value = json.loads((folder / "results.json").read_text())["records"]
    crc = next(r for r in value if r["metric"] == "test_error" and r["setting"]["method"] == "crc")
    assert f"{crc['value']:.3f}" in tab.text
    assert tab.said == []
    assert not list(folder.glob("cells/*"))


@pytest.mark.full
def test_a_folder_of_runs_is_browsed(tab, browser, run_folder, tmp_path):
    from page.test_federation_page import readable

    (tmp_path / "<b>half").mkdir()
    (tmp_path / "<b>half" / "cells").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "results.json").write_text("{")
    (tmp_path / "wine").symlink_to(run_folder)
    (tmp_path / "notes").mkdir()
    with browse(tmp_path, Access()) as server:
        readable(browser, server.address)
        tab.open(server.address)
        for words in ("3 runs", "<b>half", "unfinished", "damaged", "finished"):
            assert words in tab.text
        tab.page.get_by_role("link", name="wine").click()
        tab.until("document.querySelectorAll('td[data-metric=test_error]').length === 3")
        assert tab.said == []
        assert ask(server, path="/run/broken")[0] == 500
        assert ask(server, path="/run/notes")[0] == 404
    with pytest.raises(PeerwiseError, match="there is no folder"):
        browse(Path(tmp_path / "absent"), Access())
