"""What can be named in a spec: the closed sets of ops and loop kinds, and the experts that are installed."""
