"""Errors that a user can cause; their text is one line that says what, where and what to do."""

from __future__ import annotations


class OmniFlowError(Exception):
    """Base of all of them."""


class InputError(OmniFlowError):
    """Inputs or parameters of a request do not fit its program; nothing has run."""


class BindError(OmniFlowError):
    """A schedule's experts cannot be loaded or do not fit it; nothing has run."""


class BusyError(OmniFlowError):
    """The queue is full; the request was not taken."""


class PluginError(OmniFlowError):
    """A plugin file cannot be used; the message says why."""
