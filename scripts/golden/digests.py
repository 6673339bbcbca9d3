"""Digests, and the seeds that are made of them."""

import hashlib
from pathlib import Path


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def sha256_of_file(path: Path) -> str:
    return sha256(Path(path).read_bytes())


def seed_of(name: str) -> int:
    """A seed of 32 bits."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "little")
