"""Files of other projects, from source packages: Python's by name and hash, Debian's by name as apt has them."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path

SUFFIXES = {".jpg", ".jpeg", ".jpe", ".jfif", ".png", ".tif", ".tiff", ".webp", ".gif", ".bmp", ".dib", ".rle"}
LARGEST = 40 << 20
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")


@dataclass(frozen=True)
class Source:
    """A source package; sources.toml lists them."""

    kind: str  # "pypi" or "debian"
    name: str
    version: str  # the version, or Debian's suite
    sha256: str
    every: int  # takes one of so many files: packages with a thousand alike

    def folder(self, place: Path) -> Path:
        return place / "fetched" / f"{self.kind}-{self.name}"

    def files(self, place: Path) -> list[Path]:
        folder = self.folder(place)
        return sorted(path for path in folder.rglob("*") if path.is_file()) if folder.exists() else []

    def is_here(self, place: Path) -> bool:
        return (place / "fetched" / f"{self.kind}-{self.name}.done").exists()


def sources() -> list[Source]:
    table = tomllib.loads((Path(__file__).parent / "sources.toml").read_text())
    found = [
        Source("pypi", each["name"], each["version"], each["sha256"], each.get("every", 1)) for each in table["pypi"]
    ]
    suite = table["debian"]["suite"]
    return found + [Source("debian", name, suite, "", 1) for name in table["debian"]["packages"]]


def fetch(source: Source, place: Path) -> str:
    """Brings a source's pictures below `place`. Returns why it could not, or nothing."""
    if source.is_here(place):
        return ""
    downloads = place / "downloads"
    downloads.mkdir(parents=True, exist_ok=True)
    print(f"pictures: fetching {source.kind} {source.name}", file=sys.stderr)
    try:
        archives = _from_pypi(source, downloads) if source.kind == "pypi" else _from_debian(source, downloads)
        shutil.rmtree(source.folder(place), ignore_errors=True)
        for archive in archives:
            _unpack(source, archive, source.folder(place))
    except (OSError, ValueError, subprocess.SubprocessError, tarfile.TarError) as error:
        return f"{source.kind} {source.name}: {error}"
    (place / "fetched" / f"{source.kind}-{source.name}.done").touch()
    return ""


def _from_pypi(source: Source, downloads: Path) -> list[Path]:
    """The index is the one pip is set to; the hash says whether it is the right file."""
    index = os.environ.get("PIP_INDEX_URL") or _pip("global.index-url") or "https://pypi.org/simple"
    page_at = f"{index.rstrip('/')}/{source.name}/"
    with urllib.request.urlopen(page_at, timeout=60) as answer:
        page = answer.read().decode()
    normal = source.name.replace("-", "[-_.]")
    links = re.findall(rf'href="([^"]*/{normal}-{re.escape(source.version)}\.tar\.gz)[#"]', page, re.IGNORECASE)
    if not links:
        raise ValueError(f"{page_at} has no source of {source.version}")
    target = downloads / f"{source.name}-{source.version}.tar.gz"
    if not target.exists() or _hash(target) != source.sha256:
        with (
            urllib.request.urlopen(urllib.parse.urljoin(page_at, links[0]), timeout=300) as answer,
            target.open("wb") as file,
        ):
            shutil.copyfileobj(answer, file)
    if _hash(target) != source.sha256:
        target.unlink()
        raise ValueError(f"{target.name} is not the file that sources.toml pins")
    return [target]


def _pip(key: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "pip", "config", "get", key], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() if done.returncode == 0 else ""


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _from_debian(source: Source, downloads: Path) -> list[Path]:
    """apt checks signatures and hashes; lists and files of its own, so that the machine's settings stay as they are."""
    if not shutil.which("apt-get") or not KEYRING.exists():
        raise ValueError("needs apt-get and Debian's keyring")
    apt = downloads / "apt"
    for folder in ("lists/partial", "cache/archives/partial", "empty"):
        (apt / folder).mkdir(parents=True, exist_ok=True)
    entry = apt / "debian.sources"
    text = "Types: deb-src\nURIs: http://deb.debian.org/debian\nSuites: {}\nComponents: main\nSigned-By: {}\n"
    entry.write_text(text.format(source.version, KEYRING))
    options = {
        "Dir::Etc::sourcelist": entry,
        "Dir::Etc::sourceparts": apt / "empty",
        "Dir::State::lists": apt / "lists",
        "Dir::Cache": apt / "cache",
        "APT::Sandbox::User": "root",
    }
    words = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
    if not any((apt / "lists").glob("*Sources*")):
        _apt([*words, "update"], apt)
    # Without signatures of upstream and Debian's own part, which hold no pictures.
    uris = _apt([*words, "source", "--print-uris", source.name], apt)
    files = re.findall(r"^'([^']+)' (\S+\.orig(?:-[a-z]+)?\.tar\.\S+) \d+ SHA256:([0-9a-f]{64})", uris, re.MULTILINE)
    found = []
    for address, name, sha256 in files:
        if name.endswith(".asc"):
            continue
        target = downloads / name
        if not target.exists() or _hash(target) != sha256:
            with urllib.request.urlopen(address, timeout=300) as answer, target.open("wb") as file:
                shutil.copyfileobj(answer, file)
        if _hash(target) != sha256:
            raise ValueError(f"{name} does not have the hash that Debian's signed list names")
        found.append(target)
    if not found:
        raise ValueError("apt names no source")
    return found


def _apt(words: list[str], where: Path) -> str:
    done = subprocess.run(
        ["apt-get", "-q", *words], cwd=where, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode:
        raise ValueError(done.stderr.strip()[-300:])
    return done.stdout


def _unpack(source: Source, archive: Path, folder: Path) -> None:
    """The pictures of an archive. Names keep their folders, so that two of one name stay two."""
    number = 0
    with tarfile.open(archive) as tar:
        for member in tar:
            path = Path(member.name)
            if (
                not member.isfile()
                or path.suffix.lower() not in SUFFIXES
                or not 0 < member.size <= LARGEST
                or ".." in path.parts
            ):
                continue
            number += 1
            if number % source.every:
                continue
            target = folder.joinpath(*path.parts[1:])
            target.parent.mkdir(parents=True, exist_ok=True)
            data = tar.extractfile(member)
            if data:
                target.write_bytes(data.read())
