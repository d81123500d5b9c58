"""What the nodes of a loaded schedule share and what outlives requests: pools of sequences and kept features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from omniflow.caches import Origins
from omniflow.errors import BindError
from omniflow.features import FeatureCache, Shelf
from omniflow.pool import Pool, Reuse
from omniflow.prefixes import prefixes_of
from omniflow.roles import Forks
from omniflow_compiler.schedule import Cache, Node, Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Stores:
    """Pools by component, features by cache, and where what is in them comes from."""

    origins: Origins
    pools: Mapping[str, Pool]
    features: Mapping[str, FeatureCache]

    @property
    def num_kept(self) -> int:
        """Entries that no request holds."""
        return sum(pool.num_kept for pool in self.pools.values()) + sum(map(len, self.features.values()))

    def shelf(self, node: Node) -> Shelf | None:
        """An encoder's place in the cache that its loop names."""
        cache = self.features.get(node.cache or "")
        if cache is None or node.expert is None:
            return None
        return Shelf(cache=cache, origin=partial(self.origins.of, node.expert))

    def update(self, component: str) -> None:
        """The component's weights have changed: what it gave is dropped, and nothing of before will be found.

        Errors: KeyError for a component that the schedule does not name.
        """
        self.origins.update(component)
        self.drop(component)

    def drop(self, component: str | None = None) -> None:
        """Drops what is kept of a component, or all of it."""
        for name, pool in self.pools.items():
            if component in (None, name):
                pool.clear()
        for cache in self.features.values():
            cache.drop(component)


def make_stores(schedule: Schedule, experts: Mapping[str, Any]) -> Stores:
    """Errors: BindError for a cache that asks of an expert what it cannot do."""
    origins = Origins(schedule, experts)
    caches = {cache.name: cache for cache in schedule.caches}
    pools: dict[str, Pool] = {}
    for name, cache_name in _leases(schedule):
        reuse = _reuse(name, experts[name], caches.get(cache_name), origins)
        if name not in pools or reuse is not None:
            pools[name] = Pool(name, experts[name], reuse)
    features = {
        cache.name: FeatureCache(max_bytes=cache.max_bytes) for cache in schedule.caches if cache.kind == "features"
    }
    for node in schedule.nodes:
        if node.expert is not None and node.cache in features:
            origins.of(node.expert)  # the weights as they are now
    return Stores(origins=origins, pools=pools, features=features)


def _leases(schedule: Schedule) -> Iterator[tuple[str, str]]:
    """The experts that decode or score, with the name of a cache, empty when they have none."""
    for node in schedule.nodes:
        if node.name in ("ar_decode", "score") and node.expert is not None:
            yield node.expert, node.cache or ""
        if node.inner is not None:
            yield node.inner.expert, node.inner.cache or ""


def _reuse(name: str, expert: Any, cache: Cache | None, origins: Origins) -> Reuse | None:
    if cache is None or cache.reuse != "prefix":
        return None
    if not isinstance(expert, Forks):
        raise BindError(
            f"{cache.place}: cache {cache.name} has reuse: prefix, and the expert of {name} has no fork and trim"
        )
    origins.of(name)  # the weights as they are now
    return Reuse(expert=expert, prefixes=prefixes_of(expert, cache.block_tokens), origin=partial(origins.of, name))
