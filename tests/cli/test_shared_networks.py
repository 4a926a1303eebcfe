"""Options of networks that devices share, where they do not go together."""

import jax
import pytest

from peerwise.cli.common import use_device
from peerwise.cli.devices import Asked, same_description, use_devices
from peerwise.errors import BadSetting
from peerwise.learner import cell
from peerwise.simulate import mesh_of
from peerwise.study.jobs import Run
from peerwise.study.together import OneNetwork


@pytest.mark.parametrize(
    ("asked", "workers", "says"),
    [
        (Asked(None, None, 2, None, 9, "auto"), None, "need --coordinator"),
        (Asked(None, None, None, 0, 9, "auto"), None, "need --coordinator"),
        (Asked(2, None, None, None, 9, "auto"), 2, "leave one of them out"),
    ],
)
def test_options_that_do_not_go_together_are_told(asked, workers, says):
    with pytest.raises(BadSetting, match=says):
        use_devices(asked, "cpu", workers)


def test_what_devices_cannot_share_is_told_before_anything_is_run(monkeypatch):
    job = Run(cell({"data": "digits", "split": {"nodes": 3}}))
    mesh = mesh_of(1)
    OneNetwork(mesh).check([job])
    monkeypatch.setattr("peerwise.study.together.parts_of", lambda mesh: 4)
    with pytest.raises(BadSetting, match="4 devices cannot share 3 nodes"):
        OneNetwork(mesh).check([job])


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="there is a GPU here")
def test_a_gpu_that_is_not_there_is_told():
    with pytest.raises(BadSetting, match="jax finds no GPU here"):
        use_device("gpu")


def test_processes_with_another_file_are_told(monkeypatch):
    monkeypatch.setattr("peerwise.processes.said_by_all", lambda said: [said, "another"])
    with pytest.raises(BadSetting, match="process 1 got a different run file"):
        same_description({"data": "digits"})
