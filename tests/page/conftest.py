"""A real browser for all tests of this folder, and a small run to look at."""

import shutil
import time

import pytest

CHROMIUM = shutil.which("chromium")
ARGUMENTS = [
    "--no-sandbox", "--headless", "--disable-gpu", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run", "--disable-quic",
]  # fmt: skip


@pytest.fixture(scope="module")  # an event loop runs with it, which tests of peers would find
def browser():
    """Debian's Chromium."""
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    if CHROMIUM is None:
        pytest.skip("there is no chromium; as root, scripts/browser installs it from Debian")
    with playwright.sync_playwright() as starter:
        found = starter.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield found
        found.close()


class Tab:
    """A page in the browser, and all that it said, asked for and was refused."""

    def __init__(self, page):
        self.page, self.said, self.asked = page, [], []
        page.on("console", lambda m: self.said.append(m.text))
        page.on("pageerror", lambda e: self.said.append(str(e)))
        page.on("request", lambda r: self.asked.append(r.url))

    def open(self, url):
        self.page.goto(url)
        self.until("document.body.dataset.ready === '1'")
        return self

    def __call__(self, script):
        return self.page.evaluate(script)

    def until(self, script, seconds=60):
        """Wait until something is so; the policy refuses what Playwright would wait with."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if found := self.page.evaluate(script):
                    return found
            except Exception as error:  # the page is being loaded anew
                if "navigation" not in str(error) and "destroyed" not in str(error):
                    raise
            time.sleep(0.05)
        shown = self.page.inner_text("body")[:2000]
        raise AssertionError(f"never so: {script}; said: {self.said}; shown: {shown}")

    @property
    def text(self):
        return self.page.inner_text("main")


@pytest.fixture
def tab(browser):
    """A new tab; nothing may go wrong in it without being said."""
    context = browser.new_context(viewport={"width": 1200, "height": 900})
    yield Tab(context.new_page())
    context.close()


@pytest.fixture(scope="session")
def config():
    """A run that takes a few seconds."""
    return {
        "data": "wine",
        "method": ["crc", "isolated", "rc"],
        "split": {"nodes": 5, "rows": 20},
        "network": "ring",
        "run": {"rounds": 6, "repetitions": 2, "record": "all"},
    }


@pytest.fixture(scope="session")
def run_folder(tmp_path_factory, config):
    """The folder of that run."""
    from peerwise.study.engine import ThisMachine
    from peerwise.study.sweep import sweep

    folder = tmp_path_factory.mktemp("runs") / "wine"
    reading = {"wine": ["wine: 178 rows, target class of 3 classes"]}
    sweep(config, folder, engine=ThisMachine(1), predictions=True, reading=reading)
    return folder
