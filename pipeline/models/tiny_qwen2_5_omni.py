"""A Qwen2.5-Omni of 300,000 random weights: for tests, and to try the omni path.

It has everything a real checkpoint has but sense: the same configuration classes, the same names of
weights, speakers, a tokenizer of single bytes, and a Token2Wav that can be heard.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pipeline.models.tiny_qwen3_omni import (
    VOCABULARY,
    byte_tokenizer,
    make_attentive,
    picture_processor,
)

CODEBOOK = 64
CODES = 96  # with the codes that are no sounds
HIDDEN = 32
SPEAKER_WIDTH = 16
MEL_BINS = 80
CLIP_MEAN, CLIP_STD = [0.48, 0.46, 0.41], [0.27, 0.26, 0.28]
"""Of a picture's red, green and blue, by and large as in the real model."""

SPECIAL = {
    "<|im_start|>": 300,
    "<|im_end|>": 301,
    "system": 302,
    "user": 303,
    "assistant": 304,
    "<tts_pad>": 305,
    "<tts_text_bos>": 306,
    "<tts_text_eod>": 307,
    "<|AUDIO|>": 308,
    "<|IMAGE|>": 309,
    "<|VIDEO|>": 310,
    "<|vision_bos|>": 311,
    "<|audio_bos|>": 312,
    "<|audio_eos|>": 313,
    "<|vision_eos|>": 314,
    "<tts_text_bos_other>": 315,
}
ROPE = {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}


def make_tiny_qwen2_5_omni(folder: Path, seed: int = 0) -> None:
    """Write a checkpoint. Needs torch and transformers, of the `omni` extra."""
    import torch
    from transformers import Qwen2_5OmniConfig, Qwen2_5OmniForConditionalGeneration

    torch.manual_seed(seed)
    model = Qwen2_5OmniForConditionalGeneration(Qwen2_5OmniConfig(**_configuration()))
    _make_audible(model.token2wav, seed)
    make_attentive(model.thinker.model.audio_tower)
    make_attentive(model.thinker.model.visual)
    _make_choosy(model.thinker.model.language_model)
    _make_choosy(model.talker.model)
    folder.mkdir(parents=True, exist_ok=True)
    model.save_pretrained(folder)
    picture_processor(14, CLIP_MEAN, CLIP_STD).save_pretrained(folder)
    byte_tokenizer(SPECIAL).save(str(folder / "tokenizer.json"))
    speakers = {
        name: {
            "bos_token": SPECIAL[bos],
            "cond": torch.randn(1, SPEAKER_WIDTH),
            "ref_mel": torch.randn(1, 30, MEL_BINS),
        }
        for name, bos in (("Chelsie", "<tts_text_bos>"), ("Ethan", "<tts_text_bos_other>"))
    }
    torch.save(speakers, folder / "spk_dict.pt")


def _configuration() -> dict[str, Any]:
    tokens = {
        "audio_token_index": SPECIAL["<|AUDIO|>"],
        "image_token_index": SPECIAL["<|IMAGE|>"],
        "video_token_index": SPECIAL["<|VIDEO|>"],
        "audio_start_token_id": SPECIAL["<|audio_bos|>"],
        "audio_end_token_id": SPECIAL["<|audio_eos|>"],
        "vision_start_token_id": SPECIAL["<|vision_bos|>"],
        "vision_end_token_id": SPECIAL["<|vision_eos|>"],
    }
    return {
        "thinker_config": _thinker() | tokens | {"user_token_id": SPECIAL["user"]},
        "talker_config": _talker() | tokens,
        "token2wav_config": {"dit_config": _dit(), "bigvgan_config": _bigvgan()},
        "enable_audio_output": True,
    }


def _thinker() -> dict[str, Any]:
    return {
        "text_config": {
            "vocab_size": VOCABULARY,
            "hidden_size": HIDDEN,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
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
            "n_window": 100,
            "max_source_positions": 1500,
        },
        "vision_config": {
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 32,
            "num_heads": 2,
            "out_hidden_size": HIDDEN,
            "window_size": 56,
            "fullatt_block_indexes": [1],
        },
    }


def _talker() -> dict[str, Any]:
    return {
        "vocab_size": CODES,
        "embedding_size": HIDDEN,
        "hidden_size": 16,
        "intermediate_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "rope_parameters": ROPE,
        "max_position_embeddings": 4096,
        "tts_text_start_token_id": SPECIAL["<tts_text_bos>"],
        "tts_text_end_token_id": SPECIAL["<tts_text_eod>"],
        "tts_text_pad_token_id": SPECIAL["<tts_pad>"],
        "tts_codec_pad_token_id": CODEBOOK,
        "tts_codec_start_token_id": CODEBOOK + 1,
        "tts_codec_end_token_id": CODEBOOK + 2,
        "tts_codec_mask_token_id": CODEBOOK + 3,
    }


def _dit() -> dict[str, Any]:
    return {
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "head_dim": 8,
        "emb_dim": 16,
        "num_embeds": CODES + 1,  # the official code decodes whatever the Talker picks
        "mel_dim": MEL_BINS,
        "block_size": 24,
        "look_ahead_layers": [1],
        "look_backward_layers": [0],
        "repeats": 2,
        "enc_emb_dim": SPEAKER_WIDTH,
        "enc_dim": 16,
        "enc_channels": [16, 16, 16, 16, 48],
        "enc_attention_channels": 8,
        "enc_se_channels": 8,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
    }


def _bigvgan() -> dict[str, Any]:
    return {
        "mel_dim": MEL_BINS,
        "upsample_initial_channel": 64,
        "resblock_kernel_sizes": [3],
        "resblock_dilation_sizes": [[1, 3, 5]],
        "upsample_rates": [5, 3, 2, 2, 2, 2],
        "upsample_kernel_sizes": [11, 7, 4, 4, 4, 4],
    }


def _make_choosy(language_model: Any) -> None:
    """With weights as small as they are at first, attention is everywhere, wherever it is."""
    from torch import nn

    for layer in language_model.layers:
        for module in (layer.self_attn.q_proj, layer.self_attn.k_proj):
            nn.init.normal_(module.weight, std=2 * module.weight.shape[1] ** -0.5)


def _make_audible(token2wav: Any, seed: int) -> None:
    """Weights as small as a language model's leave nothing of a sound after so many layers."""
    import torch
    from torch import nn

    torch.manual_seed(seed + 1)
    for module in token2wav.modules():
        if isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight)
        elif isinstance(module, nn.ConvTranspose1d):
            nn.init.normal_(module.weight, std=0.7 * (2 * module.weight.shape[0]) ** -0.5)
        elif isinstance(module, nn.Conv1d | nn.Linear):
            nn.init.normal_(module.weight, std=0.7 * module.weight[0].numel() ** -0.5)
