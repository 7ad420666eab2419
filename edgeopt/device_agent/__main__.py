"""Entry of the zipapp: the agent itself, the child that does one job, or a bearer of bytes.

agent.pyz [--set NAME=VALUE ...]                  serve requests
agent.pyz [--set NAME=VALUE ...] --receive        blobs from stdin
agent.pyz [--set NAME=VALUE ...] --send PATH MAX  a file to stdout
agent.pyz --job                                   one job (started by the agent)
"""

import os
import sys


def main(words):
    """Do what the words say; `--set` brings variables to where the environment does not."""
    while words[:1] == ["--set"]:
        name, _, value = words[1].partition("=")
        os.environ[name] = value
        words = words[2:]
    if words == ["--job"]:
        import child

        return child.run()
    if words == ["--receive"]:
        import wire

        return wire.receive()
    if words[:1] == ["--send"]:
        import wire

        return wire.send(words[1], int(words[2]))
    import server

    return server.Server().serve()


sys.exit(main(sys.argv[1:]))
