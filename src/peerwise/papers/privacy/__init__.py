"""What a privacy budget leaves of a model: a study of our own."""
