"""docs/known-issues.md speaks of what is tested here, and of nothing else."""

import ast
import re
from pathlib import Path

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "known-issues.md"


def test_every_row_of_the_page_has_its_test() -> None:
    """The first issue of each row is at the head of a test's docstring; none stands twice."""
    tested: set[str] = set()
    for path in HERE.glob("test_field_*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                first, *more = (ast.get_docstring(node) or "").partition(":")[0].split(", ")
                tested |= {first, *(f"{first.rpartition(' ')[0]} {number}" for number in more)}
    rows = [line.split("|")[1].strip() for line in PAGE.read_text().splitlines() if "|" in line]
    issues = [row for row in rows if re.search(r"\d", row)]
    assert len(issues) == len(set(issues)) > 35
    assert set(issues) <= tested
