"""The experiments of the five papers, run with this library and set beside their numbers."""
