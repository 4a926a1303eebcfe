"""Private feature selection: scores against scikit-learn, what a vote tells, what it gains."""

import math
from functools import partial
from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.metrics import mutual_info_score

from peerwise.core import Shard
from peerwise.errors import BadSetting
from peerwise.methods.releasing import release
from peerwise.models import naive_bayes
from peerwise.models.family import log_posterior
from peerwise.privacy.composition import Charge, basic
from peerwise.privacy.selection import (
    budgets,
    chances,
    chosen,
    class_counts,
    local_scores,
    scored,
    select,
)

# --- scores


def table(m=200, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(3, size=m)
    named = (y + rng.integers(2, size=m)) % 4
    x = np.column_stack([named, rng.normal(y, 1), rng.integers(5, size=m), rng.normal(size=m)])
    return x, y


CARDINALITIES = (4, 0, 5, 0)


def test_scores_are_the_mutual_information_of_scikit_learn():
    x, y = table()
    low, high = np.array([-2.0, -1.0]), np.array([3.0, 1.0])
    got = local_scores(
        jnp.asarray(x), y, jnp.ones(200), CARDINALITIES, 3, (low, high), bins=6, corrected=False
    )
    for place, number in ((1, 0), (3, 1)):
        edges = np.linspace(low[number], high[number], 7)
        x[:, place] = np.clip(np.searchsorted(edges, x[:, place], "right") - 1, 0, 5)
    np.testing.assert_allclose(got, [mutual_info_score(y, column) for column in x.T], rtol=1e-4)


def test_the_correction_is_that_of_miller_and_takes_off_what_chance_adds():
    scores = jax.jit(
        partial(local_scores, cardinalities=(30, 2), classes=2), static_argnames="corrected"
    )
    rng = np.random.default_rng(0)
    found = {True: [], False: []}
    for _ in range(100):
        x = jnp.asarray(np.column_stack([rng.integers(30, size=100), rng.integers(2, size=100)]))
        y = jnp.asarray(rng.integers(2, size=100))
        for corrected in found:
            found[corrected].append(scores(x, y, jnp.ones(100), corrected=corrected))
    plain, less = np.mean(found[False], 0), np.mean(found[True], 0)
    assert plain[0] > 0.1
    assert 0 < less[0] < plain[0] / 3  # three rows in a category: the first order is most of it
    np.testing.assert_allclose((plain - less)[1], 1 / 200, rtol=1e-3)


def test_padding_and_what_is_missing_counts_nowhere():
    x, y = table()
    bounds = (-3, 4)
    want = local_scores(jnp.asarray(x), y, jnp.ones(200), CARDINALITIES, 3, bounds)
    more = np.vstack([x, np.zeros((3, 4)), np.full((2, 4), np.nan), np.full((2, 4), -7.0)])
    more[-2:, [1, 3]] = np.nan
    label = np.concatenate([y, [0, 1, -1], [0, 1], [0, 1]])
    weight = np.concatenate([np.ones(200), [0, 0, 1], np.ones(4)])
    got = local_scores(jnp.asarray(more), label, weight, CARDINALITIES, 3, bounds)
    np.testing.assert_allclose(got, want, rtol=1e-5)
    nothing = local_scores(jnp.asarray(x), y, jnp.zeros(200), CARDINALITIES, 3, bounds)
    np.testing.assert_array_equal(nothing, np.zeros(4))


def test_nodes_are_scored_side_by_side():
    x, y = table()
    x, y = jnp.asarray(x.reshape(4, 50, 4)), jnp.asarray(y.reshape(4, 50))
    score = partial(local_scores, cardinalities=CARDINALITIES, classes=3, bounds=(-3, 4))
    both = jax.jit(jax.vmap(score))(x, y, jnp.ones((4, 50)))
    assert both.shape == (4, 4)
    np.testing.assert_allclose(both[2], score(x[2], y[2], jnp.ones(50)), rtol=1e-5)


# --- votes


def test_without_noise_a_vote_is_the_plain_ranking():
    x, y = table()
    scores = local_scores(jnp.asarray(x), y, jnp.ones(200), CARDINALITIES, 3, (-3, 4))
    vote = select(jax.random.key(0), scores, 2, math.inf)
    np.testing.assert_array_equal(vote, [1, 1, 0, 0])
    assert chosen(vote, 2).tolist() == np.sort(np.argsort(-np.asarray(scores))[:2]).tolist()


def test_scores_that_are_equal_are_voted_for_alike():
    votes = jax.jit(jax.vmap(lambda key: select(key, jnp.zeros(5), 2, math.inf)))
    found = votes(jax.random.split(jax.random.key(0), 2000)).mean(0)
    np.testing.assert_allclose(found, 0.4, atol=0.05)


def test_a_vote_is_drawn_with_its_chances():
    scores, epsilon = jnp.array([0.5, 0.1, 0.9, 0.2]), 1.5
    draw = jax.jit(jax.vmap(lambda key: select(key, scores, 2, epsilon)))
    votes = np.asarray(draw(jax.random.split(jax.random.key(0), 20_000)))
    assert set(votes.sum(1).tolist()) == {1}
    odds = math.exp(epsilon)
    want = np.array([odds, 1, odds, 1]) / (2 * odds + 2)
    np.testing.assert_allclose(chances(jnp.array([1.0, 0, 1, 0]), epsilon), want, rtol=1e-6)
    np.testing.assert_allclose(votes.mean(0), want, atol=0.012)


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_no_two_tops_can_be_told_apart_by_more_than_epsilon(k, epsilon):
    """All tops of k among 5 features, whatever rows lead to them, and every vote."""
    law = []
    for members in combinations(range(5), k):
        top = np.zeros(5)
        top[list(members)] = 1
        law.append(np.log(chances(jnp.asarray(top), epsilon)))
    worst = max(np.abs(a - b).max() for a in law for b in law)
    assert worst == pytest.approx(epsilon, rel=1e-4)  # and as much is spent


def test_one_row_that_changes_the_ranking_changes_no_vote_by_more_than_epsilon():
    """Two shards that differ in one row, every outcome enumerated from the rows on."""
    x = np.array([[0, 0], [0, 0], [1, 1], [1, 0], [1, 0], [0, 1]])
    y, weight = np.array([0, 0, 1, 1, 0, 1]), np.ones(6)
    law = {}
    score = jax.jit(partial(local_scores, cardinalities=(2, 2), classes=2))
    for rows in (6, 5, 4):
        scores = score(jnp.asarray(x), y, weight * (np.arange(6) < rows))
        top = np.asarray(select(jax.random.key(0), scores, 1, math.inf))
        law[rows] = top, np.log(chances(jnp.asarray(top), 0.7))
    assert any((law[a][0] != law[a - 1][0]).any() for a in (6, 5))  # a row did change the top
    for a in (6, 5):
        assert np.abs(law[a][1] - law[a - 1][1]).max() <= 0.7 + 1e-6


def test_the_most_votes_are_chosen_in_the_order_of_features():
    assert chosen(np.array([1.0, 7, 3, 7, 0]), 3).tolist() == [1, 2, 3]
    assert chosen(np.array([2.0, 2, 2]), 2).tolist() == [0, 1]
    assert chosen(jnp.array([2.0, 5.0]), 2).tolist() == [0, 1]


# --- from sums of all nodes


def counted(x, y, cardinalities, classes, bounds=((), ())):
    count = class_counts(cardinalities, classes, *bounds)
    return np.asarray(count(jnp.asarray(x, "f"), jnp.asarray(y), jnp.ones(len(y))), float)


def test_counts_by_class_worked_by_hand():
    """A number in eight parts of -1 to 1, and a category; a gap counts nowhere."""
    x = np.array([[-0.9, 0], [0.9, 1], [9.0, 1], [np.nan, 1]])
    found = counted(x, np.array([0, 1, 1, 0]), (0, 2), 2, ((-1.0,), (1.0,)))
    want = np.zeros((8 + 2, 2))
    want[0, 0], want[7, 1] = 1, 2
    want[8, 0], want[9] = 1, [1, 2]
    np.testing.assert_array_equal(found, want)
    assert counted(x, np.array([0, 1, 1, -1]), (0, 2), 2, ((-1.0,), (1.0,))).sum() == 6


def test_scores_of_sums_are_those_of_all_rows():
    rng = np.random.default_rng(2)
    y = rng.integers(2, size=400)
    x = np.column_stack([rng.integers(3, size=400), (y + rng.integers(2, size=400)) % 3])
    with jax.enable_x64(True):
        want = local_scores(jnp.asarray(x, float), jnp.asarray(y), jnp.ones(400), (3, 3), 2)
    found = scored(counted(x, y, (3, 3), 2), (3, 3), 0.0)
    # the second has a cell that no row is in, which is no chance to look informative
    empty = np.array([0.0, 2 / 800])
    np.testing.assert_allclose(found, np.asarray(want) + empty, atol=1e-12)


def test_what_noise_adds_to_a_score_is_taken_off():
    """Of features that tell nothing, one with many values and one with few."""
    rng = np.random.default_rng(3)
    deal = np.concatenate([np.full((10, 5), 400.0), np.full((2, 5), 2000.0)])
    noise = 40.0
    seen = [deal + noise * rng.normal(size=deal.shape) for _ in range(300)]
    found = np.mean([scored(one, (10, 2), noise) for one in seen], 0)
    raw = np.mean([scored(one, (10, 2), 0.0) for one in seen], 0)
    assert raw[0] > 1e-3  # many values look informative
    # but for the chance in the rows, which these counts have not
    chance = np.array([36, 4]) / 40_000
    np.testing.assert_allclose(found + chance, 0, atol=0.1 * raw[0])


# --- what it costs and what it gains


@pytest.mark.parametrize("share", [0.1, 0.3, 0.77])
def test_the_budgets_add_up(share):
    vote, rest = budgets(0.9, share)
    assert vote == pytest.approx(0.9 * share)
    assert vote + rest == 0.9
    assert basic([Charge(vote), Charge(rest)]).epsilon == pytest.approx(0.9)


D, K, N, M = 80, 3, 6000, 12
RELEVANT = [4, 11, 18]


def planted(m, seed):
    """Eighty yes or no features, of which three say what the class is 85 times in 100."""
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=m)
    x = rng.integers(2, size=(m, D))
    x[:, RELEVANT] = np.where(rng.random((m, K)) < 0.85, y[:, None], 1 - y[:, None])
    return x.astype("f"), y


def accuracy(key, shards, features, epsilon, test):
    """Of Federated naive Bayes on these features: the nodes' noisy statistics summed."""
    model = naive_bayes((2,) * len(features), 2, smallest_share=0.01)
    draw = jax.jit(jax.vmap(release(model, epsilon=epsilon, sensitivity="bounded", bounds=(0, 1))))
    noisy, _ = jax.jit(draw)(jax.random.split(key, N), shards._replace(x=shards.x[..., features]))
    said = log_posterior(model, noisy.sum(0), jnp.asarray(test[0][:, features])).argmax(1)
    return float((np.asarray(said) == test[1]).mean())


@pytest.mark.full  # the claim; laws of votes and scores above
def test_selection_and_the_rest_of_the_budget_beat_no_selection_at_small_epsilon():
    epsilon, test = 1.0, planted(2000, 99)
    for_vote, rest = budgets(epsilon, 0.6)
    score = jax.jit(jax.vmap(partial(local_scores, cardinalities=(2,) * D, classes=2)))
    vote = jax.jit(jax.vmap(partial(select, k=K, epsilon=for_vote)))
    gain = []
    for seed in range(3):
        x, y = planted(N * M, seed)
        shards = Shard(
            jnp.asarray(x.reshape(N, M, D)), jnp.asarray(y.reshape(N, M)), jnp.ones((N, M))
        )
        first, second, third = jax.random.split(jax.random.key(seed), 3)
        votes = vote(jax.random.split(first, N), score(*shards))
        features = chosen(votes.sum(0), K)
        with_it = accuracy(second, shards, features, rest, test)
        without = accuracy(third, shards, np.arange(D), epsilon, test)
        gain.append(with_it - without)
    assert min(gain) > 0
    assert np.mean(gain) > 0.1


# --- what makes no sense


@pytest.mark.parametrize("k", [0, 4, -1, 1.5, True])
def test_k_is_a_number_of_features(k):
    for act in (
        lambda: select(jax.random.key(0), jnp.zeros(3), k, 1.0),
        lambda: chosen(np.zeros(3), k),
    ):
        with pytest.raises(BadSetting, match="k must be a whole number of features, 1 to 3, got"):
            act()


@pytest.mark.parametrize("epsilon", [0, -1, math.nan])
def test_epsilon_is_positive(epsilon):
    with pytest.raises(BadSetting, match="epsilon must be"):
        select(jax.random.key(0), jnp.zeros(3), 1, epsilon)
    with pytest.raises(BadSetting, match="epsilon must be"):
        budgets(epsilon)
    with pytest.raises(BadSetting, match="without noise nothing is private"):
        chances(jnp.ones(3), math.inf)


def test_other_settings_that_make_no_sense_are_refused():
    x, y, w = jnp.zeros((2, 2)), jnp.zeros(2, int), jnp.ones(2)
    with pytest.raises(BadSetting, match="need public bounds"):
        local_scores(x, y, w, (0, 2), 2)
    for bounds in ((1, 1), (0, math.inf), (2, 1)):
        with pytest.raises(BadSetting, match="finite, low below high"):
            local_scores(x, y, w, (0, 2), 2, bounds)
    with pytest.raises(BadSetting, match="one for each of 1 numeric"):
        local_scores(x, y, w, (0, 2), 2, ([0, 0], [1, 1]))
    with pytest.raises(BadSetting, match="bins must be 2 or more, got 1"):
        local_scores(x, y, w, (0, 2), 2, (0, 1), bins=1)
    with pytest.raises(BadSetting, match=r"x must be \[m, 3\], got \[2, 2\]"):
        local_scores(x, y, w, (0, 2, 2), 2, (0, 1))
    with pytest.raises(BadSetting, match="share, what of the budget"):
        budgets(1.0, 1.0)
    with pytest.raises(BadSetting, match="one number for each feature"):
        chosen(np.zeros((2, 2)), 1)
