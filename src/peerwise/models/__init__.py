"""Generative classifiers: s(x, y), theta(s), log p(x, y), and the algebra of their statistics."""

from peerwise.models.family import Model, Theta, log_joint, log_posterior, statistics
from peerwise.models.naive_bayes import naive_bayes

__all__ = ["Model", "Theta", "log_joint", "log_posterior", "naive_bayes", "statistics"]
