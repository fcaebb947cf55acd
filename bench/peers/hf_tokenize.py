"""hf_tokenize.py: Hugging Face `tokenizers` as a measured peer; `isotope tokenize --bench` prints the same line of JSON.

    hf_tokenize.py convert GGUF OUT.json           the tokenizer of a GGUF file as tokenizer.json (needs transformers and gguf)
    hf_tokenize.py measure TOKENIZER.json TEXT THREADS SECONDS
"""
import json, os, sys, time, zlib

DOCUMENT = 4096


def documents(data):
    """Cut behind the first line feed that follows 4096 bytes."""
    out, at = [], 0
    while at < len(data):
        line = data.find(b"\n", at + DOCUMENT) if len(data) - at > DOCUMENT else -1
        end = len(data) if line < 0 else line + 1
        out.append(data[at:end].decode())
        at = end
    return out


def convert(gguf, out):
    from tokenizers import pre_tokenizers as P
    from transformers import AutoTokenizer
    folder, name = os.path.split(os.path.abspath(gguf))
    tok = AutoTokenizer.from_pretrained(folder, gguf_file=name).backend_tokenizer
    if name.startswith("smollm2"):  # the published tokenizer.json splits every digit first; transformers does not see that in the file
        tok.pre_tokenizer = P.Sequence([P.Digits(individual_digits=True), P.ByteLevel(add_prefix_space=False, use_regex=True)])
    tok.save(out)


def measure(tokenizer, text, threads, seconds):
    os.environ["RAYON_NUM_THREADS"] = str(threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"
    from array import array
    from tokenizers import Tokenizer
    tok = Tokenizer.from_file(tokenizer)
    with open(text, "rb") as f:
        data = f.read()
    docs = documents(data)
    encode = lambda: tok.encode_batch_fast(docs, add_special_tokens=False)  # without offsets, the faster of its ways
    crc = tokens = 0
    for e in encode():
        crc, tokens = zlib.crc32(array("i", e.ids).tobytes(), crc), tokens + len(e.ids)
    begin, rounds = time.perf_counter(), 0
    while True:
        encode()
        rounds += 1
        spent = time.perf_counter() - begin
        if spent >= seconds:
            break
    print(json.dumps({"bytes": len(data), "documents": len(docs), "tokens": tokens, "crc32": crc, "threads": threads, "rounds": rounds, "seconds": spent,
                      "bytes_per_s": len(data) * rounds / spent}))


if __name__ == "__main__":
    what, *a = sys.argv[1:]
    convert(*a) if what == "convert" else measure(a[0], a[1], int(a[2]), float(a[3]))
