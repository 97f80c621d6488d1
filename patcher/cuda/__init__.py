"""A preprocessor for all targets at once. It knows nothing of packages and patches."""
