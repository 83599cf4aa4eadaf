"""Omni checkpoints of random weights, written piece by piece: a real size never fits in memory."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

SIZES = ("tiny", "small", "real")
FAMILIES = ("qwen3-omni", "qwen2.5-omni")

SHARD_NBYTES = 1 << 30

SCALES = {
    "small": {"thinker_layers": 4, "talker_layers": 4, "experts": 16},
    "real": {"thinker_layers": 48, "talker_layers": 20, "experts": 128},
}
"""Widths are those of the 30B model in both, as far as they are known here: nobody has compared
them with its config.json. small has fewer layers and experts."""

ROPE = {
    "rope_type": "default",
    "rope_theta": 1000000.0,
    "mrope_section": [24, 20, 20],
    "mrope_interleaved": True,
}


class SizeError(Exception):
    """This size cannot be made here. The message says what is missing."""


def make_weights(folder: Path, family: str, size: str) -> None:
    """Write a checkpoint of random weights into the folder. Raises SizeError."""
    from pipeline.models.tiny_qwen2_5_omni import make_tiny_qwen2_5_omni
    from pipeline.models.tiny_qwen3_omni import make_tiny_qwen3_omni

    make_tiny = make_tiny_qwen3_omni if family == "qwen3-omni" else make_tiny_qwen2_5_omni
    if size != "tiny" and family != "qwen3-omni":
        raise SizeError(f"--size {size} is there for qwen3-omni only; {family} has tiny")
    make_tiny(folder)
    if size != "tiny":
        _enlarge(folder, size)


def _enlarge(folder: Path, size: str) -> None:
    """Keep the tiny one's tokenizer; the configuration and the weights become larger ones."""
    import torch
    from transformers import Qwen3OmniMoeConfig, Qwen3OmniMoeForConditionalGeneration

    tiny = _underived(json.loads((folder / "config.json").read_text("utf-8")))
    document = _scaled(tiny, **SCALES[size])
    (folder / "config.json").write_text(json.dumps(document), "utf-8")
    (folder / "model.safetensors").unlink()
    config: Any = Qwen3OmniMoeConfig.from_pretrained(folder)
    with torch.device("meta"):
        shapes = Qwen3OmniMoeForConditionalGeneration(config).state_dict()
    nbytes = sum(one.numel() for one in shapes.values()) * 2
    free = shutil.disk_usage(folder).free
    if nbytes > free:
        raise SizeError(f"--size {size} needs {nbytes / 1e9:.0f} GB in {folder}, which has too few")
    _write(folder, shapes)


def _underived(config: dict[str, Any]) -> dict[str, Any]:
    """Without what the library makes of the number of layers, and would hold against another."""
    return {
        key: _underived(value) if isinstance(value, dict) else value
        for key, value in config.items()
        if key != "layer_types"
    }


def _scaled(
    config: dict[str, Any], thinker_layers: int, talker_layers: int, experts: int
) -> dict[str, Any]:
    """The tiny configuration with the widths of Qwen3-Omni-30B-A3B. Its towers stay tiny.

    They hear and see, and nothing of that is measured.
    """
    thinker, talker = config["thinker_config"], config["talker_config"]
    for tower, key in (("audio_config", "output_dim"), ("vision_config", "out_hidden_size")):
        thinker[tower][key] = 2048
    thinker["text_config"] |= {
        "vocab_size": 152064,
        "hidden_size": 2048,
        "num_hidden_layers": thinker_layers,
        "num_attention_heads": 32,
        "num_key_value_heads": 4,
        "head_dim": 128,
        "intermediate_size": 768,
        "moe_intermediate_size": 768,
        "num_experts": experts,
        "num_experts_per_tok": 8,
        "rope_parameters": ROPE,
    }
    talker["text_config"] |= {
        "vocab_size": 3072,
        "hidden_size": 1024,
        "num_hidden_layers": talker_layers,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "head_dim": 128,
        "intermediate_size": 2048,
        "moe_intermediate_size": 384,
        "shared_expert_intermediate_size": 768,
        "num_local_experts": experts,  # as the library writes it for the Talker
        "num_experts_per_tok": 6,
        "rope_parameters": ROPE,
    }
    talker["code_predictor_config"] |= {
        "vocab_size": 2048,
        "hidden_size": 1024,
        "num_hidden_layers": 5,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 3072,
        "num_code_groups": 16,
    }
    codec = ("pad", "bos", "eos_token", "nothink", "think_bos", "think_eos")
    talker |= {f"codec_{name}_id": 2148 + number for number, name in enumerate(codec)}
    talker |= {
        "num_code_groups": 16,
        "thinker_hidden_size": 2048,
        "accept_hidden_layer": thinker_layers // 2,
        "speaker_id": {"chelsie": 2301, "ethan": 2302},
    }
    config["code2wav_config"] |= {
        "codebook_size": 2048,
        "hidden_size": 1024,
        "num_hidden_layers": 8,
        "num_attention_heads": 16,
        "num_key_value_heads": 16,
        "head_dim": 64,
        "intermediate_size": 3072,
        "sliding_window": 72,
        "num_quantizers": 16,
        "decoder_dim": 1536,
    }
    return config


def _write(folder: Path, shapes: dict[str, Any]) -> None:
    """Weights in bfloat16, some hundred megabytes at a time, and the index of their files."""
    from safetensors.torch import save_file

    places: dict[str, str] = {}
    for number, names in enumerate(_shards(shapes)):
        file = f"model-{number:05}.safetensors"
        weights = {name: _random(name, shapes[name].shape) for name in names}
        save_file(weights, folder / file, {"format": "pt"})
        places |= dict.fromkeys(names, file)
    index = {"metadata": {}, "weight_map": places}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index), "utf-8")


def _shards(shapes: dict[str, Any]) -> Iterator[list[str]]:
    names: list[str] = []
    nbytes = 0
    for name, shape in shapes.items():
        names.append(name)
        nbytes += shape.numel() * 2
        if nbytes >= SHARD_NBYTES:
            yield names
            names, nbytes = [], 0
    if names:
        yield names


def _random(name: str, shape: Any) -> Any:
    """So that a signal keeps its size on the way: no layer makes it vanish, or overflow."""
    import torch

    if len(shape) > 1:
        fan_in = shape[-1] if len(shape) == 2 or "experts" in name else shape[1:].numel()
        return torch.empty(shape, dtype=torch.bfloat16).normal_(std=fan_in**-0.5)
    if name.endswith("norm.weight"):
        return torch.ones(shape, dtype=torch.bfloat16)
    scaled = name.endswith(("gamma", "scale"))
    return torch.full(shape, 0.01 if scaled else 0.0, dtype=torch.bfloat16)
