"""Perplexity of one text under both programs, once it is sure that they see the same token ids."""
import json, os, re

import llama, processes
from context import Skip

LICENCES = ["GPL-3", "Apache-2.0", "MPL-2.0", "LGPL-2.1", "GPL-2"]  # English prose that every Debian system has
FOLDER = "/usr/share/common-licenses"


def default_text(bytes_wanted=60000):
    out = ""
    for name in LICENCES:
        path = os.path.join(FOLDER, name)
        if os.path.exists(path) and len(out) < bytes_wanted:
            out += open(path, encoding="utf-8").read()
    if not out:
        raise Skip(f"{FOLDER} has no licence texts; give a text with --text")
    # Indentation goes: llama.cpp cuts long runs of spaces greedily, the published Gemma tokenizer by its merges, and the ids must be the same.
    return re.sub(r"[ \t]+", " ", out)


def write_text(a):
    """One file for both. A last newline goes, because llama-perplexity drops it."""
    text = (open(a.text, encoding="utf-8").read() if a.text else default_text(max(60000, 9 * a.window * a.windows))).rstrip("\n")
    path = os.path.join(a.out, "perplexity.txt")
    with open(path, "w", encoding="utf-8", newline="") as f:
        f.write(text)
    return path, text


def isotope(run, model, ids_file, text_file):
    command = [run.isotope, "perplexity", model, "--text-file", text_file, "--write-ids", ids_file, "--window", str(run.a.window), "--max-windows", str(run.a.windows),
               "--kv", "f16", "--threads", str(run.threads), "--json"]
    return json.loads(processes.run(command)[0])


def compare(run, name):
    a, model, folder = run.a, run.model(name), run.llama("native")
    text_file, text = write_text(a)
    ids_file = os.path.join(a.out, f"{name}.ids")
    ours = isotope(run, model, ids_file, text_file)
    with open(ids_file) as f:
        ids = [int(line) for line in f]
    theirs_ids = llama.token_ids(folder, model, text, run.log("llama-server-tokenize"))
    result = {"same_ids": ids == theirs_ids, "tokens": len(ids), "windows": ours["windows"], "isotope_ppl": ours["perplexity"], "isotope_error": ours["standard_error"]}
    if not result["same_ids"]:
        first = next((i for i, (x, y) in enumerate(zip(ids, theirs_ids)) if x != y), min(len(ids), len(theirs_ids)))
        result["first_difference"] = {"at": first, "isotope": ids[first:first + 5], "llama": theirs_ids[first:first + 5], "llama_tokens": len(theirs_ids)}
    result["llama_ppl"], result["llama_error"] = llama.perplexity(folder, model, text_file, a.window, ours["windows"], run.threads)
    result["difference"] = result["isotope_ppl"] / result["llama_ppl"] - 1
    result["ok"] = not why(result, a)
    return result


def why(r, a):
    """What is wrong; empty when nothing is."""
    if not r["same_ids"]:
        return f"different token ids: {r['first_difference']}"
    if r["windows"] < a.windows:
        return f"the text fills only {r['windows']} windows of {a.window}, not {a.windows}"
    return "" if abs(r["difference"]) <= a.tolerance else f"perplexity differs by {100 * r['difference']:+.3f} %, more than {100 * a.tolerance} %"


def line(name, r, a):
    ids = f"same {r['tokens']} ids" if r["same_ids"] else f"DIFFERENT IDS {r['first_difference']}"
    return (f"{name:20} isotope {r['isotope_ppl']:.4f} ± {r['isotope_error']:.4f}   llama.cpp {r['llama_ppl']:.4f} ± {r['llama_error']:.4f}   {100 * r['difference']:+.3f} % "
            f"(limit {100 * a.tolerance} %)   {r['windows']} windows of {a.window}, {ids}   {'ok' if r['ok'] else 'FAILED'}")
