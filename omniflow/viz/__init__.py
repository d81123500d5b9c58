"""Pictures of a schedule: one graph model, and one small file for every format it is written in."""
