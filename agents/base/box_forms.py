"""Forms in which vision models give boxes."""

from typing import Literal, get_args

BoxForm = Literal["none", "xyxy-1000", "yxyx-1000", "pixels"]
"""``xyxy-1000``: left, top, right, bottom in thousandths of the picture's sides (Qwen3-VL, Qwen2-VL, GLM-V, InternVL);
``yxyx-1000``: top, left, bottom, right in thousandths (Gemini); ``pixels``: left, top, right, bottom in pixels of the picture as it is
sent (Qwen2.5-VL, Claude); ``none``: the model gives no boxes, or wrong ones (Llama-3.2-Vision).

Sources: QwenLM/Qwen3-VL issues 866, 931, 1367, 1486, 1741; Vertex AI, "Bounding box detection"; Anthropic, "Vision".
"""

BOX_FORMS = get_args(BoxForm)
