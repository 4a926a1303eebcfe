"""Images moved and mirrored: against every image that can come out, and only in training."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from peerwise.core import Shard
from peerwise.errors import BadSetting
from peerwise.nets import crop_and_flip, network
from peerwise.update.losses import cross_entropy
from peerwise.update.sgd import trainer
from peerwise.update.training import Training

SHAPE = (5, 4, 2)
EDGE = 2


def possible(image):
    """Every image that one may become, by NumPy."""
    padded = np.pad(image, ((EDGE, EDGE), (EDGE, EDGE), (0, 0)), mode="reflect")
    moved = [
        padded[i : i + SHAPE[0], j : j + SHAPE[1]]
        for i in range(2 * EDGE + 1)
        for j in range(2 * EDGE + 1)
    ]
    return {one.tobytes() for m in moved for one in (m, np.ascontiguousarray(m[:, ::-1]))}


def test_what_comes_out_is_moved_and_perhaps_mirrored_and_everything_comes():
    image = np.arange(40, dtype=np.float32).reshape(SHAPE)
    rows = jnp.asarray(np.tile(image.reshape(1, -1), (2000, 1)))
    found = np.asarray(crop_and_flip(SHAPE, EDGE)(jax.random.key(1), rows))
    assert {row.tobytes() for row in found} == possible(image)
    assert len(possible(image)) > (2 * EDGE + 1) ** 2  # mirrored ones are among them


def test_the_same_key_gives_the_same_and_no_edge_only_mirrors():
    rows = jnp.arange(120.0).reshape(3, 40)
    vary = crop_and_flip(SHAPE, 0)
    np.testing.assert_array_equal(vary(jax.random.key(2), rows), vary(jax.random.key(2), rows))
    images = rows.reshape(3, *SHAPE)
    for one, was in zip(vary(jax.random.key(2), rows).reshape(3, *SHAPE), images, strict=True):
        assert (one == was).all() or (one == was[:, ::-1]).all()


@pytest.mark.full
def test_a_net_sees_moved_images_in_training_and_plain_ones_in_prediction():
    plain, moved = (network("mlp_64", (6, 6), 2, moved=m) for m in (False, True))
    key = jax.random.key(3)
    x = jax.random.normal(key, (8, 36))
    weights = plain.init(key)
    np.testing.assert_array_equal(plain.logits(weights, x), moved.logits(weights, x))
    shard = Shard(x, jnp.arange(8) % 2, jnp.ones(8))

    def trained(net):
        local = trainer(net, cross_entropy(), Training(batch=8, lr=0.1, momentum=0.0))
        out = local.train(key, weights, local.optimiser(weights), jnp.int32(1), None, shard)
        return jax.tree.leaves(out.weights)

    apart = [
        float(jnp.abs(a - b).max()) for a, b in zip(trained(plain), trained(moved), strict=True)
    ]
    assert max(apart) > 1e-4


@pytest.mark.parametrize(
    ("shape", "edge"), [((5,), 2), ((5, 4, 2, 1), 2), ((5, 4), 4), ((5, 4), -1)]
)
def test_what_cannot_be_moved_is_refused(shape, edge):
    with pytest.raises(BadSetting, match="fewer"):
        crop_and_flip(shape, edge)
