"""Checks that the organiser's account of the hub can fetch the models of a submission.

The starter kit's rules (its docs/submission.md and docs/huggingface-gated-models.md): a model is public, or its repository gives access to
the account ``aicrowd``; a gated repository of one's own is public, gated, and has "aicrowd" in its name.
"""

from collections.abc import Callable
from typing import Literal

from agents.base.hub_reach import HUB_SECONDS
from apps.preflight.check import Check

ACCOUNT = "aicrowd"
Access = Literal["public", "gated", "hidden"]

_NAME = "access to models"


def query_access(model: str) -> Access:
    """Ask the hub who may fetch a model.

    Returns:
        "public" for everybody; "gated" for accounts with access; "hidden" for a private or unknown model.

    Raises:
        OSError: No hub can be reached.
    """
    import httpx
    from huggingface_hub import HfApi
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError

    try:
        info = HfApi().model_info(model, timeout=HUB_SECONDS, expand=["gated", "private"])
    except GatedRepoError:
        return "gated"
    except RepositoryNotFoundError:
        return "hidden"
    except (HfHubHTTPError, httpx.HTTPError) as error:
        raise OSError(str(error)) from error
    return "hidden" if info.private else "gated" if info.gated else "public"


def check_access(models: list[str], ask: Callable[[str], Access] = query_access, *, quick: bool = False) -> Check:
    """Check that the organiser can fetch the models.

    Private and unknown repositories fail. Gated ones are a warning that says what to do.
    """
    fix = (
        f"make your own repository public and gated, with {ACCOUNT!r} in its name and access for the account {ACCOUNT!r}; for "
        "another's, accept its terms and make sure that the organiser has access"
    )
    if quick:
        return Check(_NAME, "skipped", "--quick", fix)
    try:
        accesses = {model: ask(model) for model in models}
    except OSError:
        return Check(_NAME, "skipped", "no hub can be reached", fix)
    hidden, gated = ([model for model in models if accesses[model] == access] for access in ("hidden", "gated"))
    if hidden:
        return Check(_NAME, "failed", f"private or not there: {', '.join(hidden)}", fix)
    foreign = [model for model in gated if ACCOUNT not in model.lower()]
    if foreign:
        return Check(_NAME, "warning", f"gated, without {ACCOUNT!r} in the name: {', '.join(foreign)}", fix)
    if gated:
        return Check(_NAME, "warning", f"gated: {', '.join(gated)}", fix)
    return Check(_NAME, "ok", "all public")
