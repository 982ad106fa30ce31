"""Every command of `oncelog`."""

import typer

from oncelog_server.cli import root
from oncelog_server.cli.lazy import COMMANDS


def commands():
    """Every command of the tree by its words, with its parameters."""

    def below(words, command):
        for name, one in command.commands.items():
            if hasattr(one, "commands"):
                yield from below((*words, name), one)
            else:
                yield (*words, name), one

    for name in COMMANDS:
        command = typer.main.get_command(root).get_command(None, name)
        if hasattr(command, "commands"):
            yield from below((name,), command)
        else:
            yield (name,), command
