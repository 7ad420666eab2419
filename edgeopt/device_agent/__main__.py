"""Entry of the zipapp: the agent itself, or (`--job`) the child that does one job."""

import sys


def main():
    """Serve requests until stdin ends, or do one job."""
    if sys.argv[1:] == ["--job"]:
        import child

        child.run()
    else:
        import server

        server.Server().serve()


main()
