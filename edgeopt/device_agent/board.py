"""Which board this is: device tree, module, system on chip, releases, power mode, virtual or not.

Everything is read from files of the system, never changed; a fact that is not there is None.
"""

import os
import re
import shutil
import subprocess

import machine

# Public facts: release of Jetson Linux (L4T) to JetPack, the longest fitting name counts
# (rbonghi/jetson_stats names them; 36.4.4: its issue 672). Of an unknown release, the generation.
_JETPACKS = {
    "39.2": "7.2",
    "39": "7",
    "38.4": "7.1",
    "38.2": "7.0",
    "38": "7",
    "36.5": "6.2.2",
    "36.4.7": "6.2.1",
    "36.4.4": "6.2.1",
    "36.4.3": "6.2",
    "36": "6",
    "35.6.4": "5.1.6",
    "35.6.0": "5.1.4",
    "35.6": "5.1",
    "35": "5",
    "32.7": "4.6",
    "32": "4",
}
# Compute capability of the GPU on the system on chip (NVIDIA's CUDA documentation).
_GPU = {"tegra210": "sm_53", "tegra194": "sm_72", "tegra234": "sm_87", "tegra264": "sm_110"}
_MODULE = re.compile(r"p\d{4}-\d{4}")


def facts():
    """What the board is and what runs on it, by key of the probe."""
    entries = compatible()
    model = machine.read("/proc/device-tree/model")
    product = machine.read("/sys/class/dmi/id/product_name")
    vendor = machine.read("/sys/class/dmi/id/sys_vendor")
    release, android = os_release(), None
    if release is None:
        android = _property("ro.product.model")
        release = _android_release()
    chip = soc(entries) or _property("ro.soc.model")
    firmware = l4t()
    return {
        "board": model or product or android,
        "board_model": model or " ".join(filter(None, (vendor, product))) or android,
        "compatible": entries,
        "module": module(entries),
        "soc": chip,
        "gpu_architecture": _GPU.get(chip),
        "l4t": firmware,
        "jetpack": jetpack(firmware),
        "os": (release or {}).get("PRETTY_NAME"),
        "os_release": release,
        "power_mode": power_mode(),
        "machine_kind": kind(),
        "boot_id": machine.read("/proc/sys/kernel/random/boot_id"),
    }


def compatible():
    """Entries of the device tree's root, the most special first; empty without a device tree."""
    text = machine.read("/proc/device-tree/compatible") or ""
    return [entry for entry in text.split("\0") if entry]


def module(entries):
    """Id of the compute module: behind the carrier's, from the board's memory, or alone."""
    for entry in entries:
        if "+" in entry and _MODULE.search(entry.partition("+")[2]):
            return _MODULE.search(entry.partition("+")[2]).group()
    for folder in ("/proc/device-tree/chosen/plugin-manager/ids", "/proc/device-tree/chosen/ids"):
        for name in machine.names(folder, "3448-"):
            return "p" + name[:9]
    for entry in entries:
        if _MODULE.search(entry):
            return _MODULE.search(entry).group()
    return None


def soc(entries):
    """The system on chip: the last entry without its vendor."""
    return entries[-1].partition(",")[2] or None if entries else None


def l4t():
    """Release of Jetson Linux, `36.4.7`."""
    text = machine.read("/etc/nv_tegra_release") or ""
    found = re.search(r"R(\d+) \(release\), REVISION: (\d+(?:\.\d+)*)", text)
    return "%s.%s" % found.groups() if found else None


def jetpack(release):
    """JetPack of a release of Jetson Linux; of an unknown one its generation, else None."""
    parts = (release or "").split(".")
    for length in range(len(parts), 0, -1):
        if ".".join(parts[:length]) in _JETPACKS:
            return _JETPACKS[".".join(parts[:length])]
    return None


def os_release():
    """/etc/os-release as a dictionary; None where there is none."""
    text = machine.read("/etc/os-release") or machine.read("/usr/lib/os-release")
    if text is None:
        return None
    pairs = [line.partition("=") for line in text.splitlines() if "=" in line]
    kept = ("ID", "ID_LIKE", "VERSION_ID", "VERSION_CODENAME", "PRETTY_NAME")
    return {key: value.strip("\"'") for key, _, value in pairs if key in kept}


def power_mode():
    """Name of the active mode of nvpmodel; its number as text where the table lacks it."""
    status = re.search(r"pmode:\s*0*(\d+)", machine.read("/var/lib/nvpmodel/status") or "")
    table = machine.read("/etc/nvpmodel.conf") or ""
    number = status.group(1) if status else None
    if number is None:
        default = re.search(r"<\s*PM_CONFIG\s+DEFAULT=(\d+)", table)
        number = default.group(1) if default else None
    names = dict(re.findall(r"<\s*POWER_MODEL\s+ID=(\d+)\s+NAME=([^\s>]+)", table))
    return names.get(number, number)


def kind():
    """`emulated`, `container`, `vm`, `container in a vm`, or `physical`."""
    host = machine.read("/proc/sys/kernel/arch")
    if host and _maker(host) != _maker(machine.architecture()):
        return "emulated"
    inside = " in a ".join(
        name for name, found in (("container", _container()), ("vm", _vm())) if found
    )
    return inside or "physical"


def _maker(architecture):
    """One word for the 32- and 64-bit programs of one kind of processor."""
    name = architecture.lower()
    if name.startswith(("arm", "aarch")):
        return "arm"
    return "x86" if name in ("x86_64", "amd64", "i386", "i486", "i586", "i686") else name


def _container():
    if machine.exists("/.dockerenv") or machine.exists("/run/.containerenv"):
        return True
    groups = machine.read("/proc/1/cgroup") or ""
    return any(word in groups for word in ("docker", "lxc", "kubepods", "containerd"))


def _vm():
    flags = re.search(r"^flags\s*:.*\bhypervisor\b", machine.read("/proc/cpuinfo") or "", re.M)
    vendor = machine.read("/sys/class/dmi/id/sys_vendor") or ""
    virtual = "linux,dummy-virt" in compatible() or machine.read("/sys/hypervisor/type")
    return bool(flags or virtual or vendor in ("QEMU", "VMware, Inc.", "innotek GmbH", "Xen"))


def _android_release():
    version = _property("ro.build.version.release")
    if version is None:
        return None
    return {"ID": "android", "VERSION_ID": version, "PRETTY_NAME": "Android " + version}


def _property(name):
    """A system property of Android; None elsewhere."""
    found = re.search(
        r"^%s=(.*)$" % re.escape(name), machine.read("/system/build.prop") or "", re.M
    )
    if found:
        return found.group(1).strip() or None
    tool = program("getprop")
    if tool is None:
        return None
    try:
        said = subprocess.check_output([tool, name], stderr=subprocess.DEVNULL, timeout=10)
    except (OSError, subprocess.SubprocessError):
        return None
    return said.decode("utf-8", "replace").strip() or None


def program(name):
    """Path of a board's tool, None where it is not; a root for tests has them in `bin`."""
    if machine.pretended():
        path = os.path.join(machine.root(), "bin", name)
        return path if os.path.exists(path) else None
    return shutil.which(name)
