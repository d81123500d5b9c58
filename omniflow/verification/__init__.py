"""Runs one program in every mode and compares what comes out: the answer must not depend on how it was computed."""
