"""CUDA toolkits and host compilers: where they are, and what they predefine."""
