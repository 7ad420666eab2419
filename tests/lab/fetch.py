#!/usr/bin/env python3
"""Bring what the lab needs into `.lab/`, without root and without touching the system.

    sshd    the OpenSSH server, unless this machine has one
    arm64   an arm64 userland (libc, Python) with the aarch64 wheels of numpy and onnxruntime, and
            qemu's user-mode emulator to run it: numerics and agent are real there, time is not

The packages are those of this machine's own Debian release, from the mirror that it is set up
with, through an apt state of their own. What cannot be had is written down with its reason, the
tests that need it skip with that reason, and the exit code is 0 all the same.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

LAB = Path(__file__).resolve().parents[2] / ".lab"
STAMP = hashlib.sha256(Path(__file__).read_bytes()).hexdigest()
APT_S, PIP_S, SHORT_S = 120, 180, 60
# What the emulated processor is called by qemu, and its registers as /proc/cpuinfo says them: a
# Cortex-A76, the core of a Raspberry Pi 5 and of a Rock 5B.
CPU = "cortex-a76"
IDENTITY = {"implementer": "0x41", "architecture": "8", "variant": "0x4", "part": "0xd0b"}
HWCAP = (
    "fp asimd evtstrm aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm jscvt fcma "
    "lrcpc dcpop sha3 sm3 sm4 asimddp sha512 sve asimdfhm dit uscat ilrcpc flagm ssbs sb paca pacg"
)
AUXV = "import ctypes; g = ctypes.CDLL(None).getauxval; g.restype = ctypes.c_ulong; print(g(16))"


class Missing(Exception):
    """What cannot be had, and why."""


def run(command, timeout_s, **options):
    """The output of a command.

    Raises:
        Missing: It is not there, fails, or takes too long.
    """
    try:
        done = subprocess.run(
            [str(word) for word in command],
            timeout=timeout_s,
            capture_output=True,
            text=True,
            check=False,
            **options,
        )
    except OSError as error:
        raise Missing(f"{command[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired as error:
        raise Missing(f"{command[0]} took more than {timeout_s} s") from error
    if done.returncode:
        told = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        raise Missing(f"{Path(command[0]).name} failed: {told[-1] if told else 'no message'}")
    return done.stdout


def release():
    """Code name of this machine's Debian.

    Raises:
        Missing: It is another system.
    """
    try:
        lines = Path("/etc/os-release").read_text().splitlines()
    except OSError:
        lines = []
    facts = dict(line.replace('"', "").split("=", 1) for line in lines if "=" in line)
    if facts.get("ID") != "debian":
        raise Missing("the lab's packages are fetched on Debian only")
    return facts["VERSION_CODENAME"]


class Apt:
    """apt with lists, cache and (for a foreign architecture) a package status of its own."""

    def __init__(self, architecture, foreign):
        self.place = LAB / "apt" / architecture
        shutil.rmtree(self.place, ignore_errors=True)
        for folder in ("lists/partial", "cache/archives/partial"):
            (self.place / folder).mkdir(parents=True)
        status = Path("/var/lib/dpkg/status")
        if foreign:
            status = self.place / "status"
            status.write_text("")
        (self.place / "sources.list").write_text(self.sources())
        self.options = [
            word
            for option in (
                f"Dir::State={self.place}",
                f"Dir::State::lists={self.place}/lists",
                f"Dir::State::status={status}",
                f"Dir::Cache={self.place}/cache",
                f"Dir::Etc::sourcelist={self.place}/sources.list",
                "Dir::Etc::sourceparts=/dev/null",
                f"APT::Architecture={architecture}",
                "APT::Install-Recommends=false",
                "APT::Sandbox::User=",
                "Debug::NoLocking=true",
                "Acquire::Languages=none",
                "Acquire::http::Timeout=20",
            )
            for word in ("-o", option)
        ]
        run(["apt-get", *self.options, "update"], APT_S)

    def sources(self):
        """The mirror that this machine is set up with, its main component only."""
        name = release()
        line = "$(CREATED_BY)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)"
        keys = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
        for target in run(["apt-get", "indextargets", "--format", line], SHORT_S).splitlines():
            kind, uri, suite, component = target.split("|")
            if (kind, suite, component) == ("Packages", name, "main"):
                signed = f"[signed-by={keys}] " if keys.is_file() else ""
                return f"deb {signed}{uri} {name} main\n"
        raise Missing(f"apt is set up with no source of {name} main")

    def fetch(self, *packages):
        """Files of the packages and of what they need and is not installed."""
        run(["apt-get", *self.options, "install", "--yes", "--download-only", *packages], APT_S)
        return sorted((self.place / "cache/archives").glob("*.deb"))

    def fetch_alone(self, package):
        """The file of one package, nothing else."""
        run(["apt-get", *self.options, "download", package], APT_S, cwd=self.place)
        return max(self.place.glob(f"{package}_*.deb"))


def unpack(files, folder):
    """Lay the files of packages into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for file in files:
        run(["dpkg-deb", "-x", file, folder], SHORT_S)


def fetch_sshd():
    """The server, unpacked, with those libraries that this machine lacks."""
    if shutil.which("sshd", path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin"):
        return
    architecture = run(["dpkg", "--print-architecture"], SHORT_S).strip()
    folder = LAB / "sshd"
    shutil.rmtree(folder, ignore_errors=True)
    packages = Apt(architecture, foreign=False).fetch("openssh-server")
    # Its libc is this machine's: a library path with another one would break every program.
    unpack([each for each in packages if not each.name.startswith(("libc6_", "libc-bin_"))], folder)


def fetch_arm64():
    """The userland and the emulator, and a `python3` that starts the one in the other."""
    folder = LAB / "arm64"
    shutil.rmtree(folder, ignore_errors=True)
    root = folder / "root"
    native = run(["dpkg", "--print-architecture"], SHORT_S).strip()
    qemu = folder / "qemu-aarch64-static"
    emulator = Apt(native, foreign=False).fetch_alone("qemu-user-static")
    unpack([emulator], folder / "qemu")
    (folder / "qemu/usr/bin/qemu-aarch64-static").rename(qemu)
    shutil.rmtree(folder / "qemu")
    python = {"bookworm": "3.11", "trixie": "3.13"}.get(release())
    if python is None:
        raise Missing(f"nobody has tried the arm64 Python of {release()} yet")
    wanted = (f"python{python}-minimal", f"libpython{python}-stdlib", "libstdc++6", "libgcc-s1")
    unpack(Apt("arm64", foreign=True).fetch(*wanted), root)
    for unused in ("usr/share", "usr/lib/python3", "var", "etc", "usr/sbin"):
        shutil.rmtree(root / unused, ignore_errors=True)
    packages = root / f"usr/local/lib/python{python}/dist-packages"
    fetch_wheels(python, packages)
    write_python(qemu, root, python)
    describe_processor(root)
    print(
        run([root / "usr/bin/python3", "-c", "import onnxruntime as o; print(o.__version__)"], 120)
    )


def fetch_wheels(python, folder):
    """numpy and onnxruntime as a board's pip would bring them."""
    platforms = [f"manylinux_2_{minor}_aarch64" for minor in (17, 27, 28, 34)]
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
    command += ["--disable-pip-version-check", "--root-user-action=ignore"]
    command += ["--only-binary=:all:", "--python-version", python, "--target", folder]
    command += [
        word for name in (*platforms, "manylinux2014_aarch64") for word in ("--platform", name)
    ]
    run([*command, *pinned("numpy", "onnxruntime")], PIP_S)


def pinned(*names):
    """The versions that this repository is tested with, where it pins them."""
    constraints = LAB.parent / "constraints.txt"
    text = constraints.read_text() if constraints.is_file() else ""
    found = dict(re.findall(r"(?m)^([A-Za-z0-9_.-]+)==(\S+)", text))
    return [f"{name}=={found[name]}" if name in found else name for name in names]


def write_python(qemu, root, python):
    """`python3`: the emulator with the userland as its root, as argument zero this very script.

    So `sys.executable` is the script, and children that are started by it are emulated too,
    without root and without binfmt. Files that the userland lacks are this machine's.
    """
    script = root / "usr/bin/python3"
    script.unlink(missing_ok=True)
    interpreter = root / f"usr/bin/python{python}"
    words = f"exec '{qemu}' -cpu {CPU} -L '{root}' -0 '{script}' '{interpreter}'"
    script.write_text(f'#!/bin/sh\n{words} "$@"\n')
    script.chmod(0o755)


def describe_processor(root):
    """A /proc/cpuinfo that says the emulated processor: what the kernel would print of its HWCAP.

    With this machine's own, the runtime takes an x86 for what it runs on, and crashes.
    """
    bits = int(run([root / "usr/bin/python3", "-c", AUXV], SHORT_S))
    features = " ".join(name for bit, name in enumerate(HWCAP.split()) if bits >> bit & 1)
    blocks = [
        f"processor\t: {number}\nBogoMIPS\t: 100.00\nFeatures\t: {features}\n"
        + "".join(f"CPU {key}\t: {value}\n" for key, value in IDENTITY.items())
        + "CPU revision\t: 1\n\n"
        for number in range(os.cpu_count() or 1)
    ]
    (root / "proc").mkdir(exist_ok=True)
    (root / "proc/cpuinfo").write_text("".join(blocks))


def main():
    """Fetch what is not there yet; say what cannot be had."""
    LAB.mkdir(exist_ok=True)
    for name, fetch in (("sshd", fetch_sshd), ("arm64", fetch_arm64)):
        done, missing = LAB / f"{name}.done", LAB / f"{name}.missing"
        if done.is_file() and done.read_text() == STAMP:
            continue
        done.unlink(missing_ok=True)
        missing.unlink(missing_ok=True)
        try:
            fetch()
            done.write_text(STAMP)
        except (Missing, OSError) as reason:
            missing.write_text(f"{reason}\n")
            print(f"lab: no {name}, the tests that need it are skipped: {reason}", file=sys.stderr)
    shutil.rmtree(LAB / "apt", ignore_errors=True)


main()
