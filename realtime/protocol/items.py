"""Items of a conversation and the parts of their content, as they cross the socket."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from realtime.protocol.wire import ItemId, Wire, absent

ItemStatus = Literal["in_progress", "completed", "incomplete"]


# -- content ---------------------------------------------------------------------------------------


class InputText(Wire):
    """Text of a user or of the system."""

    type: Literal["input_text"] = "input_text"
    text: str


class InputAudio(Wire):
    """A user's speech. `transcript` is null until there is one; the key is always there."""

    type: Literal["input_audio"] = "input_audio"
    audio: str | None = Field(None, exclude_if=absent)
    transcript: str | None = None


class InputImage(Wire):
    """A picture, as a data URI: always there in what a client sends, and seldom in what it gets."""

    type: Literal["input_image"] = "input_image"
    image_url: str | None = Field(None, exclude_if=absent)
    detail: Literal["auto", "low", "high"] | None = Field(None, exclude_if=absent)


class OutputText(Wire):
    """Text of the assistant."""

    type: Literal["output_text"] = "output_text"
    text: str


class OutputAudio(Wire):
    """The assistant's speech. Its audio went out in deltas and is not kept."""

    type: Literal["output_audio"] = "output_audio"
    audio: str | None = Field(None, exclude_if=absent)
    transcript: str | None = Field(None, exclude_if=absent)


UserContent = Annotated[InputText | InputAudio | InputImage, Field(discriminator="type")]
# Some SDKs write down intermediate results as input_text of the assistant.
AssistantContent = Annotated[OutputText | OutputAudio | InputText, Field(discriminator="type")]


# -- items -----------------------------------------------------------------------------------------


class _Item(Wire):
    """What all items have. A client may choose the id; the server always gives one."""

    id: ItemId | None = Field(None, exclude_if=absent)
    object: Literal["realtime.item"] = "realtime.item"
    status: ItemStatus | None = Field(None, exclude_if=absent)


class SystemMessage(_Item):
    """Context in the course of a conversation, beside the instructions."""

    type: Literal["message"] = "message"
    role: Literal["system"] = "system"
    content: tuple[InputText, ...]


class UserMessage(_Item):
    """What the user said or wrote."""

    type: Literal["message"] = "message"
    role: Literal["user"] = "user"
    content: tuple[UserContent, ...]


class AssistantMessage(_Item):
    """What the model said or wrote."""

    type: Literal["message"] = "message"
    role: Literal["assistant"] = "assistant"
    content: tuple[AssistantContent, ...]


class FunctionCall(_Item):
    """A call the model wants made. `arguments` is JSON, empty while it is being written."""

    type: Literal["function_call"] = "function_call"
    call_id: ItemId | None = Field(None, exclude_if=absent)
    name: str
    arguments: str


class FunctionCallOutput(_Item):
    """What came of a call."""

    type: Literal["function_call_output"] = "function_call_output"
    call_id: ItemId
    output: str


class ItemReference(Wire):
    """An item of the conversation by its id, where a response brings its own input."""

    type: Literal["item_reference"] = "item_reference"
    id: ItemId


Message = Annotated[SystemMessage | UserMessage | AssistantMessage, Field(discriminator="role")]
Item = Annotated[Message | FunctionCall | FunctionCallOutput, Field(discriminator="type")]
InputItem = Annotated[
    Message | FunctionCall | FunctionCallOutput | ItemReference, Field(discriminator="type")
]
AnyItem = SystemMessage | UserMessage | AssistantMessage | FunctionCall | FunctionCallOutput
"""The type of an item, for code that holds one."""
