"""Federated and Gossip naive Bayes with differential privacy."""
