"""Scan a package: every gate that keeps a target out, grouped by what it is part of."""
