"""`metrobench predict-collapse` as people use it: three forms, their exit codes, what is refused."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from metrobench.predict.model import Pool
from tests.cli.command import assert_plain_error, in_process
from tests.predict.metrics_page import PAGES, metrics_page, vllm
from tests.predict.recorded import folder_of

H200 = ("--model", "minicpm-o-paper", "--gpu", "H200")


def narrow(text: str) -> bool:
    return all(len(line) <= 80 for line in text.splitlines())


def test_shapes_give_a_date_its_cause_and_what_helps(tmp_path: Path) -> None:
    done = in_process(
        "predict-collapse", *H200, "--sessions", "64", "--kv", "unbounded", "--duration", "5m", cwd=tmp_path
    )
    assert done.code == 0, done
    for word in ("KV pool", "positions", "encoder cache", "host memory", "collapse:", "makes this impossible at N <="):
        assert word in done.out
    assert "probability over 99.9 %" not in done.out
    assert narrow(done.out)


def test_a_windowed_policy_says_never(tmp_path: Path) -> None:
    done = in_process("predict-collapse", *H200, "--sessions", "64", cwd=tmp_path)
    assert done.code == 0
    assert "collapse: never" in done.out


def test_fail_below_exits_1_where_collapse_is_nearer(tmp_path: Path) -> None:
    ask = ("predict-collapse", *H200, "--sessions", "600", "--kv", "unbounded", "--fail-below")
    assert in_process(*ask, "10m", cwd=tmp_path).code == 1
    assert in_process(*ask, "10s", cwd=tmp_path).code == 0


def test_ages_and_arrivals_are_understood(tmp_path: Path) -> None:
    done = in_process(
        "predict-collapse", *H200, "--sessions", "48,16@5m,20@+30s", "--kv", "unbounded", "--json", cwd=tmp_path
    )
    assert json.loads(done.out)["prediction"]["sessions"] == 84


def test_a_run_folder_is_forecast_and_scored(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, Pool(501, 32), 12, 60.0)
    done = in_process("predict-collapse", str(folder), cwd=tmp_path)
    assert done.code == 0, done
    assert "stall at" in done.out and "arithmetic" in done.out and "of the rest" in done.out
    assert narrow(done.out)
    told = json.loads(in_process("predict-collapse", str(folder), "--json", cwd=tmp_path).out)
    assert told["review"]["made"][1]["score"]["of_onset"] < 0.03


def test_without_a_question_the_newest_run_is_taken_and_plain_names_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "reports").mkdir()
    folder = folder_of(tmp_path / "reports", Pool(501, 32), 12, 60.0)
    (tmp_path / "reports" / "zz-reference").mkdir()
    (tmp_path / "reports" / "zz-reference" / "run.json").write_text("{}")
    assert folder.name in in_process("predict-collapse", cwd=tmp_path).out


def test_without_a_run_the_three_forms_are_named(tmp_path: Path) -> None:
    assert_plain_error(in_process("predict-collapse", cwd=tmp_path), 2, "--model", "RUN", "--metrics URL")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model", "minicpm-o"], ["--sessions N is missing"]),
        (["--sessions", "4"], ["--model NAME is missing"]),
        ([*H200, "--sessions", "0"], ["--sessions 0", "1 to"]),
        ([*H200, "--sessions", "many"], ["--sessions", "many"]),
        ([*H200, "--sessions", "4@soon"], ["soon"]),
        (["--model", "minicpm-o", "--gpu", "H20000", "--sessions", "4"], ["H20000", "did you mean H200"]),
        (["--model", "qwen3-omni", "--gpu", "L4", "--sessions", "4"], ["does not fit on L4", "larger GPU"]),
        ([*H200, "--sessions", "4", "--pool-tokens", "5000"], ["--pool-tokens", "leave out --gpu"]),
        (["--model", "minicpm-o", "--pool-tokens", "5", "--sessions", "4"], ["no block"]),
        ([*H200, "--sessions", "4", "--kv", "window:x"], ["window:x"]),
        ([*H200, "--sessions", "4", "--utilisation", "120%"], ["--utilisation"]),
        ([*H200, "--sessions", "4", "--rate", "fast"], ["--rate", "8/s"]),
        ([*H200, "--sessions", "4", "--speaking", "often"], ["--speaking"]),
        ([*H200, "--sessions", "4", "--metrics", "http://127.0.0.1:1"], ["several questions"]),
        (["--metrics", "127.0.0.1:1"], ["is not an address"]),
        (["--metrics", "http://127.0.0.1:1", "--every", "1ms"], ["--every"]),
        (["--watch"], ["--metrics URL"]),
        (["no-such-folder"], ["no record at no-such-folder"]),
        (["no-such-folder", "--fail-below", "10m"], ["--fail-below"]),
    ],
)
def test_wrong_usage_exits_2(tmp_path: Path, arguments: list[str], words: list[str]) -> None:
    assert_plain_error(in_process("predict-collapse", *arguments, cwd=tmp_path), 2, *words)


def test_a_broken_folder_exits_2(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, Pool(501, 32), 12, 60.0)
    (folder / "telemetry.parquet").write_bytes(b"nothing")
    assert_plain_error(in_process("predict-collapse", str(folder), cwd=tmp_path), 2, "telemetry", "cannot be read")
    (folder / "run.json").write_text("{")
    assert in_process("predict-collapse", str(folder), cwd=tmp_path).code == 2


def test_a_run_that_was_not_measured_exits_3(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, Pool(501, 32), 12, 60.0)
    record = json.loads((folder / "run.json").read_text()) | {"probes": [], "error": "vLLM does not start"}
    (folder / "run.json").write_text(json.dumps(record))
    assert_plain_error(in_process("predict-collapse", str(folder), cwd=tmp_path), 3, "nothing was measured", "vLLM")


def test_a_run_too_short_to_fit_exits_3(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, Pool(501, 32), 12, 4.0)
    assert_plain_error(in_process("predict-collapse", str(folder), cwd=tmp_path), 3, "does not bear a forecast")


# A server with a metrics page


@pytest.fixture
def serve() -> Iterator[Callable[[Callable[[float], str | None]], str]]:
    """Serves what a function of the seconds since the first request returns; None: 404."""
    with ExitStack() as servers:
        yield lambda page: servers.enter_context(metrics_page(page))


FAST = ("--every", "0.25s", "--quiet")


def test_a_server_that_fills_is_dated(tmp_path: Path, serve: Callable[..., str]) -> None:
    url = serve(lambda t: vllm(0.2 + 0.02 * t, 100 * t))
    done = in_process("predict-collapse", "--metrics", url, *FAST, "--json", cwd=tmp_path)
    assert done.code == 0, done
    told = json.loads(done.out)
    assert 25.0 < told["limits"][0]["time"] < 50.0


def test_fail_below_stops_a_watch_with_exit_1(tmp_path: Path, serve: Callable[..., str]) -> None:
    url = serve(lambda t: vllm(0.2 + 0.02 * t, 100 * t))
    done = in_process(
        "predict-collapse", "--metrics", url, "--watch", "--every", "0.25s", "--fail-below", "10m", cwd=tmp_path
    )
    assert done.code == 1, done
    assert "full in" in done.out
    assert narrow(done.out + done.err)


def test_a_full_pool_is_full_now(tmp_path: Path, serve: Callable[..., str]) -> None:
    url = serve(lambda t: vllm(1.0, 100 * t))
    done = in_process("predict-collapse", "--metrics", url, *FAST, "--fail-below", "1s", cwd=tmp_path)
    assert done.code == 1, done
    assert "full now" in done.out


def test_a_gauge_that_nothing_moves_behind_exits_3(tmp_path: Path, serve: Callable[..., str]) -> None:
    url = serve(lambda t: vllm(0.4, 100))
    assert_plain_error(in_process("predict-collapse", "--metrics", url, *FAST, cwd=tmp_path), 3, "stale")


def test_a_page_without_the_gauges_exits_2(tmp_path: Path, serve: Callable[..., str]) -> None:
    url = serve(lambda t: (PAGES / "node.txt").read_text())
    assert_plain_error(in_process("predict-collapse", "--metrics", url, cwd=tmp_path), 2, "vllm:kv_cache_usage_perc")


def test_a_server_without_a_page_exits_4(tmp_path: Path, serve: Callable[..., str]) -> None:
    url = serve(lambda t: None)
    assert_plain_error(in_process("predict-collapse", "--metrics", url, cwd=tmp_path), 4, "404")


def test_a_server_that_goes_away_exits_4(tmp_path: Path, serve: Callable[..., str]) -> None:
    url = serve(lambda t: vllm(0.2 + 0.0001 * t, 100 * t) if t < 1.0 else None)
    done = in_process("predict-collapse", "--metrics", url, "--watch", *FAST, cwd=tmp_path)
    assert_plain_error(done, 4, "404")


def test_nobody_listening_exits_4(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    assert_plain_error(in_process("predict-collapse", "--metrics", url, cwd=tmp_path), 4, "refused")
