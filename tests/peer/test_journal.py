"""What a peer writes down: a disk or a terminal that takes no line ends nothing."""

import errno
import io
import logging
import sys

import pytest

from peerwise.peer import journal


@pytest.fixture
def logged(tmp_path):
    """Peers log to a folder, and to the standard error."""
    journal.log_to(tmp_path, "a", quiet=False)
    yield tmp_path
    for logger in (journal.log, journal.security):
        for handler in logger.handlers[:]:
            logger.removeHandler(handler)
            handler.close()


class Full(io.StringIO):
    """A file on a disk without room."""

    def write(self, text):
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_said_once_and_lines_go_on_when_it_has_room(logged, monkeypatch, capsys):
    (handler,) = journal.security.handlers
    with monkeypatch.context() as patch:
        patch.setattr(handler, "stream", Full())
        for _ in range(3):
            journal.security.warning("refused")
    said = capsys.readouterr().err
    assert said.count("cannot write") == 1
    assert "No space left on device" in said
    assert "Traceback" not in said
    journal.security.warning("room again")
    assert "room again" in (logged / journal.SECURITY).read_text()


def test_a_peer_goes_on_when_nobody_reads_its_standard_error(logged, monkeypatch):
    class Gone:
        def write(self, text):
            raise BrokenPipeError

        def flush(self):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stderr", Gone())
    logging.getLogger("peerwise.peer").warning("still here")
    assert "still here" in (logged / journal.JOURNAL).read_text()
