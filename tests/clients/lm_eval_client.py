"""lm-eval's local-completions model on three tasks of a few lines (log-likelihoods, rolling log-likelihoods, generation), against lm-eval's own
transformers model with the same weights. Expects a server with --precision exact. lm_eval_client.py URL GGUF"""
import json
import os
import pathlib
import sys
import tempfile

os.environ.update(OPENAI_API_KEY="key-of-the-test", HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import lm_eval  # noqa: E402
import requests  # noqa: E402
import torch  # noqa: E402
import transformers  # noqa: E402
from lm_eval.models.huggingface import HFLM  # noqa: E402

import tokenizer_folder  # noqa: E402

URL, GGUF = sys.argv[1], sys.argv[2]
HEADERS = {"Authorization": "Bearer key-of-the-test"}
MODEL = requests.get(URL + "/v1/models", headers=HEADERS).json()["data"][0]["id"]
DOCS = [
    {"question": "The capital of France is", "choices": ["Paris", "banana"], "answer": 0, "text": "Paris"},
    {"question": "Two plus two equals", "choices": ["purple", "four"], "answer": 1, "text": "four"},
    {"question": "The opposite of hot is", "choices": ["cold", "Wednesday"], "answer": 0, "text": "cold"},
    {"question": "Water is made of hydrogen and", "choices": ["oxygen", "a naïve café"], "answer": 0, "text": "oxygen"},
    {"question": "The first three letters are", "choices": ["a, b and c", "7, 8 and 9"], "answer": 0, "text": "a"},
    {"question": "def add(a, b):\n    return", "choices": ["a + b", "'日本'"], "answer": 0, "text": "a + b"},
]
# Shorter and longer than the window that both models are given below, so that the rolling task is cut into several.
PAGES = [{"page": "The sea was calm, and the old man slept. " * n + "In the morning he found 3 fish."} for n in (1, 7, 60)]
WINDOW = 256


def tasks(folder):
    def source(name, rows):
        path = folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(r) + "\n" for r in rows))
        return {"task": name, "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(path)}}, "test_split": "test"}

    question = {"doc_to_text": "{{question}}"}
    choice = {**source("tiny_choice", DOCS), **question, "output_type": "multiple_choice", "doc_to_choice": "choices", "doc_to_target": "answer", "metric_list": [{"metric": "acc"}]}
    rolling = {**source("tiny_rolling", PAGES), "output_type": "loglikelihood_rolling", "doc_to_text": "", "doc_to_target": "{{page}}",
               "metric_list": [{"metric": "word_perplexity"}, {"metric": "byte_perplexity"}, {"metric": "bits_per_byte"}]}
    generate = {**source("tiny_generate", DOCS), **question, "output_type": "generate_until", "doc_to_target": "{{text}}",
                "generation_kwargs": {"until": ["\n", "."], "max_gen_toks": 12, "temperature": 0}, "metric_list": [{"metric": "exact_match"}]}
    return [choice, rolling, generate]


def ours(folder):
    args = {"model": MODEL, "base_url": URL + "/v1/completions", "tokenizer_backend": "remote", "auth_token": "key-of-the-test", "num_concurrent": 2, "max_length": WINDOW, "eos_string": "<|im_end|>"}
    return lm_eval.simple_evaluate(model="local-completions", model_args=args, tasks=tasks(folder), log_samples=True, bootstrap_iters=0)


def theirs(folder):
    gguf = pathlib.Path(GGUF)
    weights = transformers.AutoModelForCausalLM.from_pretrained(str(gguf.parent), gguf_file=gguf.name, dtype=torch.float32)
    tokenizer = transformers.AutoTokenizer.from_pretrained(tokenizer_folder.write(gguf, folder / "tokenizer"))
    # The client of a server cuts pages into windows that are two tokens shorter than it is told.
    model = HFLM(pretrained=weights, tokenizer=tokenizer, max_length=WINDOW - 2, batch_size=1, device="cpu")
    return lm_eval.simple_evaluate(model=model, tasks=tasks(folder), log_samples=True, bootstrap_iters=0)


def responses(results, task):
    return [s["filtered_resps"] for s in results["samples"][task]]


with tempfile.TemporaryDirectory() as name:
    a, b = ours(pathlib.Path(name)), theirs(pathlib.Path(name))
worst, rolling = 0, 0
for mine, other in zip(responses(a, "tiny_choice"), responses(b, "tiny_choice")):
    for (score, greedy), (wanted, wanted_greedy) in zip(mine, other):
        worst = max(worst, abs(float(score) - float(wanted)))
        assert str(greedy) == str(wanted_greedy), (mine, other)
assert worst < 1e-3, worst
for mine, other in zip(responses(a, "tiny_rolling"), responses(b, "tiny_rolling")):
    rolling = max(rolling, abs(float(mine[0]) - float(other[0])) / abs(float(other[0])))
assert rolling < 1e-4, rolling
assert responses(a, "tiny_generate") == responses(b, "tiny_generate"), (responses(a, "tiny_generate"), responses(b, "tiny_generate"))
for task, scores in b["results"].items():
    for metric, wanted in scores.items():
        if isinstance(wanted, float):
            assert abs(a["results"][task][metric] - wanted) <= 1e-3 * max(1, abs(wanted)), (task, metric, a["results"][task], scores)
assert a["results"]["tiny_choice"]["acc,none"] >= 0.8, a["results"]
for text in responses(a, "tiny_generate"):
    assert text[0].strip() and "\n" not in text[0] and "." not in text[0], text
print(f"ok lm-eval: accuracy {a['results']['tiny_choice']['acc,none']:.3f}, word perplexity {a['results']['tiny_rolling']['word_perplexity,none']:.6f} "
      f"(transformers {b['results']['tiny_rolling']['word_perplexity,none']:.6f}), largest difference of a log-likelihood {worst:.2e}, of a page's {rolling:.1e} of it, {len(DOCS)} generated texts equal")
