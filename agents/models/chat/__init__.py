"""Chat models: llama.cpp, transformers, vLLM, a server; weights in GGUF; pictures in words."""
