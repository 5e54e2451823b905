"""The files of the page at the control port: open, small, self-contained, and with a strict policy."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import vocabulary
from control_fakes import ADMIN, FakeService, client

from binshift.control import page

FOLDER = Path(page.__file__).with_name("static")
BYTES_MAX = 64_000
"""Of all files together, which are not compressed."""
FILE_LINES_MAX = 250
TEXTS = {path.name: path.read_text(encoding="utf-8") for path in sorted(FOLDER.iterdir())}


def test_the_page_needs_no_token() -> None:
    """Without a token, all files are served and no data is read; a write to their paths is rejected."""
    service = FakeService()
    stranger = client(service, token=None)
    assert stranger.get("/").text == TEXTS["index.html"]
    for path in page.PATHS:
        assert stranger.get(path).status_code == 200
        assert stranger.head(path).status_code == 200
        assert stranger.put(path).status_code == 401
        assert client(service).put(path).status_code == 405
    assert (service.reads, service.writes) == (0, [])


@pytest.mark.parametrize(
    "path", ["/static/", "/static/other.js", "/static/../page.py", "/static/%2e%2e/page.py", "/static/index.html"]
)
def test_no_other_file_is_served(path: str) -> None:
    """Any other path needs a token, and with a token it is not found."""
    assert client(FakeService(), token=None).get(path).status_code == 401
    assert client(FakeService()).get(path).status_code == 404


def test_every_file_of_the_folder_is_served() -> None:
    """The folder has the index and the named files, and no others."""
    assert {page.INDEX, *page.NAMES} == TEXTS.keys()


@pytest.mark.parametrize("path", sorted(page.PATHS))
def test_the_policy_is_strict(path: str) -> None:
    """Each file is sent with its type and a policy that permits its own origin only, no inline code and no frame."""
    headers = client(FakeService(), token=None).get(path).headers
    policy = dict(part.split(" ", 1) for part in headers["content-security-policy"].split("; "))
    assert policy.pop("default-src") == "'none'"
    assert policy.pop("frame-ancestors") == policy.pop("form-action") == policy.pop("base-uri") == "'none'"
    assert policy.pop("require-trusted-types-for") == "'script'"
    assert set(policy.values()) == {"'self'"}
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["content-type"].split(";")[0] == page.MEDIA_TYPES[(Path(path).suffix or ".html")[1:]].split(";")[0]


def test_other_origins_get_no_permission_and_there_are_no_cookies() -> None:
    """No response to a request of another origin permits it to read, and none sets a cookie."""
    for token in (None, ADMIN):
        for path in ("/", "/v1/dataflow"):
            headers = client(FakeService(), token=token).get(path, headers={"Origin": "https://example.com"}).headers
            assert [name for name in headers if name.startswith("access-control-") or name == "set-cookie"] == []


def test_an_unchanged_file_is_not_sent_again() -> None:
    """A browser that has the file gets no body; one with another version gets the file."""
    api = client(FakeService(), token=None)
    tag = api.get("/static/page.js").headers["etag"]
    again = api.get("/static/page.js", headers={"If-None-Match": tag})
    assert (again.status_code, again.content) == (304, b"")
    assert api.get("/static/page.js", headers={"If-None-Match": '"other"'}).status_code == 200


def test_the_page_is_small() -> None:
    """All files together, and each by its lines, are below their limits."""
    assert sum(len(text.encode()) for text in TEXTS.values()) <= BYTES_MAX
    assert {name: text.count("\n") for name, text in TEXTS.items() if text.count("\n") > FILE_LINES_MAX} == {}


@pytest.mark.parametrize("name", TEXTS)
def test_a_file_is_self_contained(name: str) -> None:
    """No file names another host, has code in its markup, or sets HTML or an address from a text."""
    text = TEXTS[name].replace("http://www.w3.org/2000/svg", "")
    assert (
        re.findall(r"(?i)\b(?:https?:|wss?:|data:|javascript:)?//\w[\w.]+\.\w+|\bdata:|javascript:|@import", text) == []
    )
    assert re.findall(r"(?i)<script(?![^>]* src=)|<style|\son\w+=|\sstyle=", text) == []
    forbidden = r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|localStorage|\.cookie"
    assert re.findall(forbidden, text) == []


@pytest.mark.parametrize("name", TEXTS)
def test_the_texts_are_plain(name: str) -> None:
    """Comments and messages have no banned form, and each script states what it owns."""
    text = TEXTS[name]
    strings = [match for match in re.findall(r"'([^'\n]* [^'\n]*)'|`([^`]* [^`]*)`", text) if name.endswith(".js")]
    comments = re.findall(r"//(.*)|/\*(.*?)\*/", text, re.DOTALL if name.endswith(".css") else 0)
    markup = re.sub(r"<[^>]*>", " ", text) if name.endswith(".html") else ""
    assert vocabulary.hits(" ".join([markup, *(" ".join(each) for each in [*strings, *comments])])) == []
    if name.endswith((".js", ".css")):
        assert text.startswith(("// ", "/* "))


def test_the_page_is_no_part_of_the_documented_api() -> None:
    """The OpenAPI document has what the page reads, and not its files."""
    paths = json.loads(client(FakeService(), token=None).get("/openapi.json").text)["paths"]
    assert not page.PATHS & paths.keys()
    assert {"/v1/placement", "/v1/epochs", "/v1/queries/{query}/placement"} <= paths.keys()
