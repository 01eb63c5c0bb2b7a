"""Whether the organiser's account of the hub can fetch the models of a submission.

The starter kit's rules (its docs/submission.md and docs/huggingface-gated-models.md): a model is public, or its repository gives access to
the account ``aicrowd``; a gated repository of one's own is public, gated, and has "aicrowd" in its name.
"""

from collections.abc import Callable
from typing import Literal

from apps.preflight.check import Check

ACCOUNT = "aicrowd"
Access = Literal["public", "gated", "hidden"]

_NAME = "access to models"
_SECONDS = 5.0  # a hub that does not answer by then is taken for out of reach


def access_of(model: str) -> Access:
    """Who may fetch a model: everybody, who was given access, or (private, or not there) nobody that we know of.

    OSError where no hub can be asked.
    """
    import httpx
    from huggingface_hub import HfApi
    from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError

    try:
        found = HfApi().model_info(model, timeout=_SECONDS, expand=["gated", "private"])
    except GatedRepoError:
        return "gated"
    except RepositoryNotFoundError:
        return "hidden"
    except (HfHubHTTPError, httpx.HTTPError) as error:
        raise OSError(str(error)) from error
    return "hidden" if found.private else "gated" if found.gated else "public"


def check_access(models: list[str], ask: Callable[[str], Access] = access_of, *, quick: bool = False) -> Check:
    """Private and unknown repositories fail; gated ones are named, with what has to be done for them."""
    fix = (
        f"a repository of yours is public and gated, has {ACCOUNT!r} in its name and gives access to the account {ACCOUNT!r}; of "
        "another's, accept its terms and see that the organiser has access"
    )
    if quick:
        return Check(_NAME, "skipped", "--quick", fix)
    try:
        found = {model: ask(model) for model in models}
    except OSError:
        return Check(_NAME, "skipped", "no hub can be reached", fix)
    hidden, gated = ([model for model in models if found[model] == access] for access in ("hidden", "gated"))
    if hidden:
        return Check(_NAME, "failed", f"private or not there: {', '.join(hidden)}", fix)
    foreign = [model for model in gated if ACCOUNT not in model.lower()]
    if foreign:
        return Check(_NAME, "warning", f"gated, without {ACCOUNT!r} in the name: {', '.join(foreign)}", fix)
    if gated:
        return Check(_NAME, "warning", f"gated: {', '.join(gated)}", fix)
    return Check(_NAME, "ok", "all public")
