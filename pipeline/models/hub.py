"""Checkpoints from the Hugging Face hub, for stages whose options name a folder."""

from __future__ import annotations

from pathlib import Path

from pipeline.models.store import ModelError


def fetch_from_hub(home: Path, repo_id: str) -> Path:
    """Download a repository and tell its folder; what is there already is not fetched again.

    Raises ModelError naming the repository and what went wrong.
    """
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    folder = home / "models" / repo_id.replace("/", "--")
    try:
        snapshot_download(repo_id, local_dir=folder)
    except (HFValidationError, HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        raise ModelError(f"{repo_id}: cannot be fetched ({error})") from error
    return folder
