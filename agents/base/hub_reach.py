"""Whether a hub of models and data sets can be asked."""

from agents.base.files import one_line

HUB_SECONDS = 5.0
"""A hub that does not answer by then is taken for out of reach."""


def no_hub() -> str | None:
    """Return the reason why no hub can be asked or none answers; None if one does.

    Hugging Face's library would try again for a minute.
    """
    import httpx
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        return "HF_HUB_OFFLINE is set"
    try:
        answer = httpx.head(constants.ENDPOINT, timeout=HUB_SECONDS)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        return f"{constants.ENDPOINT} cannot be reached ({one_line(error) or type(error).__name__})"
    return f"{constants.ENDPOINT} is out of order (status {answer.status_code})" if answer.is_server_error else None
