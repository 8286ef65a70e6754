#!/usr/bin/env python3
"""The examples of `gpulane map` on a real GPU, with data made here, and a map whose workers share the GPU by measured memory.

    bench/gpu/examples.py GPULANE

Needs torch, torchvision, CuPy, NumPy and Pillow; transformers for the sentences, otherwise they are skipped and that is said. Every
check prints a line; the exit code is the number of those that failed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
EXAMPLES = HERE.parent.parent / "examples" / "map"
failures: list[str] = []


def check(name: str, holds: bool, seen: object = "") -> None:
    print(f"{'ok  ' if holds else 'FAIL'} {name}  {seen}", flush=True)
    if not holds:
        failures.append(name)


def main() -> int:
    binary = os.path.abspath(sys.argv[1])
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        make_data()
        resnet(binary)
        illumination(binary)
        deconvolution(binary)
        sentences(binary)
        shared(binary)
    print(f"{len(failures)} failed")
    return len(failures)


def make_data() -> None:
    import numpy

    sys.path.insert(0, str(HERE))
    from mapping import pictures

    Path("photos").mkdir()
    pictures.write_all(Path("photos"), 400)
    random = numpy.random.default_rng(1)
    down, across = numpy.mgrid[0:512, 0:640]
    glow = 3000 * numpy.exp(-((across - 320) ** 2 + (down - 256) ** 2) / 60000)
    Path("plate").mkdir()
    Path("stacks").mkdir()
    for number in range(12):
        pixels = (glow + random.normal(400, 30, glow.shape)).clip(0, 65535).astype("<u2")
        write_tiff(Path(f"plate/{number}.tif"), [pixels])
        write_tiff(Path(f"stacks/{number}.tif"), list(spots(random)))


def spots(random: Any) -> Any:
    """Points of light as a microscope sees them: blurred by what the example takes off again, and with the noise of light."""
    import numpy

    shape, sigmas = (16, 128, 128), (2.5, 1.5, 1.5)
    light = numpy.full(shape, 20.0)
    light[tuple(random.integers(0, side, 60) for side in shape)] += 200_000
    for axis, (side, sigma) in enumerate(zip(shape, sigmas)):
        line = numpy.exp(-2 * (numpy.pi * sigma * numpy.fft.fftfreq(side)) ** 2)
        spread = line.reshape([-1 if at == axis else 1 for at in range(3)])
        light = numpy.fft.ifft(numpy.fft.fft(light, axis=axis) * spread, axis=axis).real
    return random.poisson(light.clip(0)).astype("<u2")


def write_tiff(path: Path, pages: list) -> None:
    """16 bits, one strip a page, nothing compressed."""
    out = bytearray(b"II*\0" + struct.pack("<I", 0))
    link = 4
    for page in pages:
        at = len(out)
        out += page.tobytes()
        height, width = page.shape
        tags = [(256, width), (257, height), (258, 16), (259, 1), (262, 1), (273, at), (277, 1), (278, height)]
        tags.append((279, page.nbytes))
        out[link : link + 4] = struct.pack("<I", len(out))
        out += struct.pack("<H", len(tags))
        for tag, value in tags:
            out += struct.pack("<HHII", tag, 4, 1, value)
        link = len(out)
        out += struct.pack("<I", 0)
    path.write_bytes(out)


def mapped(binary: str, example: str, source: str, *options: str, **environment: str) -> list[dict]:
    """Rows of a map in JSON lines; a check that it succeeded."""
    name = example.partition(":")[2].lower()
    words = [binary, "map", str(EXAMPLES / example), source, "--out", name, "--format", "jsonl", *options]
    began = time.monotonic()
    done = subprocess.run(words, env={**os.environ, **environment}, capture_output=True, text=True)
    check(f"{name} succeeds", done.returncode == 0, f"{time.monotonic() - began:.1f} s")
    if done.returncode:
        print(done.stderr[-3000:])
    parts = sorted(Path(name).glob("part-*.jsonl"))
    return [json.loads(line) for part in parts for line in part.read_text().splitlines()]


def resnet(binary: str) -> None:
    rows = mapped(binary, "resnet.py:ResNet", "photos/**/*.jpg")
    check("resnet: a row for each photograph", len(rows) == 400, len(rows))
    check("resnet: embeddings of 2,048", {len(row["embedding"]) for row in rows} == {2048})


def illumination(binary: str) -> None:
    import numpy

    rows = mapped(binary, "illumination.py:Illumination", "plate/*.tif", CORRECTED="corrected")
    check("illumination: a row for each image", len(rows) == 12, len(rows))
    for row in rows[:1]:
        flat = numpy.load(f"corrected/{row['file']}")
        edge, middle = flat[:64, :64].mean(), flat[224:288, 288:352].mean()
        check("illumination: as bright at the edge as in the middle", 0.7 < edge / middle < 1.4, edge / middle)
        check("illumination: 16 bits stay", flat.dtype == numpy.uint16 and flat.shape == (512, 640), flat.dtype)


def deconvolution(binary: str) -> None:
    import numpy

    rows = mapped(binary, "deconvolution.py:Deconvolution", "stacks/*.tif", SHARP="sharp")
    check("deconvolution: a row for each stack", len(rows) == 12, len(rows))
    sharper = sorted(round(row["sharper"], 2) for row in rows)
    right = all(row["pages"] == 16 and row["sharper"] > 1.2 for row in rows)
    check("deconvolution: 16 pages, sharper than before", right, sharper)
    for row in rows[:1]:
        check("deconvolution: the stack is there", numpy.load(f"sharp/{row['file']}").shape == (16, 128, 128))


def sentences(binary: str) -> None:
    if importlib.util.find_spec("transformers") is None:
        print("skipped: sentences: transformers is not installed")
        return
    from transformers import BertConfig, BertModel, BertTokenizerFast

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "a", "cat", "dog", "runs", "sleeps"]
    Path("tiny").mkdir()
    Path("tiny/vocab.txt").write_text("\n".join(words))
    BertTokenizerFast(vocab_file="tiny/vocab.txt").save_pretrained("tiny")
    shape = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 128}
    BertModel(BertConfig(vocab_size=len(words), **shape)).save_pretrained("tiny")
    texts = ["the cat runs", "a dog sleeps", "the cat runs"] * 400
    Path("texts.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    model = os.path.abspath("tiny")
    rows = mapped(binary, "sentences.py:Sentences", "texts.jsonl:text", "--decode", "value", SENTENCES_MODEL=model)
    check("sentences: a row for each text", len(rows) == len(texts), len(rows))
    length = sum(value * value for value in rows[0]["embedding"]) if rows else 0
    check("sentences: of length one", abs(length - 1) < 1e-2, length)


def shared(binary: str) -> None:
    """`memory = "auto"`: the first worker shows what it takes, others join it on the same GPU."""
    model = json.dumps(f"{EXAMPLES / 'resnet.py'}:ResNet")
    Path("shared.toml").write_text(
        'name = "shared"\n[[stage]]\nname = "classes"\nmemory = "auto"\n'
        f'map = {{ model = {model}, input = ["photos/**/*.jpg"], workers = 3, format = "jsonl" }}\n'
    )
    words = [binary, "run", "shared.toml", "--run-dir", "shared", "--json"]
    done = subprocess.run(words, capture_output=True, text=True)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    kinds = [event["event"] for event in events]
    check("memory = auto: the map succeeds", done.returncode == 0, done.stderr[-2000:] if done.returncode else "")
    started = {event["job"] for event in events if event["event"] == "job_started"}
    check("memory = auto: several workers on one GPU", len(started) > 1, sorted(started))
    check("memory = auto: measured", "memory_measured" in kinds, sorted(set(kinds)))
    lines = [line for part in Path("shared/maps/classes").glob("part-*.jsonl") for line in part.read_text().splitlines()]
    items = [json.loads(line)["item"] for line in lines]
    check("memory = auto: every item once", len(items) == 400 == len(set(items)), len(items))


if __name__ == "__main__":
    sys.exit(main())
