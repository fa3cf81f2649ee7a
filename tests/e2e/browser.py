"""A headless Chromium for the tests of a page: what it shows, and what it must not do."""

import json
import os
import shutil

import pytest

WIDTH, HEIGHT = 1280, 900


def start_browser(folder):
    """Needs Debian's chromium and chromium-driver; without them tests are skipped, but CI fails."""
    programs = {name: shutil.which(name) for name in ("chromium", "chromedriver")}
    absent = [name for name, path in programs.items() if path is None]
    if absent:
        problem = f"{', '.join(absent)} not found: run tools/setup --dev"
        (pytest.fail if os.environ.get("ATP_ALL_TESTS") else pytest.skip)(problem)
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = programs["chromium"]
    for word in (
        "--headless=new",
        "--no-sandbox",  # root has none, nor do users without namespaces; the page is our own
        "--disable-dev-shm-usage",
        "--disable-gpu",
        "--disable-background-networking",
        "--disable-component-update",
        "--no-first-run",
        "--hide-scrollbars",
        f"--user-data-dir={folder / 'profile'}",
        f"--window-size={WIDTH},{HEIGHT}",
    ):
        options.add_argument(word)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    home = {**os.environ, "HOME": str(folder), "XDG_CONFIG_HOME": str(folder)}
    service = webdriver.ChromeService(programs["chromedriver"], env=home)
    return Browser(webdriver.Chrome(options, service))


class Browser:
    def __init__(self, driver):
        self.driver = driver
        self.run(
            "Emulation.setDeviceMetricsOverride",
            width=WIDTH,
            height=HEIGHT,
            deviceScaleFactor=1,
            mobile=False,
        )

    def run(self, command, **words):
        return self.driver.execute_cdp_cmd(command, words)

    def open(self, url):
        self.complaints(), self.requests()  # of the previous page
        self.driver.get(url)

    def ask(self, script, *arguments):
        """The result of a JavaScript function with this body, run in the page."""
        return self.driver.execute_script(script, *arguments)

    def text(self, selector="body"):
        return self.ask("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def texts(self, selector):
        return self.ask(
            "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)",
            selector,
        )

    def press(self, *keys):
        from selenium.webdriver.common.action_chains import ActionChains
        from selenium.webdriver.common.keys import Keys

        for key in keys:
            ActionChains(self.driver).send_keys(getattr(Keys, key, key)).perform()

    def set_media(self, **features):
        self.run(
            "Emulation.setEmulatedMedia",
            features=[
                {"name": name.replace("_", "-"), "value": value} for name, value in features.items()
            ],
        )

    def complaints(self):
        """The console's errors since the last call, including violations of the security policy."""
        return [one for one in self.driver.get_log("browser") if one["level"] != "INFO"]

    def requests(self):
        """The addresses requested since the last call."""
        messages = [
            json.loads(one["message"])["message"] for one in self.driver.get_log("performance")
        ]
        return [
            one["params"]["request"]["url"]
            for one in messages
            if one["method"] == "Network.requestWillBeSent"
        ]

    def save(self, path, colours=200):
        """A screenshot; few colours make it small, and a page has few."""
        from PIL import Image

        self.driver.save_screenshot(str(path))
        with Image.open(path) as image:
            few = image.convert("RGB").quantize(colours, kmeans=3, dither=Image.Dither.NONE)
        few.save(path, optimize=True)

    def quit(self):
        self.driver.quit()
