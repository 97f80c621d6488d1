"""Rendering only: values in, text or JSON out."""
