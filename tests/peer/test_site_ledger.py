"""The ledger of a site: neighbours see it go back, appended rows are a part, persons a unit."""

from collections import Counter

import networkx as nx
import numpy as np
import pandas as pd
import pytest

from federation import Alone, federation, signed
from peerwise.data.loaders import Table
from peerwise.errors import BadData, BadFile, BadSetting
from peerwise.models.registry import model_for
from peerwise.peer.charter import Charter
from peerwise.peer.drafting import Known, draft
from peerwise.peer.leaving import what_leaves
from peerwise.peer.own_rows import first_rows
from peerwise.peer.own_site import Site
from peerwise.peer.plan import Plan
from peerwise.peer.protocol.messages import BadLetter, Envelope, Place
from peerwise.peer.site import Drawn, Head, SiteBook, Watch, about_run, open_site_ledger
from peerwise.peer.store import store
from peerwise.peer.terms import BudgetTerms
from peerwise.peer.transport import Refused
from peerwise.privacy import Ledger, Tape, ledger
from peerwise.privacy.rows import Part, known_parts, parts_of, row_hashes, share_rows

PAIR = nx.relabel_nodes(nx.path_graph(2), {0: "a", 1: "b"})
HASHES = [str(i) * 64 for i in range(10)]


def head(length, mark=0):
    return str(Head(length, HASHES[mark]))


def test_a_neighbour_whose_ledger_went_back_is_refused():
    watch = Watch(True)
    watch.take("a", Place(0, 0), {"ledger": head(3)})
    watch.take("a", Place(0, 1), {"ledger": head(3)})
    watch.take("a", Place(0, 2), {"ledger": head(5, 1), "ledger_before": head(3)})
    watch.take("a", Place(0, 1), {"ledger": head(1)})  # an older letter that came again
    for back in (head(4, 2), head(5, 2)):
        with pytest.raises(BadLetter, match="ledger of a went back"):
            watch.take("a", Place(0, 3), {"ledger": back})
    with pytest.raises(BadLetter, match="went back"):  # another chain, though a longer one
        watch.take("a", Place(0, 3), {"ledger": head(7, 3), "ledger_before": head(5, 2)})
    for odd in ({}, None, {"ledger": "x"}, {"ledger": 3}, {"ledger": "1:ab"}):
        with pytest.raises(BadLetter, match="does not state"):
            watch.take("b", Place(0, 0), odd)
    Watch(False).take("b", Place(0, 0), {})  # a charter without a budget asks for none


def test_peers_tell_of_their_ledger_and_refuse_one_that_went_back(tmp_path):
    spends = {"privacy": {"epsilon": 1.0}, "budget": {"epsilon": 1.0}}
    fed = federation(tmp_path, PAIR, {"name": "gossip_nb"}, rounds=3, **spends)
    peer = Alone(fed.daemon("b"))
    daemon = peer.daemon
    own = next(iter(daemon.node.letters(daemon.memory, 0).values()))

    def letter(t, **more):
        content = daemon.format.encode(own, Envelope("a", 0, t), more)
        return signed(daemon, content, "a", (0, t))

    with pytest.raises(Refused, match="does not state"):
        peer.accept("a", letter(0))
    peer.accept("a", letter(0, ledger=head(2)))
    assert daemon.store.neighbours.ledgers() == {"a": (Place(0, 0), Head(2, HASHES[0]))}
    with pytest.raises(Refused, match="went back"):
        peer.accept("a", letter(1, ledger=head(1)))
    sent = daemon.store.outbox.unsent("a")[0].body
    assert f'"ledger": "1:{daemon.store.site.head().hash}"'.encode() in sent
    peer.close()


def test_a_hash_that_neighbours_are_told_fits_no_guess_of_the_rows(tmp_path, monkeypatch):
    """An entry holds hashes of the rows: whoever knows all but one could try which row fits."""
    for module in (ledger, store):
        name = "_now" if module is ledger else "now"
        monkeypatch.setattr(module, name, lambda: "2026-01-01T00:00:00")
    part, heads = Part(0, 30, HASHES[0]), []
    for i in range(2):
        with Ledger.open(tmp_path / f"{i}.ledger", node="a", epsilon=1.0) as site:
            state = store.Store.open(
                tmp_path / str(i), node="a", charter="c", charter_text="", data="rows", site=site,
                parts=[part], budget={"epsilon": 1.0},
            )  # fmt: skip
            with state.transaction():
                state.ledger.charge("laplace", {}, 1.0, data="statistics", inside=True)
            heads.append(state.site.head())
            state.close()
    assert heads[0].length == heads[1].length == 1
    assert heads[0].hash != heads[1].hash


def test_neighbours_do_not_see_in_how_many_parts_rows_were_released(tmp_path):
    """Before, the number of entries told whether an earlier row was changed or removed."""
    old, new = Part(0, 40, HASHES[0]), Part(40, 45, HASHES[1])
    heads = []
    for parts in (old, new), ():  # the earlier rows are as they were, or not
        path = tmp_path / f"{len(parts)}.ledger"
        with Ledger.open(path, node="a", epsilon=3.0) as site:
            for charter, rows in ("one", (old,)), ("two", parts):
                book = SiteBook(site, charter, "a", rows, made=charter, draw=charter)
                book.charge("laplace", {}, 1.0, 0.0, data="statistics")
                book.settle()
                heads.append(book.head())
                book.check(str(heads[-1]))
            with pytest.raises(BadFile, match="an old copy or another ledger"):
                book.check(head(3))
    assert [h.length for h in heads] == [1, 2, 1, 2]


def test_two_states_of_a_charter_that_release_in_turns_pay_for_each_draw(tmp_path):
    """Before, a state took the first charges for its own, whoever had paid them."""
    release = ("laplace", {}, 1.0, 0.0)
    with Ledger.open(tmp_path / "site", node="a", epsilon=10.0) as site:

        def book(state, draw=""):
            return SiteBook(site, "charter", "a", made=state, draw=draw)

        def own(name):
            return Ledger.open(tmp_path / name, node="a", epsilon=10.0)

        book("one").mend(own("one"))
        other = book("two", "second draw")
        other.charge(*release, data="statistics")
        other.settle()
        begun = book("one", "first draw")
        begun.charge(*release, data="statistics")
        own("one").charge(*release, data="statistics")  # and killed before it is noted as sent
        begun = book("one", "first draw")
        assert [begun.mend(own("one")), begun.mend(own("one"))] == [1, 0]
        assert site.receivers(2) == ["neighbours first draw"]
        back = book("one")  # put back to before it began
        assert [back.mend(own("one again")), back.mend(own("one again"))] == [2, 0]
        back.draw = "third draw"
        back.charge(*release, data="statistics")
        back.settle()
        assert site.receipts() == 3
        own("one again").charge(*release, data="statistics")
        assert book("one", "third draw").mend(own("one again")) == 0
        older = book("one", "first draw")  # put back once more, to before it was put back
        assert [older.mend(own("one")) for _ in range(3)] == [1, 0, 0]
        with pytest.raises(Drawn):
            book("one", "a draw that was never paid for").mend(own("one again"))


def test_appended_rows_are_a_part_of_their_own():
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0], "y": list("aba")})
    hashes = row_hashes(frame)
    first = parts_of([], hashes)
    assert [p.name for p in first] == ["0 to 3"]
    more = pd.concat([frame, pd.DataFrame({"x": [9.0], "y": ["b"]})], ignore_index=True)
    longer = row_hashes(more)
    known = known_parts(first, longer)
    assert [p.name for p in parts_of(known, longer)] == ["0 to 3", "3 to 4"]
    assert parts_of(known, hashes) == first
    changed = row_hashes(more.assign(x=[1.0, 2.5, 3.0, 9.0]))
    assert known_parts(first, changed) == []


def test_parts_share_rows_where_one_was_changed():
    old = [Part(0, 40, "a"), Part(40, 45, "b")]
    assert not share_rows([*old, Part(45, 50, "c")], old)
    assert not share_rows([Part(45, 50, "c")], old)
    for part in Part(40, 46, "c"), Part(40, 45, "c"), Part(44, 46, "c"), Part(0, 60, "c"):
        assert share_rows([part], old)


def test_rows_with_empty_cells_have_hashes_too():
    whole = pd.DataFrame({"x": [1.0, 2.0], "y": list("ab"), "z": ["1", "nan"]})
    gaps = pd.DataFrame({"x": [1.0, np.nan], "y": ["a", None], "z": ["1", np.nan]})
    same, others = row_hashes(whole), row_hashes(gaps)
    assert others[:2] == same[:2]
    assert others[2] != same[2]
    filled = row_hashes(gaps.fillna({"z": "nan"}))
    assert filled[2] not in (same[2], others[2]), "an empty cell is not the text 'nan'"


@pytest.fixture
def files(tmp_path):
    """A private charter, certificates' folder, rows and the ledger of a site."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.uniform(0, 90, 40), "who": np.arange(40) // 2})
    frame["ill"] = np.where(rng.random(40) < 0.5, "no", "yes")
    frame.to_csv(tmp_path / "rows.csv", index=False)
    table = Table("rows", frame[["age"]], frame["ill"].to_numpy(object), "ill")
    known = Known({"age": (0, 120)}, {}, ("no", "yes"))
    addresses = {"a": "127.0.0.1:7400"}

    def made(**privacy):
        charter = draft(
            table, PAIR, {"method": "gossip_nb", "privacy": {"epsilon": 1.0, **privacy}},
            name="w", addresses=addresses, known=known, budget={"epsilon": 1.0},
        )  # fmt: skip
        charter.save(tmp_path / "charter.toml")
        return charter

    made()
    Ledger.open(tmp_path / "site.ledger", node="ward", epsilon=1.5).close()
    return tmp_path, frame, made


def site_of(folder, **options):
    given = {"ledger": folder / "site.ledger", **options}
    return Site(folder / "charter.toml", "a", folder / "rows.csv", folder / "s", folder, **given)


def test_a_site_whose_file_has_empty_cells_takes_part_under_a_budget(files):
    folder, frame, _ = files
    frame.assign(age=frame["age"].where(frame.index > 2), note=None).to_csv(
        folder / "rows.csv", index=False
    )
    site = site_of(folder)
    assert [p.name for p in site.parts] == ["0 to 40"]
    _begin(site.plan(), site)
    assert site.ledger.total().epsilon == 1.0


def test_the_ledger_names_persons_also_where_one_row_of_each_counts(files):
    """Before, its entry said that one row is hidden."""
    folder, _, made = files
    made(person="who")
    site = site_of(folder)
    _begin(site.plan(), site)
    assert site.ledger.table()["parameters"].iloc[0]["unit"] == (
        "person ('who', at most 1 row of each)"
    )


def test_appended_rows_have_a_budget_of_their_own(files):
    folder, frame, _ = files
    first = site_of(folder)
    assert [p.name for p in first.parts] == ["0 to 40"]
    _begin(first.plan(), first)
    more = pd.concat([frame, frame.iloc[:5].assign(age=1.0)], ignore_index=True)
    more.to_csv(folder / "rows.csv", index=False)
    new = site_of(folder, appended=True)
    assert len(new.table.labels) == 5
    _begin(new.plan(), new)  # another epsilon 1, of other rows
    assert new.ledger.total().epsilon == 1.0
    with pytest.raises(BadSetting, match="there are none"):
        site_of(folder, appended=True, held_out=0.2)
    both = site_of(folder)
    assert len(both.parts) == 2
    with pytest.raises(Exception, match="'ward' cannot afford"):
        _begin(both.plan(), both)
    more.assign(age=2.0).to_csv(folder / "rows.csv", index=False)
    assert site_of(folder).parts == ()  # rows that nobody knows count for all


def test_rows_of_an_appended_part_that_was_changed_are_not_paid_as_another_part(files):
    folder, frame, _ = files
    path = folder / "rows.csv"
    first = site_of(folder)
    _begin(first.plan(), first)
    more = pd.concat([frame, frame.iloc[:5].assign(age=1.0)], ignore_index=True)
    more.to_csv(path, index=False)
    new = site_of(folder, appended=True)
    _begin(new.plan(), new)
    mended = more.copy()
    mended.loc[44, "age"] = 7.0
    for rows in pd.concat([mended, frame.iloc[:1]]), mended, more.iloc[:43]:
        rows.to_csv(path, index=False)
        assert site_of(folder).parts == ()
        with pytest.raises(BadSetting, match=r"after row 40 were released before and have been"):
            site_of(folder, appended=True)
    site = site_of(folder)
    with pytest.raises(Exception, match="'ward' cannot afford"):
        _begin(site.plan(), site)
    more.to_csv(path, index=False)
    assert len(site_of(folder).parts) == 2


def test_the_same_rows_are_no_two_parts_for_two_peers_that_start_together(files):
    folder, frame, _ = files
    one = site_of(folder)
    pd.concat([frame, frame.iloc[:5]]).to_csv(folder / "rows.csv", index=False)
    other = site_of(folder)
    assert one.parts != other.parts
    _begin(one.plan(), one)
    with pytest.raises(BadSetting, match="since this peer started"):
        _begin(other.plan(), other)
    assert other.ledger.total().epsilon == 1.0


def test_a_peer_that_learns_from_appended_rows_goes_on_with_them(files):
    folder, frame, _ = files
    first = site_of(folder)
    _begin(first.plan(), first)
    more = pd.concat([frame, frame.iloc[:5].assign(age=1.0)], ignore_index=True)
    more.to_csv(folder / "rows.csv", index=False)
    new = site_of(folder, appended=True)
    _begin(new.plan(), new)
    again = site_of(folder, appended=True)  # the same command after a crash
    assert again.parts == new.parts
    assert len(again.table.labels) == 5
    with pytest.raises(Exception, match="'ward' cannot afford"):  # as another state: once more
        _begin(again.plan(), again)


def _begin(plan, site):
    book = SiteBook(site.ledger, about_run(site.charter.hash, site.mark), "a", site.parts)
    plan._noise = Tape([np.zeros((2, 3))])
    path = site.state.parent / f"own{len(plan.y)}{len(site.parts)}"
    with Ledger.open(path, node="a", epsilon=9.0) as own:
        own.above = book
        plan._released(_Inside(own))
        book.settle()


class _Inside:
    """A ledger whose charges make a transaction of their own."""

    def __init__(self, ledger):
        self._ledger = ledger

    def check_schema(self, schema):
        pass

    def charge(self, *args, inside, **options):
        return self._ledger.charge(*args, **options)


def test_a_budget_needs_the_ledger_of_the_site(files, tmp_path):
    folder, _, _ = files
    with pytest.raises(BadSetting, match="peerwise ledger FILE --new SITE"):
        site_of(folder, ledger=None)
    with pytest.raises(BadSetting, match="no ledger"):
        open_site_ledger(tmp_path / "none", 1.0, "a")
    (tmp_path / "odd").write_text("x" * 5000)
    with pytest.raises(BadFile, match="is not a ledger"):
        open_site_ledger(tmp_path / "odd", 1.0, "a")


def test_a_ledger_of_another_site_is_refused_before_anything_is_drawn(files, tmp_path):
    folder, _, _ = files
    others = folder / "b.ledger"
    Ledger.open(others, node="b", epsilon=1.5).close()  # a site of this charter, and not ours
    with pytest.raises(BadFile, match="is that of site 'b', for its node 'b' and not 'a'"):
        site_of(folder, ledger=others)
    mine = site_of(folder)
    _begin(mine.plan(), mine)  # from now on the ledger is that of the site of node a
    mine.ledger.close()
    path = folder / "site.ledger"
    open_site_ledger(path, 1.0, "a", ("a", "b")).close()
    with pytest.raises(BadFile, match="site 'ward', for its node 'a' and not 'b'; give the"):
        open_site_ledger(path, 1.0, "b", ("a", "b"))
    # a site whose node has another name in another charter says so
    open_site_ledger(path, 1.0, "b", ("a", "b"), "ward").close()
    with pytest.raises(BadFile, match="is the ledger of node 'ward', not of 'hall'"):
        open_site_ledger(path, 1.0, "b", ("a", "b"), "hall")
    Ledger.open(tmp_path / "own", node="b", epsilon=1.5).close()
    open_site_ledger(tmp_path / "own", 1.0, "b", ("a", "b")).close()


def test_a_ledger_inside_the_state_folder_is_refused(files):
    """Before, a state that was put back brought an older ledger with it."""
    folder, _, _ = files
    inside = folder / "s" / "deep" / "site.ledger"
    inside.parent.mkdir(parents=True)
    Ledger.open(inside, node="ward", epsilon=1.5).close()
    (folder / "link").symlink_to(folder / "s")
    for path in (inside, folder / "link" / "deep" / "site.ledger", folder / "s" / "none"):
        for dry in (False, True):
            with pytest.raises(BadSetting, match=r"in the state folder .* give its budget back"):
                site_of(folder, ledger=path, dry=dry)
    (folder / "s2").mkdir()  # a folder whose name begins alike
    Ledger.open(folder / "s2" / "site.ledger", node="ward", epsilon=1.5).close()
    site_of(folder, ledger=folder / "s2" / "site.ledger").ledger.close()


def test_a_person_counts_with_the_first_rows_and_noise_covers_them(files):
    folder, frame, made = files
    charter = made(person="who", person_rows=2)
    table = Table("rows", frame[["age", "who"]], frame["ill"].to_numpy(object), "ill")
    assert len(charter.rows(table)[1]) == 40
    assert len(made(person="who").rows(table)[1]) == 20
    one, two = (
        np.sqrt(Plan(c, "a", table).learning.noise(_model(c)).variance).max()
        for c in (made(person="who"), charter)
    )
    assert two == pytest.approx(2 * one)
    made(person="who")
    with pytest.raises(BadSetting, match="old rows and new ones"):
        site_of(folder, appended=True)
    said = " ".join(what_leaves(charter))
    assert "for one person ('who', at most 2 rows of each)" in said


@pytest.mark.parametrize("person", [None, "who"])
def test_one_row_less_exchanges_no_rows_that_are_held_out(files, person):
    """Before, without the first of alternating rows, all rows to learn from were others."""
    folder, _, made = files
    made(person=person, **({} if person is None else {"person_rows": 3}))
    frame = pd.DataFrame({"age": [10.0, 80.0] * 30, "who": np.arange(60) // 3})
    frame["ill"] = ["no", "yes"] * 30

    def kept(rows):
        rows.to_csv(folder / "rows.csv", index=False)
        site = site_of(folder, held_out=0.5)
        assert len(site.table.labels) + len(site.kept.labels) == len(rows)
        x, y = site.plan().x, site.plan().y
        return Counter(zip(x[:, 0].tolist(), y.tolist(), strict=True))

    whole = kept(frame)
    assert 15 <= whole.total() <= 45
    for first in 0, 3, 30:
        less = kept(frame.drop(index=range(first, first + (1 if person is None else 3))))
        changed = (whole - less) + (less - whole)
        assert changed.total() <= (1 if person is None else 3)


def _model(charter):
    return model_for(charter.schema())


def test_a_person_column_with_gaps_or_none_is_refused():
    frame = pd.DataFrame({"age": [1.0, 2.0], "who": ["p", None]})
    table = Table("rows", frame, np.array(["no", "yes"], object), "ill")
    with pytest.raises(BadData, match="is empty in 1 rows, first in row 1"):
        first_rows(table, "who", 1)
    with pytest.raises(BadData, match="no column 'whom'"):
        first_rows(table, "whom", 1)


def test_no_row_decides_whether_a_node_takes_part(files):
    """Cells out of bounds, of 1e25, texts and unknown labels: the node takes part with them all."""
    _, _, made = files
    ages = [500.0, -3.0, 1e25, "old", None, np.inf, "12,5", 30.0]
    odd = pd.DataFrame({"age": pd.Series(ages, dtype=object), "who": range(8)})
    labels = np.array(["no", "yes"] * 3 + ["no", "perhaps"], object)
    table = Table("rows", odd[["age"]], labels, "ill")
    x, y = made().rows(table)
    assert y.tolist() == [0, 1, 0, 1, 0, 1, 0]
    assert made().odd_rows(table) == [
        "1 rows count nowhere: their label is not one of no, yes",
        "column 'age': 3 cells are empty or no number and count as 60, the middle of its bounds",
        "column 'age': 3 cells count as 0 or 120, its bounds",
    ]
    limits = made().limits.model_copy(update={"rows": 7})
    (first, *_) = made().model_copy(update={"limits": limits}).odd_rows(table)
    assert first.startswith("this node alone has 8 rows, and limits.rows says 7")
    np.testing.assert_allclose(x[:, 0], [1, -1, 1, 0, 0, 0, 12.5 / 60 - 1], rtol=1e-6)
    for many in (20, 21):  # before, twenty rows in other units were released and one more was not
        far = pd.DataFrame({"age": np.full(many, 3e4)})
        assert (
            len(made().rows(Table("rows", far, np.array(["no"] * many, object), "ill"))[1]) == many
        )
    nothing = Table("rows", odd[["age"]][:1], np.array(["perhaps"], object), "ill")
    assert made().rows(nothing)[1].tolist() == [-1]
    none = Table("rows", odd[["age"]][:0], np.array([], object), "ill")
    assert made().odd_rows(none) == ["the file holds no rows: what this node sends is noise alone"]


def test_what_leaves_names_the_noise_and_the_delta_that_it_costs(files):
    """Before, it stated a delta also where the smaller variance made it Laplace noise."""
    _, _, made = files
    few = made().model_copy(update={"budget": BudgetTerms(epsilon=1.0, delta=1e-5)})
    said = " ".join(what_leaves(few))  # of one number Laplace noise has the smaller variance
    assert "Laplace noise: epsilon 1, delta 0 for one row" in said
    assert "but for a chance" not in said
    forced = few.text().replace("[privacy]", '[privacy]\nmechanism = "gaussian"')
    said = " ".join(what_leaves(Charter.parse(forced)))
    assert "Gaussian noise: epsilon 1, delta 1e-06 for one row" in said
    assert "but for a chance of 1e-06" in said


def test_a_delta_that_may_let_rows_through_is_warned_of(files):
    """Before, neither the charter's delta nor a node's rows beside it were looked at."""
    _, _, made = files

    def charter(delta, rows):
        budget = BudgetTerms(epsilon=1.0, delta=delta)
        text = made().model_copy(update={"budget": budget}).text()
        more = f'[privacy]\nmechanism = "gaussian"\ndelta = {delta}'
        read = Charter.parse(text.replace("[privacy]", more))
        return read.model_copy(update={"limits": read.limits.model_copy(update={"rows": rows})})

    def warned(charter):
        return [line for line in what_leaves(charter) if line.startswith("Warning")]

    assert not warned(charter(1e-4, 1000))
    (line,) = warned(charter(2e-4, 1000))
    assert "delta 0.0002 is more than a tenth of 1 / 1000" in line
    (line,) = warned(charter(2e-3, 10))
    assert "delta 0.002 is more than .001" in line
    table = Table(
        "rows", pd.DataFrame({"age": [30.0] * 600}), np.array(["no"] * 600, object), "ill"
    )
    assert not charter(1e-4, 1000).odd_rows(table)
    (line,) = charter(2e-4, 1000).odd_rows(table)
    assert "delta 0.0002 is more than a tenth of 1 / 600, the rows of this node" in line


def test_what_leaves_is_said_with_and_without_noise(files):
    _, frame, made = files
    private = " ".join(what_leaves(made()))
    assert "epsilon 1, delta 0 for one row" in private
    assert "2.72 times as likely" in private
    table = Table("rows", frame[["age"]], frame["ill"].to_numpy(object), "ill")
    plain = draft(table, PAIR, {"method": "crc"}, name="w", addresses={"a": "127.0.0.1:7400"})
    said = " ".join(what_leaves(plain))
    assert "every letter holds exact numbers" in said
    assert "of a site with one row that is the row" in said
    agreed = plain.text().replace('units = "given"', 'units = "agree"')
    assert "First, counts, sums" in " ".join(what_leaves(Charter.parse(agreed)))
