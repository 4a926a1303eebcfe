"""The options of local training: read by name, checked by their annotations."""

from typing import get_type_hints

import equinox as eqx
import pytest

from peerwise.errors import PeerwiseError
from peerwise.methods.neural import decavg
from peerwise.nets import network_of
from peerwise.update.losses import cross_entropy
from peerwise.update.sgd import OPTIMISERS, trainer
from peerwise.update.training import Training, epochs_range

HINTS = get_type_hints(Training, include_extras=True)


def test_every_option_is_described_in_one_line():
    for name, hint in HINTS.items():
        (line,) = (a for a in hint.__metadata__ if isinstance(a, str))
        assert len(line.splitlines()) == 1, name


def test_the_optimisers_are_those_that_an_annotation_lists():
    assert HINTS["optimiser"].__origin__.__args__ == tuple(OPTIMISERS)


def test_a_number_of_epochs_is_a_range_of_one():
    assert epochs_range(Training(epochs=(2, 5))) == (2, 5)
    assert epochs_range(Training(epochs=3)) == (3, 3)
    hash(Training(epochs=(2, 5)))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"lr": 0.0}, "lr must be greater than 0 and at most 1000, got 0.0"),
        ({"lr": float("nan")}, "lr must be greater than 0 and at most 1000, got nan"),
        ({"batch": 0}, "batch must be 1 or more, got 0"),
        ({"momentum": 1.0}, "momentum must be 0 or more and less than 1, got 1.0"),
        ({"weight_decay": -1.0}, "weight_decay must be 0 or more, got -1.0"),
        ({"validation": 1.0}, "validation must be 0 or more and less than 1, got 1.0"),
        ({"validation": 0.2, "patience": 0}, "patience must be 1 or more, got 0"),
        ({"optimiser": "sdg"}, "did you mean 'sgd'"),
        ({"momentun": 0.9}, "did you mean 'momentum'"),
    ],
)
def test_a_method_refuses_what_the_annotations_do_not_allow(wrong, says):
    net = network_of(lambda key: eqx.nn.Linear(3, 4, key=key), 3, 4)
    with pytest.raises(PeerwiseError, match=says):
        decavg(net, **wrong)


def test_the_same_options_give_the_same_trainer():
    """So that programs compiled with it are found again."""
    net = network_of(lambda key: eqx.nn.Linear(3, 4, key=key), 3, 4)
    one, two = (trainer(net, cross_entropy(), Training(lr=0.1)) for _ in range(2))
    assert one is two
    assert one is not trainer(net, cross_entropy(), Training())
