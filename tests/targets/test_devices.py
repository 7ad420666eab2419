"""Names of devices: what they mean, and what a wrong entry says."""

import re
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeopt.core.device import DeviceEntry
from edgeopt.errors import ConfigError, StorageError, UsageError
from edgeopt.targets.device_store import remove, save
from edgeopt.targets.device_tables import KEYS
from edgeopt.targets.devices import (
    device_names,
    devices_file,
    list_devices,
    resolve,
    variable_of,
)
from edgeopt.targets.ssh_hosts import host_aliases


def user_file(folder: Path, text: str) -> dict[str, str]:
    """An environment whose devices file says this."""
    path = folder / "devices.toml"
    path.write_text(text, encoding="utf-8")
    return {"EDGEOPT_DEVICES": str(path)}


def test_local_is_this_machine(tmp_path: Path):
    """Without any file."""
    entry = resolve("local", project=tmp_path, environ={})
    assert (entry.kind, entry.name) == ("local", "local")


def test_any_plain_name_is_tried_as_a_host(tmp_path: Path):
    """Where `ssh jetson` works, `--device jetson` does."""
    entry = resolve("pi@board.lan", project=tmp_path, environ={"HOME": str(tmp_path)})
    assert (entry.kind, entry.host) == ("ssh", "")
    assert "tried as a host" in entry.origin


def test_an_unknown_name_offers_the_nearest(tmp_path: Path):
    """The origin travels with the entry into the message of a connection that fails."""
    environ = user_file(tmp_path, '[devices.jetson]\nhost = "x"\n')
    assert "did you mean 'jetson'" in resolve("jetsn", project=tmp_path, environ=environ).origin


def test_every_key_of_an_entry_arrives(tmp_path: Path):
    """The format of docs/devices.md."""
    environ = user_file(
        tmp_path,
        """
[devices.jetson]
host = "my-orin"
exec = "docker exec -i ort python3"
cache_dir = "/data/edgeopt"
profile = "generic-arm64"
provider = "TensorrtExecutionProvider"
power_mode = "15W"
meter = "python3 meter.py"
meter_scope = "wall"
twin = "jetson-2"
environment = { ORT_LOG = "1" }

[devices.jetson-2]
python = "/opt/venv/bin/python"
""",
    )
    entry = resolve("jetson", project=tmp_path, environ=environ)
    assert entry == DeviceEntry(
        name="jetson",
        host="my-orin",
        exec="docker exec -i ort python3",
        cache_dir="/data/edgeopt",
        profile="generic-arm64",
        provider="TensorrtExecutionProvider",
        power_mode="15W",
        meter="python3 meter.py",
        meter_scope="wall",
        twin="jetson-2",
        environment={"ORT_LOG": "1"},
        origin=str(tmp_path / "devices.toml"),
    )


def test_the_examples_of_the_guide_are_true(tmp_path: Path):
    """Its devices file is read, its variables too, and its table names every key."""
    guide = (Path(__file__).parents[2] / "docs" / "devices.md").read_text(encoding="utf-8")
    example = guide.split("```toml\n")[1].split("```")[0]
    environ = user_file(tmp_path, example + "[devices.jetson-2]\n")
    found = list_devices(project=tmp_path, environ=environ)
    assert [entry.name for entry in found][1:] == ["container", "jetson", "jetson-2", "lab"]
    variables = dict(re.findall(r"^export (EDGEOPT_DEVICE_\w+)='([^']+)'", guide, re.MULTILINE))
    assert len(variables) == 3
    variables["EDGEOPT_DEVICES"] = str(tmp_path / "none.toml")
    for entry in list_devices(project=tmp_path, environ=variables)[1:]:
        assert entry.origin in variables
    table = guide.split("| key | meaning |")[1].split("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", table)) >= set(KEYS)


def test_variables_win_over_the_project_and_the_project_over_the_user(tmp_path: Path):
    """The nearest to the call decides."""
    environ = user_file(tmp_path, '[devices.my-orin]\nhost = "users"\n')
    project = tmp_path / "project"
    project.mkdir()

    def host() -> str:
        return resolve("my-orin", project=project, environ=environ).host

    assert host() == "users"
    (project / "edgeopt.toml").write_text('[devices.my-orin]\nhost = "settings"\n')
    assert host() == "settings"
    (project / "edgeopt-devices.toml").write_text('[devices.my-orin]\nhost = "project"\n')
    assert host() == "project"
    environ["EDGEOPT_DEVICE_MY_ORIN"] = "ssh://ci@variable"
    assert host() == "ci@variable"


@pytest.mark.parametrize(
    ("text", "host", "python"),
    [
        ("ssh://nv@10.0.0.3:2222?python=/v/bin/python", "ssh://nv@10.0.0.3:2222", "/v/bin/python"),
        ("ssh://board", "board", ""),
        ("ssh://?python=/v/bin/python", "", "/v/bin/python"),
        ("ssh://nv@[fe80::1]:22", "ssh://nv@[fe80::1]:22", ""),
        ('{"host": "board", "python": "/v/p"}', "board", "/v/p"),
        ('{ host = "board", python = "/v/p" }', "board", "/v/p"),
    ],
)
def test_a_variable_describes_a_device(tmp_path: Path, text: str, host: str, python: str):
    """As an address with a query, as JSON, as a TOML table."""
    entry = resolve("orin", project=tmp_path, environ={"EDGEOPT_DEVICE_ORIN": text})
    assert (entry.kind, entry.host, entry.python) == ("ssh", host, python)


def test_a_variable_describes_an_interpreter_of_this_machine(tmp_path: Path):
    """Lab devices of a CI job."""
    environ = {"EDGEOPT_DEVICE_LAB": "local://?python=/v/bin/python"}
    entry = resolve("lab", project=tmp_path, environ=environ)
    assert (entry.kind, entry.python) == ("local", "/v/bin/python")


@pytest.mark.parametrize(
    "text", ["board", "http://board", "ssh://board/path", "{", "ssh://b?port=1"]
)
def test_a_variable_that_says_nothing_usable_names_itself(tmp_path: Path, text: str):
    """The message holds the variable."""
    with pytest.raises(ConfigError) as caught:
        resolve("orin", project=tmp_path, environ={"EDGEOPT_DEVICE_ORIN": text})
    assert caught.value.where == "EDGEOPT_DEVICE_ORIN"


@pytest.mark.parametrize(
    ("line", "key", "hint"),
    [
        ('hots = "x"', "devices.pi.hots", "host"),
        ("host = 3", "devices.pi.host", "3"),
        ('host = "-oProxyCommand=reboot"', "devices.pi.host", "user@host"),
        ('host = "a b"', "devices.pi.host", "user@host"),
        ('profile = "generic-arm46"', "devices.pi.profile", "generic-arm64"),
        ('provider = "CudaExecutionProvidr"', "devices.pi.provider", "CUDAExecutionProvider"),
        ('provider = "cuda"', "devices.pi.provider", "CUDAExecutionProvider"),
        ('twin = "jetsom"', "devices.pi.twin", "jetson"),
        ('twin = "pi"', "devices.pi.twin", "another board"),
        ('kind = "telnet"', "devices.pi.kind", "ssh"),
        ('kind = "replay"', "devices.pi.recording", "file"),
        ('meter_scope = "house"', "devices.pi.meter_scope", "board"),
        ('python = "/p"\nexec = "docker exec -i x python3"', "devices.pi.exec", "python"),
        ("environment = { A = 1 }", "devices.pi.environment", "NAME"),
        ('exec = """a\nb"""', "devices.pi.exec", "one line"),
    ],
)
def test_a_wrong_entry_names_file_key_and_cure(tmp_path: Path, line: str, key: str, hint: str):
    """Before anything is connected."""
    environ = user_file(tmp_path, f'[devices.jetson]\nhost = "x"\n[devices.pi]\n{line}\n')
    with pytest.raises(ConfigError) as caught:
        resolve("pi", project=tmp_path, environ=environ)
    assert caught.value.where == str(tmp_path / "devices.toml")
    assert key in caught.value.what
    assert hint in caught.value.hint


@pytest.mark.parametrize(
    "text",
    ["devices = 3\n", "[devices]\npi = 3\n", "[devices.local]\nhost = 'x'\n", "[devices.pi\n"],
)
def test_a_wrong_file_is_a_message(tmp_path: Path, text: str):
    """No table, no TOML, another `local`."""
    with pytest.raises(ConfigError):
        resolve("pi", project=tmp_path, environ=user_file(tmp_path, text))


@pytest.mark.parametrize(
    "name", ["", "-oProxyCommand=x", "a b", "a/b", "a;b", "$(x)", "a,b", "..\n"]
)
def test_what_cannot_be_a_name_never_reaches_ssh(name: str):
    """It would be taken for an option or a command."""
    with pytest.raises(UsageError, match="cannot be the name"):
        resolve(name, environ={})


@given(st.text(max_size=12))
def test_a_name_is_refused_or_harmless(name: str):
    """What is accepted is a plain word without a dash in front."""
    try:
        entry = resolve(name, environ={"HOME": "/nonexistent"})
    except UsageError:
        return
    assert entry.name == name
    assert not name.startswith("-")
    assert not set(name) & set(" /\\;|&$`'\"<>()\n\t\0")


def test_the_list_has_every_device_once(tmp_path: Path):
    """`local` first, then by name; variables are told in small letters."""
    environ = user_file(tmp_path, "[devices.b]\n[devices.a]\n")
    environ["EDGEOPT_DEVICE_C_1"] = "ssh://c"
    environ["EDGEOPT_DEVICE_A"] = "ssh://other"
    found = list_devices(project=tmp_path, environ=environ)
    assert [entry.name for entry in found] == ["local", "a", "b", "c-1"]
    assert found[1].host == "other"


def test_names_for_completion_never_raise(tmp_path: Path):
    """A broken file costs its names, not the shell."""
    assert "local" in device_names(project=tmp_path, environ=user_file(tmp_path, "[devices\n"))


def test_a_variable_is_the_name_in_capitals():
    """Punctuation becomes an underscore."""
    assert variable_of("my-orin.lan") == "EDGEOPT_DEVICE_MY_ORIN_LAN"


def test_the_devices_file_follows_the_environment():
    """EDGEOPT_DEVICES, then XDG_CONFIG_HOME, then the home folder."""
    assert devices_file({"EDGEOPT_DEVICES": "/a/d.toml", "HOME": "/h"}) == Path("/a/d.toml")
    assert devices_file({"XDG_CONFIG_HOME": "/c", "HOME": "/h"}) == Path("/c/edgeopt/devices.toml")
    assert devices_file({"HOME": "/h"}) == Path("/h/.config/edgeopt/devices.toml")


def test_aliases_of_the_ssh_configuration_with_what_it_includes(tmp_path: Path):
    """Plain names only; a file that includes itself ends."""
    config = tmp_path / "config"
    config.write_text(
        "Include conf.d/*\nInclude config\nHost jetson pi5 *.lan !bad\n  HostName 10.0.0.1\n"
        'host="nano one"\nMatch user x\n# Host commented\nHost\n',
        encoding="utf-8",
    )
    (tmp_path / "conf.d").mkdir()
    (tmp_path / "conf.d" / "lab").write_text("Host=rock\n", encoding="utf-8")
    assert host_aliases(config) == ("jetson", "nano one", "pi5", "rock")
    assert host_aliases(tmp_path / "missing") == ()


def test_saving_keeps_comments_and_other_entries(tmp_path: Path):
    """And what is saved is what is found."""
    path = tmp_path / "devices.toml"
    path.write_text('# mine\n[devices.pi5] # desk\nhost = "old" # was slow\npython = "/p"\n')
    save(DeviceEntry(name="pi5", host="new"), path)
    save(DeviceEntry(name="jetson.lan", provider="CUDAExecutionProvider"), path)
    text = path.read_text()
    assert "# mine" in text
    assert "# desk" in text
    assert "# was slow" in text
    assert "python" not in text
    environ = {"EDGEOPT_DEVICES": str(path)}
    assert resolve("pi5", project=tmp_path, environ=environ).host == "new"
    found = resolve("jetson.lan", project=tmp_path, environ=environ)
    assert found.provider == "CUDAExecutionProvider"


def test_saving_follows_a_link(tmp_path: Path):
    """Of people who keep their settings elsewhere."""
    real = tmp_path / "dotfiles.toml"
    real.write_text("")
    link = tmp_path / "devices.toml"
    link.symlink_to(real)
    save(DeviceEntry(name="pi5", host="x"), link)
    assert link.is_symlink()
    assert tomllib.loads(real.read_text()) == {"devices": {"pi5": {"host": "x"}}}


def test_saving_creates_the_folder_and_removing_leaves_the_rest(tmp_path: Path):
    """From nothing to one, to two, to one."""
    path = tmp_path / "new" / "devices.toml"
    save(DeviceEntry(name="a", host="x"), path)
    save(DeviceEntry(name="b"), path)
    remove("a", path)
    environ = {"EDGEOPT_DEVICES": str(path)}
    found = list_devices(project=tmp_path, environ=environ)
    assert [entry.name for entry in found] == ["local", "b"]


def test_what_cannot_be_saved_leaves_the_file_alone(tmp_path: Path):
    """A wrong entry, a wrong name, a file that is no TOML, a folder that cannot be made."""
    path = tmp_path / "devices.toml"
    with pytest.raises(ConfigError):
        save(DeviceEntry(name="pi", profile="nonsense"), path)
    with pytest.raises(UsageError):
        save(DeviceEntry(name="local", kind="local"), path)
    with pytest.raises(UsageError, match="to remove"):
        remove("pi", path)
    assert not path.exists()
    path.write_text("[devices\n")
    with pytest.raises(ConfigError):
        save(DeviceEntry(name="pi"), path)
    assert path.read_text() == "[devices\n"
    with pytest.raises(StorageError):
        save(DeviceEntry(name="pi"), path / "below" / "devices.toml")
