"""What several test files need."""

import sys
from functools import cache, partial

import jax
import numpy as np

from peerwise import cli
from peerwise.models import Model


@cache
def compiled(f, *model):
    return jax.jit(partial(f, *model))


def in64(f, *args):
    """f in double precision, as NumPy arrays; models come first."""
    model = [a for a in args if isinstance(a, Model)]
    with jax.enable_x64(True):
        return jax.tree.map(np.array, compiled(f, *model)(*args[len(model) :]))


def everything(run):
    """All that a run ended with and recorded, as named NumPy arrays."""
    named, _ = jax.tree_util.tree_flatten_with_path({"state": run.state, "history": run.history})
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in named}


def assert_equal_runs(ours, theirs, tolerance=None):
    """Two runs of one method: equal to the bit, or to a share of each array's largest entry."""
    assert (ours.rounds, ours.recorded) == (theirs.rounds, theirs.recorded)
    assert ours.message_bytes == theirs.message_bytes
    assert np.all(np.asarray(ours.messages) == np.asarray(theirs.messages))
    a, b = everything(ours), everything(theirs)
    assert a.keys() == b.keys()
    for name in a:
        assert a[name].dtype == b[name].dtype, name
        assert np.isfinite(b[name]).all(), name
        if tolerance is None:
            np.testing.assert_array_equal(a[name], b[name], err_msg=name)
        else:
            atol = tolerance * np.abs(b[name]).max(initial=0)
            np.testing.assert_allclose(a[name], b[name], rtol=0, atol=atol, err_msg=name)


def command(monkeypatch, capsys, *before):
    """A function that runs `peerwise BEFORE ARGS...`: exit code, output and errors."""

    def call(*args):
        monkeypatch.setattr(sys, "argv", ["peerwise", *before, *map(str, args)])
        code = 0
        try:
            cli.main()
        except SystemExit as stop:
            code = stop.code or 0
        out, err = capsys.readouterr()
        return code, out, err

    return call


def in_words(call):
    """The same with all that was said in one line."""

    def said(*args):
        code, out, err = call(*args)
        return code, " ".join((out + err).split())

    return said


def tasks_of(paper, items, sets, scale):
    """The tasks of a paper's items, by item and name."""
    return {item: paper.items[item].runs(sets, scale) for item in items}
