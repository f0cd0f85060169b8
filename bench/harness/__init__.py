"""Measures Headwater and its rivals on the same work, in turn."""
