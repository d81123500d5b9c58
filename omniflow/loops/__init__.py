"""Loop kinds: what a node repeats over its expert until it is done, one file each."""
