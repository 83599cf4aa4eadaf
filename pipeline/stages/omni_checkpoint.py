"""One part of an omni checkpoint's folder, loaded whole or not at all."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import nn

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"

DERIVED = ".inv_freq"
"""Frequencies that some checkpoints carry, and that the model computes for itself."""

_EXPERT = re.compile(r"(.*\.mlp\.experts)\.(\d+)\.(gate|up|down)_proj\.weight")


class CheckpointError(Exception):
    """The folder cannot be used. The message names the folder, or the weight, and what is wrong."""


def checkpoint_folder(options: Mapping[str, Any]) -> Path:
    """The folder that the stage's option `model` names. Raises CheckpointError."""
    named = options.get("model")
    if not named:
        raise CheckpointError("options.model must name the folder of the checkpoint")
    folder = Path(str(named)).expanduser()
    if not (folder / "config.json").is_file():
        raise CheckpointError(f"{folder}: no checkpoint here (there is no config.json)")
    return folder


def require_family(folder: Path, model_type: str) -> None:
    """Raises CheckpointError if the folder holds another model."""
    found = json.loads((folder / "config.json").read_text("utf-8")).get("model_type")
    if found != model_type:
        raise CheckpointError(f"{folder}: this is a {found!r}; the stage needs a {model_type!r}")


def usable_device(name: str) -> torch.device:
    """The device of a stage. Raises CheckpointError if the machine has none of this name."""
    try:
        device = torch.device(name)
    except RuntimeError as error:
        raise CheckpointError(f"device {name!r} is no device of PyTorch") from error
    if device.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (device.index or 0) >= count:
            there = f"only {count} CUDA devices" if count else "no CUDA device"
            raise CheckpointError(f"device {name!r}: this machine has {there}")
    return device


def load_model(
    kind: Any, config: Any, folder: Path, prefix: str, device: torch.device, dtype: torch.dtype
) -> Any:
    """As `load_part`, by transformers' own loader, which knows of weights that were renamed.

    kind: a class of transformers that can load itself out of the whole checkpoint.
    """
    nbytes = sum(tensor.numel() for _, tensor in _weights(folder, prefix)) * dtype.itemsize
    if not nbytes:
        raise CheckpointError(f"{folder}: there is no weight named {prefix}…")
    require_memory(nbytes, device)
    try:
        model, info = kind.from_pretrained(
            folder, config=config, dtype=dtype, output_loading_info=True, local_files_only=True
        )
    except (OSError, RuntimeError, ValueError) as error:
        raise CheckpointError(f"{folder}: {error}") from error
    for name in sorted(info["missing_keys"]):
        raise CheckpointError(f"{folder}: the weight {prefix}{name} is missing")
    for name in sorted(info["unexpected_keys"]):
        if str(name).startswith(prefix):
            raise CheckpointError(f"{folder}: the weight {name} is not known to this model")
    model.to(device).eval()
    model.requires_grad_(False)
    return model


def load_part(
    module: nn.Module, folder: Path, prefix: str, device: torch.device, dtype: torch.dtype
) -> None:
    """Fill a module with the weights whose names begin with the prefix, and move it to the device.

    Every weight must be there, and none may be left over. Raises CheckpointError naming the first
    that is not, or how much memory is missing.
    """
    state = _fuse_experts(dict(_weights(folder, prefix)))
    state = {name: one for name, one in state.items() if not name.endswith(DERIVED)}
    if not state:
        raise CheckpointError(f"{folder}: there is no weight named {prefix}…")
    wanted = module.state_dict()
    for name in wanted.keys() - state.keys():
        raise CheckpointError(f"{folder}: the weight {prefix}{name} is missing")
    for name in state.keys() - wanted.keys():
        raise CheckpointError(f"{folder}: the weight {prefix}{name} is not known to this model")
    for name, tensor in state.items():
        if tensor.shape != wanted[name].shape:
            shapes = f"{tuple(tensor.shape)} instead of {tuple(wanted[name].shape)}"
            raise CheckpointError(f"{folder}: the weight {prefix}{name} has the shape {shapes}")
    require_memory(sum(tensor.numel() for tensor in state.values()) * dtype.itemsize, device)
    # Cast here and not with the module: what it computed for itself, such as the frequencies of
    # rotary embeddings, must keep its precision.
    floats = {name: one.to(dtype) for name, one in state.items() if one.is_floating_point()}
    module.load_state_dict(state | floats, strict=True, assign=True)
    module.to(device).eval()
    module.requires_grad_(False)


def require_memory(nbytes: int, device: torch.device) -> None:
    """Raises CheckpointError if a CUDA device has less memory free."""
    if device.type == "cuda":
        free, _ = torch.cuda.mem_get_info(device)
        if nbytes > free:
            raise CheckpointError(
                f"{device} has {free / 2**30:.1f} GiB free, and the weights need "
                f"{nbytes / 2**30:.1f} GiB: give the stage another device"
            )


def _weights(folder: Path, prefix: str) -> Iterator[tuple[str, torch.Tensor]]:
    """(name without the prefix, weight) of one part."""
    for file in _files(folder, prefix):
        try:
            with safe_open(file, "pt") as weights:
                for name in weights.keys():
                    if name.startswith(prefix):
                        yield name.removeprefix(prefix), weights.get_tensor(name)
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{file}: cannot be read ({error})") from error


def _files(folder: Path, prefix: str) -> list[Path]:
    if (folder / INDEX).is_file():
        places = json.loads((folder / INDEX).read_text("utf-8"))["weight_map"]
        files = sorted({place for name, place in places.items() if name.startswith(prefix)})
    else:
        files = [SINGLE]
    for name in files:
        if not (folder / name).is_file():
            raise CheckpointError(f"{folder}: {name} is missing")
    return [folder / name for name in files]


def _fuse_experts(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """On disk each expert has its own weights; in memory those of a layer are one."""
    fused: dict[str, torch.Tensor] = {}
    experts: dict[str, dict[tuple[int, str], torch.Tensor]] = {}
    for name, tensor in state.items():
        if match := _EXPERT.fullmatch(name):
            layer, number, kind = match.groups()
            experts.setdefault(layer, {})[int(number), kind] = tensor
        else:
            fused[name] = tensor
    for layer, parts in experts.items():
        count = 1 + max(number for number, _ in parts)
        try:
            gates = [torch.cat([parts[n, "gate"], parts[n, "up"]]) for n in range(count)]
            fused[f"{layer}.gate_up_proj"] = torch.stack(gates)
            fused[f"{layer}.down_proj"] = torch.stack([parts[n, "down"] for n in range(count)])
        except KeyError as error:
            number, kind = error.args[0]
            name = f"{layer}.{number}.{kind}_proj.weight"
            raise CheckpointError(f"the weight {name} is missing") from None
    return fused


DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def dtype_of(options: Mapping[str, Any], device: torch.device) -> torch.dtype:
    """The option `dtype`: by default bfloat16, on a CPU float32. Raises CheckpointError."""
    name = options.get("dtype", "float32" if device.type == "cpu" else "bfloat16")
    if name not in DTYPES:
        raise CheckpointError(f"options.dtype: {name!r} is not one of {', '.join(DTYPES)}")
    return DTYPES[name]
