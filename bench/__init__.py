"""What we cost, and what the alternatives cost."""
