"""A Qwen3-Omni of 400,000 random weights: for tests, benches, and to try the omni path.

It has everything a real checkpoint has but sense: the same configuration classes, the same names of
weights, a tokenizer of single bytes, and a Code2Wav that can be heard.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

CODEBOOK = 64
GROUPS = 4
HIDDEN = 32
SUPPRESSED = 1024
"""`generate()` never picks the last so many ids of the Talker's vocabulary, but for the end."""

BYTES = 256
SPECIAL = {
    "<|im_start|>": 300,
    "<|im_end|>": 301,
    "system": 302,
    "user": 303,
    "assistant": 304,
    "<tts_pad>": 305,
    "<tts_text_bos>": 306,
    "<tts_text_eod>": 307,
    "<|audio_pad|>": 308,
    "<|image_pad|>": 309,
    "<|video_pad|>": 310,
    "<|vision_start|>": 311,
    "<|audio_start|>": 312,
    "<|audio_end|>": 313,
    "<|vision_end|>": 314,
}
VOCABULARY = 320

ROPE = {
    "rope_type": "default",
    "rope_theta": 10000.0,
    "mrope_section": [2, 1, 1],
    "mrope_interleaved": True,
}
PLAIN_ROPE = {"rope_type": "default", "rope_theta": 10000.0}
ATTENTION = {
    "hidden_size": HIDDEN,
    "intermediate_size": 64,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
}
EXPERTS = {"moe_intermediate_size": 32, "num_experts": 4, "num_experts_per_tok": 2}


def make_tiny_qwen3_omni(folder: Path, seed: int = 0) -> None:
    """Write a checkpoint. Needs torch and transformers, of the `omni` extra."""
    import torch
    from transformers import Qwen3OmniMoeConfig, Qwen3OmniMoeForConditionalGeneration

    torch.manual_seed(seed)
    model = Qwen3OmniMoeForConditionalGeneration(Qwen3OmniMoeConfig(**_configuration()))
    _make_expert(model, seed)
    _make_audible(model.code2wav, seed)
    make_attentive(model.thinker.model.audio_tower)
    make_attentive(model.thinker.model.visual)
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    picture_processor(16, [0.5] * 3, [0.5] * 3).save_pretrained(folder)
    byte_tokenizer(SPECIAL).save(str(folder / "tokenizer.json"))


def _configuration() -> dict[str, Any]:
    tokens = {
        "audio_token_id": SPECIAL["<|audio_pad|>"],
        "image_token_id": SPECIAL["<|image_pad|>"],
        "video_token_id": SPECIAL["<|video_pad|>"],
        "vision_start_token_id": SPECIAL["<|vision_start|>"],
        "audio_start_token_id": SPECIAL["<|audio_start|>"],
    }
    return {
        "thinker_config": _thinker() | tokens | {"user_token_id": SPECIAL["user"]},
        "talker_config": _talker() | tokens,
        "code2wav_config": _code2wav(),
        "im_start_token_id": SPECIAL["<|im_start|>"],
        "im_end_token_id": SPECIAL["<|im_end|>"],
        "tts_pad_token_id": SPECIAL["<tts_pad>"],
        "tts_bos_token_id": SPECIAL["<tts_text_bos>"],
        "tts_eos_token_id": SPECIAL["<tts_text_eod>"],
        "system_token_id": SPECIAL["system"],
        "user_token_id": SPECIAL["user"],
        "assistant_token_id": SPECIAL["assistant"],
        "enable_audio_output": True,
    }


def _thinker() -> dict[str, Any]:
    return {
        "text_config": {
            **ATTENTION,
            **EXPERTS,
            "vocab_size": VOCABULARY,
            "num_hidden_layers": 2,
            "rope_parameters": ROPE,
            "max_position_embeddings": 4096,
        },
        "audio_config": {
            "num_mel_bins": 128,
            "encoder_layers": 1,
            "encoder_attention_heads": 2,
            "encoder_ffn_dim": 32,
            "d_model": 32,
            "output_dim": HIDDEN,
            "n_window": 50,  # a chunk of 100 frames that become 13 is built into the model
            "n_window_infer": 800,
            "downsample_hidden_size": 8,
            "max_source_positions": 1500,
        },
        "vision_config": {
            "depth": 1,
            "hidden_size": 32,
            "intermediate_size": 32,
            "num_heads": 2,
            "out_hidden_size": HIDDEN,
            "patch_size": 16,
            "num_position_embeddings": 16,
            "deepstack_visual_indexes": [0],
        },
    }


def _talker() -> dict[str, Any]:
    return {
        "text_config": {
            **ATTENTION,
            **EXPERTS,
            "vocab_size": CODEBOOK + SUPPRESSED,
            "num_hidden_layers": 2,
            "shared_expert_intermediate_size": 32,
            "rope_parameters": ROPE,
            "max_position_embeddings": 4096,
        },
        "code_predictor_config": {
            **ATTENTION,
            "vocab_size": CODEBOOK,
            "num_hidden_layers": 1,
            "num_code_groups": GROUPS,
            "rope_parameters": PLAIN_ROPE,
        },
        "num_code_groups": GROUPS,
        "thinker_hidden_size": HIDDEN,
        "accept_hidden_layer": 1,
        "spatial_merge_size": 2,
        "codec_pad_id": CODEBOOK,
        "codec_bos_id": CODEBOOK + 1,
        "codec_eos_token_id": CODEBOOK + 2,
        "codec_nothink_id": CODEBOOK + 3,
        "codec_think_bos_id": CODEBOOK + 4,
        "codec_think_eos_id": CODEBOOK + 5,
        "speaker_id": {"ethan": CODEBOOK + 10, "chelsie": CODEBOOK + 11},
    }


def _code2wav() -> dict[str, Any]:
    return {
        **ATTENTION,
        "num_key_value_heads": 4,
        "codebook_size": CODEBOOK,
        "sliding_window": 8,
        "num_hidden_layers": 1,
        "num_quantizers": GROUPS,
        "decoder_dim": 32,
        "upsample_rates": [8, 5, 4, 3],
        "upsampling_ratios": [2, 2],
        "max_position_embeddings": 8000,
        "rope_parameters": PLAIN_ROPE,
    }


def _make_expert(model: Any, seed: int) -> None:
    """The library leaves the experts' weights as the memory happened to be."""
    import torch
    from torch import nn

    torch.manual_seed(seed + 2)
    for name, weight in sorted(model.named_parameters()):
        if ".experts." in name:
            nn.init.normal_(weight, std=0.02)


def _make_audible(code2wav: Any, seed: int) -> None:
    """Weights as small as a language model's leave nothing of a sound after so many layers."""
    import torch
    from torch import nn

    torch.manual_seed(seed + 1)
    for module in code2wav.modules():
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight)
        elif isinstance(module, nn.ConvTranspose1d):
            nn.init.normal_(module.weight, std=0.7 * (2 * module.weight.shape[0]) ** -0.5)
        elif isinstance(module, nn.Conv1d | nn.Linear):
            nn.init.normal_(module.weight, std=0.7 * module.weight[0].numel() ** -0.5)
    code2wav.decoder[-1].conv.weight.data.mul_(0.05)


def make_attentive(tower: Any) -> None:
    """So that what is heard or seen makes a difference, beside where it is."""
    from torch import nn

    for module in tower.modules():
        if isinstance(module, nn.Conv1d | nn.Conv2d | nn.Conv3d):
            nn.init.normal_(module.weight, std=module.weight[0].numel() ** -0.5)


def picture_processor(patch_size: int, mean: list[float], std: list[float]) -> Any:
    """It makes pictures as large as 64 by 64 pixels at least, and as 128 by 128 at most."""
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import (
        Qwen2VLImageProcessorPil,
    )

    return Qwen2VLImageProcessorPil(
        patch_size=patch_size,
        temporal_patch_size=2,
        merge_size=2,
        image_mean=mean,
        image_std=std,
        size={"shortest_edge": 64 * 64, "longest_edge": 128 * 128},
    )


def byte_tokenizer(special: dict[str, int]) -> Any:
    """A token for each byte, and special ones, numbered from 300 on without a gap."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {char: number for number, char in enumerate(alphabet)}
    # Added tokens are numbered in order: what lies between is never used.
    vocabulary |= {f"<unused {number}>": number for number in range(BYTES, min(special.values()))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    for text in special:
        tokenizer.add_tokens([AddedToken(text, special=text.startswith("<"), normalized=False)])
    return tokenizer
