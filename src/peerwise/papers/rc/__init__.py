"""Models before and after calibration: a comparison of our own."""
