"""Bytes that are no letter are refused with a reason, and nothing but a letter gets through."""

import json
import time
from typing import NamedTuple

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peerwise.core import Message
from peerwise.node import Letter
from peerwise.peer.wire import BadLetter, Envelope, Format, named_leaves, pack_tree, unpack_tree

CHARTER = "c" * 64
MOST = 1 << 16
WHO = Envelope("a", 0, 7)


class Weights(NamedTuple):
    first: np.ndarray
    second: list


def like():
    """A tree with everything that a message may hold."""
    value = {
        "s": np.arange(6, dtype=np.float32).reshape(2, 3),
        "w": Weights(np.array([0.5, -2.0]), [np.array([True, False]), np.int32(3)]),
        "none": np.zeros((0, 2), np.float32),
    }
    note = {"size": np.float64(30.0), "steps": np.array(4, np.int64), "key": np.uint32([1, 2])}
    return Letter(Message(value, note), {"part": np.ones(3, np.float16)})


FORM = Format(like(), CHARTER, MOST)
GOOD = FORM.encode(like(), WHO)


def split(body=GOOD):
    length = int.from_bytes(body[:8], "little")
    return json.loads(body[8 : 8 + length]), body[8 + length :]


def joined(header, data):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def altered(place, **change):
    """A good letter with something else in its header."""
    header, data = split()
    header[place] |= change
    return joined(header, data)


def read(body, form=FORM):
    """What a peer does with bytes that come."""
    return form.envelope(body), form.decode(body)


def refused(body, why, form=FORM):
    with pytest.raises(BadLetter, match=why):
        read(body, form)


def test_a_letter_comes_out_as_it_went_in():
    envelope, letter = read(GOOD)
    assert envelope == WHO
    assert jax.tree.structure(letter) == jax.tree.structure(like())
    for mine, theirs in zip(jax.tree.leaves(like()), jax.tree.leaves(letter), strict=True):
        assert np.asarray(mine).dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs)


def test_the_same_letter_is_always_the_same_bytes():
    assert FORM.encode(like(), WHO) == GOOD
    assert FORM.encode(like(), Envelope("a", 0, 8)) != GOOD


def test_arrays_that_lie_by_columns_are_written_by_rows():
    across = {"a": np.arange(6.0).reshape(2, 3).T, "b": np.arange(8.0)[::2]}
    form = Format(across, CHARTER, MOST)
    letter = form.decode(form.encode(across, WHO))
    np.testing.assert_array_equal(letter["a"], across["a"])
    np.testing.assert_array_equal(letter["b"], across["b"])
    np.testing.assert_array_equal(unpack_tree(pack_tree(across), across)["a"], across["a"])


def test_arrays_of_jax_and_plain_numbers_are_leaves_too():
    tree = (jax.numpy.ones((2, 2)), 1.5, 3, True)
    form = Format(tree, CHARTER, MOST)
    letter = form.decode(form.encode(tree, WHO))
    assert [np.asarray(a).tolist() for a in letter] == [[[1.0, 1.0], [1.0, 1.0]], 1.5, 3, True]


@pytest.mark.parametrize("length", [0, 1, 7])
def test_less_than_a_length_is_too_short(length):
    refused(GOOD[:length], "too short")


def test_a_header_that_is_longer_than_any_is_not_read():
    refused((1 << 40).to_bytes(8, "little") + GOOD[8:], "a header of 1099511627776 bytes")
    refused((len(GOOD)).to_bytes(8, "little") + GOOD[8:], "a header of")
    header, data = split()
    refused(joined(json.dumps(header).encode() + b" " * 20_000, data), "a header of")


def test_a_hundred_thousand_tensors_are_refused_before_they_are_parsed():
    many = {f"t{i}": {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]} for i in range(100_000)}
    body = joined(many, b"")
    wide = Format(like(), CHARTER, 1 << 30)
    start = time.thread_time()  # of this thread alone: others may keep the machine busy
    refused(body, "a header of", wide)
    assert time.thread_time() - start < 0.1


@pytest.mark.parametrize("text", [b"", b"{", b"\xff\xfe", b"nonsense", b"[" * 3000, b"1" * 5000])
def test_a_header_that_is_not_json_is_refused(text):
    refused(joined(text, b""), "not JSON")


@pytest.mark.parametrize("text", [b"[]", b"null", b"3", b'"peerwise"'])
def test_a_header_that_is_no_table_is_refused(text):
    refused(joined(text, b""), "no table")


@pytest.mark.parametrize("version", ["1", 1, None, ["1"]])
def test_another_version_is_refused(version):
    refused(altered("__metadata__", peerwise=version), "version")


def test_a_letter_without_an_envelope_is_refused():
    header, data = split()
    del header["__metadata__"]
    refused(joined(header, data), "version")
    header["__metadata__"] = []
    refused(joined(header, data), "version")


def test_another_charter_is_refused():
    refused(altered("__metadata__", charter="d" * 64), "another charter")


@pytest.mark.parametrize("who", [None, 3, "", "x" * 65, "\ud800", "é", ["a"]])
def test_a_sender_that_nobody_can_be_called_is_refused(who):
    refused(altered("__metadata__", **{"from": who}), "'from' is no name")


@pytest.mark.parametrize("key", ["phase", "round"])
@pytest.mark.parametrize("count", ["-1", "1.0", "", "x", "9" * 13, "٣", " 1", 7, None, True, [0]])
def test_a_place_that_is_no_number_is_refused(key, count):
    refused(altered("__metadata__", **{key: count}), f"'{key}' is no number")


def first_name():
    return next(iter(named_leaves(like())))


def test_a_tensor_too_many_or_too_few_is_refused():
    header, data = split()
    header["more"] = {"dtype": "F32", "shape": [0], "data_offsets": [len(data), len(data)]}
    refused(joined(header, data), "10 tensors instead of 9")
    header, data = split()
    del header[first_name()]
    refused(joined(header, data), "8 tensors instead of 9")


def test_a_tensor_of_another_name_is_refused():
    header, data = split()
    header["other"] = header.pop(first_name())
    refused(joined(header, data), "is missing")
    header[first_name()] = "F32"
    del header["other"]
    refused(joined(header, data), "is missing")


@pytest.mark.parametrize("kind", ["F64", "I32", "BF16", "", None, 3, ["F32"], "\ud800", "x" * 1000])
def test_another_type_is_refused(kind):
    name = "[0].value['s']" if "[0].value['s']" in split()[0] else first_name()
    was = split()[0][name]["dtype"]
    kind = "F16" if kind == was else kind
    refused(altered(name, dtype=kind), "instead of")


@pytest.mark.parametrize(
    "shape", [[3, 2], [6], [2, 3, 1], [0, 2**60], [-2, -3], [], None, "2,3", [[2], 3], [2, "3"]]
)
def test_another_shape_is_refused(shape):
    name = next(n for n, told in split()[0].items() if told.get("shape") == [2, 3])
    refused(altered(name, shape=shape), "instead of")


@pytest.mark.parametrize("shape", [[2.0, 3], [True, 3]])
def test_a_shape_that_only_python_takes_for_equal_is_refused(shape):
    name = next(n for n, told in split()[0].items() if told.get("shape") == [2, 3])
    body = altered(name, shape=[1, 3] if shape[0] is True else shape)
    refused(body, "instead of|no safetensors")
    tree = {"a": np.ones((1, 3), np.float32)}
    form = Format(tree, CHARTER, MOST)
    header, data = split(form.encode(tree, WHO))
    header["['a']"]["shape"] = [True, 3.0]
    refused(joined(header, data), "instead of", form)


@pytest.mark.parametrize("wrong", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_numbers_that_are_none_are_neither_written_nor_read(wrong, kind):
    tree = {"a": np.array([1, 2, 3], kind)}
    form = Format(tree, CHARTER, MOST)
    body = form.encode(tree, WHO)
    size = np.dtype(kind).itemsize
    refused(body[:-size] + np.array(wrong, kind).tobytes(), "NaN or infinity", form)
    with pytest.raises(BadLetter, match="NaN or infinity"):
        form.encode({"a": np.array([1, 2, wrong], kind)}, WHO)


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("kind", "most"), [(np.float32, 1e15), (np.float64, 1e100)])
def test_numbers_that_would_overflow_when_summed_are_refused(kind, most, sign):
    tree = {"a": np.array([1, sign * most * 0.99], kind)}
    form = Format(tree, CHARTER, MOST)
    body = form.encode(tree, WHO)
    read(body, form)
    size = np.dtype(kind).itemsize
    beyond = np.array(sign * most * 1.01, kind)
    refused(body[:-size] + beyond.tobytes(), "beyond 1e", form)
    with pytest.raises(BadLetter, match="beyond 1e"):
        form.encode({"a": np.array([1, beyond], kind)}, WHO)


def test_a_truth_that_is_neither_is_refused():
    tree = {"b": np.array([True, False, True])}
    form = Format(tree, CHARTER, MOST)
    body = form.encode(tree, WHO)
    refused(body[:-2] + b"\2" + body[-1:], "neither true nor false", form)


@pytest.mark.parametrize("cut", [1, 4, 30])
def test_a_letter_cut_short_is_refused(cut):
    refused(GOOD[:-cut], "bytes of numbers")


@pytest.mark.parametrize("more", [b"\0", b"\0" * 100])
def test_bytes_after_the_end_are_refused(more):
    refused(GOOD + more, "bytes of numbers")


@pytest.mark.parametrize(
    "offsets", [[0, 0], [4, 28], [-4, 20], [0, 2**63], [24, 0], ["0", "24"], [0], None, "0:24"]
)
def test_places_of_numbers_that_overlap_or_leave_gaps_are_refused(offsets):
    name = next(n for n, told in split()[0].items() if told.get("shape") == [2, 3])
    offsets = [o + 4 for o in split()[0][name]["data_offsets"]] if offsets == [4, 28] else offsets
    refused(altered(name, data_offsets=offsets), "no safetensors")


def test_two_tensors_in_one_place_are_refused():
    tree = {"a": np.ones(3, np.float32), "b": np.zeros(3, np.float32)}
    form = Format(tree, CHARTER, MOST)
    header, data = split(form.encode(tree, WHO))
    header["['b']"]["data_offsets"] = header["['a']"]["data_offsets"]
    refused(joined(header, data), "no safetensors", form)


def test_a_name_twice_in_a_header_is_refused_or_read_as_expected():
    header, data = split()
    name = next(n for n, told in header.items() if told.get("shape") == [2, 3])
    text = json.dumps(header)
    twice = text[:-1] + f", {json.dumps(name)}: {json.dumps(header[name] | {'shape': [6]})}" + "}"
    front = "{" + f"{json.dumps(name)}: {json.dumps(header[name] | {'shape': [6]})}, " + text[1:]
    for body in (joined(twice.encode(), data), joined(front.encode(), data)):
        refused_or_as_expected(body)


def test_a_letter_over_the_limit_is_neither_read_nor_written():
    small = Format(like(), CHARTER, 1024)
    refused(b"\0" * 1025, "1025 bytes, more than 1024", small)
    big = {"a": np.zeros(300)}
    with pytest.raises(BadLetter, match=r"limits\.message_bytes"):
        Format(big, CHARTER, 1024).encode(big, WHO)


def refused_or_as_expected(body, form=FORM):
    """No other exception, no other shape, no number that is none."""
    try:
        envelope, letter = read(body, form)
    except BadLetter:
        return False
    assert isinstance(envelope.sender, str)
    assert 0 <= envelope.phase < 10**12
    assert 0 <= envelope.round < 10**12
    for want, found in zip(jax.tree.leaves(like()), jax.tree.leaves(letter), strict=True):
        assert found.dtype == np.asarray(want).dtype
        assert found.shape == np.shape(want)
        assert np.isfinite(found).all()
    return True


@given(st.binary(max_size=600))
@settings(max_examples=300, deadline=None)
def test_any_bytes_are_refused(body):
    assert not refused_or_as_expected(body)


@given(st.data())
@settings(max_examples=500, deadline=None)
def test_any_change_of_a_letter_is_refused_or_another_letter(data):
    body = bytearray(GOOD)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(body) - 1))
        how = data.draw(st.sampled_from(["flip", "cut", "drop", "add", "swap"]))
        if how == "flip":
            body[place] ^= data.draw(st.integers(1, 255))
        elif how == "cut":
            del body[place + 1 :]
        elif how == "drop":
            del body[place : place + data.draw(st.integers(1, 16))]
        elif how == "add":
            body[place:place] = data.draw(st.binary(min_size=1, max_size=16))
        else:
            other = data.draw(st.integers(0, len(body) - 1))
            body[place], body[other] = body[other], body[place]
        if not body:
            break
    refused_or_as_expected(bytes(body))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=5,
)


@given(st.data())
@settings(max_examples=300, deadline=None)
def test_any_change_of_a_header_is_refused_or_another_letter(data):
    header, numbers = split()
    name = data.draw(st.sampled_from(sorted(header)))
    key = data.draw(st.sampled_from(sorted(header[name])))
    if data.draw(st.booleans()):
        header[name][key] = data.draw(values)
    else:
        header[name] = data.draw(values)
    refused_or_as_expected(joined(header, numbers))


def test_a_state_that_was_damaged_on_the_disk_is_refused_with_a_reason():
    body = pack_tree(like())
    with pytest.raises(BadLetter, match="damaged"):
        unpack_tree(b"\0" * 20, like())
    with pytest.raises(BadLetter, match="was not kept"):
        unpack_tree(body, {"other": np.zeros(2)})
    with pytest.raises(BadLetter, match="was kept as"):
        unpack_tree(pack_tree({"a": np.zeros(2)}), {"a": np.zeros(3)})
