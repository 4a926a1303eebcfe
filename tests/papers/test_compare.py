"""Comparison of models: what is run, what is said, and what the report shows."""

import io

import numpy as np
import pytest
from rich.console import Console
from sklearn.linear_model import LogisticRegression

from peerwise.errors import BadData, PeerwiseError, UnknownName
from peerwise.learner import cell, drawn, run
from peerwise.methods.baselines import one_hot
from peerwise.names import entries
from peerwise.papers.rc import items as compare
from peerwise.papers.reproduce import reproduce
from peerwise.papers.show import page, show
from peerwise.study.results import Record


def record(model, method, metric, value, dataset="wine"):
    column = f"{model} {method} {metric}" if model else f"{method} {metric}"
    setting = {"method": method, "column": column} | ({"model": model} if model else {})
    return Record(
        paper="rc",
        item="compare",
        dataset=dataset,
        setting=setting,
        metric=metric,
        value=value,
        std=0.001,
        reps=5,
    )


def test_every_tabular_set_at_hand_is_compared(monkeypatch):
    monkeypatch.delenv("PEERWISE_DATA", raising=False)
    assert [d.name for d in compare.datasets()] == ["breast_cancer", "wine", "iris"]
    with pytest.raises(UnknownName, match="did you mean 'wine'"):
        compare.datasets(["wein"])


def test_sets_of_the_folder_come_first_and_leaks_are_left_out(data_folder):
    found = {d.name: d for d in compare.datasets()}
    assert {"adult", "heart_2020", "mushroom"} < set(found)
    assert "mnist" not in found
    assert found["smart_grid_augmented"].drop == ("stab",)


def test_a_claim_names_its_exceptions():
    records = [
        record("qda", "ml", "test_error", 0.10),
        record("qda", "rc", "test_error", 0.12),
        record("lda", "ml", "test_error", 0.10),
        record("lda", "rc", "test_error", 0.08),
        record(None, "logistic_regression", "test_error", 0.05),
    ]
    by_name = {c.name: c for c in compare.PAPER.claims(records)}
    lower = by_name["rc-lowers-test_error"]
    assert lower.verdict == "not held"
    assert lower.ours == "1 held, 1 not held of 2; not held: qda on wine"
    assert by_name["best-of-ours"].verdict == "not held"
    assert compare.PAPER.claims([]) == []


@pytest.mark.full  # `make test`: a network learns a model, below; estimators/
def test_a_quick_comparison_without_a_data_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("PEERWISE_DATA", raising=False)
    asked = {"chosen": ["wine"], "quick": True, "repetitions": 2, "workers": 1}
    found = reproduce(compare.PAPER, ["compare", "trees"], tmp_path, **asked)
    assert not found.failures
    assert {r.item for r in found.records} == {"compare"}  # 178 rows are too few for the trees
    values = {r.setting["column"]: r.value for r in found.records}
    for model in compare.MODELS:
        before, after = (values[f"{model} {m} train_soft_error"] for m in ("ml", "rc"))
        assert after < before
    by_name = {c.name: c for c in found.claims}
    assert "not held" not in by_name["rc-lowers-train_soft_error"].ours
    console = Console(width=150, record=True, file=io.StringIO())
    show(tmp_path, console)
    text = console.export_text()
    assert "Test log-loss" in text
    assert "→" in text
    told = page(tmp_path)
    assert "| wine |" in told
    assert "Training soft error" in told


# --- the cells behind it


def test_all_baselines_are_compared():
    listed = {name for name, entry in entries("method").items() if "baselines" in entry.module}
    assert set(compare.BASELINES) <= listed


@pytest.mark.some("gaussian_nb")
@pytest.mark.parametrize("name", compare.BASELINES)
def test_baselines_are_measured_on_the_same_rows(name):
    one = cell({"data": "breast_cancer", "split": {"nodes": 4, "rows": 60}, "method": name,
                "run": {"repetitions": 2}})  # fmt: skip
    outcome = run(one)
    assert outcome.values["test_error"].shape == (2, 1, 1)
    assert (outcome.values["test_error"] < 0.15).all()
    assert outcome.messages == 0
    # a network's graph is nothing to them
    assert one.key == one.changed(network="ring").key


def test_a_baseline_is_what_scikit_learn_says():
    one = cell({"data": "wine", "split": {"nodes": 2, "rows": 60}, "method": "logistic_regression",
                "run": {"repetitions": 1}})  # fmt: skip
    rows = drawn(one, 0)
    fitted = LogisticRegression(max_iter=1000).fit(rows.x.astype(float), rows.y)
    error = np.mean(fitted.predict(rows.x_test.astype(float)) != rows.y_test)
    np.testing.assert_allclose(run(one).values["test_error"], error)


def test_categories_become_one_hot_columns():
    dense = one_hot(np.array([[0.5, 2.0], [1.5, 0.0]]), (0, 3))
    assert dense.tolist() == [[0.5, 0, 0, 1], [1.5, 1, 0, 0]]


@pytest.mark.some("lda")
@pytest.mark.parametrize("model", ["shared_naive_bayes", "qda", "lda"])
def test_a_network_learns_every_model(model):
    one = cell({"data": "iris", "split": {"nodes": 4, "rows": 25}, "model": model,
                "method": {"name": "crc", "lr": 0.2},
                "run": {"rounds": 16, "repetitions": 1}})  # fmt: skip
    assert run(one).values["test_error"].mean() < 0.15


@pytest.mark.full  # on few rows: tests/estimators
def test_a_network_agrees_on_the_structure_of_tan(data_folder):
    one = cell({"data": "mushroom", "split": {"nodes": 10, "rows": 40}, "model": "tan",
                "run": {"rounds": 24, "repetitions": 2}})  # fmt: skip
    outcome = run(one)
    assert outcome.values["test_error"].shape[0] == 2
    assert outcome.values["test_error"].mean() < 0.1
    naive = run(one.changed(model="naive_bayes"))
    assert outcome.bytes_per_link > naive.bytes_per_link


def test_counts_are_not_standardised_and_what_is_no_count_is_refused():
    one = cell({"data": "digits", "split": {"nodes": 1, "rows": 800}, "method": "ml",
                "run": {"repetitions": 1}})  # fmt: skip
    assert run(one.changed(model="multinomial")).values["test_error"].mean() < 0.15
    with pytest.raises(BadData, match="bernoulli needs 0 or 1"):
        run(one.changed(model="bernoulli"))


def test_options_of_a_model_reach_it():
    one = cell({"data": "iris", "split": {"nodes": 1, "rows": 60}, "method": "ml", "model": "qda",
                "run": {"repetitions": 1}})  # fmt: skip
    shrunk = one.changed(model={"shrinkage": 0.9})
    plain, other = (run(c).values["test_log_loss"].mean() for c in (one, shrunk))
    assert plain != other
    with pytest.raises(PeerwiseError, match="shrinkage"):
        one.changed(model={"shrinkige": 0.9})
