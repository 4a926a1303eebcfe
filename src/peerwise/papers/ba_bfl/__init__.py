"""BA-BFL: barycenters of Bayesian posteriors."""
