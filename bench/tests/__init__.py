"""Tests of the harness; they measure nothing."""
