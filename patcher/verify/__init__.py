"""Proof by compiler: compile units before and after, and judge whether kernels are real."""
