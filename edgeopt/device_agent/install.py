"""`install`: a runtime in an environment of the agent's own, from wheels that the host sent.

pip on old boards does not know today's wheels, and many systems have no ensurepip: a wheel is an
archive, so it is unpacked into a virtual environment made without pip. The system's own Python
and whatever is installed there stay as they are.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile

import cache
from failures import JobError

_COMPLETE = "edgeopt-complete"
_IMPORT = "import numpy, onnxruntime; print(onnxruntime.__version__)"
_SPARE_BYTES = 64 << 20


def install(job):
    """Unpack wheels into `<cache>/venv-<digest>`; when told to, let `<cache>/venv` lead there.

    Arguments: wheels, a list of {name, place}; adopt, whether it is the runtime from now on, and
    earlier ones are removed. The reply: python, the interpreter; runtime, the version that it
    imports; new, whether anything had to be unpacked.
    """
    wheels = [(each["name"], each["place"]) for each in job.get("wheels", list)]
    home = cache.folder()
    if home is None:
        raise JobError("install_failed", "the agent has no folder here", "set cache_dir")
    folder = os.path.join(home, "venv-" + _digest(wheels))
    new = not os.path.exists(os.path.join(folder, _COMPLETE))
    if new:
        job.phase("create")
        _check_room(home, wheels)
        _create(folder)
        job.phase("unpack")
        for name, place in wheels:
            _unpack(name, place, folder)
    job.phase("import")
    version = _import(os.path.join(folder, "bin", "python"))
    with open(os.path.join(folder, _COMPLETE), "w") as stream:
        stream.write(version)
    if job.arguments.get("adopt"):
        kept = (os.path.realpath(folder), os.path.realpath(sys.prefix))
        link = os.path.join(home, "venv")
        _lead_to(folder, link)
        _remove_others(home, kept)
        folder = link
    return {"python": os.path.join(folder, "bin", "python"), "runtime": version, "new": new}


def _digest(wheels):
    """Names an environment: other wheels, another Python, or another place of it are another."""
    names = sorted(name for name, _ in wheels) + [sys.version, sys.base_prefix]
    return hashlib.sha256("\n".join(names).encode("utf-8")).hexdigest()[:12]


def _check_room(home, wheels):
    needed = _SPARE_BYTES
    for name, place in wheels:
        needed += sum(each.file_size for each in _opened(name, place).infolist())
    free = shutil.disk_usage(home).free
    if free < needed:
        text = "%s has %d MB free, the runtime needs %d MB" % (home, free >> 20, needed >> 20)
        raise JobError("install_failed", text, "free some space, or set cache_dir of the device")


def _create(folder):
    shutil.rmtree(folder, ignore_errors=True)
    base = base_python()
    command = [base, "-m", "venv", "--without-pip", folder]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if done.returncode:
        text = "%s cannot make a virtual environment: %s" % (base, _words(done.stdout))
        raise JobError("install_failed", text, "on Debian and Ubuntu: apt install python3-venv")


def base_python():
    """The interpreter that this one comes from: environments of environments break."""
    name = "python%d.%d" % sys.version_info[:2]
    path = os.path.join(sys.base_prefix, "bin", name)
    inside = sys.prefix != sys.base_prefix
    return path if inside and os.path.exists(path) else sys.executable


def _unpack(name, place, folder):
    """A wheel's own files and its `purelib` and `platlib`; scripts and headers are not needed."""
    version = "python%d.%d" % sys.version_info[:2]
    packages = os.path.join(folder, "lib", version, "site-packages")
    with _opened(name, place) as wheel:
        for each in wheel.infolist():
            parts = each.filename.split("/")
            if parts[0].endswith(".data"):
                if len(parts) < 3 or parts[1] not in ("purelib", "platlib"):
                    continue
                parts = parts[2:]
            if each.filename.endswith("/") or ".." in parts or not parts[0]:
                continue
            path = os.path.join(packages, *parts)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with wheel.open(each) as source, open(path, "wb") as target:
                shutil.copyfileobj(source, target)


def _opened(name, place):
    try:
        return zipfile.ZipFile(place)
    except (OSError, zipfile.BadZipFile) as error:
        raise JobError("install_failed", "%s is no wheel: %s" % (name, error)) from error


def _import(python):
    """The version that the new interpreter imports, in a process of its own: it may crash."""
    done = subprocess.run(
        [python, "-c", _IMPORT], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=_clean()
    )
    if done.returncode:
        how = "signal %d" % -done.returncode if done.returncode < 0 else "an error"
        text = "the new runtime cannot be imported (%s): %s" % (how, _words(done.stderr))
        raise JobError("install_failed", text, "report it with the board's name")
    return done.stdout.decode("utf-8", "replace").split()[-1]


def _clean():
    return {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}


def _lead_to(folder, link):
    """A name that stays, so that the devices file need not follow every version."""
    aside = "%s-link-%d" % (link, os.getpid())
    if os.path.isdir(link) and not os.path.islink(link):
        raise JobError("install_failed", "%s is a folder, not a link" % link, "move it away")
    os.symlink(os.path.basename(folder), aside)
    os.rename(aside, link)


def _remove_others(home, kept):
    """Environments of earlier set-ups, but not the one that this very agent runs in."""
    for name in os.listdir(home):
        path = os.path.join(home, name)
        if name.startswith("venv-") and os.path.realpath(path) not in kept:
            shutil.rmtree(path, ignore_errors=True)


def _words(output):
    return " ".join(output.decode("utf-8", "replace").split())[-500:]
