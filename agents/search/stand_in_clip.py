"""A tiny untrained CLIP checkpoint that fills a constructor's argument; no image is ever embedded with it."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path


def stand_in_clip(folder: Path) -> Path:
    """The folder of the checkpoint, made there unless it is there already.

    Raises:
        OSError: The file system refuses.
    """
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        work = Path(tempfile.mkdtemp(dir=folder.parent, prefix=".stand-in-clip-"))
        save_tiny_clip(work)
        try:
            work.rename(folder)
        except OSError:  # another process was faster; its checkpoint is the same
            shutil.rmtree(work)
            if not folder.is_dir():
                raise
    return folder


def save_tiny_clip(folder: Path, seed: int = 0, image_size: int = 32) -> None:
    """Write a random CLIP model with its processor; tests run the CLIP path on it.

    Args:
        folder: Must exist.
        seed: Of the weights.
        image_size: Side of the input in pixels, a multiple of 8.
    """
    import torch
    from transformers import CLIPConfig, CLIPImageProcessor, CLIPModel, CLIPProcessor, CLIPTokenizerFast

    vocabulary = {token: index for index, token in enumerate(("<|startoftext|>", "<|endoftext|>", "a", "a</w>"))}
    (folder / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    (folder / "merges.txt").write_text("#version: 0.2\n", encoding="utf-8")
    layers = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    config = CLIPConfig(
        text_config={**layers, "vocab_size": len(vocabulary), "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1},
        vision_config={**layers, "image_size": image_size, "patch_size": 8},
        projection_dim=16,
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        CLIPModel(config).save_pretrained(folder)
    processor = CLIPProcessor(
        CLIPImageProcessor(size={"shortest_edge": image_size}, crop_size={"height": image_size, "width": image_size}),
        CLIPTokenizerFast(str(folder / "vocab.json"), str(folder / "merges.txt")),
    )
    processor.save_pretrained(folder)
