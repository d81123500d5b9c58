"""Ops: small functions between loops, one table of them all."""
