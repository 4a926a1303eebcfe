"""The page: a run, a study or a federation to look at in a browser, with nothing from outside."""
