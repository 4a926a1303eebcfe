"""Which of two values of a metric is better."""

HIGHER = {"accuracy", "auroc", "auprc", "auc", "f1", "kappa", "precision", "recall",
          "sensitivity", "specificity"}  # fmt: skip
LOWER = {"brier", "bytes", "consensus", "ece", "error", "errors", "gap", "loss", "messages", "nll",
         "seconds", "span", "std", "worst"}  # fmt: skip


def lower_is_better(metric: str) -> bool | None:
    """Whether less of a metric is better, as its name says; None if the name does not say it.

    >>> lower_is_better("test_log_loss"), lower_is_better("worst_accuracy")
    (True, False)
    >>> lower_is_better("guards")
    """
    words = set(metric.lower().split("_"))
    # a gap or a deviation of accuracies is one all the same
    if words & {"gap", "std"}:
        return True
    if words & HIGHER:
        return False
    return True if words & LOWER else None
