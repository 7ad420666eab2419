"""`edgeopt zoo` as a person and a script see it."""

import json
from pathlib import Path

from typer.testing import CliRunner

from edgeopt.cli.zoo import app
from edgeopt.errors import UsageError


def test_list_prints_a_row_a_model() -> None:
    """Name, task, size, licence, metric and whether it is here."""
    done = CliRunner().invoke(app, ["list"], env={"COLUMNS": "200"})
    assert done.exit_code == 0
    assert "ppocr-cls" in done.stdout
    assert "Apache-2.0" in done.stdout


def test_list_as_json_is_one_document() -> None:
    """With a schema version and every entry."""
    document = json.loads(CliRunner().invoke(app, ["list", "--json"]).stdout)
    assert document["schema_version"] == 1
    digits = next(model for model in document["models"] if model["name"] == "digits")
    assert digits["metric"] == "top1"
    assert isinstance(digits["fetched"], bool)


def test_get_prints_where_the_files_are(tmp_path: Path) -> None:
    """Paths on stdout, and they exist."""
    done = CliRunner().invoke(app, ["get", "digits", "--out", str(tmp_path), "--json"])
    document = json.loads(done.stdout)
    assert Path(document["model"]).is_file()
    assert Path(document["data"]).is_file()


def test_data_writes_the_samples_anew(tmp_path: Path) -> None:
    """Also where they were changed."""
    (tmp_path / "digits.npz").write_bytes(b"changed")
    done = CliRunner().invoke(app, ["data", "digits", "-o", str(tmp_path)])
    assert done.exit_code == 0
    assert (tmp_path / "digits.npz").stat().st_size > 1000


def test_an_unknown_name_is_left_to_the_root_command(tmp_path: Path) -> None:
    """The error carries exit code 2; the root command prints it."""
    done = CliRunner().invoke(app, ["get", "digit", "-o", str(tmp_path)])
    assert isinstance(done.exception, UsageError)
