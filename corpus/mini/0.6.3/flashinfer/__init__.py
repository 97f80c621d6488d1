"""A miniature that has FlashInfer's layout and nothing of its code; for offline demos and tests."""
