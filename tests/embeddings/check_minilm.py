"""all-MiniLM-L6-v2 through the server against `transformers`: 200 texts, batched and alone, both precisions.

  python check_minilm.py --isotope build/release/isotope --model FOLDER [--seed N]

In float32 (--precision exact) vectors are within 1e-5 and the same bits alone, in lists and beside other requests; in the default precision their cosine is at
least 0.9999. Prints what it saw; exit status 1 when something is off.
"""
import argparse
import base64
import concurrent.futures
import json
import random
import re
import struct
import subprocess
import sys
import urllib.error
import urllib.request

import torch
from transformers import AutoModel, AutoTokenizer

WORDS = ("the quick brown fox jumps over lazy dog and runs into Straße café naïve 東京 中文 字 🙂 2024 3.14 can't don't U.S.A. http://example.com/path?q=1 foo_bar "
         "embedding models map sentences to vectors while rerankers score pairs of texts Привет мир ελληνικά हिन्दी שלום [CLS] [MASK] ##ing \u200b\u00ad A\u0301").split(" ")


def texts(seed, count):
    r = random.Random(seed)
    return [" ".join(r.choice(WORDS) for _ in range(r.choice([1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144]))) for _ in range(count)]


class Server:
    def __init__(self, program, model, *flags):
        self.process = subprocess.Popen([program, "serve", "--model", model, "--port", "0", *flags], stderr=subprocess.PIPE, text=True)
        for line in self.process.stderr:
            if found := re.search(r"ready: (http://\S+)/v1", line):
                self.url = found.group(1)
                return
        sys.exit("the server did not start")

    def post(self, path, body):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def embed(self, inputs):
        data = self.post("/v1/embeddings", {"input": inputs, "encoding_format": "base64", "truncate_prompt_tokens": -1})["data"]
        assert [d["index"] for d in data] == list(range(len(data)))
        return [base64.b64decode(d["embedding"]) for d in data]

    def stop(self):
        self.process.terminate()
        self.process.wait()


def floats(blob):
    return torch.tensor(struct.unpack(f"<{len(blob) // 4}f", blob), dtype=torch.float64)


def reference(folder, given):
    torch.set_num_threads(1)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    out = []
    with torch.inference_mode():
        for text in given:
            ids = tokenizer(text, truncation=True, max_length=256, return_tensors="pt")
            rows = model(**ids).last_hidden_state[0].double()
            vector = rows.mean(0)
            out.append(vector / vector.norm())
    return out


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--isotope", required=True)
    args.add_argument("--model", required=True)
    args.add_argument("--seed", type=int, default=7)
    a = args.parse_args()
    given = texts(a.seed, 200)
    want = reference(a.model, given)
    ok = True

    exact = Server(a.isotope, a.model, "--precision", "exact")
    batch = exact.embed(given)
    alone = [exact.embed(t)[0] for t in given]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        beside = [v for part in pool.map(exact.embed, [given[i:i + 7] for i in range(0, 200, 7)]) for v in part]
    worst = max((floats(b) - w).abs().max().item() for b, w in zip(batch, want))
    same = sum(x == y == z for x, y, z in zip(batch, alone, beside))
    print(f"float32: largest difference {worst:.2e} over {len(given)} texts; {same} are the same bits alone, in one list and beside others")
    ok &= worst <= 1e-5 and same == len(given)
    exact.stop()

    fast = Server(a.isotope, a.model)
    got = fast.embed(given)
    cosine = min(torch.dot(floats(g), w).item() for g, w in zip(got, want))
    same = sum(fast.embed(t)[0] == g for t, g in zip(given, got))
    print(f"default precision: smallest cosine {cosine:.6f}; {same} are the same bits alone")
    ok &= cosine >= 0.9999 and same == len(given)
    try:
        fast.post("/v1/embeddings", {"input": "word " * 400})
        ok = False
    except urllib.error.HTTPError as e:
        message = json.load(e)["error"]["message"]
        print(f"400 tokens: {e.code} {message}")
        ok &= e.code == 400 and "402" in message and "256" in message
    fast.stop()
    sys.exit(0 if ok else 1)


if __name__ == "__main__":
    main()
