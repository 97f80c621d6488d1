"""Failures before and around the gates: toolkits, headers, ABI, libraries, prebuilt code."""
