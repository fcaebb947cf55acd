"""The rows of the table: what is compared, by which job, and the ratio that is aimed at."""
import fnmatch
from dataclasses import dataclass

LLAMA, LLAMA_AVX2, VLLM, HF = "llama.cpp", "llama.cpp, AVX2 only", "vLLM CPU, bf16", "Hugging Face tokenizers"
TRANSFORMERS = "transformers, float32"
TITLES = {"smollm2": "SmolLM2 135M Q4_1", "gemma3": "Gemma 3 270M Q4_K_M", "llama1b-q4_k": "llama-1b random Q4_K", "llama1b-q4_0": "llama-1b random Q4_0",
          "llama1b-q8_0": "llama-1b random Q8_0", "qwen3moe-q4_k": "qwen3moe-3b random Q4_K, 8 of 64 experts"}


@dataclass(frozen=True)
class Sizes:
    prompt: int = 512
    long: int = 2048
    generate: int = 128
    depth: int = 2048
    sequences: int = 16
    batch_generate: int = 32
    requests: int = 64
    own: int = 256
    shared: int = 512
    output: int = 64
    concurrency: int = 8
    tokenize_seconds: float = 2
    texts: int = 512
    turns: int = 40


QUICK = Sizes(prompt=64, long=128, generate=16, depth=128, sequences=4, batch_generate=8, requests=6, own=32, shared=64, output=8, concurrency=2,
              tokenize_seconds=0.1, texts=32, turns=4)


@dataclass(frozen=True)
class Row:
    name: str        # what the command line calls it
    group: str       # heading in the document
    case: str        # text of the row; {sizes} are filled in
    job: str         # which measurement gives it, see jobs.py
    metric: str      # which of its values
    peer: str        # column of the ratio; "" for a share of our own limit
    side: str        # the job's name of that peer
    aim: float       # ratio, or share
    unit: str = "tokens/s"
    less: bool = False   # smaller is better

    def met(self, ratio):
        return ratio <= self.aim if self.less else ratio >= self.aim


def speed_rows(model, prompt, long, generation, depth, batch):
    case = {"prompt-512": ("prompt {prompt}", prompt), "prompt-2048": ("prompt {long}", long), "generation": ("generation {generate}", generation),
            "depth-2048": ("generation {generate} at depth {depth}, KV bf16 / f16", depth), "batch-16": ("generation of {sequences} at a time", batch)}
    return [Row(f"{model}-{metric}", TITLES[model], text, f"speed:{model}", metric, LLAMA, "llama", aim) for metric, (text, aim) in case.items() if aim]


def avx2_rows(model):
    group = f"{TITLES[model]}, forced AVX2"
    return [Row(f"avx2-{model}-{metric}", group, text, f"avx2:{model}", metric, LLAMA_AVX2, "llama", aim)
            for metric, text, aim in [("prompt-512", "prompt {prompt}", 2.0), ("generation", "generation {generate}", 1.4)]]


def serve_rows(name, job, text, llama, vllm):
    group = "Serving SmolLM2 135M: output tokens/s"
    return [Row(f"{name}-llama", group, text, job, "output", "llama-server, same file", "llama", llama),
            Row(f"{name}-vllm", group, text, job, "output", VLLM, "vllm", vllm)]


def tokenize_rows(model):
    group = "Tokenizers, plain English text"
    return [Row(f"tokenize-{model}{suffix}", group, f"{TITLES[model].rsplit(' ', 1)[0]}, {text}", f"tokenize:{model}", metric, HF, "tokenizers", 3, "MB/s")
            for suffix, metric, text in [("", "single", "one thread"), ("-batch", "batch", "a batch of documents, all threads")]]


def embed_rows():
    group = "Embeddings, all-MiniLM-L6-v2"
    return [Row("embed-equal", group, "{texts} texts of 128 words in one request, float32 on both sides", "embed-equal", "texts", TRANSFORMERS, "transformers", 1.0, "texts/s"),
            Row("embed-mixed", group, "{texts} texts of 1 to 200 words in one request, default precision", "embed-mixed", "texts", TRANSFORMERS, "transformers", 2.0, "texts/s")]


def start_rows(model):
    group = f"{TITLES[model]}, one short answer"
    return [Row(f"start-{model}", group, "process start to first token, prompt of 5", f"start:{model}", "first", LLAMA, "llama", 0.5, "s", True),
            Row(f"memory-{model}", group, "peak resident memory", f"start:{model}", "memory", LLAMA, "llama", 1.0, "MiB", True)]


def limit_rows():
    group = "Share of the machine's limit, llama-1b random Q4_K"
    rows = [("gemm", "linear layers of prompt {prompt}, of the int8 peak", 0.65), ("prompt", "whole prompt {prompt}, of the int8 peak", 0.58),
            ("generation", "generation, of the read bandwidth, in turns with nothing but reading", 0.92)]
    return [Row(f"limit-{metric}", group, text, "limit:llama1b-q4_k", metric, "", "", aim, "share") for metric, text, aim in rows]


ROWS = (speed_rows("smollm2", 6, 6, 2.6, 2.5, 5) + speed_rows("gemma3", 3.5, 4, 1.6, 1.6, 4) +
        [r for model, generation in [("llama1b-q4_k", 1.08), ("llama1b-q4_0", 1.08), ("llama1b-q8_0", 1.15)]
         for r in speed_rows(model, 2, 0, generation, 0, 3)] +
        speed_rows("qwen3moe-q4_k", 2, 0, 1.2, 0, 3) +
        limit_rows() + avx2_rows("smollm2") + avx2_rows("gemma3") + start_rows("smollm2") + start_rows("gemma3") +
        [Row("outside-kernels", "Engine", "time outside kernels, 32 sequences of SmolLM2", "explain:smollm2", "outside", "", "", 0.03, "share", True),
         Row("fixed-order-gemm", "Engine", "cost of the fixed order, linear layers", "order", "gemm", "", "", 0.02, "share", True),
         Row("fixed-order-attention", "Engine", "cost of the fixed order, attention", "order", "attention", "", "", 0.02, "share", True)] +
        tokenize_rows("smollm2") + tokenize_rows("gemma3") +
        serve_rows("serve", "serve", "{requests} requests of {own} + {output} tokens, {concurrency} at a time", 6, 2.5) +
        serve_rows("serve-shared", "serve-shared", "{requests} requests of {shared} shared + {own} own + {output} tokens, {concurrency} at a time", 8, 2.3) + embed_rows())
PERPLEXITY = ("perplexity-smollm2", "perplexity-gemma3")
NAMES = [r.name for r in ROWS] + list(PERPLEXITY)
# Names of several rows at once.
SETS = {"speed": lambda n: not n.startswith(("serve", "perplexity", "tokenize", "embed")), "serving": lambda n: n.startswith("serve"), "tokenizers": lambda n: n.startswith("tokenize-"), "embeddings": lambda n: n.startswith("embed-"), "perplexity": lambda n: n in PERPLEXITY,
        "all": lambda n: True}


def matcher(word):
    if word in SETS:
        return SETS[word]
    if word in NAMES:
        return lambda n: n == word
    if any(c in word for c in "*?["):
        return lambda n: fnmatch.fnmatchcase(n, word)
    return lambda n: n.startswith(word + "-")


def choose(words):
    """The names that the words of a command line mean: a row, a set, a beginning (`smollm2`), or a pattern with `*`. Raises KeyError with the word."""
    chosen = set()
    for word in words or ["all"]:
        found = set(filter(matcher(word), NAMES))
        if not found:
            raise KeyError(word)
        chosen |= found
    return [n for n in NAMES if n in chosen]
