"""Tests of the house around the code: packaging, layers, the command line's weight, what the repository may hold."""
