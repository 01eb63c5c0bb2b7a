"""What the evaluator imports: ``UserAgent(search_pipeline=...)``.

In the research release of the benchmark there is no pipeline: it passes its hits with each call
(``rag_context_list``).

``local_evaluation.py`` evaluates this agent too, unless ``--agent`` names another class.

Preset and profile are taken from the environment, ``CRAG_PRESET`` and ``CRAG_PROFILE`` (``AgentConfig.from_environment``).
"""

from agents.crag_agent import CragAgent

UserAgent = CragAgent
