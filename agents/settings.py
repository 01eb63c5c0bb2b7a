"""Typed settings: a preset is a TOML file in ``presets/``, a profile (which real models stand behind the roles) one in ``profiles/``.

A preset names the stages and every threshold; ``[profiles.NAME]`` tables in it are laid over the rest when that profile runs,
because scores of different models are not on one scale.

Limits of time belong to the machine. A field of ``[limits]`` is taken from the last of these that names it: the defaults (the
challenge's), the profile's ``[limits]``, the preset's ``[limits]``, the preset's ``[profiles.NAME.limits]``, ``--set limits.FIELD=VALUE``.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from agents.methods.gate import Gate

ROOT = Path(__file__).resolve().parent.parent
PRESETS = ROOT / "presets"
PROFILES = ROOT / "profiles"
PROMPTS = ROOT / "prompts"

StageName = Literal[
    "understand", "domain", "draft", "route", "summarise", "tools", "objects", "ground", "image_search", "select_entity", "image_text",
    "queries", "web_search", "evidence", "rerank", "two_stage_rerank", "documents", "coherence", "knowledge", "entries", "four_steps",
    "parametric_answer", "choose_entry", "entry_answer", "answer", "cited_answer", "dual_answer", "reconcile",
    "verify", "consistency", "chain_of_verification", "cite", "finalise",
]  # fmt: skip

GROUPS: dict[str, tuple[str, ...]] = {
    "cropping": ("objects", "ground"),
    "reranking": ("rerank", "two_stage_rerank"),
    "image": ("objects", "ground", "image_search", "select_entity"),
}
"""Names that ``--without`` takes besides those of stages."""


class SettingsError(ValueError):
    """A preset or profile is missing or malformed; the message says which and what is known."""


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Limits(_Table):
    """Limits of time and length; the defaults are those of the challenge (CRAG-MM rules), a profile may name others."""

    batch_size: int = Field(8, ge=1, le=16, description="turns the evaluator may pass in one call")
    seconds_per_turn: float = Field(10.0, gt=0, description="a call may take this long for each of its turns")
    margin_seconds: float = Field(1.0, ge=0, description="kept back from the limit of a call")
    seconds_per_dialog: float = Field(30.0, gt=0, description="all turns of a dialog together")
    verification_share: float = Field(
        0.15, ge=0, le=1, description="of the time of a call, kept for the stages that verify answers at most"
    )
    answer_tokens: int = Field(75, gt=0, description="an answer is cut here by the evaluator")
    evidence_tokens: int | None = Field(
        None, gt=0, description="chunks in one prompt, about so many tokens; None: as many chunks as the stage shows"
    )
    reply_tokens: Mapping[str, Annotated[int, Field(gt=0)]] = Field(
        {},
        description="prompt to the most tokens of its reply, where a profile cannot wait for what the prompt itself allows",
    )


class Reduced(_Table):
    """What a stage is cut down to where there is no time for all of it (``agents/latency/reduction.py``)."""

    crops: int = Field(1, ge=1, description="boxes searched with")
    queries: int = Field(1, ge=1, description="web queries of a turn")
    chunks: int = Field(24, ge=1, description="chunks reranked")
    entries: int = Field(2, ge=1, description="knowledge entries looked at")
    tokens: float = Field(0.5, gt=0, le=1, description="share of the tokens that a reply may have")


class GuardSettings(_Table):
    """Protection against what is retrieved."""

    injection: bool = Field(
        True,
        description="orders to the model are taken out of what was retrieved; off only to measure what that changes",
    )


class TraceSettings(_Table):
    """What a trace may hold."""

    queries: bool = Field(
        True,
        description="texts: questions, replies, evidence; without them names of stages, numbers and reasons remain",
    )
    images: bool = Field(
        True,
        description="what may tell of the picture: text read in it, boxes, hits, entities, and replies and evidence, which may name "
        "them; without it question and answer remain, names of stages, numbers and reasons",
    )


class Understand(_Table):
    """Making a question of a dialog stand alone."""

    rewrite: Literal["rules", "model"] = Field(
        "rules", description="who rewrites: rules alone, or the model where rules are unsure"
    )
    history_messages: int = Field(6, ge=0, description="latest messages shown to the model that rewrites")


class Draft(_Table):
    """The provisional answer by domain chain of thought (QA-Dragon, section 3.1.2)."""

    examples: int = Field(2, ge=0, description="worked examples of the domain shown")
    most_steps: int = Field(5, ge=1, description="reasoning steps (appendix A: at most 5)")


class RouteSettings(_Table):
    """The branch of a turn (QA-Dragon, section 3.2) and the flags of CRUISE (section 3.1)."""

    trained: str | None = Field(
        None,
        description="weights of a trained router (JSON), relative to the repository root; None: the rules of table 1",
    )
    least_mean_probability: float = Field(
        0.0, ge=0, le=1, description="rules: mean token probability below which a draft is not given directly"
    )
    flags: Literal["model", "rules"] = Field(
        "rules", description="who says whether external or present knowledge is needed"
    )
    skip_search: bool = Field(False, description="do not search for what needs no external knowledge (CRUISE: e = 0)")


class ToolSettings(_Table):
    """Which searches to make (QA-Dragon, section 3.3)."""

    by: Literal["model", "rules"] = Field("rules", description="who decides")
    skip_image_domains: tuple[str, ...] = Field(
        ("book", "plants and gardening"),
        description="domains whose objects image search does not find (appendix A, rule 4)",
    )
    skip_packaged: bool = Field(
        True, description="nor packaged goods with a logo, by the words of the question (rule 4)"
    )


class Objects(_Table):
    """The objects a question could be about (QA-Dragon, section 3.4.1)."""

    by: Literal["model", "rules"] = Field("rules", description="who names them")
    most: int = Field(5, ge=1, description="objects listed")


class Ground(_Table):
    """Boxes around the objects (QA-Dragon, section 3.4.2)."""

    padding: float = Field(0.05, ge=0, description="fraction of its sides by which a box is grown")
    most_overlap: float = Field(0.5, ge=0, le=1, description="IoU above which two boxes are one")
    least_side: int = Field(48, ge=1, description="boxes with a shorter side, in pixels, are dropped")
    most_area: float = Field(0.85, gt=0, le=1, description="boxes that cover more of the image are dropped")
    most_crops: int = Field(6, ge=1, description="boxes kept")


class SelectEntity(_Table):
    """Which entity, if any, is shown and asked about (QA-Dragon, section 3.4.4)."""

    by: Literal["model", "rules"] = Field("rules", description="who chooses")
    most: int = Field(6, ge=1, description="entities to choose from")
    several: int = Field(
        4,
        ge=1,
        description="entities kept where a question is about several objects and names no number; 1: only the chosen one",
    )
    min_score: float = Field(
        0.0, ge=-1, le=1, description="cosine below which a picture is taken to show something else"
    )
    attributes: int = Field(6, ge=0, description="attributes of an entity that the choice sees")
    word_weight: float = Field(0.5, ge=0, description="rules: weight of the likeness of words against that of pictures")
    place_weight: float = Field(1.0, ge=0, description="rules: bonus of the entity at the place the question names")
    place_regions: int = Field(3, ge=1, description="rules: best boxes among which a place is looked for")
    place_tolerance: float = Field(
        0.12,
        ge=0,
        description="rules: boxes this much farther than the nearest one, as a fraction of the image, count as near",
    )


class ImageSearch(_Table):
    """Search of the image knowledge graph with the whole image and its crops."""

    k: int = Field(5, ge=1, description="pictures fetched for the image and for each crop")
    fusion: Literal["score", "reciprocal_rank"] = Field("score", description="how the lists of the crops are fused")
    rank_constant: int = Field(60, ge=0, description="constant of reciprocal rank fusion")
    min_score: float = Field(
        0.0, ge=-1, le=1, description="cosine below which a picture is taken to show something else"
    )


class ImageText(_Table):
    """Text read in the image by OCR, for models that cannot see."""

    min_score: float = Field(0.5, ge=0, le=1, description="OCR confidence below which a line is dropped")


class Queries(_Table):
    """Web queries."""

    fuse_entity: bool = Field(True, description="put the name of the entity into the query (QA-Dragon, section 3.5.2)")
    fuse_summary: bool = Field(False, description="put the summary of the picture into the query (CRUISE, eq. 2)")
    split: Literal["none", "rules", "model"] = Field(
        "none", description="who splits a question into its steps (section 3.5.1)"
    )
    prompt: str = Field("query_splitting", description="template in prompts/ for the model that splits")
    keep_question: bool = Field(True, description="the question is a query too, beside those of the model")
    most: int = Field(4, ge=1, description="queries of a turn")


class WebSearch(_Table):
    """Web search."""

    k: int = Field(10, ge=1, description="pages wanted for a query")
    overfetch: int = Field(
        1, ge=1, description="chunks fetched for each page wanted, because those of one page are merged"
    )
    full_text: bool = Field(True, description="read whole pages, where the page cache has them")
    fetch: bool = Field(False, description="fetch pages that the cache does not hold; the competition has no network")
    full_text_seconds: float = Field(
        0.5,
        ge=0,
        description="time a turn for reading whole pages; what is not read by then counts by the part that was found",
    )


class EvidenceSettings(_Table):
    """Cutting what was found into chunks."""

    entities: int = Field(1, ge=1, description="entities whose attributes become evidence")
    chunk_characters: int = Field(400, ge=50, description="longest chunk of a page, in characters")
    page_characters: int = Field(
        4000, ge=0, description="of a page's full text, this much around the part that was found is read"
    )
    chunking: Literal["semantic", "paragraph"] = Field(
        "semantic",
        description="pages are cut at sentences and headings, or at every newline however long a paragraph is (CRUISE, section 3.2)",
    )
    attribute_words: tuple[str, ...] = Field(
        (), description="only attributes whose name holds one of these words become evidence; none named: all of them"
    )
    attribute_chunks: Literal["each", "joined"] = Field(
        "each", description="each attribute as a chunk of its own, or all of an entity joined and cut like a page"
    )
    name_sentence: bool = Field(
        False, description="say what the entity is as a chunk of its own, for readers that cannot see"
    )
    most_chunks: int = Field(120, ge=1, description="chunks kept for a turn before reranking")


class Rerank(_Table):
    """Reranking of the chunks."""

    k: int = Field(6, ge=1, description="chunks kept")
    by_entity: bool = Field(
        True,
        description="where the question is about several objects, chunks are kept in turn: the best of each object and of the rest, then "
        "the second best ...; off: the best of all",
    )
    threshold: float = Field(0.0, description="score below which a chunk is dropped (tau of CRUISE, eq. 5)")
    mad_lambda: float | None = Field(
        None,
        ge=0,
        description="chunks below median - lambda * MAD of the best scores are dropped too (eq. 5); None: none",
    )
    mad_top: int = Field(10, ge=1, description="best scores whose median and MAD are taken")
    fuse_entity: bool = Field(True, description="chunks are scored against the question with the entity's name")
    fuse_summary: bool = Field(
        False, description="chunks are scored against the question with the summary (eq. 2 and 4)"
    )


class TwoStageRerank(_Table):
    """Coarse-to-fine reranking (QA-Dragon, section 3.6.2)."""

    coarse: bool = Field(True, description="run the coarse stage; without it every chunk goes to the fine one")
    fine: bool = Field(True, description="run the fine stage; without it the coarse score decides")
    k1: int = Field(20, ge=1, description="chunks kept after the coarse stage (K1)")
    k2: int = Field(5, ge=1, description="chunks kept in the end (K2)")
    coarse_threshold: float = Field(0.0, description="tau_coarse")
    fine_threshold: float = Field(0.0, description="tau_fine; the product of both cuts the cumulative score")


class DocumentSettings(_Table):
    """Documents for an answer with citations (MAVIS, section 3.1)."""

    k: int = Field(5, ge=1, description="documents kept for each query (K)")
    modality: Literal["both", "text", "image"] = Field(
        "both", description="documents to choose from: Multi-RAG, Text-RAG or Image-RAG (section 5.2)"
    )


class CitedAnswerSettings(_Table):
    """A long answer with a citation for each sentence (MAVIS, section 5.2)."""

    method: Literal["vanilla", "chain_of_thought"] = Field("vanilla", description="how the model is asked")
    documents: int = Field(15, ge=0, description="documents shown")
    answer_seconds: float = Field(
        3.0, ge=0, description="time for each turn that knowledge extraction leaves to the answer"
    )
    pictures: bool = Field(True, description="show the pictures of image documents, where they are to be had")
    fetch: bool = Field(
        False, description="fetch pictures that the cache does not hold; the competition has no network"
    )


class CiteSettings(_Table):
    """The check of citations; what is left without one is cited afterwards, kept or dropped."""

    documents: int = Field(15, ge=1, description="chunks that may be cited, numbered from 1 in the order of the prompt")
    threshold: float = Field(0.5, description="support, as the reranker scores it, below which a citation is dropped")
    figures: bool = Field(True, description="a citation also needs every figure of the sentence in its document")
    attribute: bool = Field(True, description="find the document of a sentence that is left without citation")
    unsupported: Literal["keep", "drop"] = Field("keep", description="what becomes of a sentence without citation")


class CoherenceSettings(_Table):
    """Semantic coherence filtering: evidence that agrees with the rest (section 3 of the paper)."""

    k: int = Field(5, ge=1, description="chunks kept for each modality in stage 1, and altogether in stage 2")
    candidates: int = Field(10, ge=1, description="chunks of a modality that stage 1 chooses from")
    metric: Literal["l1", "euclidean", "cosine"] = Field("cosine", description="likeness of two embeddings")
    second: Literal["none", "pairwise", "graph"] = Field(
        "pairwise", description="stage 2: none, mean pairwise likeness (algorithm 1), or the entity graph (algorithm 2)"
    )
    fuse_entity: bool = Field(False, description="compare chunks with the question and the name of its entity")
    rounds: int = Field(1, ge=0, description="larger searches made at most where a modality has fewer than k chunks")
    widen: int = Field(3, ge=2, description="how much larger each of them is")


class Entries(_Table):
    """Knowledge entries, each a picture and a text (CoRe-MMRAG, section 3.1)."""

    most: int = Field(5, ge=1, le=16, description="entries looked at (k)")
    characters: int = Field(800, ge=50, description="longest text of an entry, in characters")
    pictures: bool = Field(True, description="show the pictures of entries to the model, where they are to be had")
    fetch: bool = Field(
        False, description="fetch pictures that the cache does not hold; the competition has no network"
    )


class ChooseEntry(_Table):
    """The joint visual-textual choice (CoRe-MMRAG, eq. 5)."""

    by: Literal["model", "scores"] = Field("model", description="who chooses: the model, or both scores added")
    text_weight: float = Field(1.0, ge=0, description="weight of the text's score against that of the picture")


class DualAnswer(_Table):
    """Answers with and without evidence (CRUISE, section 3.3)."""

    probe_temperature: float = Field(
        0.0, ge=0, description="temperature of the second answer where there is no evidence and both prompts are alike"
    )
    seed: int = Field(0, description="seed of that answer")


class ConsistencySettings(_Table):
    """Whether both answers agree (CRUISE, section 3.3)."""

    by: Literal["model", "words"] = Field("model", description="who judges: the model, or a comparison of their words")


class ChainSettings(_Table):
    """The chain of verification (CRUISE, section 3.4)."""

    by: Literal["model", "candidate"] = Field(
        "model", description="whose confidence counts: a model's that checks the answer, or that of the answer itself"
    )


class ReconcileSettings(_Table):
    """Parametric and retrieved answer (CoRe-MMRAG, eq. 7)."""

    by: Literal["model", "retrieved"] = Field(
        "model", description="who decides where they disagree: the model, or what was retrieved always wins"
    )
    parametric_alone: bool = Field(True, description="give the parametric answer where retrieval brought none")


class FinalVerification(_Table):
    """Algorithm 1 of CRUISE; see ``agents/methods/final_verification.py``. Thresholds have no default: they belong to a model."""

    least_retrieval: float = Field(description="tau_ret: least score of the best chunk for questions about the present")
    low: float = Field(description="tau_low: confidence that suffices with context")
    high: float = Field(description="tau_high: confidence needed without context")


class Verify(_Table):
    """Dual verification (QA-Dragon, section 3.7.2)."""

    white_box: bool = Field(True, description="verify by token probabilities")
    model: bool = Field(True, description="verify by a model that reads the evidence")
    prompt: str = Field("answer_verifier", description="template in prompts/ for the model that judges")
    evidence: int = Field(5, ge=0, description="chunks shown to the model")
    weight_least: float = Field(0.5, description="weight of the least token probability in g_white")
    weight_mean: float = Field(0.5, description="weight of the mean token probability in g_white")
    white_box_threshold: float = Field(0.5, description="tau_white")


class Answer(_Table):
    """The answer of the chat model."""

    prompt: str = Field("answer_with_evidence", description="template in prompts/")
    prompt_without_evidence: str = Field("answer_without_evidence", description="template where no evidence was kept")
    evidence: int = Field(5, ge=0, description="chunks shown")


class Finalise(_Table):
    """When an answer is given and when the agent abstains."""

    gate: str | None = Field(
        None,
        description="fitted gate (JSON of python -m evaluation.studies.calibrate), a path below the repository; None: no gate",
    )
    most_idk: float | None = Field(
        None,
        ge=0,
        le=1,
        description='without a gate: abstain where the reply would have begun with "I don\'t know" with more than this probability; '
        "None: never",
    )
    verified_by: tuple[Literal["white_box", "model"], ...] = Field((), description="verifiers that all have to approve")
    algorithm1: FinalVerification | None = Field(
        None, description="decide by Algorithm 1 of CRUISE (consistency and chain_of_verification have to run before)"
    )
    abstain_real_time: bool = Field(False, description="abstain on questions about the present moment")
    cite: bool = Field(False, description="answers carry [n]; the stage cite runs before this one, whatever the preset")

    @field_validator("gate")
    @classmethod
    def _can_be_read(cls, path: str | None) -> str | None:
        """Read the gate at once: without it every turn would end as an abstention."""
        if path is not None:
            Gate.load(ROOT / path)
        return path


class LoraSettings(_Table):
    """A LoRA adapter for the chat model, where that runs in vLLM."""

    name: str = Field(description="its name in the engine")
    path: str = Field(description="a folder that PEFT saved, or a model id of the local Hugging Face cache")


class Settings(_Table):
    """A preset as it runs under one profile."""

    description: str = ""
    stages: tuple[StageName, ...]
    lora: LoraSettings | None = None
    limits: Limits = Limits()
    reduced: Reduced = Reduced()
    guard: GuardSettings = GuardSettings()
    trace: TraceSettings = TraceSettings()
    understand: Understand = Understand()
    draft: Draft = Draft()
    route: RouteSettings = RouteSettings()
    tools: ToolSettings = ToolSettings()
    objects: Objects = Objects()
    ground: Ground = Ground()
    image_search: ImageSearch = ImageSearch()
    select_entity: SelectEntity = SelectEntity()
    image_text: ImageText = ImageText()
    queries: Queries = Queries()
    web_search: WebSearch = WebSearch()
    evidence: EvidenceSettings = EvidenceSettings()
    rerank: Rerank = Rerank()
    two_stage_rerank: TwoStageRerank = TwoStageRerank()
    coherence: CoherenceSettings = CoherenceSettings()
    documents: DocumentSettings = DocumentSettings()
    cited_answer: CitedAnswerSettings = CitedAnswerSettings()
    cite: CiteSettings = CiteSettings()
    entries: Entries = Entries()
    choose_entry: ChooseEntry = ChooseEntry()
    dual_answer: DualAnswer = DualAnswer()
    consistency: ConsistencySettings = ConsistencySettings()
    chain_of_verification: ChainSettings = ChainSettings()
    reconcile: ReconcileSettings = ReconcileSettings()
    answer: Answer = Answer()
    verify: Verify = Verify()
    finalise: Finalise = Finalise()

    @model_validator(mode="after")
    def _cites(self) -> Self:
        """Answers with markers take the stage that makes them."""
        if self.finalise.cite and "cite" not in self.stages:
            place = self.stages.index("finalise") if "finalise" in self.stages else len(self.stages)
            return self.model_copy(update={"stages": (*self.stages[:place], "cite", *self.stages[place:])})
        return self

    def without(self, names: Sequence[str]) -> Settings:
        """These settings with stages, or groups of stages, left out, as for an ablation.

        Raises:
            SettingsError: A stage is not part of the preset, or cannot be left out.
        """
        left_out: set[str] = set()
        for name in names:
            stages = [stage for stage in GROUPS.get(name, (name,)) if stage in self.stages]
            if not stages:
                known = ", ".join([*self.stages, *GROUPS])
                raise SettingsError(f"stage {name!r} is not part of this preset; what can be left out: {known}")
            left_out.update(stages)
        if "finalise" in left_out:
            raise SettingsError("stage 'finalise' gives the answer and cannot be left out")
        return self.model_copy(update={"stages": tuple(stage for stage in self.stages if stage not in left_out)})


class SearchModels(_Table):
    """The encoders and indices of the organiser's pipeline; ids of a hub or local folders."""

    kind: Literal["organiser", "embedded"] = "organiser"
    image_model: str = "openai/clip-vit-large-patch14-336"
    text_model: str = "BAAI/bge-large-en-v1.5"
    image_index: str = "crag-mm-2025/image-search-index-{split}"
    web_index: str = "crag-mm-2025/web-search-index-{split}"


class Profile(_Table):
    """Which real models stand behind the roles that stages ask for, and how long they may take.

    Attributes:
        limits: The fields of ``Limits`` that the profile names; a preset may name others.
        presets: Preset to role to the options of its model that differ under that preset.
    """

    name: str
    description: str = ""
    models: dict[str, dict[str, Any]]
    search: SearchModels = SearchModels()
    limits: dict[str, Any] = {}
    presets: dict[str, dict[str, dict[str, Any]]] = {}

    @field_validator("limits")
    @classmethod
    def _known_limits(cls, value: dict[str, Any]) -> dict[str, Any]:
        Limits.model_validate(value)
        return value

    def under(self, preset: str) -> Profile:
        """The profile with the options that it has for a preset."""
        changed = self.presets.get(preset, {})
        models = {role: {**spec, **changed.get(role, {})} for role, spec in self.models.items()}
        return self.model_copy(update={"models": models}) if changed else self

    def with_lora(self, lora: LoraSettings | None) -> Profile:
        """The profile with a preset's adapter on its chat model.

        Raises:
            SettingsError: The chat model is of a kind that takes no adapter.
        """
        if lora is None:
            return self
        chat = self.models.get("chat", {})
        if chat.get("kind") != "vllm":
            raise SettingsError(
                f"the preset names the LoRA adapter {lora.name!r}, which takes a chat model of kind 'vllm'; "
                f"that of profile {self.name!r} is of kind {chat.get('kind')!r}: merge the adapter into the weights, or "
                "put the preset's [lora] under [profiles.NAME.lora] of a profile with vLLM"
            )
        return self.model_copy(update={"models": {**self.models, "chat": {**chat, "lora": lora.model_dump()}}})


def _merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(base)
    for key, value in over.items():
        old = result.get(key)
        result[key] = _merged(old, value) if isinstance(old, Mapping) and isinstance(value, Mapping) else value
    return result


def _read(folder: Path, name: str, what: str) -> dict[str, Any]:
    path = folder / f"{name}.toml"
    if not path.is_file():
        raise SettingsError(f"there is no {what} {name!r}; known: {', '.join(names(folder))}")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"{what} {path} is not valid TOML: {error}") from error


def names(folder: Path) -> list[str]:
    """The presets or profiles of a folder."""
    return sorted(path.stem for path in folder.glob("*.toml"))


def load_settings(preset: str, profile: str | Profile, folder: Path = PRESETS, profiles: Path = PROFILES) -> Settings:
    """The settings of a preset under a profile.

    Args:
        profile: Names the preset's overlay, and the limits below the preset's own where ``profiles`` has such a profile.
            One that has been read already is not read again.

    Raises:
        SettingsError: There is no such preset, or it or the profile is malformed.
    """
    table = _read(folder, preset, "preset")
    overlays = table.pop("profiles", {})
    name = profile if isinstance(profile, str) else profile.name
    if isinstance(profile, str):
        profile = load_profile(name, profiles) if name in names(profiles) else Profile(name=name, models={})
    table = _merged({"limits": profile.limits}, table)
    try:
        return Settings.model_validate(_merged(table, overlays.get(name, {})))
    except ValidationError as error:
        raise SettingsError(f"preset {preset!r} is malformed: {error}") from error


def load_profile(name: str, folder: Path = PROFILES) -> Profile:
    """A profile by name.

    Raises:
        SettingsError: There is no such profile, or it is malformed.
    """
    try:
        return Profile.model_validate({"name": name, **_read(folder, name, "profile")})
    except ValidationError as error:
        raise SettingsError(f"profile {name!r} is malformed: {error}") from error
