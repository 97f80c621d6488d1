"""What a patch can do. Each operation turns a patch and a tree into a Finding."""
