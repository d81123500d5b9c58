"""Caches by key: what one request computed and another may take over, kept within bytes and dropped for whoever needs room.

Every key holds the card, the component, the version of its weights, its dtype and the content; a hit compares the
content itself, never a hash alone.
"""

from __future__ import annotations
