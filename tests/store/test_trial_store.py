"""TrialStore: what goes in comes out, once, also after the process was killed."""

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from store_factory import candidate, study, trial

from edgeopt.errors import StorageError, UsageError
from edgeopt.store.trials import FILE, TrialStore

HERE = Path(__file__).parent


def _child(code: str, *arguments: str) -> subprocess.Popen[str]:
    """Another Python process with this folder's factory at hand."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(HERE)},
    )


@pytest.fixture
def store(tmp_path: Path) -> Iterator[TrialStore]:
    with TrialStore.open(tmp_path / "deep" / "store") as opened:
        yield opened


def test_a_study_and_its_trials_come_back_equal(tmp_path: Path) -> None:
    """Everything survives the way to the disk, infinities and umlauts included."""
    asked, added = study(), [trial(0), trial(1, "a"), trial(2, "b", failed=True)]
    with TrialStore.open(tmp_path) as store:
        store.save_study(asked)
        for each in (added[1], added[0], added[2]):
            store.add(asked.id, each)
    with TrialStore.open(tmp_path) as again:
        assert again.studies() == (asked,)
        assert again.trials(asked.id) == tuple(added)
        assert again.next_number(asked.id) == 3


def test_an_unknown_study_is_empty(store: TrialStore) -> None:
    """Numbers begin at 0 and there is nothing to find."""
    assert store.trials("nothing") == ()
    assert store.next_number("nothing") == 0
    assert store.find("nothing", "key", "local", "quick") is None


def test_find_wants_the_same_candidate_device_and_protocol(store: TrialStore) -> None:
    """The cache answers exactly the question that was measured, with the latest trial."""
    asked = study()
    store.add(asked.id, trial(0, "a"))
    store.add(asked.id, trial(1, "a"))
    store.add(asked.id, trial(2, "b", failed=True))
    key = candidate("a").key
    assert store.find(asked.id, key, "local", "quick") == trial(1, "a")
    assert store.find(asked.id, candidate("b").key, "local", "quick") == trial(2, "b", failed=True)
    assert store.find(asked.id, key, "pi5", "quick") is None
    assert store.find(asked.id, key, "local", "normal") is None
    assert store.find(study(seed=1).id, key, "local", "quick") is None


def test_a_number_is_taken_once(store: TrialStore) -> None:
    """The second trial of a number is refused and the first one stays."""
    store.add(study().id, trial(0))
    with pytest.raises(StorageError, match="already stored"):
        store.add(study().id, trial(0, "a"))
    assert store.trials(study().id) == (trial(0),)


def test_the_study_worked_on_last_comes_last(store: TrialStore) -> None:
    """Saving a known study again does not double it."""
    first, second = study(), study(seed=1)
    for each in (first, second, first):
        store.save_study(each)
    assert store.studies() == (second, first)


def test_a_study_is_found_by_prefix(store: TrialStore) -> None:
    """The beginning is enough where it is unique; else the message lists or suggests."""
    digits, other = study(), study("speech")
    twin = study("speech", seed=1)
    for each in (digits, other, twin):
        store.save_study(each)
    assert store.study("dig") == digits
    assert store.study(other.id) == other
    with pytest.raises(UsageError, match="any of 2 studies") as ambiguous:
        store.study("speech")
    assert twin.id in ambiguous.value.hint
    with pytest.raises(UsageError, match="no study") as unknown:
        store.study(digits.id.replace("digits", "digist"))
    assert f"did you mean {digits.id!r}" in unknown.value.hint


def test_a_second_process_is_told_who_works_on_the_study(tmp_path: Path) -> None:
    """The message names the process; reading stays possible; a kill gives the study free."""
    code = (
        "import sys; from pathlib import Path; from store_factory import study, trial\n"
        "from edgeopt.store.trials import TrialStore\n"
        "store = TrialStore.open(Path(sys.argv[1])); store.save_study(study())\n"
        "print('ready', flush=True); sys.stdin.read()\n"
    )
    with _child(code, str(tmp_path)) as other, TrialStore.open(tmp_path) as store:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        with pytest.raises(StorageError, match=rf"process {other.pid} on "):
            store.save_study(study())
        with pytest.raises(StorageError, match="another run"):
            store.add(study().id, trial(0))
        assert store.studies() == (study(),)
        store.save_study(study(seed=1))
        other.kill()
        other.wait()
        store.add(study().id, trial(0))
        assert store.next_number(study().id) == 1


def test_a_closed_store_gives_the_study_free(tmp_path: Path) -> None:
    """Two stores of one process exclude each other too, until the first is closed."""
    first, second = TrialStore.open(tmp_path), TrialStore.open(tmp_path)
    first.save_study(study())
    with pytest.raises(StorageError, match="another run"):
        second.save_study(study())
    first.close()
    first.close()
    second.save_study(study())
    second.close()


def test_a_kill_at_any_moment_leaves_every_added_trial(tmp_path: Path) -> None:
    """Killed while opening, saving and adding: what was reported as added is there, in order."""
    code = (
        "import sys; from pathlib import Path; from store_factory import study, trial\n"
        "from edgeopt.store.trials import TrialStore\n"
        "print('start', flush=True)\n"
        "with TrialStore.open(Path(sys.argv[1])) as store:\n"
        "    store.save_study(study())\n"
        "    while True:\n"
        "        number = store.next_number(study().id)\n"
        "        store.add(study().id, trial(number, str(number)))\n"
        "        print(number, flush=True)\n"
    )
    promised = -1
    for attempt in range(6):
        with _child(code, str(tmp_path)) as writer:
            assert writer.stdout is not None
            writer.stdout.readline()
            seen = [writer.stdout.readline() for _ in range(attempt)]
            time.sleep(0.0037 * attempt)
            writer.send_signal(signal.SIGKILL)
            numbers = [int(line) for line in [*seen, *writer.stdout.read().split()]]
            assert writer.wait() == -signal.SIGKILL
        promised = max([promised, *numbers])
        with TrialStore.open(tmp_path) as store:
            found = [each.number for each in store.trials(study().id)]
        assert found == list(range(len(found)))
        assert len(found) in {promised + 1, promised + 2}
        promised = len(found) - 1
    assert promised > 0


def test_a_newer_store_is_refused(tmp_path: Path) -> None:
    """A store of a later edgeopt is not touched."""
    TrialStore.open(tmp_path).close()
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("UPDATE meta SET value = '99'")
    connection.close()
    with pytest.raises(StorageError, match="schema version 99") as refused:
        TrialStore.open(tmp_path)
    assert "upgrade" in refused.value.hint
    assert refused.value.exit_code == 3


def test_a_file_that_is_no_store_is_called_damaged(tmp_path: Path) -> None:
    """Garbage and a file cut in the middle give a message that says what to do."""
    (tmp_path / FILE).write_bytes(b"not a database, " * 100)
    with pytest.raises(StorageError, match="damaged") as refused:
        TrialStore.open(tmp_path)
    assert "move the file away" in refused.value.hint
    whole = tmp_path / "whole"
    with TrialStore.open(whole) as store:
        for number in range(50):
            store.add(study().id, trial(number))
    content = (whole / FILE).read_bytes()
    (whole / FILE).write_bytes(content[: len(content) // 2 // 4096 * 4096])
    with pytest.raises(StorageError, match="damaged"), TrialStore.open(whole) as cut:
        cut.trials(study().id)


def test_a_document_that_does_not_decode_is_called_damaged(tmp_path: Path) -> None:
    """A row that another program changed is reported, not guessed at."""
    with TrialStore.open(tmp_path) as store:
        store.add(study().id, trial(0))
    with sqlite3.connect(tmp_path / FILE) as connection:
        connection.execute("UPDATE trial SET document = '{\"colour\": 1}'")
    connection.close()
    with TrialStore.open(tmp_path) as store, pytest.raises(StorageError, match="no colour"):
        store.trials(study().id)


def test_a_folder_that_cannot_be_made_is_reported(tmp_path: Path) -> None:
    """A file stands where the folder should be."""
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError) as refused:
        TrialStore.open(tmp_path / "file" / "store")
    assert "--out" in refused.value.hint


def test_a_read_only_folder_is_reported() -> None:
    """Seen by a user without rights: exit code 3 and what to do, no trace."""
    code = (
        "import os, sys; from pathlib import Path; from edgeopt.store.trials import TrialStore\n"
        "from edgeopt.errors import StorageError\n"
        "folder = Path(sys.argv[1]); TrialStore.open(folder / 'warm').close()\n"
        "(folder / 'closed').mkdir(); (folder / 'closed').chmod(0o555)\n"
        "if os.geteuid() == 0: os.seteuid(65534)\n"
        "try: TrialStore.open(folder / 'closed')\n"
        "except StorageError as error: print(error); sys.exit(error.exit_code)\n"
    )
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        with _child(code, name) as child:
            out, err = child.communicate()
    assert child.returncode == 3, err
    assert "writ" in out
    assert "--out" in out


def test_a_full_disk_is_reported_and_nothing_is_lost(tmp_path: Path) -> None:
    """Writing fails beyond a file size limit: a message, and all trials before are there."""
    code = (
        "import resource, sys; from pathlib import Path; from store_factory import study, trial\n"
        "from edgeopt.store.trials import TrialStore; from edgeopt.errors import StorageError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))\n"
        "store = TrialStore.open(Path(sys.argv[1])); number = 0\n"
        "try:\n"
        "    while True: store.add(study().id, trial(number)); number += 1\n"
        "except StorageError as error: print(number); print(error); sys.exit(error.exit_code)\n"
    )
    with _child(code, str(tmp_path)) as child:
        out, err = child.communicate()
    assert child.returncode == 3, err
    assert "free disk space" in out
    with TrialStore.open(tmp_path) as store:
        assert len(store.trials(study().id)) == int(out.split()[0])
        store.add(study().id, trial(store.next_number(study().id)))
