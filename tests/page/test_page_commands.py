"""Commands that write or serve pages: what they say, and mistakes in one line."""

import shutil
import socket

import pytest

from helpers import command, in_words


@pytest.fixture
def peerwise(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    return in_words(command(monkeypatch, capsys))


def test_a_report_is_one_file(peerwise, run_folder, tmp_path):
    shutil.copytree(run_folder, tmp_path / "wine")
    code, said = peerwise("report", "wine", "--html")
    assert code == 0, said
    assert "wine/report.html" in said
    text = (tmp_path / "wine" / "report.html").read_text()
    assert len(text) < 1_000_000
    assert "http" not in text.partition("<main")[0].replace("http-equiv", "")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("page", "absent"), "there is no folder absent"),
        (("report", "absent", "--html"), "there is no folder absent"),
        (("page", ".", "--page-host", "0.0.0.0"), "needs TLS and a token"),
        (("page", ".", "--page-token-file", "absent"), "cannot read the page's token"),
    ],
)
def test_a_mistake_is_one_line(peerwise, arguments, says):
    code, said = peerwise(*arguments)
    assert code == 2
    assert says in said
    assert "Traceback" not in said


def test_a_run_with_a_port_that_is_taken_does_not_begin(peerwise, tmp_path):
    (tmp_path / "wine.toml").write_text(
        'data = "wine"\nnetwork = "ring"\nsplit = {nodes = 4, rows = 10}\n[run]\nrounds = 2\n'
    )
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, said = peerwise("run", "wine.toml", "--page", port)
    assert code == 2
    assert f"port {port}" in said
    assert not (tmp_path / "runs").exists()
