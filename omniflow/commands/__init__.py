"""What each command of `omniflow` does; `cli.py` only reads the command line."""
