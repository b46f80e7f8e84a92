"""The dashboard in a real browser: every page, by mouse and by keyboard, light and dark, on a phone's width.

Run `make e2e-ui`. It needs Chromium with its driver (Debian: `chromium chromium-driver`) and npm, and installs Selenium
into the project's environment and axe-core into `.e2e/ui`, where it leaves a picture of every page. `--pictures` draws
those of the documentation as well.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.common.exceptions import NoAlertPresentException, StaleElementReferenceException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait
from tests.samples import write_memory

ROOT = Path(__file__).parents[2]
PLACE = ROOT / ".e2e/ui"
AXE = PLACE / "node_modules/axe-core/axe.min.js"
PROGRAMS = Path(sys.executable).parent
PATIENCE_S = 60.0
DESKTOP, PHONE, PICTURE = (1000, 1200), (390, 844), (1000, 860)
SERIOUS = ("serious", "critical")
MEMORIES = {
    "money/count-in-decimal": (
        "title: Count in Decimal\ntype: decision\ntier: important\ntrigger_phrases: [a cent is lost]\ntopics: [money]\n"
        "relations: {supersedes: [money/count-in-float], enabled: [money/export-strings]}",
        "We count money in Decimal and not in float, because a float lost a cent on invoice 2044.\n\n## Rounding\n\n"
        "Half up, as the tax office does; see [[money/export-strings|how it is exported]].\n",
    ),
    "money/count-in-float": ("title: Count in float", "Amounts are floats, rounded when they are shown.\n"),
    "money/export-strings": (
        "title: Export amounts as text\nrelations: {supports: [payments/retry-with-a-key]}",
        "The export writes amounts as text with two decimals: a spreadsheet takes 10.08 for 10.079999 otherwise.\n",
    ),
    "payments/retry-with-a-key": (
        "title: Retry with a key",
        "A payment is sent again with the same key, since the bank answered twice in March. See [[payments/bank]].\n",
    ),
    "payments/bank": ("title: What the bank answers", "A timeout says nothing about whether the money went out.\n"),
    "survey/tides": ("title: Tides", "The harbour falls dry at spring tide, so the survey waits for the neap.\n"),
    "survey/hostile": (
        f"title: '<img src=x onerror=window.pwned=1>{'wide' * 60}'\ntopics: ['\"><script>window.pwned=1</script>']",
        "<script>window.pwned = 1</script> tides <svg onload=window.pwned=1> [click](javascript:window.pwned=1)\n",
    ),
}
PAGES = (
    "/",
    "/?q=why+not+count+in+float",
    "/?q=tides",
    "/memory/money/count-in-decimal",
    "/memory/survey/hostile",
    "/graph",
    "/graph/money/count-in-decimal",
    "/sessions",
    "/sessions/S1",
    "/drafts",
    "/changes",
    "/health",
    "/stats?days=7",
    "/quality?days=90",
    "/memory/none",
)


def check(holds: object, what: str, told: str = "") -> None:
    """Print what was looked at; end where it does not hold."""
    sys.stdout.write(f"{'ok' if holds else 'FAILED':<7}{what}{f': {told}' if told else ''}\n")
    sys.stdout.flush()
    if not holds:
        sys.exit(1)


def make_project(folder: Path) -> Path:
    """A project with memories that are related, one that is hostile, and a session whose draft waits."""
    project = folder / "harbour"
    for name, (front_matter, body) in MEMORIES.items():
        write_memory(project / ".scrimshaw/memories", name, body, front_matter)
    (project / ".scrimshaw/config.toml").write_text("[drafts]\nreview = true\n")
    run(project, "scan")
    report(project, "SessionStart", source="startup")
    report(project, "UserPromptSubmit", prompt="The export loses a cent. Please find out why, and add a test for it.")
    report_call(
        project, "python -m unittest tests.test_export", "FAILED (failures=1)\nAssertionError: '10.079999'", failed=True
    )
    report_call(project, "python -m unittest tests.test_export", "Ran 3 tests\n\nOK")
    report_call(project, "git commit -qam 'Write amounts as text'", "[main 7c1d2e3] Write amounts as text")
    said = "The export writes text now. I decided to format in invoice_row, because the PDF export uses the same row."
    report(project, "Stop", last_assistant_message=said)
    run(project, "drafts", "make", "S1")
    return project


def environment(project: Path) -> dict[str, str]:
    """What the programs under test see: a home of their own."""
    return {**os.environ, "HOME": str(project.parent), "SCRIMSHAW_HOME": str(project.parent / "home")}


def run(project: Path, *arguments: str) -> None:
    """One command of the command line."""
    command = [str(PROGRAMS / "scrimshaw"), *arguments]
    subprocess.run(command, cwd=project, env=environment(project), check=True, stdout=subprocess.DEVNULL)


def report(project: Path, event: str, **fields: Any) -> None:
    """Give an event of the session S1 to the hook, as Claude Code does."""
    payload = json.dumps({"hook_event_name": event, "session_id": "S1", "cwd": str(project), **fields})
    command = [str(PROGRAMS / "scrimshaw-hook"), "claude"]
    subprocess.run(
        command, cwd=project, env=environment(project), input=payload, text=True, check=True, stdout=subprocess.DEVNULL
    )


def report_call(project: Path, command: str, output: str, *, failed: bool = False) -> None:
    """A command that the agent ran."""
    about = {"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": output[:20] + command[-9:]}
    if failed:
        report(project, "PostToolUseFailure", error=output, **about)
    else:
        report(project, "PostToolUse", tool_response={"stdout": output, "stderr": "", "interrupted": False}, **about)


@contextmanager
def serve(project: Path) -> Iterator[str]:
    """The address of the dashboard while it runs."""
    command = [str(PROGRAMS / "scrimshaw"), "ui", "--edit", "--no-open", "--json"]
    with subprocess.Popen(command, cwd=project, env=environment(project), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            yield json.loads(process.stdout.readline())["url"]
        finally:
            process.send_signal(signal.SIGINT)
            code = process.wait(PATIENCE_S)
    check(code == 0, "Ctrl-C ends it")


class Browser:
    """Chromium without a window, and what a person does with it."""

    def __init__(self, url: str, profile: Path) -> None:
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or shutil.which("google-chrome") or ""
        quiet = ("quic", "background-networking", "component-update", "sync", "gpu", "dev-shm-usage")
        for flag in (
            "headless=new",
            "no-sandbox",
            "no-first-run",
            "hide-scrollbars",
            *(f"disable-{each}" for each in quiet),
        ):
            options.add_argument(f"--{flag}")
        options.add_argument(f"--user-data-dir={profile}")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.driver = webdriver.Chrome(options, webdriver.ChromeService(shutil.which("chromedriver")))
        self.base = url.partition("/?")[0]
        self.driver.get(url)

    def open(self, path: str) -> None:
        """Go to a page of the dashboard."""
        self.driver.get(self.base + path)

    def resize(self, size: tuple[int, int], *, dark: bool = False) -> None:
        """Show pages in this size, in the light or the dark."""
        metrics = {"width": size[0], "height": size[1], "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})

    def find(self, selector: str) -> Any:
        """The first element of a CSS selector."""
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def press(self, *keys: str) -> None:
        """Type, wherever the focus is."""
        for key in keys:
            self.driver.switch_to.active_element.send_keys(key)

    def wait_for(self, what: Callable[[], object]) -> object:
        """Wait until something is so; an element may go while the next page loads."""
        patience = WebDriverWait(self.driver, PATIENCE_S, ignored_exceptions=[StaleElementReferenceException])
        return patience.until(lambda _: what())

    def ask(self, script: str) -> Any:
        """What a script finds in the page."""
        return self.driver.execute_script(f"return {script}")

    @property
    def path(self) -> str:
        """The address of the page on the dashboard."""
        return str(self.driver.current_url).removeprefix(self.base)

    @property
    def text(self) -> str:
        """What the page says."""
        return str(self.find("main").text)


def check_search(browser: Browser) -> None:
    check(browser.path == "/", "the token is not in the address any more", browser.path)
    browser.find("#q").send_keys("why not count in float", Keys.ENTER)
    browser.wait_for(lambda: browser.path.startswith("/?q="))
    check(browser.find(".hits h2").text == "Count in Decimal", "a search answers", browser.find("[role=status]").text)
    browser.find(".hits details summary").click()
    check("fused" in browser.text, "a hit says why it is there")


def check_walk(browser: Browser) -> None:
    browser.find(".hits h2 a").click()
    browser.wait_for(lambda: browser.path.startswith("/memory/"))
    check("Half up" in browser.text, "a hit leads to the memory", browser.path)
    browser.find(".markdown a").click()
    browser.wait_for(lambda: browser.path == "/memory/money/export-strings")
    browser.open("/graph/money/count-in-decimal")
    box = next(each for each in browser.driver.find_elements(By.CSS_SELECTOR, ".graph a") if "Export" in each.text)
    box.click()
    browser.wait_for(lambda: browser.path == "/graph/money/export-strings")
    check("Retry with a key" in browser.find(".graph").get_attribute("innerHTML"), "a box leads on", browser.path)


def check_plots(browser: Browser) -> None:
    """The plots have shapes with a size, and the graph of the whole memory leads on."""
    for path, shape in (
        ("/quality", ".plot rect"),
        ("/quality", "td .plot polyline"),
        ("/sessions/S1", ".plot polyline"),
    ):
        browser.open(path)
        box = browser.find(shape).rect
        check(box["width"] > 2, f"{path} draws {shape}", str(box))
    browser.open("/graph")
    browser.find(".graph a").click()
    browser.wait_for(lambda: browser.path.startswith("/graph/"))
    check("Relations" in browser.driver.page_source, "a neighbourhood opens", browser.path)


def check_review(browser: Browser, project: Path) -> None:
    vault, drafts = project / ".scrimshaw/memories/sessions", project / ".scrimshaw/drafts"
    browser.open("/drafts")
    check(browser.find(".badge").text == "1", "a draft waits")
    browser.find("button.main").click()
    browser.wait_for(lambda: "Accepted" in browser.text)
    check(len([*vault.glob("*.md")]) == 1, "a draft is accepted")
    browser.find(".done button").click()
    browser.wait_for(lambda: not browser.driver.find_elements(By.CSS_SELECTOR, ".done"))
    check(not [*vault.glob("*.md")] and [*drafts.glob("*.md")], "and taken back")


def check_keyboard(browser: Browser) -> None:
    browser.open("/health")
    browser.press(Keys.TAB)
    check(browser.ask("document.activeElement.className") == "skip", "the first key leads past the navigation")
    browser.press("/")
    browser.wait_for(lambda: browser.path == "/")
    check(browser.ask("document.activeElement.id") == "q", "a slash goes to the search")
    browser.press("tides", Keys.ENTER)
    browser.wait_for(lambda: browser.path.startswith("/?q="))
    browser.press(Keys.ESCAPE, "j")
    check(browser.ask("document.activeElement.closest('.hits') !== null"), "j goes to the first hit")
    browser.press(Keys.ENTER)
    browser.wait_for(lambda: browser.path.startswith("/memory/"))
    browser.open("/graph/money/count-in-decimal")
    browser.ask("document.querySelector('.graph a:last-of-type').focus()")
    browser.press(Keys.ENTER)
    browser.wait_for(lambda: browser.path != "/graph/money/count-in-decimal")
    check(browser.path.startswith("/graph/"), "a box is followed by the return key", browser.path)


def check_pages(browser: Browser) -> None:
    """Every page in three forms: nothing runs, nothing is refused, nothing overflows, axe finds nothing serious."""
    backgrounds, faulty = dict[str, str](), list[str]()
    for form, size, dark in (("light", DESKTOP, False), ("dark", DESKTOP, True), ("phone", PHONE, False)):
        browser.resize(size, dark=dark)
        for path in PAGES:
            browser.open(path)
            name = re.sub(r"\W+", "-", path).strip("-") or "start"
            browser.driver.save_screenshot(str(PLACE / f"{name}-{form}.png"))
            faulty += [] if check_page(browser, f"{form} {path}") else [f"{form} {path}"]
        backgrounds[form] = browser.ask("getComputedStyle(document.body).backgroundColor")
    check(not faulty, "no page has a serious fault", ", ".join(faulty))
    check(backgrounds["light"] != backgrounds["dark"], "the system's dark is followed", str(backgrounds))


def check_export(browser: Browser, project: Path) -> None:
    """The memories as one file: it is searched, its links lead on, and nothing in it runs but its own script."""
    run(project, "export", "--html", "all.html")
    faulty = list[str]()
    for form, size, dark in (("light", DESKTOP, False), ("dark", DESKTOP, True), ("phone", PHONE, False)):
        browser.resize(size, dark=dark)
        browser.driver.get((project / "all.html").as_uri())
        browser.find("#q").send_keys("half up office")
        browser.wait_for(lambda: "1 of" in browser.text)
        browser.find("details:not([hidden]) summary").click()
        browser.wait_for(lambda: browser.find("#memory\\/money\\/count-in-decimal").is_displayed())
        browser.driver.save_screenshot(str(PLACE / f"export-{form}.png"))
        faulty += [] if check_page(browser, f"{form} export") else [form]
        browser.find("#memory\\/money\\/count-in-decimal .markdown a").click()
        browser.wait_for(lambda: browser.find("#memory\\/money\\/export-strings").is_displayed())
    check(not faulty, "the memories as one file have no serious fault", ", ".join(faulty))
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    browser.driver.get((project / "all.html").as_uri())
    shown = browser.driver.find_elements(By.CSS_SELECTOR, "details")
    is_hidden = not browser.find("#q").is_displayed()
    check(is_hidden and all(each.is_displayed() for each in shown), "without scripts it is a list", str(len(shown)))
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})


def check_page(browser: Browser, name: str) -> bool:
    """Print what is wrong with a page; whether nothing is."""
    browser.driver.execute_script(AXE.read_text())
    results = browser.driver.execute_async_script("axe.run().then(arguments[arguments.length - 1])")
    faults = [
        f"{each['id']} ({each['nodes'][0]['html'][:90]})" for each in results["violations"] if each["impact"] in SERIOUS
    ]
    faults += [f"scripts ran: {browser.ask('window.pwned')}"] * bool(browser.ask("window.pwned"))
    faults += ["it is wider than the screen"] * bool(browser.ask("document.scrollingElement.scrollWidth > innerWidth"))
    tables = "[...document.querySelectorAll('.scroll > table')]"
    wide = f"innerWidth < 640 && {tables}.some(each => each.scrollWidth > innerWidth)"
    faults += ["a table is wider than the screen"] * bool(browser.ask(wide))
    errors = (each["message"] for each in browser.driver.get_log("browser") if each["level"] == "SEVERE")
    faults += [each for each in errors if "status of 404" not in each]
    with suppress(NoAlertPresentException):
        faults.append(f"alert: {browser.driver.switch_to.alert.text}")
    mark, told = ("FAILED", "; ".join(faults)) if faults else ("ok", f"{len(results['passes'])} rules of axe")
    sys.stdout.write(f"{mark:<7}{name}: {told}\n")
    return not faults


def draw_pictures(browser: Browser) -> None:
    """The pictures of the documentation."""
    for name, dark in (("light", False), ("dark", True)):
        browser.resize(PICTURE, dark=dark)
        browser.open("/?q=why+not+count+in+float" if not dark else "/graph/money/count-in-decimal")
        if not dark:
            browser.find(".hits details summary").click()
            browser.ask("document.activeElement.blur()")
        browser.driver.save_screenshot(str(ROOT / f"docs/dashboard-{name}.png"))


def main(arguments: Sequence[str]) -> int:
    """Look at everything."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        project = make_project(folder)
        with serve(project) as url:
            browser = Browser(url, folder / "profile")
            try:
                check_search(browser)
                check_walk(browser)
                check_plots(browser)
                check_review(browser, project)
                check_keyboard(browser)
                check_pages(browser)
                check_export(browser, project)
                if "--pictures" in arguments:
                    draw_pictures(browser)
            finally:
                browser.driver.quit()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
