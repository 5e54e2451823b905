"""A page of the control port, opened in Chromium, and what the tests read of it."""

from __future__ import annotations

from typing import Any

from control_fakes import ADMIN
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

WIDTH, HEIGHT = 1080, 900
SQUARES = """async () => {
    const { colour } = await import('/static/layout.js');
    const canvas = document.querySelector('#field');
    const { data, width } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    const area = (Number(canvas.dataset.cell) - 1) ** 2;
    const found = {};
    for (let worker = 0; worker < 4; worker += 1) {
        const wanted = colour(worker, false).slice(1).match(/../g).map((part) => parseInt(part, 16));
        let pixels = 0;
        for (let at = 0; at < data.length; at += 4) pixels += wanted.every((value, each) => data[at + each] === value);
        if (pixels) found[worker] = pixels / area;
    }
    return found;
}"""
"""How many whole squares of each worker's colour are on the canvas."""


class Opened:
    """A page over a feed.

    Attributes:
        errors: what the browser reported: errors of scripts, and violations of the policy.
        hosts: where requests went.
    """

    def __init__(self, browser: Browser, url: str, **context: Any) -> None:
        self.url = url
        self.context = browser.new_context(**{"viewport": {"width": WIDTH, "height": HEIGHT}} | context)
        self.page: Page = self.context.new_page()
        self.errors: list[str] = []
        self.hosts: set[str] = set()
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", self._note)
        self.page.on("request", lambda request: self.hosts.add("/".join(request.url.split("/")[:3])))

    def _note(self, line: ConsoleMessage) -> None:
        """Keep an error, unless it is one of an answer that a test causes."""
        if line.type == "error" and not line.text.startswith("Failed to load resource"):
            self.errors.append(line.text)

    def go(self, token: str | None = ADMIN) -> Page:
        """Open it, with a token in the fragment if one is given."""
        self.page.goto(f"{self.url}/#token={token}" if token else self.url)
        if token == ADMIN:
            expect(self.page.locator("#field[data-cell]")).to_be_visible()
        return self.page


def table(page: Page) -> dict[int, int]:
    """Bins by worker in the table next to the field."""
    rows = page.locator("#workers-table tbody tr").all()
    return {int(row.locator("th").inner_text()): int(row.locator("td").nth(1).inner_text()) for row in rows}


def squares(page: Page) -> dict[int, float]:
    """Bins by worker, counted by the colours on the canvas; no whole numbers if some show two colours."""
    return {int(worker): float(value) for worker, value in page.evaluate(SQUARES).items()}


def luminance(colour: str) -> float:
    """Relative luminance of `rgb(r, g, b)`, as the Web Content Accessibility Guidelines define it."""
    parts = [int(part) / 255 for part in colour[4:-1].split(",")]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
