"""How each command of the README is run in a test: as it stands, or in a quick form with the reason for it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Form:
    """What is run in place of a command, and what must come of it."""

    says: str
    """A key phrase of what it prints, files that it writes included."""
    code: tuple[int, ...] = (0,)
    line: str = ""
    """For the shell; empty: the command as it stands. It runs in a folder with the things that the README names."""
    because: str = ""
    """Why not as it stands."""
    needs: str = ""
    """What must be running: `served` or `metrics`; its address is in the variable of that name."""
    measures: bool = False
    """It streams in real time for more than a few seconds."""
    shown: str = ""
    """How what it prints must agree with what the README shows: `exact`, or `labels` (the first column)."""


LONG = "it measures for minutes"
HOST = "it names another host"
SETUP = "it sets up an environment from the network; tests/test_install.py does that"
NAMED = "it is named here, not told to be typed so"
APART = "the run that collapsed lies in a reports/ of its own"
ONE_WORKER = "one loaded vLLM serves this file"

PLANNED = "dry run: nothing was started"
TRIALS = (
    "metrobench collapse --model smoke --sessions 4 --trials 1 --duration 15s --no-aftermath --kv unbounded --quiet"
)
REQUIREMENTS = 'python -c \'from importlib.metadata import requires; print(*requires("metrobench"), sep="\\n")\''

FORMS: dict[str, Form] = {
    "make demo": Form(
        "metrobench capacity --model minicpm-o --budget 1s",
        line='make -n -C "$ROOT" demo VENV="$PWD/.venv"',
        because=SETUP,
    ),
    "make docs": Form("mkdocs build", line='make -n -C "$ROOT" docs VENV="$PWD/.venv"', because=SETUP),
    "make test": Form("pytest", line='make -n -C "$ROOT" test VENV="$PWD/.venv"', because=SETUP),
    "source .venv/bin/activate": Form(
        "/.venv/bin/python",
        line="python -m venv --without-pip .venv && source .venv/bin/activate && command -v python",
        because="the rest of `make demo` is not needed for it",
    ),
    "metrobench check": Form(
        "of 5 frames of 500 ms",
        line='metrobench check --model smoke --endpoint "$served"',
        because=ONE_WORKER,
        needs="served",
    ),
    "metrobench replay FILE": Form(
        "listening on ws://127.0.0.1:",
        code=(130,),
        line='metrobench check --model smoke --endpoint "$served" --record-wire FILE >/dev/null 2>&1;'
        " timeout --preserve-status -s INT 8 metrobench replay FILE --port 0",
        because="it goes on until Ctrl-C",
        needs="served",
    ),
    "metrobench capacity --model minicpm-o --budget 1s": Form(
        PLANNED, line="metrobench capacity --model minicpm-o --budget 1s --dry-run", because=LONG
    ),
    "metrobench run --sessions 64 --duration 5m": Form(
        PLANNED, line="metrobench run --sessions 64 --duration 5m --dry-run", because=LONG
    ),
    "metrobench collapse --sessions 16 --trials 20": Form("0 of 1", line=TRIALS, because=LONG, measures=True),
    "metrobench quality": Form(
        "nothing is bounded", code=(2,), line="metrobench quality --kv unbounded", because="it asks a model for minutes"
    ),
    "metrobench profiles": Form("sessions", shown="exact"),
    "metrobench serve --port 8910": Form(
        "listening on ws://127.0.0.1:",
        line="cat served.txt",
        because="started on a free port, with the smoke profile, for all of this file; this is what it printed",
        needs="served",
    ),
    "metrobench run --sessions 16 --endpoint ws://127.0.0.1:8910/v1/realtime": Form(
        "4 for 15 s",
        code=(0, 3),
        line='metrobench run --model smoke --sessions 4 --duration 15s --endpoint "$served"',
        because="shorter, at the server of this file; 3: on a busy machine a run proves nothing",
        needs="served",
        measures=True,
    ),
    "metrobench capacity --endpoint ws://gpu-host:8000/v1/realtime --protocol vllm-realtime"
    " --model voxtral-realtime": Form(
        PLANNED,
        line="metrobench capacity --endpoint ws://127.0.0.1:8000/v1/realtime --protocol vllm-realtime"
        " --model voxtral-realtime --served-model voxtral --dry-run",
        because=HOST,
    ),
    "metrobench doctor": Form(
        "timer",
        code=(0, 3),
        line="metrobench doctor --quick",
        because="the pacing test takes 25 s; 3: this machine may be unfit",
        shown="labels",
    ),
    "metrobench corpus list": Form("58", shown="exact"),
    "metrobench capacity --dry-run --max-time 10m": Form(PLANNED, shown="labels"),
    "metrobench capacity --endpoint ws://gpu-7:8000/v1/realtime --model minicpm-o --max-sessions 200 --yes"
    ' --restart-cmd "ssh gpu-7 systemctl restart speech" --health http://gpu-7:8000/health': Form(
        "restarted before each run",
        line="metrobench capacity --endpoint ws://gpu-7:8000/v1/realtime --model minicpm-o --max-sessions 200 --yes"
        ' --restart-cmd "ssh gpu-7 systemctl restart speech" --health http://gpu-7:8000/health --dry-run',
        because=HOST,
    ),
    "metrobench collapse --sessions 16 --trials 20 --duration 1m --kv unbounded,window:1024+16": Form(
        "0 of 1", line=TRIALS, because=f"{LONG}; tests/spec/test_collapse_wire.py has one that collapses", measures=True
    ),
    "metrobench corpus verify": Form("all 58 files decode", shown="exact"),
    "metrobench corpus add recordings --name mine --language en --licence CC0": Form("left out, of no use"),
    "metrobench profiles show minicpm-o --toml > mine.toml": Form(
        "tokens_out_speaking", line="metrobench profiles show minicpm-o --toml > mine.toml && cat mine.toml"
    ),
    "metrobench profiles show ./mine.toml": Form("minicpm-o"),
    "metrobench capacity --model ./mine.toml": Form(
        PLANNED, line="metrobench capacity --model ./mine.toml --dry-run", because=LONG
    ),
    "metrobench predict-collapse --model minicpm-o --gpu H200 --sessions 128 --kv unbounded --duration 5m": Form(
        "by the KV pool", shown="exact"
    ),
    "metrobench predict-collapse reports/2026-11-30T01-11-36-run-smoke": Form(
        "observed   stall at",
        line="cd collapsed && metrobench predict-collapse reports/2026-11-30T01-11-36-run-smoke",
        because=APART,
    ),
    "metrobench predict-collapse --metrics http://gpu-7:8000 --watch --fail-below 10m": Form(
        "full in",
        code=(1,),
        line='metrobench predict-collapse --metrics "$metrics" --watch --fail-below 10m --every 0.25s',
        because=f"{HOST}; this one fills within the ten minutes",
        needs="metrics",
    ),
    "metrobench ramp --offer 512 --rate 8/s --hold 60s": Form(
        "offered",
        code=(0, 3),
        line='metrobench ramp --model smoke --offer 4 --rate 2/s --hold 2s --endpoint "$served"',
        because=LONG,
        needs="served",
        measures=True,
    ),
    "metrobench ramp --offer 512 --workload flash-crowd --admission static:64": Form(
        "--offer",
        code=(2,),
        line="metrobench ramp --offer 0 --workload flash-crowd --admission static:64",
        because=f"{LONG}; tests/spec/test_ramp_wire.py offers a crowd",
    ),
    "metrobench ramp --offer 512 --endpoint ws://gpu-host:8000/v1/realtime": Form("gpu-host", code=(4,), because=HOST),
    "metrobench ramp": Form("Missing option '--offer'", code=(2,), because=NAMED),
    "metrobench report RUN --why 213": Form("ramp", code=(2,), because="RUN is no ramp here; tests/cli/test_ramp.py"),
    "metrobench gate": Form("--baseline", code=(2,), because=NAMED),
    "metrobench gate reports/base --baseline baseline.json --update": Form(
        "baseline.json", line="metrobench gate RUN --baseline baseline.json --update", because="the record is RUN here"
    ),
    "metrobench gate reports/now --baseline baseline.json": Form(
        "pass",
        line="metrobench gate RUN --baseline base.json --update && metrobench gate RUN --baseline base.json",
        code=(0, 3),
        because="the record is RUN here, and its own baseline",
    ),
    "metrobench history reports/": Form("none changed"),
    "metrobench report": Form("report   reports/"),
    "metrobench report reports/": Form("kind      policy"),
    "metrobench report reports/ --out compare.html": Form(
        "</html>", line="metrobench report reports/ --out compare.html && cat compare.html"
    ),
    "metrobench report RUN --format md": Form("| sessions |"),
    "metrobench report reports/ --format csv > runs.csv": Form(
        "record,kind,", line="metrobench report reports/ --format csv > runs.csv && cat runs.csv"
    ),
    "metrobench report RUN --format csv --rows frames > frames.csv": Form(
        "t_done_s", line="metrobench report RUN --format csv --rows frames > frames.csv && cat frames.csv"
    ),
    "metrobench report RUN --format json": Form('"probes"'),
    "metrobench run": Form("Missing option '--sessions'", code=(2,), because=NAMED),
    "metrobench collapse": Form("Missing option '--sessions'", code=(2,), because=NAMED),
    "metrobench predict-collapse": Form(
        "observed   stall at", line="cd collapsed && metrobench predict-collapse", because=APART
    ),
    "metrobench COMMAND --help": Form(
        "Usage: metrobench capacity",
        line="for each in capacity collapse doctor; do metrobench $each --help || exit; done",
        because="COMMAND stands for a name; tests/cli/test_help.py reads the help of all",
    ),
    "metrobench run --sessions 8 -- --max-num-batched-tokens 4096": Form(
        PLANNED, line="metrobench run --sessions 8 --dry-run -- --max-num-batched-tokens 4096", because=LONG
    ),
    "metrobench capacity --kv unbounded,window:1024,window:1024+16,recycle:1024": Form(
        "recycle:1024",
        line="metrobench capacity --kv unbounded,window:1024,window:1024+16,recycle:1024 --dry-run",
        because=LONG,
    ),
    'pip install ".[gpu]"': Form("vllm", line=REQUIREMENTS, because=SETUP),
    "pip install .": Form("picows", line=REQUIREMENTS, because=SETUP),
    "metrobench corpus verify NAME": Form("have something wrong", code=(1,)),
    "metrobench corpus pull librispeech-dev-clean": Form(
        "CC BY 4.0",
        code=(2,),
        because="it downloads 338 MB once agreed to, and here nobody is asked; tests/corpus/test_pull.py pulls",
    ),
    "metrobench corpus add DIR/clips --name common-voice --transcripts DIR/validated.tsv --language CODE"
    " --licence CC0-1.0": Form("common-voice: 2 clips"),
    "metrobench profiles show qwen2.5-omni": Form("not shown"),
}
"""By the command exactly as the README has it, a command over several lines as one."""
