"""The command line's root: one command a file, loaded when it is called."""


def run() -> None:
    """Parse, dispatch, and map errors to messages and exit codes."""
    raise SystemExit(0)
