"""Should my site join: planted cases, and the command that says it."""

import json

import numpy as np
import pandas as pd
import pytest
from rich.table import Table
from typer.testing import CliRunner

from peerwise.cli import app
from peerwise.errors import BadData, BadSetting, UnknownName
from peerwise.report import sites
from peerwise.study.join import join


@pytest.fixture(scope="module")
def wards(tmp_path_factory):
    """Three sites of one kind, and one in which the label means the opposite."""
    rng = np.random.default_rng(0)
    frames = []
    for name, rows, sign in (("a", 200, 1), ("b", 200, 1), ("c", 200, 1), ("odd", 80, -1)):
        ill = rng.random(rows) < 0.4
        x = sign * np.where(ill, 0.8, -0.8)[:, None] + rng.normal(size=(rows, 6))
        frame = pd.DataFrame(x, columns=[f"m{i}" for i in range(6)])
        sex = rng.choice(["f", "m"], rows)
        frames.append(frame.assign(ward=name, sex=sex, ill=np.where(ill, "yes", "no")))
    path = tmp_path_factory.mktemp("wards") / "wards.csv"
    pd.concat(frames).to_csv(path, index=False)
    return path


@pytest.mark.full
def test_a_site_that_differs_should_stay(wards):
    found = join(str(wards), "ward", target="ill", network="complete", by=["sex"], rounds=32)
    assert found.verdicts.loc["odd", "verdict"] == "stay"
    assert found.rows == {"a": 140, "b": 140, "c": 140, "odd": 56}
    assert ("sex", "f") in found.report.index
    assert ("site", "odd") in found.report.index
    assert found.confusion.to_numpy().sum() == 60 * 3 + 24


@pytest.mark.full
def test_a_site_with_two_positives_gets_no_verdict(wards, tmp_path):
    frame = pd.read_csv(wards)
    ill = frame.index[(frame["ward"] == "b") & (frame["ill"] == "yes")]
    frame.drop(ill[5:]).to_csv(tmp_path / "few.csv", index=False)
    found = join(str(tmp_path / "few.csv"), "ward", target="ill", rounds=2, network="complete")
    line = found.verdicts.loc["b"]
    assert (line["verdict"], line["rows"] > 30, line["rests_on"] < 5) == ("too few 'yes'", 1, 1)
    low, high = found.report.loc[("site", "b"), ["sensitivity_low", "sensitivity_high"]]
    assert high - low > 0.3


@pytest.mark.full
def test_small_sites_of_one_kind_gain_together(tmp_path):
    rng = np.random.default_rng(1)
    rows, kinds = 3000, 30
    ill = rng.random(rows) < 0.5
    x = np.where(ill, 0.15, -0.15)[:, None] + rng.normal(size=(rows, 30))
    frame = pd.DataFrame(x, columns=[f"m{i}" for i in range(30)])
    frame["ward"] = np.arange(rows) % kinds
    frame["ill"] = ill.astype(int)
    path = tmp_path / "many.csv"
    frame.to_csv(path, index=False)
    found = join(str(path), "ward", target="ill", network="complete", rounds=32, held_out=0.5)
    assert (found.verdicts["gain"] > 0).mean() > 0.8
    assert (found.verdicts["verdict"] == "stay").sum() <= 1
    assert (found.verdicts["verdict"] == "join").sum() >= 5


@pytest.mark.full
def test_files_and_tables_say_the_same(wards, tmp_path):
    found = join(str(wards), "ward", target="ill", rounds=4)
    sites.write(found, tmp_path)
    again = pd.read_csv(tmp_path / "verdicts.csv", index_col="site")
    np.testing.assert_allclose(again["gain"], found.verdicts["gain"])
    shown = [t for t in sites.tables(found, width=200) if isinstance(t, Table)]
    assert [t.row_count for t in shown] == [4, 5, 2]


def test_the_command(wards, tmp_path):
    rows = tmp_path / "rows.csv"
    command = ["join", str(rows), "--target", "ill", "--site", "ward", "--rounds", "4"]
    frame = pd.read_csv(wards)
    frame.assign(patient_id=np.arange(len(frame)) + 1000).to_csv(rows, index=False)
    result = CliRunner().invoke(app, [*command, "--out", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert "'patient_id' looks like an identifier" in " ".join(result.stderr.split())
    assert "Should my site join?" in result.output
    assert (tmp_path / "out" / "gains.png").stat().st_size > 0


def test_what_cannot_be_compared_is_refused(wards, tmp_path):
    with pytest.raises(UnknownName, match="did you mean 'ward'"):
        join(str(wards), "wrad", target="ill")
    with pytest.raises(UnknownName, match="class"):
        join(str(wards), "ward", target="ill", positive="maybe")
    with pytest.raises(BadSetting, match="held_out"):
        join(str(wards), "ward", target="ill", held_out=1.5)
    with pytest.raises(BadData, match="array"):
        join("digits", "ward")
    lonely = tmp_path / "lonely.csv"
    pd.DataFrame({"x": [1, 2, 3], "s": ["a", "a", "b"], "y": [0, 1, 0]}).to_csv(lonely)
    with pytest.raises(BadData, match="site 'b' has only one row"):
        join(str(lonely), "s", target="y")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda f: f.assign(ward=f["ward"].where(f.index > 3)), "row 0 has no 'ward'"),
        (lambda f: f.assign(m0=f["m0"].where(f.index > 0, np.inf)), "infinity"),
        (
            lambda f: f.assign(m0=f["m0"].astype(object).where(f.index > 0, "unknown")),
            "'m0' holds numbers and a text in 1 rows, first in row 0",
        ),
        (lambda f: f.assign(ill="no"), "'ill' has 1 distinct values"),
        (lambda f: f.assign(ill=np.arange(len(f))), "680 distinct values"),
        (lambda f: f.iloc[:0], "no rows"),
    ],
)
def test_a_table_that_cannot_be_compared_is_named(wards, tmp_path, change, says):
    change(pd.read_csv(wards)).to_csv(tmp_path / "odd.csv", index=False)
    with pytest.raises(BadData, match=says):
        join(str(tmp_path / "odd.csv"), "ward", target="ill", rounds=2)


def test_metric_and_site_are_checked_before_anything_is_learnt(wards):
    with pytest.raises(UnknownName, match="auroc"):
        join(str(wards), "ward", target="ill", metric="auroc2")
    with pytest.raises(BadSetting, match="is the column to predict"):
        join(str(wards), "ill", target="ill")


@pytest.mark.full  # `make test`: test_the_command
def test_a_site_is_called_as_its_file_says_and_columns_are_what_the_source_declares(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=240)
    # 1 and 3 mean yes, 2 and 4 no: as a number the column says nothing
    level = np.where(y, rng.choice([1, 3], 240), rng.choice([2, 4], 240))
    level = np.where(rng.random(240) < 0.2, rng.integers(1, 5, 240), level)
    frame = pd.DataFrame({"level": level, "site": ["01", "02"] * 120, "n": rng.normal(size=240),
                          "ill": np.where(y, "yes", "None")})  # fmt: skip
    frame.to_csv(tmp_path / "t.csv", index=False)
    entry = {"name": "wards", "kind": "tabular", "file": "t.csv", "target": "ill"}
    manifest = {"datasets": [entry | {"categorical": ["level"]}]}
    (tmp_path / "MANIFEST.json").write_text(json.dumps(manifest))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PEERWISE_DATA", str(tmp_path))
        declared = join("wards", "site", rounds=2, network="complete")
    assert list(declared.verdicts.index) == ["01", "02"]
    assert list(declared.confusion.index) == ["None", "yes"]
    guessed, said = (
        join(str(tmp_path / "t.csv"), "site", target="ill", rounds=2, network="complete", **more)
        for more in ({}, {"columns": {"level": "category"}})
    )
    assert (declared.verdicts["local"] > 0.8).all()
    assert (guessed.verdicts["local"] < 0.8).all()
    pd.testing.assert_frame_equal(said.verdicts, declared.verdicts)
