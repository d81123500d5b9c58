"""A program over HTTP: requests and their streams, sessions, metrics, and the chat form that other clients speak."""
