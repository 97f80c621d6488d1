"""A real browser, and a real accessibility checker."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

ARGUMENTS = ("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-sync")
Open = Callable[..., Any]


@pytest.fixture
def chromium(tmp_path: Path) -> Iterator[Open]:
    """``chromium(file, "topic=MoE", width=1400)``: a new Chromium that shows the page.

    Needs Debian's chromium and chromium-driver, and selenium.
    """
    webdriver = pytest.importorskip("selenium.webdriver", reason="needs `pip install selenium`")
    from selenium.webdriver.chrome.service import Service

    browser, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (browser and driver):
        pytest.skip("needs `apt-get install chromium chromium-driver`")
    made: list[Any] = []

    def start(page: Path, state: str = "", *, width: int = 1400, height: int = 1000) -> Any:
        options = webdriver.ChromeOptions()
        options.binary_location = browser
        for argument in (*ARGUMENTS, f"--user-data-dir={tmp_path / f'profile-{len(made)}'}",
                         f"--window-size={width},{height}"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        made.append(webdriver.Chrome(options=options, service=Service(driver)))
        made[-1].get(f"{page.as_uri()}#{state}")
        return made[-1]

    yield start
    for one in made:
        one.quit()


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The text of axe-core, the accessibility checker."""
    npm = shutil.which("npm")
    if not npm:
        pytest.skip("needs npm, to get axe-core")
    folder = tmp_path_factory.mktemp("axe")
    done = subprocess.run([npm, "install", "--silent", "--prefix", str(folder), "axe-core@4"],
                          capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"needs axe-core from the npm registry: {done.stderr[-300:]}")
    return (folder / "node_modules" / "axe-core" / "axe.min.js").read_text("utf-8")
