"""`python -m bot`, the same as `optimclaw`."""

from __future__ import annotations


def main() -> None:
    """Run the command line."""
    from bot.cli import commands

    commands(prog_name="optimclaw")


if __name__ == "__main__":
    main()
