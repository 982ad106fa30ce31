"""The `oncelog` command."""


def main() -> None:
    raise SystemExit("the command is being built")
