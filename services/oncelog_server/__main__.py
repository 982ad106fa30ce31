"""Runs the `oncelog` command as `python -m oncelog_server`."""

from oncelog_server.cli import main

if __name__ == "__main__":
    main()
