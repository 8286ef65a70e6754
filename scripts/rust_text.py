"""Rust source with its comments and strings blanked out, so that a search finds code and nothing else."""

from __future__ import annotations

import re

# What can hide code, in the order they are tried at each place. A lifetime ('a) is matched so that it is not taken
# for the beginning of a character.
_TOKEN = re.compile(
    r"""
      (?P<line>   //[^\n]*)
    | (?P<block>  /\*)
    | (?P<raw>    \b(?:br|cr|r)(?P<hashes>\#*)")
    | (?P<string> (?:\b[bc])?"(?:\\.|[^"\\])*")
    | (?P<char>   (?:\bb)?'(?:\\(?:x..|u\{[^}]*\}|.)|[^'\\\n])')
    | (?P<life>   '[A-Za-z_]\w*)
    """,
    re.VERBOSE | re.DOTALL,
)


def code_only(source: str) -> str:
    """The same text, same length and lines, with spaces for comments, strings and characters."""
    pieces, at = [], 0
    while match := _TOKEN.search(source, at):
        pieces.append(source[at : match.start()])
        end = match.end()
        if match["block"]:
            end = _end_of_block(source, match.start())
        elif match["raw"]:
            closing = '"' + match["hashes"]
            found = source.find(closing, end)
            end = len(source) if found < 0 else found + len(closing)
        hidden = source[match.start() : end]
        pieces.append(hidden if match["life"] else re.sub(r"[^\n]", " ", hidden))
        at = end
    pieces.append(source[at:])
    return "".join(pieces)


def without_tests(code: str) -> str:
    """Code up to its test module. By house rule that stands last in a file, behind `#[cfg(test)]` and `mod`."""
    match = re.search(r"^#\[cfg\(test\)\]\s*(?:#\[[^\]]*\]\s*)*mod \w+ \{", code, re.MULTILINE)
    return code[: match.start()] if match else code


def _end_of_block(source: str, start: int) -> int:
    """Block comments nest in Rust."""
    depth = 0
    for match in re.compile(r"/\*|\*/").finditer(source, start):
        depth += 1 if match[0] == "/*" else -1
        if depth == 0:
            return match.end()
    return len(source)
