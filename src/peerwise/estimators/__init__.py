"""Peerwise as scikit-learn objects: they fit, predict, clone, search and sit in pipelines."""

from peerwise.estimators.calibrated import RiskCalibratedClassifier
from peerwise.estimators.decentralized import DecentralizedClassifier

__all__ = ["DecentralizedClassifier", "RiskCalibratedClassifier"]
