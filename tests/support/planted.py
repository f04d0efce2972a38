"""Secrets that a test plants, and where they are found again: as they are, or encoded."""

import hmac
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterator

from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import load_pem_private_key


class Planted:
    """Secrets by what they are. Each has a text of its own that occurs nowhere else."""

    def __init__(self) -> None:
        self.secrets: dict[str, bytes] = {}

    def text(self, what: str) -> str:
        """A new secret."""
        text = f"planted-{hmac.digest(b'secrets', what.encode(), 'sha256').hex()[:20]}"
        self.add(what, text.encode())
        return text

    def add(self, what: str, secret: bytes) -> None:
        assert what not in self.secrets
        self.secrets[what] = secret

    def token(self, what: str, token: str) -> str:
        """A token: its signature is what nobody may see, or its claims if there is none."""
        self.add(what, token.rstrip(".").rpartition(".")[2].encode())
        return token

    def key(self, what: str, pem: bytes) -> None:
        """A private key in PEM."""
        private = load_pem_private_key(pem, None)
        assert isinstance(private, EllipticCurvePrivateKey)
        number = private.private_numbers().private_value
        self.add(what, number.to_bytes(32, "big"))
        lines = pem.partition(b"-----END")[0].splitlines()
        self.add(f"{what}, in PEM", lines[2])

    def found_in(self, data: bytes) -> list[str]:
        return [
            what
            for what, secret in self.secrets.items()
            if any(form in data for form in forms(secret))
        ]


def forms(secret: bytes) -> Iterator[bytes]:
    """How it may be written."""
    yield secret
    yield secret.hex().encode()
    yield repr(secret).encode()[2:-1]
    for encode in (b64encode, urlsafe_b64encode):
        for at in range(3):  # wherever it is in what is encoded
            yield encode(bytes(at) + secret)[4 if at else 0 : -4]
