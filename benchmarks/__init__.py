"""Side-by-side measurements: what OmniFlow takes, beside what people use today or beside its own budget."""
