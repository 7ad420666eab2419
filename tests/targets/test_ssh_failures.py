"""What OpenSSH's failures mean. The texts are those of real clients (7.6 to 9.7), names changed."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from edgeopt.errors import ConnectionLostError, DeviceError
from edgeopt.targets.ssh_failures import explain

FACTS: Mapping[str, list[str]] = {
    "hostname": ["10.0.0.7"],
    "port": ["2222"],
    "proxyjump": ["none"],
    "identityfile": ["/nowhere/id_ed25519"],
}
JUMP = {**FACTS, "proxyjump": ["bastion"]}
CHANGED = """\
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
IT IS POSSIBLE THAT SOMEONE IS DOING SOMETHING NASTY!
The fingerprint for the ED25519 key sent by the remote host is
SHA256:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU.
Please contact your system administrator.
Add correct host key in /u/me/.ssh/known hosts to get rid of this message.
Offending ED25519 key in /u/me/.ssh/known hosts:7
Host key for [10.0.0.7]:2222 has changed and you have requested strict checking.
Host key verification failed.
"""
UNKNOWN = """\
No ED25519 host key is known for [10.0.0.7]:2222 and you have requested strict checking.\r
Host key verification failed.\r
"""
BEHIND = (
    "kex_exchange_identification: Connection closed by remote host\n"
    "Connection closed by UNKNOWN port 65535\n"
)
LOST = ConnectionLostError
CASES = {
    "no name": (
        "ssh: Could not resolve hostname jetson: Name or service not known\n",
        FACTS,
        LOST,
        "no host called 'jetson'",
        "Host entry",
    ),
    "no name for now": (
        "ssh: Could not resolve hostname jetson.local: Temporary failure in name resolution\n",
        FACTS,
        LOST,
        "Temporary failure",
        "mDNS",
    ),
    "refused": (
        "ssh: connect to host 10.0.0.7 port 2222: Connection refused\n",
        FACTS,
        LOST,
        "refused the connection at port 2222",
        "ssh server",
    ),
    "timed out": (
        "ssh: connect to host 10.0.0.7 port 2222: Connection timed out\n",
        FACTS,
        LOST,
        "cannot be reached: Connection timed out",
        "network",
    ),
    "no route": (
        "ssh: connect to host 10.0.0.7 port 2222: No route to host\n",
        FACTS,
        LOST,
        "No route to host",
        "on",
    ),
    "silent server": (
        "Connection timed out during banner exchange\nConnection to 10.0.0.7 port 2222 timed out\n",
        FACTS,
        LOST,
        "did not answer in time",
        "restart",
    ),
    "session that timed out": (
        "Read from remote host board: Connection timed out\n",
        FACTS,
        LOST,
        "lost",
        "",
    ),
    "denied": (
        "me@10.0.0.7: Permission denied (publickey,password).\n",
        FACTS,
        DeviceError,
        "permission denied (it takes publickey, password)",
        "ssh-copy-id jetson",
    ),
    "open key file": (
        "@         WARNING: UNPROTECTED PRIVATE KEY FILE!          @\n"
        'Load key "/u/me/.ssh/id": bad permissions\nme@b: Permission denied (publickey).\n',
        FACTS,
        DeviceError,
        "permission denied",
        "chmod 600",
    ),
    "too many keys": (
        "Received disconnect from 10.0.0.7 port 2222:2: Too many authentication failures\n"
        "Disconnected from 10.0.0.7 port 2222\n",
        FACTS,
        DeviceError,
        "too many keys",
        "IdentitiesOnly",
    ),
    "unknown key": (UNKNOWN, FACTS, DeviceError, "not known", "ssh-keyscan -p 2222 10.0.0.7"),
    "changed key": (
        CHANGED,
        FACTS,
        DeviceError,
        "(/u/me/.ssh/known hosts, line 7)",
        "ssh-keygen -f '/u/me/.ssh/known hosts' -R '[10.0.0.7]:2222'",
    ),
    "no algorithm": (
        "Unable to negotiate with 10.0.0.7 port 2222: no matching host key type found. "
        "Their offer: ssh-rsa,ssh-dss\n",
        FACTS,
        DeviceError,
        "Their offer: ssh-rsa",
        "~/.ssh/config",
    ),
    "jump has no name": (
        "ssh: Could not resolve hostname bastion: Name or service not known\n" + BEHIND,
        JUMP,
        LOST,
        "the jump host bastion failed: there is no host called 'bastion'",
        "`ssh bastion` must work first",
    ),
    "jump denies": (
        "me@bastion: Permission denied (publickey,keyboard-interactive).\n" + BEHIND,
        JUMP,
        DeviceError,
        "the jump host bastion failed: permission denied",
        "second factor",
    ),
    "jump unknown": (
        "Host key verification failed.\n" + BEHIND,
        JUMP,
        DeviceError,
        "the jump host bastion failed: the host key is not known",
        "ssh bastion",
    ),
    "behind the jump": (
        "channel 0: open failed: connect failed: Connection refused\n"
        "stdio forwarding failed\n" + BEHIND,
        JUMP,
        LOST,
        "bastion was reached, but not the device behind it: Connection refused",
        "ssh jetson",
    ),
    "denied behind the jump": (
        "me@10.0.0.7: Permission denied (publickey).\n",
        JUMP,
        DeviceError,
        "permission denied",
        "ssh-copy-id jetson",
    ),
    "no answer to keep-alives": (
        "Timeout, server 10.0.0.7 not responding.\n",
        FACTS,
        LOST,
        "the connection was lost: Timeout, server",
        "still on",
    ),
    "broken pipe": (
        "client_loop: send disconnect: Broken pipe\n",
        FACTS,
        LOST,
        "Broken pipe",
        "still on",
    ),
    "closed": (
        "Connection to 10.0.0.7 closed by remote host.\n",
        FACTS,
        LOST,
        "was lost",
        "still on",
    ),
    "no word": ("", FACTS, LOST, "the connection was lost", "still on"),
}


@pytest.mark.parametrize("case", CASES)
def test_message(case: str) -> None:
    """Every failure says what happened and what to do, and whether waiting may help."""
    log, facts, kind, what, hint = CASES[case]
    error = explain(log, host="jetson", where="jetson", facts=facts)
    assert type(error) is kind
    assert what in error.what
    assert hint in error.hint
    assert error.where == "jetson"


def test_keys_are_named(tmp_path: Path) -> None:
    """Those that exist were tried; where none does that is the reason."""
    key = tmp_path / "id"
    key.write_text("")
    denied = "me@b: Permission denied (publickey).\n"
    facts = {**FACTS, "identityfile": [str(key), "/nowhere/id"], "identityagent": ["/run/agent"]}
    assert (
        f"keys tried: {key} and those of the agent"
        in explain(denied, host="b", where="b", facts=facts).what
    )
    facts = {**FACTS, "identityagent": ["none"]}
    assert (
        "no key file of the configuration exists and no agent runs"
        in explain(denied, host="b", where="b", facts=facts).what
    )


def test_the_command_is_quoted() -> None:
    """A host that a shell would read otherwise is quoted in the command to type."""
    error = explain(UNKNOWN, host="my host", where="x", facts={})
    assert "`ssh 'my host'`" in error.hint
