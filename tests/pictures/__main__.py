"""`./x pictures`: the whole corpus, or a sample; `./x pictures mutants`: damaged files."""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from pathlib import Path

from . import compare, corpus, mutants, setup, table
from .judge import Verdict
from .through import HERE

# What a sample fetches: small, and rich in odd files.
CHEAP = ["libpng1.6", "tiff", "libgd2"]


def main() -> int:
    args = arguments()
    started = time.monotonic()
    if args.what == "mutants":
        scratch = args.scratch.resolve() / "mutants"
        return mutants.main(args.binary.resolve(), args.alone.resolve(), args.count or mutants.ALL, args.seed, scratch)
    absent = setup.programs()
    sources, without = setup.packages(corpus.PLACE, CHEAP if args.count else None)
    files = corpus.sample(args.count, args.seed, sources, args.only or "")
    for line in [*absent, *without]:
        print(f"pictures: left out: {line}", file=sys.stderr)
    verdicts, troubles = compare.compare(
        args.binary.resolve(), files, args.form or compare.FORMS, args.scratch.resolve()
    )
    print("\n".join(table.by_format(verdicts)))
    bad = [verdict for verdict in verdicts if table.is_bad(verdict)]
    show(bad, troubles, args)
    if args.write:
        forms = ", ".join(f"`{form}`" for form in args.form or compare.FORMS)
        heading = f"{len(files)} files, {len(verdicts)} comparisons ({forms}), on {datetime.date.today()}."
        table.write(HERE.parent.parent / "docs" / "pictures.md", verdicts, heading)
    seconds = time.monotonic() - started
    print(f"pictures: {len(files)} files, {len(verdicts)} comparisons, {len(bad)} unexplained, {seconds:.0f} s")
    return 1 if bad or troubles or not files else 0


def show(bad: list[Verdict], troubles: list[str], args: argparse.Namespace) -> None:
    log = args.scratch / "unexplained.txt"
    log.write_text("".join(f"{each.word}\t{each.form}\t{each.item}\t{each.why}\n" for each in bad))
    for each in bad[:40]:
        print(f"{each.word}: {each.form}: {each.item}: {each.why}", file=sys.stderr)
    if bad:
        print(
            f"pictures: all {len(bad)} are in {log}. One file again: ./x pictures --only PART_OF_ITS_NAME",
            file=sys.stderr,
        )
        print(
            f"pictures: what is meant gets a rule in {HERE / 'rules.toml'}; the program was {args.binary}",
            file=sys.stderr,
        )
    for trouble in troubles:
        print(f"pictures: {trouble}", file=sys.stderr)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="./x pictures", description=__doc__)
    parser.add_argument("what", nargs="?", default="corpus", choices=["corpus", "mutants"])
    parser.add_argument("--binary", type=Path, required=True, help="the gpulane to judge; ./x pictures builds one")
    parser.add_argument("--alone", type=Path, help="for mutants: the example `alone` of crates/decode")
    parser.add_argument("--count", type=int, help="a sample of so many files, or so many mutants")
    parser.add_argument("--seed", type=int, default=16)
    parser.add_argument("--only", help="only files with this in their path")
    parser.add_argument(
        "--form", action="append", help="a --decode; may be given again. Default: " + ", ".join(compare.FORMS)
    )
    parser.add_argument(
        "--scratch", type=Path, default=corpus.PLACE / "maps", help="where maps and their pixels are kept"
    )
    parser.add_argument("--write", action="store_true", help="write docs/pictures.md")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
