"""`python -m edgeopt` and the `edgeopt` command."""


def main() -> None:
    """Run the command line."""
    from edgeopt.cli.app import run

    run()


if __name__ == "__main__":
    main()
