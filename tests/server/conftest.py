from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.runtime.program import engine
from tests.server.served import Served, serving


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving(engine()) as found:
        yield found
