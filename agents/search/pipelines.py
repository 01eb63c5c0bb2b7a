"""Opens the organiser's search pipeline, nothing in it edited, over real or over locally built indices."""

import contextlib
import io
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from agents.base.revisions import snapshot
from agents.models.pretrained import without_bars
from agents.search.clip import EfficientNetImageModel, EfficientNetImageProcessor, stand_in_clip, tensor_image_features
from agents.search.encoders import EFFICIENTNET, MINILM, ImageIndexEncoder, TextIndexEncoder, text_checkpoint
from agents.search.hits import SearchError
from agents.search.hub import current_revision, local_indices, working_copy
from agents.search.index_builder import IMAGE_COLLECTION, Manifest, explain_damage

_log = logging.getLogger(__name__)


def open_pipeline(
    *,
    kind: Literal["organiser", "embedded"] = "embedded",
    image_model: str = EFFICIENTNET,  # or a CLIP id (``ORG/NAME@REVISION``) or folder
    text_model: str = MINILM,  # or an encoder's, likewise
    image_index: str,  # data set ids
    web_index: str | None = None,  # None for a pipeline that has no web search (task 1)
    cache: Path,  # into whose ``hub/`` the indices of ``embedded`` were published
    things: bool = True,  # whether web search finds the things of an own collection besides its pages
) -> Any:
    """Open a ``cragmm_search.search.UnifiedSearchPipeline``.

    ``organiser`` leaves everything to Hugging Face's own cache and settings; ``embedded`` opens copies of indices built here,
    for which nothing is asked of a hub.

    Raises:
        SearchError: An index or a model is missing (the message says which command builds or installs it), or an index was built
            with another model.
    """
    if kind not in ("organiser", "embedded"):
        raise SearchError(f"unknown kind of search {kind!r}; known: organiser, embedded")
    hub = cache / "hub"
    copies: dict[str, Path] = {}  # by data set id
    if kind == "embedded":
        copies[image_index] = _copy(hub, image_index, "image", "--images FOLDER --kg KG.jsonl")
        if web_index is not None:
            copies[web_index] = _copy(hub, web_index, "web", "--pages PAGES.jsonl")
    # The constructor takes no pipeline without a CLIP checkpoint, hence a tiny one where EfficientNet takes its place.
    pipeline = _construct(
        hub,
        copies,
        image_model_name=str(stand_in_clip(cache / "stand-in-clip"))
        if image_model == EFFICIENTNET
        else _weights(image_model),
        image_hf_dataset_id=image_index,
        text_model_name=_weights(text_checkpoint(text_model)) if web_index is not None else None,
        web_hf_dataset_id=web_index,
    )
    if image_model == EFFICIENTNET:
        # Only attributes of this one instance change.
        model = EfficientNetImageModel(str(pipeline.device))
        processor = EfficientNetImageProcessor(model)
        pipeline.image_model, pipeline.image_processor = model, processor
        pipeline.crag_image_kg.emb_model, pipeline.crag_image_kg.processor = model, processor
    else:
        tensor_image_features(pipeline.image_model)
    for dataset_id, copy in copies.items():
        _check_model(pipeline, dataset_id, copy)
    manifest = Manifest.read(copies[web_index]) if web_index in copies else None
    pipeline.languages = manifest.languages if manifest is not None else ()
    pipeline.hides_things = manifest is not None and manifest.things > 0 and not things
    return pipeline


def _weights(model: str) -> str:
    """Return the name or path of an encoder for the organiser's code, which knows no revision."""
    try:
        return snapshot(model)
    except OSError as error:
        raise SearchError(f"the encoder {model} cannot be had: {error}") from error


def _copy(hub: Path, dataset_id: str, kind: str, sources: str) -> Path:
    """Return this process's copy of a published index."""
    if current_revision(hub, dataset_id) is None:
        raise SearchError(
            f"there is no {kind} index {dataset_id} in {hub}. Build it with: "
            f"python -m agents.search.build_index {sources} --{kind}-id {dataset_id} --out {hub}"
        )
    return working_copy(hub, dataset_id)


def _construct(hub: Path, copies: Mapping[str, Path], **arguments: Any) -> Any:
    # Chroma reads its settings from the environment when it is imported; the organiser's code passes none.
    os.environ.setdefault("ANONYMIZED_TELEMETRY", "False")
    try:
        from chromadb.errors import ChromaError
        from cragmm_search.search import UnifiedSearchPipeline
        from transformers.utils import logging as chatter
    except ImportError as error:
        raise SearchError(f"searching takes: pip install cragmm-search-pipeline==0.5.1 ({error})") from error
    output, verbosity = io.StringIO(), chatter.get_verbosity()
    try:
        chatter.set_verbosity_error()
        with contextlib.redirect_stdout(output), without_bars(), local_indices(copies):
            pipeline = UnifiedSearchPipeline(**arguments)
    except Exception as error:  # Chroma, Hugging Face and torch each raise their own kinds; callers need one
        if isinstance(error, ChromaError):
            raise explain_damage(hub, copies, error) from error
        raise SearchError(f"the organiser's pipeline cannot be opened: {type(error).__name__}: {error}") from error
    finally:
        chatter.set_verbosity(verbosity)
    _log.debug("the organiser's pipeline says: %s", output.getvalue().strip())
    return pipeline


def _check_model(pipeline: Any, dataset_id: str, snapshot: Path) -> None:
    """Scores of an index that another model made would be noise, and nothing else would tell."""
    manifest = Manifest.read(snapshot)
    if manifest is None:  # not built here
        return
    encoder = (
        ImageIndexEncoder(pipeline.image_model, pipeline.image_processor)
        if manifest.collection == IMAGE_COLLECTION
        else TextIndexEncoder(pipeline.text_model, pipeline.text_tokenizer)
    )
    if manifest.model != encoder.fingerprint:
        raise SearchError(
            f"the index {dataset_id} was built with another model ({manifest.model}, not {encoder.fingerprint}); "
            "build it again with: python -m agents.search.build_index"
        )
