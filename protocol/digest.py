"""BLAKE2b without OpenSSL, which `hashlib` loads for its other functions: 3 MiB in each server."""

try:
    from _blake2 import blake2b
except ImportError:  # an interpreter that is built otherwise
    from hashlib import blake2b

__all__ = ["blake2b"]
