"""Hugging Face `tokenizers` as a measured peer. As a program it prints what `isotope tokenize --bench` prints:

    hf_tokenizers.py convert GGUF OUT.json          the tokenizer of a GGUF file as tokenizer.json
    hf_tokenizers.py measure TOKENIZER.json TEXT THREADS SECONDS
"""
import json, os, subprocess, sys, time, zlib

PACKAGES = ["tokenizers", "transformers", "torch", "gguf"]
DOCUMENT = 4096
HERE = os.path.dirname(os.path.abspath(__file__))
FILES = os.path.join(HERE, "..", "..", "build", "peers", "tokenize")


# ---- for the harness ------------------------------------------------------------------------------------------------------------

def python(env):
    return os.path.join(env, "bin", "python")


def install(env):
    if not os.path.exists(python(env)):
        subprocess.run([sys.executable, "-m", "venv", env], check=True)
    subprocess.run([python(env), "-m", "pip", "--quiet", "--disable-pip-version-check", "install", *PACKAGES], check=True)
    return env


def version(program):
    import processes
    return "tokenizers " + processes.run([program, "-c", "import tokenizers; print(tokenizers.__version__)"])[0].strip()


def command(program, tokenizer, text, threads, seconds):
    return [program, os.path.abspath(__file__), "measure", tokenizer, text, str(threads), str(seconds)]


def tokenizer_json(program, gguf):
    import processes
    os.makedirs(FILES, exist_ok=True)
    out = os.path.join(FILES, os.path.basename(gguf).removesuffix(".gguf") + ".json")
    if not os.path.exists(out):
        processes.run([program, os.path.abspath(__file__), "convert", gguf, out + ".part"])
        os.replace(out + ".part", out)
    return out


def text():
    """Plain English that every Python has: the topics of its help."""
    from pydoc_data.topics import topics
    os.makedirs(FILES, exist_ok=True)
    out = os.path.join(FILES, "text.txt")
    with open(out, "w", encoding="utf-8") as f:
        f.write("\n\n".join(topics[k] for k in sorted(topics)))
    return out


# ---- the peer -------------------------------------------------------------------------------------------------------------------

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


def measure(tokenizer, text_file, threads, seconds):
    os.environ["RAYON_NUM_THREADS"] = str(threads)
    os.environ["TOKENIZERS_PARALLELISM"] = "true" if threads > 1 else "false"
    from array import array
    from tokenizers import Tokenizer
    tok = Tokenizer.from_file(tokenizer)
    with open(text_file, "rb") as f:
        data = f.read()
    docs = documents(data)
    encode = lambda: tok.encode_batch_fast(docs, add_special_tokens=False)  # without offsets, the faster of its ways
    crc = tokens = 0
    for e in encode():
        crc, tokens = zlib.crc32(array("i", e.ids).tobytes(), crc), tokens + len(e.ids)
    begin, rounds, spent = time.perf_counter(), 0, 0.0
    while rounds == 0 or spent < seconds:
        encode()
        rounds += 1
        spent = time.perf_counter() - begin
    print(json.dumps({"bytes": len(data), "documents": len(docs), "tokens": tokens, "crc32": crc, "threads": threads, "rounds": rounds, "seconds": spent,
                      "bytes_per_s": len(data) * rounds / spent}))


if __name__ == "__main__":
    what, *a = sys.argv[1:]
    convert(*a) if what == "convert" else measure(a[0], a[1], int(a[2]), float(a[3]))
