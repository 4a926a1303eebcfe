"""How often intervals cover the truth, and verdicts are false, by simulation."""

import numpy as np
import pandas as pd
import pytest

from peerwise.metrics import report, should_join
from peerwise.metrics.bootstrap import METRICS

SKILL = {0.5: 1.0, 0.1: 1.5}  # share of positives -> distance of the classes


def drawn(rng, rows, share):
    """Labels, and two models that are equally good and make half of their mistakes together."""
    y = (rng.random(rows) < share).astype(int)
    skill, common = SKILL[share], rng.normal(size=rows)
    logits = [
        skill * (skill * (y - 0.5) + (common + rng.normal(size=rows)) / np.sqrt(2))
        + np.log(share / (1 - share))
        for _ in range(2)
    ]
    return y, *(1 / (1 + np.exp(-z)) for z in logits)


def covered(rows, share, sites, bootstrap=500):
    """By metric: how often the interval covers, how often it says that equal models differ.

    Verdicts are counted among the sites that have one ("judged" of all).
    """
    rng = np.random.default_rng(rows)
    y, p, _ = drawn(rng, 1_000_000, share)
    truth = report(y, p, bootstrap=0).iloc[0]
    y, local, network = drawn(rng, rows * sites, share)
    site = np.repeat(np.arange(sites), rows)
    found = report(y, local, subgroups=site, bootstrap=bootstrap).iloc[1:]
    lines = {}
    for metric in METRICS:
        low, high = found[f"{metric}_low"], found[f"{metric}_high"]
        inside = ((low <= truth[metric]) & (truth[metric] <= high))[low.notna()]
        said = should_join(y, local, network, site, metric=metric, bootstrap=bootstrap)["verdict"]
        judged = said[~said.str.startswith(("too few", "one class"))]
        false = judged.isin(["join", "stay"]).mean()
        lines[metric] = {
            "cover": inside.mean(), "false": false, "judged": len(judged) / sites,
            "defined": low.notna().mean(),
        }  # fmt: skip
    return pd.DataFrame(lines).T


def check(table, sites):
    """At least 95 %, to three standard deviations of so many sites, and verdicts as rarely false.

    The log loss of few rows is the exception: what rare and surely wrong rows cost is not seen.
    """
    off = 3 * np.sqrt(0.05 * 0.95 / (sites * table["defined"]))
    others = table.index != "log_loss"
    assert (table["cover"] > 0.94 - off)[others].all(), table
    assert table.loc["log_loss", "cover"] > 0.85
    enough = table["judged"] * sites >= 20
    off = 3 * np.sqrt(0.05 * 0.95 / (sites * table["judged"]))
    assert (table["false"] < 0.05 + off)[enough].all(), table


@pytest.mark.full
@pytest.mark.parametrize(("rows", "share"), [(20, 0.5), (60, 0.1)])
def test_intervals_cover_and_verdicts_are_rarely_false(rows, share):
    check(covered(rows, share, 150, bootstrap=200), 150)


@pytest.mark.full
@pytest.mark.parametrize("share", SKILL)
@pytest.mark.parametrize("rows", [20, 50, 100, 200, 500, 1000])
def test_intervals_cover_from_20_to_1000_rows(rows, share):
    check(covered(rows, share, 1000), 1000)


@pytest.mark.full
def test_one_two_or_three_positives_give_no_verdict():
    for positives in (1, 2, 3, 4):
        rng = np.random.default_rng(positives)
        sites, rows = 100, 60
        y = np.tile(np.arange(rows) < positives, sites).astype(int)
        local, network = (rng.random(sites * rows) for _ in range(2))
        site = np.repeat(np.arange(sites), rows)
        for metric in ("auroc", "auprc", "balanced_accuracy", "sensitivity"):
            got = should_join(y, local, network, site, metric=metric, bootstrap=50)
            assert set(got["verdict"]) == {"too few '1'"}
            assert (got["rests_on"] == positives).all()
