"""What the evaluator imports: ``UserAgent(search_pipeline=...)``, or without a pipeline in the research release of the benchmark, which
passes what it found with each call (``rag_context_list``).

``local_evaluation.py`` evaluates what stands here too, unless ``--agent`` names another class.

The preset and the profile are taken from the environment: ``CRAG_PRESET`` and ``CRAG_PROFILE`` (``agents.settings.run_config.Launch.from_environment``).
"""

from agents.crag_agent import CragAgent

UserAgent = CragAgent
