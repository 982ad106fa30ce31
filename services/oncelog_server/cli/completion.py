"""`oncelog completion`: the script that completes commands and options in a shell."""

import os
from enum import StrEnum
from typing import Annotated

import typer

app = typer.Typer(add_completion=False)


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


@app.command()
def completion(
    ctx: typer.Context,
    shell: Annotated[Shell, typer.Argument(help="the shell to complete in")],
) -> None:
    """Print a completion script: `eval "$(oncelog completion bash)"`."""
    os.environ["_ONCELOG_COMPLETE"] = f"source_{shell.value}"
    ctx.find_root().command.main([], prog_name="oncelog", complete_var="_ONCELOG_COMPLETE")
