from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import pytest_runtest_setup


class NeedsAbsentWeights:
    """As much of a pytest item as the set-up hook reads."""

    def iter_markers(self, name: str) -> Iterator[pytest.Mark]:
        yield getattr(pytest.mark, name)("no_such_package").mark


def test_without_weights_a_test_is_skipped_at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match="no_such_package"):
        pytest_runtest_setup(NeedsAbsentWeights())


def test_without_weights_a_test_fails_in_ci(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no_such_package"):
        pytest_runtest_setup(NeedsAbsentWeights())
