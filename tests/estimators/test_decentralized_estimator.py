"""DecentralizedClassifier: scikit-learn's checks, who holds what, the network, Theorem 1."""

import copy
import pickle
from functools import cache

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import load_wine
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from peerwise import topology
from peerwise.declare import declared
from peerwise.errors import BadData, BadSetting, UnknownName
from peerwise.estimators import DecentralizedClassifier, RiskCalibratedClassifier
from peerwise.learner import offered
from peerwise.models.classifier import Classifier
from peerwise.models.registry import agreed
from peerwise.topology import graph_of

X, Y = (a[:176] for a in load_wine(return_X_y=True))  # 176 rows: 2, 4, 8 equal groups
SITES = np.array(["north", "east", "south", "west"])[np.arange(176) % 4]


def small(**options):
    return DecentralizedClassifier(
        **{"groups": 4, "rounds": 12, "network": "ring", "random_state": 0, **options}
    )


def close(a, b, tolerance=1e-9):
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


# --- a citizen of scikit-learn


# each fits rows of another shape; `make test` has them of the other estimator
@pytest.mark.long(
    "check_estimators_overwrite_params",
    "check_dont_overwrite_parameters",
    "check_n_features_in_after_fitting",
    "check_positive_only_tag_during_fit",
    "check_estimators_dtypes",
    "check_dtype_object",
    "check_pipeline_consistency",
    "check_estimators_pickle",
    "check_classifier_data_not_an_array",
    "check_fit_idempotent",
    "check_fit_check_is_fitted",
    "check_fit2d_1feature",
    "check_classifiers_train",
    "check_classifiers_classes",
    "check_classifiers_one_label",
    "check_f_contiguous_array_estimator",
    "check_fit_score_takes_y",
    "check_estimators_fit_returns_self",
    "check_estimators_pickle(readonly_memmap=True)",
)
@pytest.mark.filterwarnings("ignore:invalid value encountered in cast:RuntimeWarning")
@parametrize_with_checks([DecentralizedClassifier()])
def test_scikit_learn_has_nothing_to_object_to(estimator, check):
    check(estimator)


def test_clones_pickles_and_pipelines():
    fitted = small().fit(X, Y)
    assert clone(fitted).get_params() == fitted.get_params()
    other = pickle.loads(pickle.dumps(fitted))
    for node in (None, 2):
        np.testing.assert_array_equal(
            other.predict_proba(X, node=node), fitted.predict_proba(X, node=node)
        )
    piped = make_pipeline(StandardScaler(), small()).fit(X, Y)
    close(piped.predict_proba(X), fitted.predict_proba(X), 1e-7)


@pytest.mark.full  # `make test`: that of the other estimator
def test_it_is_searched_over():
    search = GridSearchCV(small(), {"method": ["isolated", {"name": "crc", "lr": 0.1}]}, cv=2)
    search.fit(X, Y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.best_params_["method"] in ("isolated", {"name": "crc", "lr": 0.1})


def test_groups_are_routed_to_fit_in_cross_validation():
    with sklearn.config_context(enable_metadata_routing=True):
        model = small().set_fit_request(groups=True)
        groups = np.arange(176) % 4
        scores = cross_val_score(model, X, Y, cv=2, params={"groups": groups})
        # whole groups left out: the networks have two nodes each
        apart = cross_val_score(model, X, Y, cv=GroupKFold(2), params={"groups": groups})
    assert scores.min() > 0.8
    assert apart.min() > 0.8


def test_a_column_that_says_where_a_row_is_held_is_no_feature():
    frame = pd.DataFrame(X, columns=[f"c{j}" for j in range(13)])
    frame.insert(3, "site", SITES)
    model = small(groups="site")
    assert cross_val_score(model, frame, Y, cv=2).min() > 0.8
    model.fit(frame, Y)
    assert model.nodes_.tolist() == ["east", "north", "south", "west"]
    assert "site" not in [f.name for f in model.schema_.features]
    by_array = small().fit(frame.drop(columns="site"), Y, groups=SITES)
    close(model.predict_proba(frame), by_array.predict_proba(frame.drop(columns="site")))
    elsewhere = frame.assign(site="nowhere")  # where a new row is held does not matter
    close(model.predict_proba(elsewhere), model.predict_proba(frame))


def test_categorical_columns_are_counted_with_the_one_that_names_the_site():
    frame = pd.DataFrame({"site": SITES, "code": (Y + np.arange(176) // 9) % 3, "x": X[:, 0]})
    for given in ([1], [False, True, False], ["code"], ["site", "code"]):
        model = small(groups="site", categorical_features=given, rounds=1).fit(frame, Y)
        assert model.schema_.cardinalities == (3, 0)


# --- what nodes end with


def test_every_node_has_a_model_and_a_history():
    model = small().fit(X, Y, groups=SITES)
    assert model.nodes_.tolist() == ["east", "north", "south", "west"]  # in order
    assert list(model.node_models_) == model.nodes_.tolist()
    history = model.history_
    assert {"round", "node", "train_error", "train_soft_error"} <= set(history.columns)
    assert len(history) == 4 * history["round"].nunique()
    assert (history["round"].min(), history["round"].max()) == (1, 12)
    assert list(history["node"].unique()) == model.nodes_.tolist()
    for name, its in history.groupby("node"):
        soft = its["train_soft_error"].to_numpy()
        assert soft[-1] < soft[0]
        said = model.predict_proba(X, node=name)
        close(1 - said[np.arange(176), Y].mean(), soft[-1])
        close((model.predict(X, node=name) != Y).mean(), its["train_error"].iloc[-1])


def test_the_consensus_is_the_mean_of_all_nodes():
    model = small(network="chain").fit(X, Y)
    values = [m.statistics.values for m in model.node_models_.values()]
    close(model.consensus_.statistics.values, np.mean(values, 0))
    assert (np.ptp(values, axis=0) > 0).any()  # nodes differ
    assert (model.predict_proba(X, node=0) != model.predict_proba(X)).any()


def test_a_node_that_does_not_exist_is_refused():
    model = small().fit(X, Y, groups=SITES)
    with pytest.raises(UnknownName, match="unknown node 'nort'; did you mean 'north'"):
        model.predict(X, node="nort")


@pytest.mark.long("lda")
@pytest.mark.parametrize("model", ["naive_bayes", "lda"])
def test_a_complete_graph_with_oneself_is_centralised_calibration(model):
    """Theorem 1, on equal groups."""
    many = small(
        method={"name": "crc", "lr": 0.05, "include_self": True},
        model=model,
        groups=8,
        network="complete",
        rounds=12,
    ).fit(X, Y)
    one = RiskCalibratedClassifier(
        model, start="uniform", lr=0.05, max_iter=12, early_stopping=False, prior_rows=0
    ).fit(X, Y)
    assert one.loss_curve_.argmin() == 12  # the last iterate is the one that it keeps
    close(many.predict_log_proba(X), one.predict_log_proba(X), 1e-7)


def test_learning_together_is_better_than_alone():
    methods = ("crc", "isolated", "isolated_ml")
    together, alone, ml = (small(method=m, groups=4).fit(X, Y) for m in methods)
    last = [m.history_.groupby("round")["train_error"].mean().iloc[-1] for m in (together, alone)]
    assert last[0] < last[1]
    assert (len(ml.history_), ml.messages_) == (0, 0)
    assert list(ml.node_models_) == list(range(4))
    # the mean of the nodes' sums is that of all rows
    whole = RiskCalibratedClassifier(max_iter=0, prior_rows=0).fit(X, Y)
    close(ml.predict_log_proba(X), whole.predict_log_proba(X), 1e-7)


def test_costs_decide_as_the_expected_cost_says():
    cost = np.array([[0.0, 1, 50], [1, 0, 50], [900, 900, 0]])
    noisy = X + np.random.default_rng(3).normal(size=X.shape) * X.std(0) * 2
    plain, careful = small().fit(X, Y), small(cost=cost).fit(X, Y)
    for node in (None, 1):
        expected = (plain.predict_proba(noisy, node=node) @ cost).argmin(1)
        np.testing.assert_array_equal(careful.predict(noisy, node=node), expected)
    with pytest.raises(BadSetting, match=r"3 rows \(true class\) of 3"):
        careful.set_params(cost=[[0, 1]]).predict(X)


# --- every method

TINY = X[::4, :4], Y[::4]  # 44 rows of 4 numbers
OFFERED = [name for name, known in declared("method").items() if offered(known, "estimator")]


@cache
def tiny(method):
    return small(method=method, groups=3, rounds=3, network="chain").fit(*TINY)


KINDS = ("crc", "isolated_ml", "relay", "gossip_nb", "federated_nb", "decavg", "isolated_net")


@pytest.mark.some("isolated_ml", "relay", "gossip_nb")
@pytest.mark.parametrize(
    "method", [pytest.param(m, marks=() if m in KINDS else pytest.mark.full) for m in OFFERED]
)
def test_every_method_that_needs_no_pooled_rows_is_offered(method):
    x, y = TINY
    model = tiny(method)
    prob = model.predict_proba(x)
    assert prob.shape == (44, 3)
    close(prob.sum(1), 1)
    assert (prob > 0).any(1).all()
    nodes = [model.predict_proba(x, node=name) for name in model.nodes_]
    if len(model.history_):  # the history is of the very models that nodes end with
        last = model.history_.groupby("round")["train_soft_error"]
        errors = [1 - p[np.arange(44), y].mean() for p in nodes]
        close(errors, last.get_group(model.history_["round"].max()), 1e-6)
    if not isinstance(model.consensus_, Classifier):
        close(prob, np.mean(nodes, 0))
    place = declared("method")[method].traits.place
    assert (model.messages_ > 0) == (model.message_bytes_ > 0) == (place != "alone")
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(x), prob)


@pytest.mark.full
def test_what_nodes_keep_decides_what_the_consensus_is():
    kinds = {m: isinstance(tiny(m).consensus_, Classifier) for m in ("crc", "relay", "decavg")}
    assert kinds == {"crc": True, "relay": False, "decavg": False}


@pytest.mark.full  # `make test`: costs of the other estimator
def test_costs_decide_for_networks_of_weights_too():
    x, _ = TINY
    plain, cost = tiny("isolated_net"), np.array([[0.0, 1, 9], [1, 0, 9], [90, 90, 0]])
    expected = (plain.predict_proba(x) @ cost).argmin(1)
    careful = copy.copy(plain).set_params(cost=cost)
    np.testing.assert_array_equal(careful.predict(x), expected)


@pytest.mark.full  # `make test`: test_frames.py
def test_networks_of_weights_read_categories_and_no_gaps():
    x, y = TINY
    frame = pd.DataFrame(x, columns=list("abcd")).assign(d=np.array(["u", "v"])[y % 2])
    model = small(method="isolated_net", groups=2, rounds=1).fit(frame, y)
    assert model.schema_.cardinalities == (0, 0, 0, 2)
    assert not model.__sklearn_tags__().input_tags.allow_nan
    with pytest.raises(BadData, match=r"column 'a' has no value in row 0.* fill it in"):
        model.predict(frame.assign(a=np.nan))
    with pytest.raises(
        BadData, match="isolated_net trains networks of weights, which cannot read missing"
    ):
        model.fit(frame.assign(d=frame["d"].where(y > 0)), y)
    with pytest.raises(ValueError, match="contains NaN"):
        model.fit(np.where(x > x.mean(), x, np.nan), y)


def test_noise_is_drawn_where_a_budget_is_given():
    quiet = tiny("federated_nb")
    loud = clone(quiet).set_params(privacy={"epsilon": 1.0}).fit(*TINY)
    assert (loud.predict_proba(TINY[0]) != quiet.predict_proba(TINY[0])).any()


def test_what_a_model_must_agree_on_first_is_paid_for_under_a_budget():
    """TAN's structure by a sealed sum; rows that others would have to see changed are refused."""
    x, y = TINY
    frame = pd.DataFrame(np.where(x > x.mean(0), "u", "v")[:, :3], columns=list("abc"))
    shared = {"groups": 3, "rounds": 12, "network": "chain", "model": "tan"}
    model = small(method="sealed_nb", privacy={"epsilon": 100.0}, **shared).fit(frame, y)
    np.testing.assert_allclose(model.predict_proba(frame).sum(1), 1, rtol=1e-5)
    (node, *_) = model.node_models_.values()
    assert node.world.sums is not None  # with noise: no whole numbers
    assert (node.world.sums % 1 != 0).any()
    with pytest.raises(BadSetting, match="run files and peers"):
        small(method={"name": "sealed_nb", "select": 2}, groups=3, rounds=12).fit(*TINY)


# --- the network


def test_a_graph_is_over_the_names_of_the_groups():
    """A path whose order is not that of the names: south - east - west - north."""
    path = nx.path_graph(["south", "east", "west", "north"])
    model = clone(small(network=path)).fit(X, Y, groups=SITES)
    names = dict(enumerate(model.nodes_.tolist()))
    made = nx.relabel_nodes(graph_of(model.topology_), names)
    assert {frozenset(e) for e in made.edges} == {frozenset(e) for e in path.edges}
    assert model.messages_ == 2 * 3 * 12  # both ways over three edges in twelve rounds
    assert model.message_bytes_ > 0


def test_news_travel_one_edge_a_round():
    """Other labels at one end of the path are felt at the other in the fourth round."""
    path = nx.path_graph(["south", "east", "west", "north"])
    other = np.where(SITES == "south", (Y + 1) % 3, Y)
    changed = {}
    for rounds in (3, 4):
        made = [
            small(network=path, rounds=rounds).fit(X, labels, groups=SITES).node_models_
            for labels in (Y, other)
        ]
        changed[rounds] = {
            n
            for n in made[0]
            if (made[0][n].statistics.values != made[1][n].statistics.values).any()
        }
    assert changed[3] == {"south", "east", "west"}
    assert changed[4] == {"south", "east", "west", "north"}


def test_numbers_as_names_are_sorted_as_numbers():
    groups = np.array([10, 9, 100, 2])[np.arange(176) % 4]
    model = small(network=nx.path_graph([100, 2, 10, 9])).fit(X, Y, groups=groups)
    assert model.nodes_.tolist() == [2, 9, 10, 100]
    made = nx.relabel_nodes(graph_of(model.topology_), dict(enumerate(model.nodes_.tolist())))
    assert {frozenset(e) for e in made.edges} == {
        frozenset(e) for e in [(100, 2), (2, 10), (10, 9)]
    }
    assert model.predict(X[:1], node=100).shape == (1,)


def test_a_topology_of_another_size_is_refused():
    with pytest.raises(BadSetting, match="the topology has 5 nodes, but there are 4 groups"):
        small(network=topology.ring(5)).fit(X, Y)
    path = nx.path_graph(["north", "east", "south", "west", "center"])
    with pytest.raises(BadSetting, match=r"the nodes of the graph must be the groups.*center"):
        small(network=path).fit(X, Y, groups=SITES)
    with pytest.raises(BadSetting, match="network must be the name of a topology"):
        small(network=3).fit(X, Y)
    with pytest.raises(UnknownName, match="did you mean 'ring'"):
        small(network="rong").fit(X, Y)


def test_a_topology_may_be_given_whole_or_with_options():
    a = small(network=topology.ring(4)).fit(X, Y)
    close(a.predict_proba(X), small(network="ring").fit(X, Y).predict_proba(X))
    more = small(groups=8, network={"topology": "tree_plus", "extra": 3}, rounds=2).fit(X, Y)
    assert more.messages_ == 2 * (7 + 3) * 2


LOSSY = {"topology": "ring", "channel": "erasure", "q": 0.5}


def test_lost_messages_change_what_is_learnt_but_not_that_it_is():
    lossy = small(network=LOSSY).fit(X, Y)
    assert lossy.score(X, Y) > 0.9
    assert (lossy.predict_proba(X) != small().fit(X, Y).predict_proba(X)).any()
    with pytest.raises(BadSetting, match=r"between 0 and 1, got 1\.5"):
        small(network={**LOSSY, "q": 1.5}).fit(X, Y)
    ring = {**LOSSY, "topology": topology.ring(4)}  # a graph may lose messages, too
    close(small(network=ring).fit(X, Y).predict_proba(X), lossy.predict_proba(X))
    with pytest.raises(BadSetting, match="redraw needs the name of a topology"):
        small(network={**ring, "redraw": 2}).fit(X, Y)


def test_the_same_random_state_gives_the_same_result():
    a, b, c = (small(network=LOSSY, random_state=s).fit(X, Y) for s in (1, 1, 2))
    np.testing.assert_array_equal(a.predict_proba(X), b.predict_proba(X))
    pd.testing.assert_frame_equal(a.history_, b.history_)
    assert (a.predict_proba(X) != c.predict_proba(X)).any()


# --- who holds what


def test_one_node_calibrates_alone():
    one = small(groups=1, method={"name": "crc", "lr": 0.05}).fit(X, Y)
    assert one.nodes_.tolist() == [0]
    alone = RiskCalibratedClassifier(
        start="uniform", lr=0.05, max_iter=12, early_stopping=False, prior_rows=0
    ).fit(X, Y)
    close(one.predict_proba(X), alone.predict_proba(X), 1e-7)
    assert one.messages_ == 0


def test_more_nodes_than_rows_are_as_many_as_rows():
    model = small(groups=50, rounds=2).fit(X[::20], Y[::20])
    assert len(model.nodes_) == len(Y[::20])


def test_rows_are_dealt_evenly():
    model = small(groups=5, method="isolated_ml").fit(X, Y)
    rows = [m.statistics.rows for m in model.node_models_.values()]
    assert sorted(rows) == [35, 35, 35, 35, 36]


@pytest.mark.parametrize(
    ("groups", "says"),
    [
        (np.arange(9), r"each of the 176 rows .* got an array of shape \(9,\)"),
        (np.where(np.arange(176) == 5, np.nan, 1.0), "row 5 belongs to no group"),
        (np.where(np.arange(176) == 5, None, "a"), "row 5 belongs to no group"),
        (np.array(["a", 1] * 88, object), "groups mix text and numbers"),
    ],
)
def test_groups_that_do_not_say_who_holds_a_row_are_refused(groups, says):
    with pytest.raises(BadData, match=says):
        small().fit(X, Y, groups=groups)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"groups": 0}, BadSetting, "a number of nodes, 1 or more"),
        ({"groups": np.arange(4)}, BadSetting, "an array of owners goes to fit"),
        ({"groups": "site"}, UnknownName, "column that says where a row is held"),
        ({"rounds": -1}, BadSetting, "rounds must be 0 or more, got -1"),
        ({"rounds": "many"}, BadSetting, "rounds must be a whole number"),
        ({"method": "crd"}, UnknownName, "unknown method 'crd'; did you mean 'crc'"),
        ({"method": {"name": "crc", "rule": "equall"}}, UnknownName, "did you mean 'equal'"),
        ({"method": {"name": "crc", "lr": 0}}, BadSetting, "lr must be between 1e-09 and 1000"),
        ({"method": {"name": "crc", "iterations": 0}}, BadSetting, "iterations must be 1 or more"),
        ({"method": {"name": "crc", "lt": 1}}, UnknownName, "did you mean 'lr'"),
        ({"method": {"lr": 0.1}}, BadSetting, r"\[method\] has no name"),
        ({"method": ["crc", "relay"]}, BadSetting, "method is a list.* GridSearchCV"),
        ({"method": "rc"}, BadSetting, "rc learns from all rows in one place"),
        ({"method": "logistic_regression"}, BadSetting, "all rows in one place"),
        ({"privacy": {"epsilon": 1.0}}, BadSetting, "crc adds no noise"),
        ({"net": "mpl_64"}, UnknownName, "did you mean 'mlp_64'"),
        ({"precision": "float16"}, BadSetting, "precision must be 'float32' or 'float64'"),
        ({"model": "ldb"}, UnknownName, "did you mean 'lda'"),
    ],
)
def test_settings_that_make_no_sense_are_refused(options, error, says):
    with pytest.raises(error, match=says):
        small(**options).fit(X, Y)


def test_a_site_that_nobody_named_and_a_site_alone_are_refused():
    frame = pd.DataFrame({"site": SITES.astype(object), "x": X[:, 0]})
    frame.loc[3, "site"] = None
    with pytest.raises(BadData, match="row 3 belongs to no group"):
        small(groups="site").fit(frame, Y)
    with pytest.raises(BadData, match="X has no feature besides 'site'"):
        small(groups="site").fit(pd.DataFrame({"site": SITES}), Y)


@pytest.mark.full  # `make test`: learner/test_every_name.py
@pytest.mark.parametrize("weigh", ["metropolis", "data_size"])
def test_other_ways_of_weighing_neighbours(weigh):
    uneven = np.minimum(np.arange(176) // 20, 3)
    method = {"name": "crc", "rule": weigh}
    made = small(method=method, network="star").fit(X, Y, groups=uneven)
    assert made.score(X, Y) > 0.85


# --- TAN


@pytest.mark.full  # `make test`: test_frames.py
def test_tan_with_mixed_columns_on_a_tree():
    """The nodes agree on the tree that all rows together have."""
    rng = np.random.default_rng(5)
    y = np.arange(240) % 2
    a = (y + (rng.random(240) < 0.3)) % 2
    b = (a + (rng.random(240) < 0.1)) % 2  # says again what a says: naive Bayes counts it twice
    frame = pd.DataFrame(
        {
            "a": np.array(["u", "v"])[a],
            "x": rng.normal(3.0 * y),
            "b": pd.Categorical(np.array(["p", "q"])[b]),
            "c": rng.random(240) < 0.3 + 0.4 * y,
        }
    )
    tan = small(model="tan", network="random_tree", groups=6, rounds=30).fit(frame, y)
    whole = agreed(tan.schema_, "tan", tan._encode(frame), y)
    parents = tan.consensus_.statistics.options["parents"]
    assert parents == whole["parents"]
    assert parents[2] == 0  # b has a as its parent
    assert parents[1] == -1  # a number has none
    assert tan.score(frame, y) > 0.9
    holes = frame.assign(a=None)
    assert np.isfinite(tan.predict_log_proba(holes)).all()


# --- numbers that say nothing, and numbers too large


@pytest.mark.parametrize("model", ["naive_bayes", "lda"])
def test_a_number_that_never_varies_has_no_say(model):
    wide = np.column_stack([np.full(len(X), 3.0), X, np.full((len(X), 4), -1e6)])
    network, plain = (small(model=model).fit(x, Y, groups=SITES) for x in (wide, X))
    other = wide.copy()
    other[:, [0, 14, 15, 16, 17]] = [4.0, 1e200, -1e6, 0.0, 12.0]
    for node in (None, "south"):
        for rows in (wide, other):
            close(network.predict_proba(rows, node=node), plain.predict_proba(X, node=node))


@pytest.mark.full  # `make test`: learner/test_worlds.py
def test_a_number_that_never_varies_has_no_say_in_a_net():
    wide = np.column_stack([X[:, :3], np.full(len(X), 7.0)])
    network = small(method="decavg", net="mlp_64", rounds=1).fit(wide, Y)
    np.testing.assert_array_equal(
        network.predict_proba(wide), network.predict_proba(wide * [1, 1, 1, 9])
    )


def test_where_nothing_varies_the_classes_are_all_there_is_to_learn():
    network = small(rounds=1).fit(np.ones((8, 2)), [0, 0, 0, 0, 0, 0, 1, 1])
    apart = network.predict_proba([[1, 1], [9, -9]])
    np.testing.assert_array_equal(apart[0], apart[1])


@pytest.mark.full
def test_numbers_too_large_to_compute_with_are_refused():
    large = X.copy()
    large[5, 2] = 1e200
    with pytest.raises(BadData, match="values of column 'x2' are too large; rescale or drop it"):
        small(rounds=1).fit(large, Y)
    for options in ({}, {"method": "decavg", "precision": "float32"}):
        network = small(rounds=1, **options).fit(X, Y)
        with pytest.raises(BadData, match="numbers of row 5 are too large"):
            network.predict_proba(large)
