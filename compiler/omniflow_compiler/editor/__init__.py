"""What an editor asks of a spec: what stands at a place, where it is declared, what may be written next."""
