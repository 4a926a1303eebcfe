"""Generative classifiers: s(x, y), theta(s), log p(x, y), and the algebra of their statistics."""

from peerwise.models.counts import bernoulli, multinomial
from peerwise.models.discriminant import lda, qda
from peerwise.models.family import Model, Theta, log_joint, log_posterior, statistics
from peerwise.models.naive_bayes import naive_bayes, shared_naive_bayes
from peerwise.models.tan import tan

__all__ = [
    "Model",
    "Theta",
    "bernoulli",
    "lda",
    "log_joint",
    "log_posterior",
    "multinomial",
    "naive_bayes",
    "qda",
    "shared_naive_bayes",
    "statistics",
    "tan",
]
