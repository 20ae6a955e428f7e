"""The site is built as CI builds it: every link leads somewhere, and no page loads anything from elsewhere."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LOADED = re.compile(r"<(?:script|img|iframe|source)\b[^>]*\bsrc=\"?([^\"\s>]+)|<link\b[^>]*\bhref=\"?([^\"\s>]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("site")
    # without --quiet, under which no warning counts and --strict means nothing
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(made)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return made


def test_every_page_is_in_the_site_and_loads_nothing_from_elsewhere(site: Path) -> None:
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")}
    assert {path.name for path in site.iterdir() if (path / "index.html").exists()} | {"index"} >= pages
    loaded = [
        one for page in site.rglob("*.html") for pair in LOADED.findall(page.read_text("utf-8")) for one in pair if one
    ]
    assert len(loaded) > 100
    assert [one for one in loaded if one.startswith(("http:", "https:", "//"))] == []
    for sheet in site.rglob("*.css"):
        assert re.findall(r"url\([\"']?(?:https?:)?//", sheet.read_text("utf-8")) == []
