"""Many runs: sweeps, kept cells, comparisons."""
