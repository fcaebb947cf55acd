"""lm-eval's local-completions model on a task of a few lines: log-likelihoods and generation. lm_eval_client.py URL"""
import json
import os
import sys
import tempfile

os.environ.update(OPENAI_API_KEY="key-of-the-test", HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

import lm_eval  # noqa: E402
import requests  # noqa: E402

URL = sys.argv[1]
HEADERS = {"Authorization": "Bearer key-of-the-test"}
MODEL = requests.get(URL + "/v1/models", headers=HEADERS).json()["data"][0]["id"]
DOCS = [
    {"question": "The capital of France is", "choices": ["Paris", "banana"], "answer": 0, "text": "Paris"},
    {"question": "Two plus two equals", "choices": ["purple", "four"], "answer": 1, "text": "four"},
    {"question": "The opposite of hot is", "choices": ["cold", "Wednesday"], "answer": 0, "text": "cold"},
]


def tasks(path):
    data = {"dataset_path": "json", "dataset_kwargs": {"data_files": {"test": path}}, "test_split": "test", "doc_to_text": "{{question}}"}
    choice = {"task": "tiny_choice", **data, "output_type": "multiple_choice", "doc_to_choice": "choices", "doc_to_target": "answer",
              "metric_list": [{"metric": "acc"}]}
    generate = {"task": "tiny_generate", **data, "output_type": "generate_until", "doc_to_target": "{{text}}",
                "generation_kwargs": {"until": ["\n", "."], "max_gen_toks": 12, "temperature": 0}, "metric_list": [{"metric": "exact_match"}]}
    return [choice, generate]


def direct(context, continuation):
    """The same log-likelihood from one plain request."""
    ids = lambda text: requests.post(URL + "/tokenize", headers=HEADERS, json={"prompt": text, "add_special_tokens": False}).json()["tokens"]
    a, whole = ids(context), ids(context + continuation)
    body = {"model": MODEL, "prompt": whole, "max_tokens": 0, "echo": True, "logprobs": 1}
    logprobs = requests.post(URL + "/v1/completions", headers=HEADERS, json=body).json()["choices"][0]["logprobs"]["token_logprobs"]
    return sum(logprobs[len(a):])


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "docs.jsonl")
    with open(path, "w") as f:
        f.writelines(json.dumps(d) + "\n" for d in DOCS)
    args = {"model": MODEL, "base_url": URL + "/v1/completions", "tokenizer_backend": "remote", "auth_token": "key-of-the-test",
            "num_concurrent": 2, "max_length": 2048, "eos_string": "<|im_end|>"}
    results = lm_eval.simple_evaluate(model="local-completions", model_args=args, tasks=tasks(path), log_samples=True, bootstrap_iters=0)

accuracy = results["results"]["tiny_choice"]["acc,none"]
assert accuracy == 1.0, results["results"]
for sample in results["samples"]["tiny_choice"]:
    for choice, response in zip(sample["doc"]["choices"], sample["filtered_resps"]):
        expected = direct(sample["doc"]["question"], " " + choice)
        assert abs(float(response[0]) - expected) < 1e-4, (sample["doc"], choice, response, expected)
for sample in results["samples"]["tiny_generate"]:
    text = sample["filtered_resps"][0]
    assert text.strip() and "\n" not in text and "." not in text, sample
print("ok lm-eval:", results["results"])
