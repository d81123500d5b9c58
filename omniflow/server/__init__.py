"""A program over HTTP: requests and their streams, sessions, metrics, and the forms that other clients speak."""
