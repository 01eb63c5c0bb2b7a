"""An agent behind OpenAI's chat-completions protocol."""
