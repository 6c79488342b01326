"""What clients are not told about an upstream: its address and its key. Its own texts may repeat both."""

from urllib.parse import urlsplit

_MARK = "…"


class Concealment:
    """Takes the address and the key of one upstream out of texts for clients."""

    def __init__(self, url: str, api_key: str) -> None:
        parts = urlsplit(url)
        host = parts.hostname or ""
        is_address = "." in host or ":" in host  # a plain name, such as localhost, may be a word of the text
        secrets = {api_key, url, f"{parts.scheme}://{parts.netloc}", parts.netloc, host if is_address else ""}
        self._secrets = sorted(filter(None, secrets), key=len, reverse=True)

    def text(self, text: str) -> str:
        """Returns the text without address and key."""
        for secret in self._secrets:
            text = text.replace(secret, _MARK)
        return text

    def content(self, content: bytes) -> bytes:
        """Returns bytes without address and key."""
        for secret in self._secrets:
            content = content.replace(secret.encode(), _MARK.encode())
        return content
