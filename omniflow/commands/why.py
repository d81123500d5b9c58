"""`omniflow why`: one node of a schedule, or all of them (`omniflow compile --explain`)."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from omniflow.commands.arguments import BadArgument
from omniflow.commands.compile import schedule_of
from omniflow.commands.selection import Selection

if TYPE_CHECKING:
    from omniflow_compiler.account import Account, NodeAccount
    from omniflow_compiler.schedule import Schedule

FORMATS = ("text", "json")


def check_format(format: str, option: str) -> None:
    """Errors: BadArgument for a format that is not known."""
    if format not in FORMATS:
        raise BadArgument(f"{option} {format}: known formats are {', '.join(FORMATS)}")


def explain_schedule(schedule: Schedule, format: str) -> str:
    """What every node of the schedule is there for and costs, as text or JSON."""
    from omniflow_compiler.account import account_for
    from omniflow_compiler.account_text import write_account

    account = account_for(schedule)
    return _json(account) if format == "json" else "\n".join(write_account(account)) + "\n"


def explain_node(selection: Selection, node: str, *, as_json: bool) -> int:
    """Prints the account of one node; 1 when the spec has faults or the schedule cannot be read."""
    schedule = schedule_of(selection)
    if schedule is None:
        return 1
    from omniflow_compiler.account import account_for
    from omniflow_compiler.account_text import write_node
    from omniflow_compiler.suggest import did_you_mean

    nodes = {account.id: account for account in account_for(schedule).nodes}
    if node not in nodes:
        raise BadArgument(f"`{selection.spec}` has no node `{node}`; {did_you_mean(node, nodes, 'node')[0]}")
    print(_json(nodes[node]) if as_json else "\n".join(write_node(nodes[node])) + "\n", end="")
    return 0


def _json(account: Account | NodeAccount) -> str:
    return json.dumps(asdict(account), indent=1, ensure_ascii=False) + "\n"
