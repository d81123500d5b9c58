"""Tests; their folders follow the folders of the code."""
