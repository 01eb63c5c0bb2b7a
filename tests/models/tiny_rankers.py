"""Tiny random checkpoints of the rerankers, of the phrase detector and of the segmenter, saved to disk as any checkpoint is."""

from __future__ import annotations

import string
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    BertTokenizerFast,
    Blip2Config,
    Blip2ForImageTextRetrieval,
    Blip2Processor,
    BlipImageProcessor,
    GroundingDinoConfig,
    GroundingDinoForObjectDetection,
    GroundingDinoImageProcessor,
    GroundingDinoProcessor,
    PreTrainedTokenizerFast,
    Qwen3Config,
    Qwen3ForCausalLM,
    SamConfig,
    SamImageProcessor,
    SamModel,
    SamProcessor,
    SwinConfig,
    XLMRobertaConfig,
    XLMRobertaForSequenceClassification,
    XLMRobertaTokenizerFast,
)

WORDS = (
    "a the red blue car tower cat dog tree object tall is how what was built in paris it metres stands of iron".split()
)


def _word_pieces(folder: Path) -> BertTokenizerFast:
    letters = [
        *string.ascii_lowercase,
        *string.digits,
        *(f"##{sign}" for sign in string.ascii_lowercase + string.digits),
    ]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "?", ",", *WORDS, *letters]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(dict.fromkeys(vocabulary)), encoding="utf-8")
    return BertTokenizerFast(str(folder / "vocab.txt"))


def save_bem(folder: Path, labels: int = 2) -> Path:
    """Classifier of so many labels over word pieces, as a checkpoint of answer equivalence is."""
    torch.manual_seed(0)
    words = _word_pieces(folder)
    layers = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = BertConfig(vocab_size=len(words), num_labels=labels, initializer_range=0.3, **layers)
    BertForSequenceClassification(config).eval().save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


def save_blip2(folder: Path) -> Path:
    """Image-text retrieval with 4 query tokens and projections of size 16."""
    torch.manual_seed(0)
    words = _word_pieces(folder)
    processor = Blip2Processor(BlipImageProcessor(size={"height": 28, "width": 28}), words)
    layers = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = Blip2Config(
        vision_config={**layers, "image_size": 28, "patch_size": 14, "initializer_range": 0.3},
        qformer_config={
            **layers,
            "vocab_size": len(words),
            "max_position_embeddings": 64,
            "encoder_hidden_size": 32,
            "cross_attention_frequency": 1,
            "initializer_range": 0.3,
            "use_qformer_text_input": True,
        },
        text_config={
            "model_type": "opt",
            "vocab_size": 10,
            "hidden_size": 8,
            "ffn_dim": 8,
            "num_hidden_layers": 1,
            "num_attention_heads": 1,
        },
        num_query_tokens=4,
        image_text_hidden_size=16,
        initializer_range=0.3,
    )
    model = Blip2ForImageTextRetrieval(config)
    torch.nn.init.normal_(model.query_tokens)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def save_grounding_dino(folder: Path) -> Path:
    """Swin of one block a stage, BERT of one layer, 12 queries, two decoder layers."""
    torch.manual_seed(0)
    words = _word_pieces(folder)
    swin = SwinConfig(
        image_size=64,
        patch_size=4,
        embed_dim=8,
        depths=[1, 1, 1, 1],
        num_heads=[1, 1, 2, 2],
        window_size=4,
        out_indices=[2, 3, 4],
    )
    config = GroundingDinoConfig(
        backbone_config=swin,
        text_config={
            "model_type": "bert",
            "vocab_size": len(words),
            "hidden_size": 16,
            "num_hidden_layers": 1,
            "num_attention_heads": 2,
            "intermediate_size": 16,
            "max_position_embeddings": 64,
        },
        num_queries=12,
        encoder_layers=1,
        decoder_layers=2,  # transformers 5 ties the later layers' heads to the first one's and wants to find some
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        d_model=32,
        num_feature_levels=4,
        max_text_len=64,
        init_std=0.5,
    )
    GroundingDinoForObjectDetection(config).save_pretrained(folder)
    images = GroundingDinoImageProcessor(size={"shortest_edge": 128, "longest_edge": 192})
    GroundingDinoProcessor(images, words).save_pretrained(folder)
    return folder


def _byte_pairs(specials: list[str], corpus: list[str], size: int = 400) -> Tokenizer:
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    bpe.train_from_iterator(
        corpus, trainers.BpeTrainer(vocab_size=size, special_tokens=specials, initial_alphabet=alphabet)
    )
    return bpe


def save_qwen3(folder: Path, corpus: tuple[str, ...] = ("yes no", "yes no", "the tower is tall")) -> Path:
    """A causal model whose vocabulary has "yes" and "no" as one token each, if the corpus does."""
    torch.manual_seed(0)
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    bpe = _byte_pairs(specials, list(corpus))
    words = PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|endoftext|>", additional_special_tokens=specials[1:2]
    )
    config = Qwen3Config(
        vocab_size=len(words),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=1024,
        initializer_range=0.3,
        tie_word_embeddings=True,
    )
    Qwen3ForCausalLM(config).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


def save_xlm_roberta_reranker(folder: Path) -> Path:
    """A sequence classifier of the very class of bge-reranker-v2-m3."""
    torch.manual_seed(0)
    specials = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    unigram = Tokenizer(models.Unigram())
    unigram.pre_tokenizer = pre_tokenizers.Metaspace()
    unigram.decoder = decoders.Metaspace()
    trainer = trainers.UnigramTrainer(
        vocab_size=90,
        special_tokens=specials,
        unk_token="<unk>",
        initial_alphabet=[*string.ascii_letters, *string.digits, *".?,"],
    )
    unigram.train_from_iterator(["The tower is tall", "How tall is the tower?"], trainer)
    ids = [(token, unigram.token_to_id(token)) for token in ("<s>", "</s>")]
    unigram.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=ids
    )
    # The class matters: FlagEmbedding joins pairs by the tokenizer's own build_inputs_with_special_tokens.
    words = XLMRobertaTokenizerFast(tokenizer_object=unigram)
    config = XLMRobertaConfig(
        vocab_size=len(words),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        max_position_embeddings=130,
        type_vocab_size=1,
        num_labels=1,
        pad_token_id=words.pad_token_id,
        initializer_range=0.5,
    )
    XLMRobertaForSequenceClassification(config).save_pretrained(folder)
    words.save_pretrained(folder)
    return folder


def save_sam(folder: Path) -> Path:
    """Pictures of 64 pixels, 4 x 4 patches, masks of 16 x 16 before they are brought to the picture's size."""
    torch.manual_seed(0)
    layers = {"hidden_size": 16, "mlp_dim": 32, "num_attention_heads": 2}
    config = SamConfig(
        vision_config={
            **layers,
            "image_size": 64,
            "patch_size": 16,
            "output_channels": 8,
            "num_hidden_layers": 2,
            "window_size": 2,
            "global_attn_indexes": [1],
            "num_pos_feats": 4,
            "initializer_range": 0.3,
        },
        prompt_encoder_config={"hidden_size": 8, "image_size": 64, "patch_size": 16, "mask_input_channels": 4},
        mask_decoder_config={**layers, "hidden_size": 8, "num_hidden_layers": 1, "iou_head_hidden_dim": 8},
        initializer_range=0.3,
    )
    SamModel(config).save_pretrained(folder)
    SamProcessor(SamImageProcessor(size={"longest_edge": 64}, pad_size={"height": 64, "width": 64})).save_pretrained(
        folder
    )
    return folder
