"""One request to the address that was given; what a server answers instead of a page, in words."""

import httpx
import pytest

from metrobench.errors import UnreachableError, UsageError
from metrobench.predict.scrape import LARGEST, Scraper, metrics_url


def scraper(answer: httpx.Response | Exception, seen: list[httpx.Request] | None = None) -> Scraper:
    def handle(request: httpx.Request) -> httpx.Response:
        if seen is not None:
            seen.append(request)
        if isinstance(answer, Exception):
            raise answer
        return answer

    return Scraper("http://gpu-7:8000", httpx.MockTransport(handle))


def test_a_bare_server_is_asked_for_its_metrics() -> None:
    seen: list[httpx.Request] = []
    assert scraper(httpx.Response(200, text="page"), seen).read() == "page"
    assert str(seen[0].url) == "http://gpu-7:8000/metrics"
    assert seen[0].headers["user-agent"].startswith("metrobench/")


@pytest.mark.parametrize("text", ["gpu-7:8000", "ws://gpu-7", "", "http://", "ftp://gpu-7/metrics", "http://[::1"])
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not an address"):
        metrics_url(text)


def test_an_address_with_a_path_is_taken_as_it_is() -> None:
    assert metrics_url("https://gpu-7/vllm/metrics?x=1") == "https://gpu-7/vllm/metrics?x=1"


def test_an_answer_that_is_no_page_names_its_status() -> None:
    with pytest.raises(UnreachableError, match="404") as raised:
        scraper(httpx.Response(404)).read()
    assert "--enable-metrics" in raised.value.hint


def test_a_redirect_on_the_same_server_is_followed() -> None:
    def handle(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/metrics":
            return httpx.Response(307, headers={"location": "/metrics/"})
        return httpx.Response(200, text="page")

    assert Scraper("http://gpu-7:8000", httpx.MockTransport(handle)).read() == "page"


@pytest.mark.parametrize("target", ["http://elsewhere/metrics", "https://gpu-7:8000/metrics", "http://gpu-7:9/metrics"])
def test_a_redirect_to_another_server_is_refused(target: str) -> None:
    with pytest.raises(UnreachableError, match="redirects to"):
        scraper(httpx.Response(302, headers={"location": target})).read()


def test_a_redirect_in_circles_is_refused() -> None:
    with pytest.raises(UnreachableError, match="in circles"):
        scraper(httpx.Response(302, headers={"location": "/metrics"})).read()


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (httpx.ConnectError("[Errno 111] Connection refused"), "Connection refused"),
        (httpx.ReadTimeout(""), "did not answer within 10 s"),
        (httpx.RemoteProtocolError("Server disconnected"), "disconnected"),
    ],
)
def test_a_server_that_is_not_there_is_unreachable(error: Exception, words: str) -> None:
    with pytest.raises(UnreachableError, match=words):
        scraper(error).read()


def test_a_page_without_end_is_refused() -> None:
    with pytest.raises(UnreachableError, match="no metrics page"):
        scraper(httpx.Response(200, content=b"x" * (LARGEST + 1))).read()
