"""`python -m oncelog_server` is the `oncelog` command."""

from oncelog_server.cli import main

if __name__ == "__main__":
    main()
