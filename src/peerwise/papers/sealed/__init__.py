"""What sealed sums are worth: beside one curator, and for private calibration."""
