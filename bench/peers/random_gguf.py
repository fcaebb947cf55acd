#!/usr/bin/env python3
"""A GGUF file with random weights in the shape of a published model, for speed where the published file cannot be had.

    random_gguf.py --shape llama-1b --type Q4_K --vocab-from smollm2-135m.gguf OUT.gguf

The tokenizer comes from another GGUF file, so that servers can load the result; with `--vocab N` there is none, and N tokens. Weights are random codes with scales that give a standard
deviation near 1/sqrt(fan-in). The same arguments give the same file. Needs numpy.
"""
import argparse, os, struct, sys
from dataclasses import dataclass

import numpy as np

ALIGNMENT = 32
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "B", 10: "Q", 11: "q", 12: "d"}  # GGUF's value types of a fixed size
STRING, ARRAY = 8, 9


@dataclass
class Shape:
    arch: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head: int
    ffn: int
    rope_base: float = 5e5
    experts: int = 0     # 0: no mixture; else each `ffn` wide
    used: int = 0        # experts a token goes to


SHAPES = {
    "llama-135m": Shape("llama", 30, 576, 9, 3, 64, 1536),
    "llama-1b": Shape("llama", 16, 2048, 32, 8, 64, 8192),
    "llama-3b": Shape("llama", 28, 3072, 24, 8, 128, 8192),
    "llama-8b": Shape("llama", 32, 4096, 32, 8, 128, 14336),
    "qwen3-0.6b": Shape("qwen3", 28, 1024, 16, 8, 128, 3072, 1e6),
    "qwen3-1.7b": Shape("qwen3", 28, 2048, 16, 8, 128, 6144, 1e6),
    "qwen3moe-3b": Shape("qwen3moe", 24, 1024, 16, 4, 128, 512, 1e6, 64, 8),
    "qwen3moe-tiny": Shape("qwen3moe", 1, 256, 4, 2, 64, 256, 1e6, 4, 2),  # for tests
}


@dataclass
class Format:
    """`scales`: (offset of a half, factor on the weight's deviation) of each scale in a block; `levels`: mean and deviation of a code's value."""
    code: int
    weights: int
    size: int
    scales: tuple


# A block's codes are uniform: q in 0..15 deviates by 4.61, in -128..127 by 73.9, in 0..63 by 18.5. Six-bit scales of the K formats are 31.5 on average.
FORMATS = {
    "Q4_0": Format(2, 32, 18, ((0, 1 / 4.61),)),
    "Q4_1": Format(3, 32, 20, ((0, 1 / 4.61), (2, -7.5 / 4.61))),
    "Q5_0": Format(6, 32, 22, ((0, 1 / 9.23),)),
    "Q8_0": Format(8, 32, 34, ((0, 1 / 73.9),)),
    "Q4_K": Format(12, 256, 144, ((0, 1 / (36.4 * 4.61)), (2, 7.5 / (36.4 * 4.61)))),
    "Q5_K": Format(13, 256, 176, ((0, 1 / (36.4 * 9.23)), (2, 15.5 / (36.4 * 9.23)))),
    "Q6_K": Format(14, 256, 210, ((208, 1 / (73.9 * 18.5)),)),
}


def take_value(data, at, kind):
    """The position behind a metadata value."""
    if kind in SCALARS:
        return at + struct.calcsize(SCALARS[kind])
    if kind == STRING:
        return at + 8 + struct.unpack_from("<Q", data, at)[0]
    inner, count = struct.unpack_from("<IQ", data, at)
    at += 12
    if inner in SCALARS:
        return at + count * struct.calcsize(SCALARS[inner])
    for _ in range(count):
        at = take_value(data, at, inner)
    return at


def tokenizer_of(path):
    """({key: raw bytes of key, type and value}, size of the vocabulary) of a file's tokenizer."""
    with open(path, "rb") as f:
        data = f.read(64 << 20)
    magic, _, _, count = struct.unpack_from("<4sIQQ", data)
    if magic != b"GGUF":
        raise SystemExit(f"random_gguf: {path} is no GGUF file")
    at, found, vocabulary = 24, {}, 0
    for _ in range(count):
        begin = at
        length = struct.unpack_from("<Q", data, at)[0]
        key = data[at + 8:at + 8 + length].decode()
        kind = struct.unpack_from("<I", data, at + 8 + length)[0]
        at = take_value(data, at + 12 + length, kind)
        if key.startswith("tokenizer."):
            found[key] = data[begin:at]
        if key == "tokenizer.ggml.tokens":
            vocabulary = struct.unpack_from("<Q", data, begin + 8 + length + 8)[0]
    return found, vocabulary


def text(s):
    return struct.pack("<Q", len(s.encode())) + s.encode()


def metadata(name, shape, context, vocabulary):
    a = shape.arch
    yield text("general.architecture") + struct.pack("<I", STRING) + text(a)
    yield text("general.name") + struct.pack("<I", STRING) + text(name)
    numbers = {"context_length": context, "embedding_length": shape.hidden, "block_count": shape.layers, "feed_forward_length": shape.ffn,
               "attention.head_count": shape.heads, "attention.head_count_kv": shape.kv_heads, "attention.key_length": shape.head,
               "attention.value_length": shape.head, "rope.dimension_count": shape.head, "vocab_size": vocabulary}
    if shape.experts:
        numbers |= {"expert_count": shape.experts, "expert_used_count": shape.used, "expert_feed_forward_length": shape.ffn}
    for key, value in numbers.items():
        yield text(f"{a}.{key}") + struct.pack("<II", 4, value)
    for key, value in {"attention.layer_norm_rms_epsilon": 1e-5, "rope.freq_base": shape.rope_base}.items():
        yield text(f"{a}.{key}") + struct.pack("<If", 6, value)


def tensors(shape, vocabulary, weight, head):
    """(name, dimensions outermost first, format) of every tensor; format None is float32."""
    q, kv = shape.heads * shape.head, shape.kv_heads * shape.head
    yield "token_embd.weight", (vocabulary, shape.hidden), head  # the output head as well
    yield "output_norm.weight", (shape.hidden,), None
    for i in range(shape.layers):
        b = f"blk.{i}."
        yield b + "attn_norm.weight", (shape.hidden,), None
        yield b + "ffn_norm.weight", (shape.hidden,), None
        if shape.arch.startswith("qwen3"):
            yield b + "attn_q_norm.weight", (shape.head,), None
            yield b + "attn_k_norm.weight", (shape.head,), None
        for name, rows, columns in [("attn_q", q, shape.hidden), ("attn_k", kv, shape.hidden), ("attn_v", kv, shape.hidden), ("attn_output", shape.hidden, q)]:
            yield f"{b}{name}.weight", (rows, columns), weight
        stack, suffix = ((shape.experts,), "_exps") if shape.experts else ((), "")
        if shape.experts:
            yield b + "ffn_gate_inp.weight", (shape.experts, shape.hidden), None
        for name, rows, columns in [("ffn_gate", shape.ffn, shape.hidden), ("ffn_up", shape.ffn, shape.hidden), ("ffn_down", shape.hidden, shape.ffn)]:
            yield f"{b}{name}{suffix}.weight", (*stack, rows, columns), weight


def block_bytes(rng, form, dims):
    """Random blocks of a tensor as uint8 [blocks, size]."""
    n, columns = count(dims) // form.weights, dims[-1]
    out = rng.integers(0, 256, (n, form.size), dtype=np.uint8)
    if form is FORMATS["Q6_K"]:
        out[:, 192:208] = rng.integers(64, 84, (n, 16), dtype=np.uint8)  # signed scales: all of one sign and size
    for offset, factor in form.scales:
        scale = rng.uniform(0.8, 1.2, n) * factor / np.sqrt(columns)
        out[:, offset:offset + 2] = scale.astype("<f2").view(np.uint8).reshape(n, 2)
    return out


def float_bytes(rng, dims):
    """Norms near one, and matrices (routers) with a deviation of 1/sqrt(fan-in)."""
    v = rng.uniform(0.8, 1.2, dims) if len(dims) == 1 else rng.standard_normal(dims) / np.sqrt(dims[-1])
    return v.astype("<f4").view(np.uint8)


def count(dims):
    n = 1
    for d in dims:
        n *= d
    return n


def data_size(dims, form):
    return count(dims) // form.weights * form.size if form else count(dims) * 4


def padding(n):
    return b"\0" * (-n % ALIGNMENT)


def write(out, shape_name, type_name, vocab_from, context=32768, seed=1, vocabulary=0):
    shape, weight = SHAPES[shape_name], FORMATS[type_name]
    # Published mixes of K formats keep the embedding, which is the head too, in six bits.
    head = FORMATS["Q6_K"] if type_name == "Q4_K" else FORMATS["Q8_0"] if type_name == "Q8_0" else weight
    tokenizer, vocabulary = tokenizer_of(vocab_from) if vocab_from else ({}, vocabulary)
    pairs = list(metadata(f"{shape_name} random {type_name}", shape, context, vocabulary)) + list(tokenizer.values())
    listed = list(tensors(shape, vocabulary, weight, head))
    header = struct.pack("<4sIQQ", b"GGUF", 3, len(listed), len(pairs)) + b"".join(pairs)
    offset = 0
    for name, dims, form in listed:
        header += text(name) + struct.pack("<I", len(dims)) + struct.pack(f"<{len(dims)}Q", *reversed(dims)) + struct.pack("<IQ", form.code if form else 0, offset)
        offset += data_size(dims, form) + len(padding(data_size(dims, form)))
    rng = np.random.default_rng(seed)
    part = out + ".part"
    with open(part, "wb") as f:
        f.write(header + padding(len(header)))
        for name, dims, form in listed:
            data = block_bytes(rng, form, dims) if form else float_bytes(rng, dims)
            f.write(data.tobytes() + padding(data.size))
    os.replace(part, out)


def main():
    p = argparse.ArgumentParser(prog="random_gguf.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("--shape", choices=SHAPES, default="llama-1b")
    p.add_argument("--type", choices=FORMATS, default="Q4_K")
    words = p.add_mutually_exclusive_group(required=True)
    words.add_argument("--vocab-from", metavar="FILE.gguf")
    words.add_argument("--vocab", type=int, default=0, metavar="N")
    p.add_argument("--context", type=int, default=32768)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    write(a.out, a.shape, a.type, a.vocab_from, a.context, a.seed, a.vocab)


if __name__ == "__main__":
    sys.exit(main())
