"""The samples of types as a user's type checker sees them. `make types` has mypy read them."""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = Path(__file__).with_name("type_samples.py")
_MARK = re.compile(r"  # type: ignore\[.+")


def test_pyright_reports_the_marked_lines_and_no_others(tmp_path: Path) -> None:
    lines = SAMPLES.read_text().splitlines()
    file = tmp_path / "samples.py"
    file.write_text("\n".join(_MARK.sub("", line) for line in lines))
    pyright = ROOT / "node_modules" / ".bin" / "pyright"
    done = subprocess.run(
        [pyright, "--outputjson", "--pythonpath", sys.executable, file],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found = json.loads(done.stdout)["generalDiagnostics"]
    reported = {each["range"]["start"]["line"] + 1 for each in found}
    marked = {number for number, line in enumerate(lines, 1) if _MARK.search(line)}
    assert reported == marked, done.stdout
