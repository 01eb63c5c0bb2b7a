# The competition's image: the agent under the profile gpu. torch's wheels bring CUDA 12.8, the driver comes from the host.
FROM python:3.11.13-slim-bookworm

# hadolint ignore=DL3064
ENV PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    ANONYMIZED_TELEMETRY=False \
    VLLM_NO_USAGE_STATS=1 \
    TOKENIZERS_PARALLELISM=false

# Triton compiles small C files when a kernel is first used: that takes a compiler at run time.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends gcc libc6-dev \
    && rm -rf /var/lib/apt/lists/*

# The layers that change least come first: engine and torch, then the rest, then the agent. The lock names all that it needs, with hashes.
COPY requirements.txt /tmp/requirements.txt
RUN awk '/^[a-z]/ {engine = /^(torch|vllm|triton|nvidia-[a-z0-9-]+)==/} engine' /tmp/requirements.txt > /tmp/engine.txt \
    && pip install --no-cache-dir --no-deps --require-hashes --requirement /tmp/engine.txt
RUN pip install --no-cache-dir --no-deps --require-hashes --requirement /tmp/requirements.txt

# User and folder are those of the starter kit's image, which has no USER: the evaluator's cache of models lies in root's home.
WORKDIR /home/aicrowd
COPY . /home/aicrowd
