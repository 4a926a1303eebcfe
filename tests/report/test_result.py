"""The Python face: a description in, tables and plots out."""

import numpy as np
import pytest
import tomli_w
from matplotlib.figure import Figure

import peerwise as pw

SMALL = {
    "data": "wine",
    "split": {"nodes": 3, "rows": 20},
    "network": "ring",
    "run": {"rounds": 2, "repetitions": 2, "record": "all"},
}


@pytest.fixture(scope="module")
def result():
    return pw.run(SMALL, method=["crc", "isolated"])


def test_a_table_has_a_line_a_cell(result):
    assert result.table["method"].tolist() == ["crc", "isolated"]
    assert {"test_error", "test_gap", "node_std", "bytes_per_link"} <= set(result.table.columns)
    assert (result.std["test_error"] >= 0).all()
    assert result.failures == {}


def test_the_history_is_a_data_frame_by_round_and_node(result):
    assert len(result.history) == 2 * 2 * 2 * 3  # methods, repetitions, rounds, nodes
    last = result.history.query("method == 'crc' and round == 2")["test_error"].mean()
    assert np.isclose(last, result.table["test_error"][0])


def test_it_can_be_plotted_and_shown(result):
    assert isinstance(result.plot("wine"), Figure)
    assert "<table" in result._repr_html_()


def test_a_file_a_dict_and_keywords_say_the_same(tmp_path, result):
    path = tmp_path / "small.toml"
    path.write_text(tomli_w.dumps({**SMALL, "method": "crc"}))
    for given in (pw.run(path), pw.run(str(path), out=tmp_path / "kept"), pw.run(**SMALL)):
        assert given.table["test_error"][0] == result.table["test_error"][0]
    assert (tmp_path / "kept" / "results.json").exists()


def test_keywords_go_before_the_file(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(tomli_w.dumps({**SMALL, "method": "crc"}))
    assert pw.run(path, method="relay").table["method"].tolist() == ["relay"]


def test_what_is_no_description_is_refused():
    with pytest.raises(pw.BadSetting, match="give a file, a dict or keywords"):
        pw.run(3)
    with pytest.raises(pw.UnknownName, match="did you mean 'crc'"):
        pw.run(method="crk")
