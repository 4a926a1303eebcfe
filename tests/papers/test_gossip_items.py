"""The Gossip-NB experiments: trials against the methods themselves, items, claims, tables."""

import io
import warnings
from functools import cache, partial

import jax
import numpy as np
import pytest
from rich.console import Console
from scipy.stats import ks_2samp

from helpers import command
from peerwise import topology as topologies
from peerwise.data import Feature, Schema
from peerwise.errors import BadData, UnknownName
from peerwise.methods.gossip_nb import federated_nb
from peerwise.methods.releasing import release
from peerwise.papers.gossip_nb import items as gossip_nb
from peerwise.papers.gossip_nb import runs
from peerwise.papers.gossip_nb import trials as gossip_trials
from peerwise.papers.gossip_nb.attack import attack
from peerwise.papers.gossip_nb.items import EPSILONS, ITEMS, NODES, PAPER
from peerwise.papers.gossip_nb.trials import Problem, federated, problem, vaidya, vanilla
from peerwise.papers.items import Scale, merged
from peerwise.papers.reproduce import choose, reproduce
from peerwise.papers.show import item_lines, page, show
from peerwise.papers.show import shown as shown_item
from peerwise.privacy.sensitivity import warn_local
from peerwise.shards import pack
from peerwise.simulate import simulate
from peerwise.study.jobs import Task
from peerwise.study.results import Record, read_folder
from peerwise.study.store import Store


def made(seed=0, m=120, test=200):
    """A problem with numbers and a rare category, without any file."""
    rng = np.random.default_rng(seed)
    y = np.arange(m + test) % 2
    codes = np.where(rng.random(m + test) < 0.05, 2, (y + (rng.random(m + test) < 0.3)) % 2)
    x = np.column_stack([rng.normal(2 * y, 1), codes, rng.normal(3 - y, 2)])
    features = (
        Feature("a", "numeric", (), 0.0, 1.0),
        Feature("b", "categorical", ("p", "q", "r")),
        Feature("c", "numeric", (), 0.0, 1.0),
    )
    schema = Schema(features, ("no", "yes"))
    return Problem("made", x[:m], y[:m], x[m:], y[m:], schema)


MADE = made()
HUGE = 1e13
N, EPSILON, DRAWS = 6, 2.0, 400  # 6 questions: noise of scale 3 on counts


def _quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warn_local()


@pytest.fixture(autouse=True)
def _warned_before():
    _quiet()


# --- trials


@pytest.mark.parametrize("options", [{}, {"clamp_at_node": True}, {"sizes": "uniform"}])
def test_with_a_huge_budget_federated_is_naive_bayes(options):
    found = federated(MADE, N, [HUGE], 50, **options)
    accuracy = vanilla(MADE)
    assert 0.7 < accuracy < 1
    assert found.shape == (1, 50)
    np.testing.assert_allclose(found, accuracy, atol=1e-12)


def test_with_a_huge_budget_the_central_baseline_is_naive_bayes():
    found = vaidya(MADE, [0.01, 10.0, HUGE], 60)
    assert found.shape == (3, 60)
    np.testing.assert_allclose(found[2], vanilla(MADE), atol=1e-12)
    assert found[0].mean() < found[1].mean() - 0.1
    assert found[0].std() > 0.01  # trials differ


def test_trials_repeat_and_go_on_with_the_same_numbers():
    first = federated(MADE, N, [1.0], 100, seed=3)
    again = federated(MADE, N, [1.0], 100, seed=3)
    np.testing.assert_array_equal(first, again)
    fewer = federated(MADE, N, [1.0], 50, seed=3)
    np.testing.assert_array_equal(first[:, :50], fewer)
    other = federated(MADE, N, [1.0], 50, seed=4)
    assert (other != fewer).any()


@cache
def sums(clamp):
    """Summed statistics of federated trials [draws, c q], which stand in the place of scores."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gossip_trials, "score", lambda model, s, phi, y: s.reshape(-1))
        patch.setattr(gossip_trials, "_compiled", gossip_trials._compiled.__wrapped__)
        found = federated(MADE, N, [EPSILON], DRAWS, clamp_at_node=clamp)
    return found[:, 0].T


@cache
def simulated(clamp):
    """The same by the method itself on a server: rows dealt anew for every seed."""
    _quiet()
    draw = release(MADE.model, epsilon=EPSILON, sensitivity="local", clamp_at_node=clamp)
    method = federated_nb(MADE.model, draw)
    shards = []
    for seed in range(DRAWS):
        order = np.random.default_rng(seed).permutation(len(MADE.y))
        shards.append(pack(MADE.x, MADE.y, np.split(order, N)))
    graphs = [topologies.server(N)] * DRAWS
    seeds = list(range(1000, 1000 + DRAWS))
    run = simulate(method, shards, graphs, 1, seed=seeds, precision="float64")
    return np.asarray(run.state.value)[:, 0].reshape(DRAWS, -1)


@pytest.mark.full  # `make test`: test_accuracy_has_the_law_of_the_method_itself
@pytest.mark.parametrize("clamp", [False, True])
def test_trials_have_the_law_of_the_method_itself(clamp):
    """Every noisy sum: counts, sums of x and of x^2, categories; also clamped at the nodes."""
    ours, theirs = sums(clamp), simulated(clamp)
    assert ours.shape == theirs.shape == (DRAWS, 2 * MADE.model.size)
    pvalues = [ks_2samp(a, b).pvalue for a, b in zip(ours.T, theirs.T, strict=True)]
    assert min(pvalues) > 1e-3
    assert np.median(pvalues) > 0.05


@pytest.mark.full
def test_accuracy_has_the_law_of_the_method_itself():
    ours = federated(MADE, N, [EPSILON], DRAWS)[0]
    with jax.enable_x64(True):
        phi = MADE.model.features(jax.numpy.asarray(MADE.x_test))
        said = jax.vmap(lambda s: (phi @ MADE.model.theta(s).weight.T).argmax(1))
        s = jax.numpy.asarray(simulated(False).reshape(DRAWS, 2, -1))
        theirs = (np.asarray(said(s)) == MADE.y_test).mean(1)
    # many trials share an accuracy, up to rounding
    assert ks_2samp(ours.round(9), theirs.round(9)).pvalue > 1e-3
    assert ours.mean() == pytest.approx(theirs.mean(), abs=4 * theirs.std() / np.sqrt(DRAWS / 2))


def test_clamping_at_nodes_biases_rare_counts_and_the_plain_sum_is_unbiased():
    plain, clamped = sums(False), sums(True)
    with jax.enable_x64(True):
        target = np.eye(2)[MADE.y].T
        exact = target @ np.asarray(MADE.model.features(jax.numpy.asarray(MADE.x)))
    error = plain.std(0) / np.sqrt(DRAWS)
    assert (np.abs(plain.mean(0) - exact.ravel()) < 4.5 * error).all()
    rare = [MADE.model.size - 1, 2 * MADE.model.size - 1]  # the third category of each class
    # each node sends E max(count + noise, 0): about half a scale, 1.5, more for counts near 0
    drift = clamped.mean(0)[rare] - exact.ravel()[rare]
    assert (drift > 6 * error[rare]).all()
    assert (drift > N * 0.8).all()
    assert (drift < N * 1.5).all()


def test_nodes_have_two_rows_at_least_and_all_rows_have_a_node():
    rng = np.random.default_rng(0)
    for kind in ("equal", "uniform", "exponential"):
        owners = gossip_trials._owners(rng, kind, 20, 103, 5)
        sizes = np.stack([np.bincount(o, minlength=20) for o in owners])
        assert owners.shape == (5, 103)
        assert (sizes.sum(1) == 103).all()
        assert sizes.min() >= 2
        if kind == "equal":
            assert sizes.max() - sizes.min() <= 1
        else:
            assert (sizes[0] != sizes[1]).any()


def test_too_few_rows_are_refused():
    with pytest.raises(BadData, match="120 rows: too few for 61 nodes"):
        federated(MADE, 61, [1.0], 1)


# --- the paper's data sets


def test_a_given_split_is_used_and_else_one_row_in_ten_is_for_testing(data_folder):
    given = problem("spect_heart")
    assert (len(given.y), len(given.y_test)) == (80, 187)
    adult = problem("adult")
    assert (len(adult.y), len(adult.y_test)) == (32_561, 16_281)
    voting = problem("congressional_voting")
    assert (len(voting.y), len(voting.y_test)) == (391, 44)
    assert problem("congressional_voting") is voting
    # numbers are as they come, and categories are the source's
    ages = adult.x[:, [f.name for f in adult.schema.features].index("age")]
    assert ages.min() == 17
    assert {0} < set(adult.schema.cardinalities)
    assert 0 not in voting.schema.cardinalities


def test_the_rows_by_which_configurations_are_left_out_are_those_of_the_sets(data_folder):
    found = {name: len(problem(name).y) for name in gossip_nb.SETS.values()}
    assert found == gossip_nb.ROWS
    tasks = ITEMS["figure-2"].runs(list(found), Scale())
    assert "congressional_voting 100" in tasks
    assert "congressional_voting 1000" not in tasks
    assert "spect_heart 100" not in tasks
    assert all(t.arguments["trials"] == 1000 for t in tasks.values())


def test_items_share_the_work_that_they_have_in_common():
    sets = list(gossip_nb.SETS.values())
    keys = {name: {t.key for t in f.runs(sets, Scale()).values()} for name, f in ITEMS.items()}
    assert all(keys.values())
    assert len(keys["figure-4"] & keys["figure-2"]) == 1  # Adult, 1000 equal nodes
    assert keys["figure-7"] < keys["figure-6"]
    assert ITEMS["figure-6"].runs(["mushroom"], Scale()) == {}
    for figure in ITEMS.values():  # plain values only, else they could not be kept
        for task in figure.runs(sets, Scale(True, 3)).values():
            assert task.key == Task(task.function, dict(task.arguments)).key
            assert hasattr(runs, task.function.partition(":")[2])


def printed(folder):
    console = Console(width=200, record=True, file=io.StringIO())
    drawn = show(folder, console)
    return drawn, " ".join(console.export_text().split())


def is_picture(path):
    return path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 5_000


@pytest.fixture(scope="module")
def figure_2(data_folder, tmp_path_factory):
    """Figure 2 on the two smallest sets, 30 trials."""
    folder = tmp_path_factory.mktemp("figure-2")
    asked = {"chosen": ["SPECT Heart", "congressional_voting"], "quick": True, "repetitions": 30}
    return folder, reproduce(PAPER, ["figure-2"], folder, workers=1, **asked)


def test_figure_2_on_two_sets(figure_2):
    folder, found = figure_2
    assert not found.failures
    assert found.datasets == ["congressional_voting", "spect_heart"]
    by = {(r.dataset, r.setting["variant"], r.setting["epsilon"]): r for r in found.records}
    variants = {(d, v) for d, v, _ in by}
    assert {("spect_heart", "10"), ("congressional_voting", "100")} < variants
    assert ("spect_heart", "100") not in variants  # 80 rows
    cell = by["congressional_voting", "10", 1.0]
    assert cell.reps == 30
    assert cell.std > 0
    plain = by["congressional_voting", "vanilla", "none"]
    assert plain.value == pytest.approx(vanilla(problem("congressional_voting")))
    records, said, _ = read_folder(folder)
    assert records == found.records
    assert said == found.claims


def test_categorical_sets_degrade_as_the_network_grows(figure_2):
    """The paper's claim at small scale, with the numbers in it."""
    by_name = {c.name: c for c in figure_2[1].claims}
    degrade = by_name["categorical-degrade"]
    assert degrade.verdict == "held", degrade.ours
    told = degrade.ours.removeprefix("congressional_voting ").split(", ")
    values = [float(v.partition(" ")[0]) for v in told]
    assert len(values) == 3
    assert values[0] > values[1] > values[2]
    assert "skin-saturates" not in by_name  # nothing is said of sets that were not run


@pytest.mark.laid_out
def test_figure_2_is_shown_drawn_and_written(figure_2):
    folder, _ = figure_2
    drawn, text = printed(folder)
    assert [p.name for p in drawn] == ["figure-2.png"]
    assert is_picture(drawn[0])
    for words in (
        "Figure 2. Accuracy against epsilon",
        "spect_heart centralised DP",
        "With categorical",
    ):
        assert words in text
    told = page(folder)
    assert "## Figure 2. Accuracy against epsilon" in told
    assert "| congressional_voting N = 100 |" in told
    assert "±" in told


def test_a_second_run_runs_nothing(figure_2, monkeypatch):
    folder, found = figure_2

    def never(self):
        raise AssertionError("it was run again")

    monkeypatch.setattr(Task, "run", never)
    asked = {"chosen": ["spect_heart", "congressional_voting"], "quick": True, "repetitions": 30}
    told = []
    again = reproduce(
        PAPER, ["figure-2"], folder, workers=1, progress=lambda *n: told.append(n), **asked
    )
    assert again.records == found.records
    assert told == [(7, 7)]


SMALL = {"nodes": 60, "rounds": 40, "test_rows": 1000, "trials": 2, "runs": 2, "seeds": 2}
# of items with many tasks, those that show what differs
ONLY = {
    "clamping": ("mushroom 100 node", "mushroom bias"),
    "skew": ("adult label_sorted federated_nb 1.0",),
    "private-crc": ("adult private_crc-8 1.0",),
    "attack": ("adult 10.0",),
    "figure-6": ("adult printed 3.16",),
}
OTHERS = [name for name in ITEMS if name != "figure-2"]


def shrunk(item):
    """The item with its own tasks at tiny sizes."""

    def tasks(sets, scale):
        small = {}
        for name, task in ITEMS_AS_THEY_ARE[item].runs(sets, scale).items():
            if name in ONLY.get(item, (name,)):
                known = task.arguments
                less = {k: v for k, v in SMALL.items() if isinstance(known.get(k), int)}
                if "description" in known:
                    once = {"run": {"repetitions": 1}}
                    less = {"description": merged(known["description"], once)}
                small[name] = Task(task.function, {**known, **less})
        return small

    return ITEMS_AS_THEY_ARE[item]._replace(runs=tasks)


ITEMS_AS_THEY_ARE = dict(ITEMS)


GOSSIP = ["figure-6", "figure-7"]  # which share their run


def tiny(folder, items):
    """Items at tiny sizes, in one folder."""
    _quiet()
    few = {"shares": (0, 0.1), "kinds": ("inverted",), "rules": ("sum", "median")}
    with pytest.MonkeyPatch.context() as patch:
        for item in items:
            patch.setitem(ITEMS, item, shrunk(item))
        patch.setattr(runs, "attack", partial(attack, **few))
        asked = {"chosen": ["adult", "mushroom"], "quick": True, "workers": 1}
        found = reproduce(PAPER, items, folder, **asked)
        drawn, text = printed(folder)
    return folder, found, {p.stem: p for p in drawn}, text


@pytest.fixture(scope="module")
def gossip(data_folder, tmp_path_factory):
    return tiny(tmp_path_factory.mktemp("gossip"), GOSSIP)


@pytest.fixture(scope="module")
def others(data_folder, tmp_path_factory):
    return tiny(tmp_path_factory.mktemp("others"), [i for i in OTHERS if i not in GOSSIP])


@pytest.mark.full
@pytest.mark.parametrize("item", OTHERS)
def test_every_item_runs_and_is_shown(request, item):
    folder, found, drawn, text = request.getfixturevalue("gossip" if item in GOSSIP else "others")
    assert not found.failures
    mine = [r for r in found.records if r.item == item]
    assert mine
    assert all(np.isfinite(r.value) for r in mine)
    accuracies = [r.value for r in mine if r.metric in ("accuracy", "test_error")]
    assert all(0 <= v <= 1 for v in accuracies)
    assert ITEMS[item].title in text
    told = page(folder)
    heading = f"{item.replace('-', ' ').capitalize()}. {ITEMS[item].title}"
    assert f"## {heading}" in told
    lines = item_lines(shown_item(PAPER, item, mine))
    widths = {line.count("|") for line in lines if line.startswith("|") and "---" not in line}
    assert len(widths) == 1
    # no two numbers of an item stand in one cell of its table
    (grid,) = PAPER.tables(item, mine)
    assert sum(bool(str(cell)) for row in grid.rows for cell in row[1:]) == len(mine)
    assert (item in drawn) == bool(ITEMS[item].figure)
    if item in drawn:
        assert is_picture(drawn[item])


@pytest.mark.full  # `make test`: gossip's, below
def test_the_claim_about_sizes_is_made_of_tiny_runs(others):
    assert "sizes" in {c.name for c in others[1].claims}


@pytest.mark.full  # `make test`: the claims of figure 2
def test_the_claims_of_tiny_runs_have_their_numbers(gossip):
    by_name = {c.name: c for c in gossip[1].claims}
    assert {"gossip-meets-federated", "std-last"} <= set(by_name)
    assert " against " in by_name["gossip-meets-federated"].ours
    assert "std " in by_name["std-last"].ours


def test_gossip_meets_federated_at_small_scale(gossip):
    """Adult, 60 nodes, 40 iterations: the median node is within 0.03 of Federated, as printed."""
    (task,) = shrunk("figure-6").runs(["adult"], Scale(True)).values()
    found = Store(gossip[0]).get(task.key).arrays
    assert found["accuracy"].shape == (2, 40, 3)
    median, end = found["accuracy"][..., 1], found["federated"]
    assert np.abs(median[:, -1] - end).max() <= 0.03
    assert (median[:, 0] < end - 0.03).all()  # and it was not so from the start
    assert end.min() > 0.77  # always the larger class: .764


# --- claims that may fail


def record(item, dataset, value, metric="accuracy", **setting):
    setting = {"method": "federated_nb", **setting}
    told = {"item": item, "dataset": dataset, "setting": setting, "metric": metric}
    return Record(paper="gossip-nb", value=value, std=1e-6, reps=50, **told)


def curves(item, dataset, accuracy):
    """Records of a set, `accuracy(variant, epsilon)`."""
    variants = ["vanilla", "central", *map(str, NODES)]
    if item == "figure-4":
        variants = ["equal", "uniform", "exponential"]
    return [
        record(item, dataset, accuracy(v, e), variant=v, epsilon=e if v != "vanilla" else "none")
        for v in variants
        for e in (EPSILONS if v != "vanilla" else ["none"])
    ]


def falls(variant, epsilon):
    """As the paper has categorical sets: the more nodes, the worse."""
    return 0.9 if not variant.isdigit() else 0.9 - 0.1 * np.log10(float(variant))


def gossip_records(printed, federated, std=0.2):
    end = {"counter": "printed", "epsilon": 3.16, "round": "Federated"}
    made = [record("figure-6", "adult", federated, **end)]
    for counter, value in (("printed", printed), ("push_sum", federated)):
        told = {"method": "gossip_nb", "counter": counter, "round": 30, "epsilon": 3.16}
        made.append(record("figure-6", "adult", value, **told))
    for kind, value in (("prior", 0.001), ("category", 0.01), ("mean", 0.05), ("std", std)):
        told = {"parameter": kind, "round": 100, "method": "gossip_nb", "epsilon": 3.16}
        made.append(record("figure-7", "adult", value, "deviation", **told))
    return made


# claim -> records for which it holds, records for which it does not, and what is then said
CASES = {
    "approaches-vanilla": (
        curves("figure-2", "mushroom", lambda v, e: 0.9),
        curves("figure-2", "mushroom", lambda v, e: 0.8 if v == "10" else 0.9),
        "mushroom 0.100",
    ),
    "skin-saturates": (
        curves("figure-2", "skin", lambda v, e: 0.92 if v == "vanilla" else 0.915),
        curves("figure-2", "skin", lambda v, e: 0.92 if v != "1000" else 0.80),
        "N=1000: 0.120",
    ),
    "accelerometer-above-central": (
        curves("figure-2", "accelerometer", lambda v, e: 0.4 if v == "central" else 0.5),
        curves("figure-2", "accelerometer", lambda v, e: 0.4 if v == "100" else 0.5),
        "N=100: least gain -0.100",
    ),
    "adult-above-central": (
        curves("figure-2", "adult", lambda v, e: 0.7 if v == "100" else 0.6),
        curves("figure-2", "adult", lambda v, e: 0.7 if v in ("central", "1") else 0.6),
        "central 0.700 ±0.000; N=1: 0.700 ±0.000, N=10: 0.600",
    ),
    "categorical-degrade": (
        curves("figure-2", "mushroom", falls),
        curves("figure-2", "mushroom", lambda v, e: 1.8 - falls(v, e)),
        "mushroom 0.900 ±0.000, 1.000 ±0.000, 1.100 ±0.000",
    ),
    "sizes": (
        curves("figure-4", "adult", lambda v, e: 0.70 if v == "equal" else 0.72),
        curves("figure-4", "adult", lambda v, e: 0.70 if v == "equal" else 0.75),
        "uniform: up to 0.050, exponential: up to 0.050",
    ),
    "gossip-meets-federated": (
        gossip_records(0.815, 0.82),
        gossip_records(0.78, 0.82),
        "0.780 ±0.000 against 0.820 ±0.000; push_sum 0.820",
    ),
    "std-last": (
        gossip_records(0.8, 0.8, std=0.2),
        gossip_records(0.8, 0.8, std=0.02),
        "mean 0.0500 ±0.0000, std 0.0200",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_claim_can_hold_and_can_fail_and_says_with_what_numbers(name):
    good, bad, says = CASES[name]
    held = {c.name: c for c in PAPER.claims(good)}[name]
    failed = {c.name: c for c in PAPER.claims(bad)}[name]
    assert (held.verdict, failed.verdict) == ("held", "not held")
    assert says in failed.ours
    assert failed.rule == held.rule != ""


def test_every_claim_is_tested_here_and_none_is_made_of_nothing():
    everything = [r for good, _, _ in CASES.values() for r in good]
    assert {c.name for c in PAPER.claims(everything)} == set(CASES)
    assert PAPER.claims([]) == []


# --- the command


@pytest.fixture
def peerwise(monkeypatch, capsys, tmp_path):
    """Run the command line in an empty folder; returns exit code, output and errors."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")

    run = command(monkeypatch, capsys)

    def call(*args):
        code, out, err = run(*args)
        return code, " ".join(out.split()), " ".join(err.split())

    return call


@pytest.mark.full  # `make test`: the figure itself, above, and cli/
def test_the_command_for_figure_2(peerwise, data_folder, tmp_path):
    asked = ["reproduce", "gossip-nb/figure-2", "--datasets", "spect_heart", "--reps", 30]
    code, out, err = peerwise(*asked, "--workers", 1)
    assert code == 0, err
    assert "spect_heart N = 10" in out
    folder = tmp_path / "runs" / "gossip-nb-figure-2"
    assert is_picture(folder / "figure-2.png")
    records, said, _ = read_folder(folder)
    assert {r.reps for r in records} == {1, 30}  # 1: without noise
    assert [c.name for c in said] == ["approaches-vanilla"]
    code, again, _ = peerwise("report", folder)
    assert code == 0
    assert "spect_heart central" in again


def test_unknown_names_are_refused_with_the_nearest(peerwise, data_folder):
    code, _, err = peerwise("reproduce", "gossip-nb/figure-22")
    assert code == 2
    assert "did you mean 'gossip-nb/figure-2'" in err
    with pytest.raises(UnknownName, match="did you mean 'gossip-nb/figure-6'"):
        choose("gosip-nb/figure-6")
    code, _, err = peerwise("reproduce", "gossip-nb/figure-2", "--datasets", "musroom")
    assert code == 2
    assert "did you mean 'mushroom'" in err
    found = gossip_nb.datasets(["Skin Segmentation", "adult"])
    assert [d.name for d in found] == ["adult", "skin"]


def test_without_data_it_says_where_to_look(peerwise, monkeypatch):
    monkeypatch.delenv("PEERWISE_DATA", raising=False)
    code, _, err = peerwise("reproduce", "gossip-nb/figure-2")
    assert code == 2
    assert "PEERWISE_DATA" in err


def test_all_stands_for_every_item():
    paper, items = choose("gossip-nb/all")
    assert paper is PAPER
    assert items == list(ITEMS)
