"""What OpenSSH's own failures mean: from its words to what happened and what to do next.

The texts are those of OpenSSH 7.6 to 9.x, which does not translate them.
"""

import os
import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from edgeopt.errors import ConnectionLostError, DeviceError

_UNRESOLVED = re.compile(r"Could not resolve hostname (\S+?):? (.+)", re.IGNORECASE)
_REFUSED = re.compile(r"connect to host (\S+) port (\d+): (Connection refused)")
_UNREACHABLE = re.compile(
    r"connect to host (\S+) port (\d+): (.*(?:timed out|No route to host|unreachable).*)"
)
_BANNER = re.compile(r"Connection (?:to \S+ port \d+ timed out|timed out during banner exchange)")
_DENIED = re.compile(r"(?:(\S+@\S+): )?Permission denied \(([^)]*)\)")
_TOO_MANY = re.compile(r"Too many authentication failures")
_CHANGED = re.compile(r"Offending (\S+) key in (.+?):(\d+)")
_CHANGED_HOST = re.compile(r"Host key for (\S+) has changed")
_UNKNOWN_KEY = re.compile(r"No (\S+) host key is known for (\S+) and")
_NO_MATCH = re.compile(r"Unable to negotiate with .*?: (no matching .*)")
_REJECTED_FORWARD = re.compile(r"channel \d+: open failed: (?:connect failed: )?(.*)")
_BEHIND_JUMP = ("UNKNOWN port 65535", "stdio forwarding failed")


def explain(log: str, *, host: str, where: str, facts: Mapping[str, list[str]]) -> DeviceError:
    """The error behind ssh's exit code 255.

    Args:
        log: Its stderr.
        host: As ssh was called with.
        where: The device, for the message.
        facts: What `ssh -G` says, by lower-case keyword.
    """
    text = "\n".join(line.strip() for line in log.splitlines() if line.strip())
    jump = _jump(facts)
    if jump and any(mark in text for mark in _BEHIND_JUMP):
        return _through(jump, text, host, where, facts)
    return (
        _host_key(text, host, where, facts)
        or _authentication(text, host, where, facts)
        or _unreachable(text, host, where)
        or _lost(text, host, where)
    )


def hides_reason(log: str, facts: Mapping[str, list[str]]) -> bool:
    """Whether a jump host failed without a reason: ssh drops its words on shared connections."""
    if not _jump(facts) or _BEHIND_JUMP[0] not in log:
        return False
    told = (_DENIED, _CHANGED_HOST, _UNKNOWN_KEY, _REJECTED_FORWARD, _REFUSED, _UNRESOLVED)
    return not any(each.search(log) for each in (*told, _UNREACHABLE))


def _jump(facts: Mapping[str, list[str]]) -> str:
    found = facts.get("proxyjump", ["none"])[0]
    if found == "none":
        found = facts.get("proxycommand", ["none"])[0]
    return "" if found == "none" else found


def _through(
    jump: str, text: str, host: str, where: str, facts: Mapping[str, list[str]]
) -> DeviceError:
    """A failure while a jump host is in between: at it, or behind it."""
    refused = _REJECTED_FORWARD.search(text)
    if refused:
        return ConnectionLostError(
            f"the jump host {jump} was reached, but not the device behind it: {refused[1]}",
            where=where,
            hint=f"from the jump host, is the device on, and its ssh server? try `ssh {_q(host)}`",
        )
    error = (
        _host_key(text, jump, where, {})
        or _authentication(text, jump, where, {})
        or _unreachable(text, jump, where)
    )
    reason = error.what if error else _last(text)
    kind = type(error) if error else ConnectionLostError
    return kind(
        f"the jump host {jump} failed: {reason}",
        where=where,
        hint=f"`ssh {_q(jump)}` must work first"
        + (f"; {error.hint}" if error and error.hint else "")
        + "; where it asks for a second factor, log in once with a ControlMaster and keep it",
    )


def _host_key(
    text: str, host: str, where: str, facts: Mapping[str, list[str]]
) -> DeviceError | None:
    if "REMOTE HOST IDENTIFICATION HAS CHANGED" in text or _CHANGED_HOST.search(text):
        found = _CHANGED.search(text)
        place = f" ({found[2]}, line {found[3]})" if found else ""
        cure = f"`ssh-keygen -f {_q(found[2])} -R {_q(_address(host, facts))}`" if found else ""
        return DeviceError(
            f"the host key is not the one that is known{place}: another system answers there, "
            "or somebody in between",
            where=where,
            hint="if the device was set up anew: "
            + (f"remove the old key with {cure}, then " if cure else "")
            + f"`ssh {_q(host)}` and compare the fingerprint",
        )
    if "Host key verification failed" not in text and not _UNKNOWN_KEY.search(text):
        return None
    name, port = facts.get("hostname", [host])[0], facts.get("port", ["22"])[0]
    scan = f"`ssh-keyscan -p {port} {_q(name)} | ssh-keygen -lf -`"
    return DeviceError(
        "the host key is not known, and is never accepted silently",
        where=where,
        hint=f"run `ssh {_q(host)}` once and compare the fingerprint with the device's own "
        f"({scan} shows what it offers; `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` on the "
        "device what it has)",
    )


def _address(host: str, facts: Mapping[str, list[str]]) -> str:
    """The name under which known_hosts keeps the key."""
    if "hostkeyalias" in facts:
        return facts["hostkeyalias"][0]
    name = facts.get("hostname", [host.rpartition("@")[2]])[0]
    port = facts.get("port", ["22"])[0]
    return name if port == "22" else f"[{name}]:{port}"


def _authentication(
    text: str, host: str, where: str, facts: Mapping[str, list[str]]
) -> DeviceError | None:
    denied = _DENIED.search(text)
    if not denied and not _TOO_MANY.search(text):
        return None
    too_open = "UNPROTECTED PRIVATE KEY FILE" in text or "bad permissions" in text
    methods = f" (it takes {denied[2].replace(',', ', ')})" if denied and denied[2] else ""
    tried = f"; {_keys(facts)}" if facts else ""
    if too_open:
        hint = "a key file may be read by others, and ssh ignores it: `chmod 600` it"
    else:
        hint = (
            f"`ssh-copy-id {_q(host)}` puts your key there; a key with a passphrase needs `ssh-add`"
        )
    what = "too many keys were offered" if not denied else "permission denied"
    if not denied:
        hint = "name the one key in ~/.ssh/config (IdentityFile, IdentitiesOnly yes); " + hint
    return DeviceError(f"{what}{methods}{tried}", where=where, hint=hint)


def _keys(facts: Mapping[str, list[str]]) -> str:
    """Which keys ssh had to offer."""
    files = [file for file in facts.get("identityfile", []) if Path(file).expanduser().is_file()]
    agent = facts.get("identityagent", [os.environ.get("SSH_AUTH_SOCK", "")])[0]
    with_agent = bool(agent) and agent != "none"
    if not files:
        none = "no key file of the configuration exists"
        return none + (", those of the agent were tried" if with_agent else " and no agent runs")
    return "keys tried: " + ", ".join(files) + (" and those of the agent" if with_agent else "")


def _unreachable(text: str, host: str, where: str) -> DeviceError | None:
    found = _UNRESOLVED.search(text)
    if found:
        return ConnectionLostError(
            f"there is no host called {found[1]!r}: {found[2]}",
            where=where,
            hint="check the name, or give the device a Host entry in ~/.ssh/config "
            "(a `.local` name needs mDNS on this machine)",
        )
    found = _REFUSED.search(text)
    if found:
        return ConnectionLostError(
            f"{found[1]} refused the connection at port {found[2]}",
            where=where,
            hint="the device is on but no ssh server listens there: start it, or name its port",
        )
    found = _UNREACHABLE.search(text)
    if found:
        return ConnectionLostError(
            f"{found[1]} (port {found[2]}) cannot be reached: {found[3]}",
            where=where,
            hint="is the device on, and in this network?",
        )
    found = _NO_MATCH.search(text)
    if found:
        return DeviceError(
            f"ssh and the device's server have no algorithm in common: {found[1]}",
            where=where,
            hint="allow one of those in the device's Host entry in ~/.ssh/config",
        )
    if _BANNER.search(text):
        return ConnectionLostError(
            "the device accepted the connection but its ssh server did not answer in time",
            where=where,
            hint="it may be starting, or out of memory; try again, then restart it",
        )
    return None


def _lost(text: str, host: str, where: str) -> DeviceError:
    reason = _last(text)
    return ConnectionLostError(
        "the connection was lost" + (f": {reason}" if reason else ""),
        where=where,
        hint=f"is the device still on? `ssh {_q(host)} true` must work; "
        "the same command goes on from what was measured",
    )


def _last(text: str) -> str:
    """ssh's last words, without the lines of a banner before them."""
    return "; ".join(text.splitlines()[-2:])[-300:]


def _q(word: str) -> str:
    return shlex.quote(word)
