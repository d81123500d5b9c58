"""The passes over the graph, in the order of `pipeline.py`."""
