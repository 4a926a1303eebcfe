"""Whoever dials a peer, and whatever they say: it refuses, says why, and goes on."""

import random
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import grpc
import jax
import networkx as nx
import numpy as np
import pytest

from federation import federation, signed
from hostile import LONG, Host, Mallory, hello, letter, path, serving
from peerwise.peer import identity
from peerwise.peer.charter import Charter
from peerwise.peer.computing import begin
from peerwise.peer.greeting import said
from peerwise.peer.identity import load_identity, make_authority, make_certificate
from peerwise.peer.letters import Letters
from peerwise.peer.protocol.messages import BadLetter, Greeting, Place
from peerwise.peer.signing import Signer, parted
from peerwise.peer.transport import IN_FLIGHT, MARGIN, SERVICE, Code, Server, told
from peerwise.peer.wire import Envelope
from peerwise.shards import pack
from peerwise.simulate import simulate

CRC = {"name": "crc", "lr": 0.05}
MOST = 1 << 19


@pytest.fixture
def host():
    made = Host()
    yield made
    made.close()


@pytest.fixture(scope="module")
def shared_host():
    made = Host()
    yield made
    made.close()


def authority_of_last_month(keys, names, patch):
    """Certificates of the names, and in a folder beside them some that have expired."""
    with patch.context() as past:
        past.setattr(identity, "_now", lambda: datetime.now(UTC) - timedelta(days=30))
        make_authority(keys)
        make_certificate(keys, "a", out=keys.parent / "expired", days=1)
    for name in names:
        make_certificate(keys, name)


def four(folder, patch, count=5):
    """Nodes a - b - c - d; the test plays a, to whom b listens, and d, to whom it does not."""
    authority_of_last_month(folder / "keys", "abcd", patch)
    return federation(
        folder, path("a", "b", "c", "d"), CRC, rounds=count,
        limits={"message_bytes": MOST},
    )  # fmt: skip


@pytest.fixture(scope="module")
def patch():
    with pytest.MonkeyPatch.context() as made:
        yield made


@pytest.fixture(scope="module")
def fed(tmp_path_factory, patch):
    return four(tmp_path_factory.mktemp("fed"), patch)


@pytest.fixture(scope="module")
def victim(fed, shared_host):
    """A peer that waits in its first round, for neighbours who do not come."""
    made = fed.daemon("b")
    shared_host.start(made)
    assert serving(fed)
    return made


# what each attack does is a function of its own: once alone, and once all before honest work


def garbage(fed, victim):
    host, port = fed.charter.nodes["b"].address.split(":")
    for data in (b"\0" * 4096, random.Random(1).randbytes(65536), b"GET / HTTP/1.1\r\n\r\n", b""):
        with socket.create_connection((host, int(port)), timeout=LONG) as raw:
            try:
                raw.sendall(data)
                raw.shutdown(socket.SHUT_WR)
                while raw.recv(4096):
                    pass
            except OSError:
                pass


def plain_text(fed, victim):
    with grpc.insecure_channel(fed.charter.nodes["b"].address) as channel:
        with pytest.raises(grpc.RpcError) as caught:
            channel.unary_unary(f"/{SERVICE}/Hello")(b"", timeout=LONG)
        assert caught.value.code() is Code.UNAVAILABLE


def no_certificate(fed, victim):
    with Mallory(fed, private_key=None, certificate_chain=None) as caller:
        assert caller.call("Hello")[0] is Code.UNAVAILABLE


def another_authority(fed, victim):
    keys = fed.folder / "others"
    if not keys.exists():
        make_authority(keys)
        make_certificate(keys, "a")
    with Mallory(fed, keys=keys) as caller:
        assert caller.call("Hello")[0] is Code.UNAVAILABLE


def expired(fed, victim):
    home = fed.keys.parent / "expired"
    pem, key = ((home / f"a.{part}").read_bytes() for part in ("pem", "key"))
    with Mallory(fed, certificate_chain=pem, private_key=key) as caller:
        assert caller.call("Hello")[0] is Code.UNAVAILABLE


def stranger(fed, victim):
    with Mallory(fed, "d") as caller:
        for method in ("Hello", "Push", "Pull"):
            code, why = caller.call(method, letter(victim, "d"))
            assert code is Code.PERMISSION_DENIED
            assert why == "'d' is no neighbour of b"


def another_charter(fed, victim):
    other = Charter.parse(fed.charter.text().replace("lr = 0.05", "lr = 0.5"))
    with Mallory(fed, charter=other.hash) as caller:
        for method in ("Push", "Pull"):
            assert caller.call(method, letter(victim))[0] is Code.FAILED_PRECONDITION
        code, why = caller.call("Hello", hello(other))
        assert code is Code.FAILED_PRECONDITION
        assert why.endswith("than a: method.lr is 0.05 here and 0.5 there")


def no_charter(fed, victim):
    hostile = [
        b"", b"\xff\xfe", b"a = " + b"[" * 50_000, b'name = "\\ud800"', "é = '😀'".encode(),
        b"# a long one\n" * 2_000, b"a = " + b"9" * 5000,
    ]  # fmt: skip
    with Mallory(fed, charter="x") as caller:
        for text in hostile:
            code, why = caller.call("Hello", text)
            assert code is Code.FAILED_PRECONDITION
            assert "install the same version" in why or "16384 are taken" in why


def forged(fed, victim):
    with Mallory(fed) as caller:
        code, why = caller.call("Push", letter(victim, "c"))
        assert code is Code.PERMISSION_DENIED
        assert why == "a letter of 'c' from a"


def far_ahead(fed, victim):
    with Mallory(fed) as caller:
        code, why = caller.call("Push", letter(victim, t=3))
        assert code is Code.FAILED_PRECONDITION
        assert why == "round 3, far ahead of round 0"
        for t in (5, 10**12 - 1):
            code, why = caller.call("Push", letter(victim, t=t))
            assert code is Code.INVALID_ARGUMENT
            assert why == f"round {t} of 5"


def phase_ahead(fed, victim):
    with Mallory(fed) as caller:
        for phase in (1, 10**12 - 1):
            assert caller.call("Push", letter(victim, phase=phase))[0] is Code.UNAVAILABLE


def oversize(fed, victim):
    with Mallory(fed) as caller:
        assert victim.format.largest < MOST
        assert caller.call("Push", bytes(victim.format.largest + 1))[0] is Code.INVALID_ARGUMENT
        for size in (victim.format.largest + MARGIN + 1, MOST, 1 << 26):
            assert caller.call("Push", bytes(size))[0] is Code.RESOURCE_EXHAUSTED


def unknown_method(fed, victim):
    with Mallory(fed) as caller:
        for method in ("Stop", "Hello/Push", ""):
            assert caller.call(method)[0] is Code.UNIMPLEMENTED
        assert caller.call("Hello", service="other.Service")[0] is Code.UNIMPLEMENTED


def malformed_pull(fed, victim):
    huge = b'{"phase": 0, "round": 1' + b"0" * 30 + b', "wait": 0}'
    endless = b'{"phase": 0, "round": -1, "wait": NaN}'
    hostile = [b"", b"[]", b"{}", b"[" * 60_000, huge, endless, b'{"phase": "0"}', b"\xff"]
    with Mallory(fed) as caller:
        for body in hostile:
            assert caller.call("Pull", body)[0] is Code.INVALID_ARGUMENT


def malformed_letter(fed, victim):
    good = letter(victim)
    inside = parted(good)[0]
    hostile = [b"", good[:-1], good + b"\0", bytes(1000), inside]
    for content in (
        b"", inside[:-1], inside + b"\0", inside.replace(b'"0"', b'"x"', 1),
        inside.replace(b'"from": "a"', b'"from": "\\ud800"'),
    ):  # fmt: skip
        hostile.append(signed(victim, content, "a", (0, 0)))
    with Mallory(fed) as caller:
        for body in hostile:
            assert caller.call("Push", body)[0] is Code.INVALID_ARGUMENT


ATTACKS = [
    garbage, plain_text, no_certificate, another_authority, expired, stranger, another_charter,
    no_charter, forged, far_ahead, phase_ahead, oversize, unknown_method, malformed_pull,
    malformed_letter,
]  # fmt: skip


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_a_peer_refuses_and_goes_on_serving(fed, victim, attack):
    attack(fed, victim)
    assert serving(fed)
    assert victim.store.rows("SELECT count(*) FROM inbox WHERE sender != 'a'") == [(0,)]


def test_the_same_letter_again_changes_nothing_and_another_is_refused(fed, victim):
    first = letter(victim, t=0)
    with Mallory(fed) as caller:
        for _ in range(3):
            code, answer = caller.call("Push", first)
            assert code is Code.OK
            assert told(answer) == {"phase": 0, "round": 0, "life": victim.core.life}
        code, why = caller.call("Push", letter(victim, t=0, scale=2.0))
        assert code is Code.ALREADY_EXISTS
        assert why == "another letter for phase 0, round 0 than before"
        code, why = caller.call("Push", letter(victim, t=2))
        assert (code, why) == (
            Code.FAILED_PRECONDITION, "round 2, and the round before it has not come"
        )  # fmt: skip
    assert victim.store.inbox.letters() == {("a", Place(0, 0)): first}


def test_too_many_calls_at_once_are_refused_and_others_are_served(fed, victim):
    with Mallory(fed) as caller, ThreadPoolExecutor(IN_FLIGHT) as pool:
        waiting = [pool.submit(caller.pull, phase=0, round=0, wait=3.0) for _ in range(IN_FLIGHT)]
        while victim._server._busy.get("a", 0) < IN_FLIGHT:  # they come in
            assert not any(one.done() for one in waiting)
            time.sleep(0.01)
        code, why = caller.call("Hello")
        assert (code, why) == (Code.RESOURCE_EXHAUSTED, "too many calls at once")
        assert serving(fed, "c")
        assert [one.result()[0] for one in waiting] == [Code.OK] * IN_FLIGHT
    assert serving(fed)


def test_a_letter_of_a_round_that_is_over_is_not_kept(tmp_path, host):
    fed = federation(tmp_path, path("a", "b"), CRC, rounds=9)
    victim = fed.daemon("b")
    host.start(victim)
    assert serving(fed)
    with Mallory(fed) as caller:
        assert caller.call("Push", letter(victim))[0] is Code.OK
        until = time.monotonic() + LONG
        while victim.place.round < 1 and time.monotonic() < until:
            time.sleep(0.02)
        code, answer = caller.call("Push", letter(victim, scale=3.0))
    assert code is Code.OK
    assert told(answer) == {"phase": 0, "round": 1, "life": victim.core.life}
    assert victim.store.inbox.letters() == {}
    assert victim.core.neighbours["a"].heard == {}


HOSTILE = [
    b"", b"[" * 60_000, b'{"phase": 0, "round": 1' + b"0" * 5000 + b"}", b"\xff" * 100, b"[]",
    b'{"phase": [], "round": {}}', b'{"phase": 0, "round": NaN}', bytes(1000), b"{" * 100,
]  # fmt: skip


@pytest.mark.parametrize("answer", HOSTILE, ids=range(len(HOSTILE)))
def test_an_answer_that_is_none_teaches_nothing(answer):
    assert said(answer) == Greeting()


@pytest.mark.parametrize("method", ["crc", "gossip_nb"])
@pytest.mark.parametrize("large", [3e38, 9e14, -9e14])
def test_the_largest_numbers_do_not_end_the_peer_that_hears_them(tmp_path, host, method, large):
    fed = federation(tmp_path, path("a", "b"), {"name": method}, rounds=9)
    victim = fed.daemon("b")
    done = host.start(victim)
    assert serving(fed)
    content = bytearray(parted(letter(victim))[0])
    numbers = np.full(victim.format.bytes // 4, large, np.float32).tobytes()
    content[-len(numbers) :] = numbers
    with Mallory(fed) as caller:
        body = signed(victim, bytes(content), "a", (0, 0))
        assert caller.call("Push", body)[0] is Code.OK
        until = time.monotonic() + LONG
        while victim.place.round < 1 and time.monotonic() < until and not done.done():
            time.sleep(0.02)
        assert victim.place.round == 1
    assert not done.done()
    if large > 1e15:
        (one,) = victim.store.quarantine.letters()
        assert (one.sender, one.place) == ("a", Place(0, 0))
        assert "a number beyond 1e+15" in one.reason


@pytest.mark.parametrize("only_dial", [(), ("b",)], ids=["pushes", "pulls"])
def test_what_a_neighbour_answers_cannot_harm_a_peer_that_dials_it(tmp_path, host, only_dial):
    fed = federation(tmp_path, path("a", "b"), CRC, rounds=9, only_dial=only_dial)
    seen = []

    async def answer(call):
        seen.append(call.method)
        return HOSTILE[1] if call.method != "Pull" else HOSTILE[len(seen) % len(HOSTILE)]

    async def listen():
        made = Server(load_identity(fed.keys, "a"), fed.charter.nodes["a"].address, answer, MOST)
        await made.start()
        return made

    server = host.run(listen()).result(LONG)
    victim = fed.daemon("b")
    done = host.start(victim)
    until = time.monotonic() + LONG
    while not ({"Hello", "Push"} <= set(seen) and seen.count("Pull") >= 5 * len(only_dial)):
        assert time.monotonic() < until
        time.sleep(0.05)
    time.sleep(0.3)
    assert not done.done()
    assert victim.place == Place(0, 0)
    host.run(server.stop()).result(LONG)


def test_after_all_that_a_peer_finishes_its_rounds_with_honest_neighbours(tmp_path, host, patch):
    fed = four(tmp_path, patch)
    victim = fed.daemon("b")
    finished = [host.start(victim)]
    assert serving(fed)
    for attack in ATTACKS:
        attack(fed, victim)
    honest = {name: fed.daemon(name) for name in "acd"}
    body = begin(honest["a"].computing, honest["a"].store).bodies["b"]
    with Mallory(fed) as caller:  # the true letter, sent early and twice
        assert [caller.call("Push", body)[0] for _ in range(2)] == [Code.OK] * 2
    finished += [host.start(daemon) for daemon in honest.values()]
    assert [done.result(LONG) for done in finished] == [True] * 4
    daemons = [honest["a"], victim, honest["c"], honest["d"]]
    x, y = (np.concatenate([getattr(d.plan, part) for d in daemons]) for part in "xy")
    rows = np.split(np.arange(len(y)), 4)
    run = simulate(
        victim.node.method, pack(x, y, rows), fed.charter.topology(), 5, exact=True,
        seed=fed.charter.seed,
    )  # fmt: skip
    for i, daemon in enumerate(daemons):
        np.testing.assert_array_equal(daemon.memory.state.value, run.state.value[i])


def resident():
    with open("/proc/self/status") as status:
        line = next(line for line in status if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def mutated(rng, body):
    """A letter with a few bytes changed, lost or added."""
    body = bytearray(body)
    header = 8 + int.from_bytes(body[:8], "little")
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(header if rng.random() < 0.5 else len(body)) if body else 0
        how = rng.random()
        if how < 0.6 and place < len(body):
            body[place] = rng.randrange(256)
        elif how < 0.75:
            del body[place : place + rng.randint(1, 40)]
        elif how < 0.9:
            body[place:place] = rng.randbytes(rng.randint(1, 40))
        else:
            del body[place:]
    return bytes(body)


def hostile_letter(rng, victim, good):
    """A letter that was changed on its way, or that its sender wrote so and signed."""
    if rng.random() < 0.3:
        return mutated(rng, good)
    content = mutated(rng, parted(good)[0])
    try:
        envelope = victim.format.written(content)
    except BadLetter:
        envelope = Envelope("a", 0, 0)
    signer = Signer(load_identity(victim.keys, "a"), victim.charter.hash)
    return signer.sealed(content, envelope)


def fuzz(tmp_path, host, count):
    fed = federation(tmp_path, path("a", "b", "c"), CRC, rounds=5, limits={"message_bytes": MOST})
    victim = fed.daemon("b")
    host.start(victim)
    assert serving(fed)
    rng, codes = random.Random(0), {}
    good = [letter(victim, t=t) for t in range(3)]
    allowed = {
        Code.OK, Code.INVALID_ARGUMENT, Code.ALREADY_EXISTS, Code.PERMISSION_DENIED,
        Code.FAILED_PRECONDITION, Code.UNAVAILABLE,
    }  # fmt: skip
    with Mallory(fed) as caller:
        for _ in range(100):
            caller.call("Push", hostile_letter(rng, victim, rng.choice(good)))
        before, start = resident(), time.perf_counter()
        for _ in range(count):
            code, why = caller.call("Push", hostile_letter(rng, victim, rng.choice(good)))
            assert code in allowed, why
            codes[code.name] = codes.get(code.name, 0) + 1
        took, after = time.perf_counter() - start, resident()
    print(f"\n{count} letters in {took:.1f} s: {codes}; {before:.1f} MiB before, {after:.1f} after")
    assert after - before < 50
    assert serving(fed)
    assert victim.place == Place(0, 0)
    for (sender, place), body in victim.store.inbox.letters().items():
        assert sender == "a"
        assert place.round <= 2
        content = parted(body)[0]
        victim.format.envelope(content)
        assert all(np.isfinite(a).all() for a in jax.tree.leaves(victim.format.decode(content)))
    assert len(victim.store.inbox.letters()) <= 3


@pytest.mark.usefixtures("usual_garbage")
def test_five_hundred_mutated_letters_are_each_refused_or_valid(tmp_path, host):
    fuzz(tmp_path, host, 500)


@pytest.mark.full
@pytest.mark.usefixtures("usual_garbage")
def test_a_hundred_thousand_mutated_letters_are_each_refused_or_valid(tmp_path, host):
    fuzz(tmp_path, host, 100_000)


class Poisoned(Letters):
    """Those of a member in good standing: a million times too large, classes exchanged."""

    def made(self, node, memory, form, place):
        envelope = Envelope(self._name, *place)

        def poisoned(a):
            return np.asarray(a)[::-1] * np.float32(1e6) if np.ndim(a) == 2 else np.asarray(a)

        bodies = {}
        for j, letter_ in node.letters(memory, place.round).items():
            body = form.encode(jax.tree.map(poisoned, letter_), envelope)
            bodies[self._charter.names[j]] = self._signer.sealed(body, envelope)
        return bodies


def errors_with(folder, host, method, evil):
    """The error on test rows of honest nodes, all of whom hear each other and one more."""
    graph = nx.relabel_nodes(nx.complete_graph(5), dict(enumerate("abcde")))
    fed = federation(folder, graph, {"name": method}, rows=100, rounds=1)
    daemons = [fed.daemon(name) for name in "abcde"]
    if evil:
        daemons[4].letters.__class__ = Poisoned
    assert all(done.result(LONG) for done in [host.start(daemon) for daemon in daemons])
    plan = daemons[0].plan
    x, y = fed.charter.rows(fed.test)
    return float(np.mean([d.node.error(d.memory, plan.encoded(x, None), y) for d in daemons[:4]]))


@pytest.mark.full
def test_a_poisoned_letter_ruins_a_mean_and_not_a_median(tmp_path, host):
    found = {
        (method, evil): errors_with(tmp_path / f"{method}{evil}", host, method, evil)
        for method in ("gossip_nb", "robust_nb")
        for evil in (False, True)
    }
    assert found["gossip_nb", False] < 0.5
    assert found["robust_nb", False] < 0.5
    assert found["gossip_nb", True] > 0.8
    assert found["robust_nb", True] < found["robust_nb", False] + 0.05
