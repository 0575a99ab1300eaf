"""The page on the check of real AWS names every check, and the embedded AWS's gaps refer to it."""

import re

from proof.real_aws.checks import CHECKS
from tests.architecture.imports import ROOT

ROW = re.compile(r"^\| `([a-z-]+)` \|", re.MULTILINE)


def test_the_page_lists_every_check_in_its_order() -> None:
    page = (ROOT / "docs" / "verify.md").read_text()
    assert ROW.findall(page) == [check.name for check in CHECKS]
