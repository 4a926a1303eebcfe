"""What the BA-BFL paper prints: figure 1. The text at hand lacks the numbers of table 1."""

# Mean and variance of the barycenter of N(0, 1) and N(2, 1/4) by rule.
FIGURE_1 = {"eaa": (1, 0.625), "gaa": (1, 0.3125), "aalv": (1, 0.5), "rkl": (1.6, 0.4),
            "w2": (1, 0.5625)}  # fmt: skip
