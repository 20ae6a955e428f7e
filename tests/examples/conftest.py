"""A headless Chromium, and homes of their own for the examples.

A missing browser skips, or fails where all is required.
"""

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from interlock_fixtures.clis import CliMissing, clis_required, copilot_cache, find_cli

EXAMPLES = Path(__file__).parents[2] / "examples"
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--no-first-run",
    "--no-proxy-server",
    "--window-size=1100,1250",
)


@pytest.fixture
def examples() -> Path:
    """The folder of the examples."""
    return EXAMPLES


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty home, in which the pinned Copilot finds what it has unpacked before."""
    made = tmp_path / "home"
    unpacked = made / ".local" / "state" / "interlock" / "copilot" / "packages"
    unpacked.parent.mkdir(parents=True)
    if find_cli("copilot", "newest"):
        unpacked.symlink_to(copilot_cache() / "copilot")
    return made


@pytest.fixture
def require_clis() -> Callable[..., None]:
    """Skips where one of the named pinned CLIs is missing, or fails where they are required."""

    def check(*names: str) -> None:
        missing = [name for name in names if find_cli(name, "newest") is None]
        if missing and clis_required():
            raise CliMissing(f"not installed: {', '.join(missing)}")
        if missing:
            pytest.skip(f"the pinned CLIs are not installed: {', '.join(missing)}")

    return check


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[object]:
    """A selenium driver of a headless Chromium that talks to loopback alone."""
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    if program is None or driver is None:
        reason = "chromium and chromedriver are not installed (Debian: apt-get install chromium chromium-driver)"
        if clis_required():
            pytest.fail(reason)
        pytest.skip(reason)
    from selenium import webdriver  # noqa: PLC0415  slow to import, and only needed with a browser
    from selenium.webdriver.chrome.service import Service  # noqa: PLC0415

    options = webdriver.ChromeOptions()
    options.binary_location = program
    for flag in (*FLAGS, f"--user-data-dir={tmp_path / 'chromium'}"):
        options.add_argument(flag)
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    chrome = webdriver.Chrome(options=options, service=Service(driver, env=environ))
    chrome.set_page_load_timeout(30)
    try:
        yield chrome
    finally:
        chrome.quit()
