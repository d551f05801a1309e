"""Open a model by its name; what a kind of model needs is imported only when it is named."""

import os

from judges.models.protocol import LastingError, Model

TIMEOUT = 120.0


def open_model(lm: str, *, api_base: str | None = None, timeout: float = TIMEOUT) -> Model:
    """Open `embedded`, `openai/NAME`, `azure/NAME`, `replay:FILE`, or any model DSPy knows.

    `api_base` or OPENAI_BASE_URL points `openai/NAME` at any compatible server. Keys come from the
    environment (OPENAI_API_KEY and its like). Raises LastingError where the set-up is wrong.
    """
    provider, _, name = lm.partition("/")
    if lm in {"embedded", "embedded-1"}:
        from judges.models.embedded import EmbeddedModel

        return EmbeddedModel()
    if lm.startswith("replay:"):
        from judges.models.replay import ReplayModel

        return ReplayModel(lm.removeprefix("replay:"))
    if (provider == "azure" and name) or _is_azure(api_base):
        from judges.models.azure import AzureModel

        return AzureModel(name or lm, api_base=api_base, timeout=timeout)
    if provider == "openai" and name:
        from judges.models.endpoint import EndpointModel

        return EndpointModel(name, api_base=api_base, timeout=timeout)
    if not (provider and name):
        raise LastingError(
            f"no model {lm!r}: say embedded, replay:FILE or PROVIDER/NAME, as in "
            "openai/gpt-4.1-mini"
        )
    from judges.models.dspy_lm import DspyModel

    return DspyModel(lm, api_base=api_base, timeout=timeout)


def _is_azure(api_base: str | None) -> bool:
    base = api_base or os.environ.get("OPENAI_BASE_URL") or ""
    return ".openai.azure.com" in base or ".cognitiveservices.azure.com" in base
