"""Perplexity of one text under both programs, once it is sure that they see the same token ids."""
import json, os, re, subprocess

import llama

LICENCES = ["GPL-3", "Apache-2.0", "MPL-2.0", "LGPL-2.1", "GPL-2"]  # English prose that every Debian system has
FOLDER = "/usr/share/common-licenses"


def default_text(bytes_wanted=60000):
    out = ""
    for name in LICENCES:
        path = os.path.join(FOLDER, name)
        if os.path.exists(path) and len(out) < bytes_wanted:
            out += open(path, encoding="utf-8").read()
    if not out:
        raise SystemExit(f"compare: {FOLDER} has no licence texts; give a text with --text")
    # Indentation goes: llama.cpp cuts long runs of spaces greedily, the published Gemma tokenizer by its merges, and the ids must be the same.
    return re.sub(r"[ \t]+", " ", out)


def write_text(a):
    """One file for both. A last newline goes, because llama-perplexity drops it."""
    text = (open(a.text, encoding="utf-8").read() if a.text else default_text()).rstrip("\n")
    path = os.path.join(a.out, "perplexity.txt")
    with open(path, "w", encoding="utf-8", newline="") as f:
        f.write(text)
    return path, text


def isotope(a, model, ids_file, windows, text_file=None, write_ids=None):
    source = ["--text-file", text_file, "--write-ids", write_ids] if text_file else ["--ids-file", ids_file]
    command = [a.isotope, "perplexity", model] + source + ["--window", str(a.window), "--max-windows", str(windows), "--kv", "f16", "--threads", str(a.threads), "--json"]
    r = subprocess.run(command, capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError("isotope perplexity failed: " + r.stderr)
    return json.loads(r.stdout)


def compare(a, name, model):
    text_file, text = write_text(a)
    ids_file = os.path.join(a.out, f"{name}.ids")
    ours = isotope(a, model, None, a.windows, text_file, ids_file)
    ids = [int(line) for line in open(ids_file)]
    theirs_ids = llama.token_ids(a.llama_bin, model, text)
    result = {"same_ids": ids == theirs_ids, "tokens": len(ids), "windows": ours["windows"], "isotope": ours["perplexity"], "isotope_error": ours["standard_error"]}
    if not result["same_ids"]:
        first = next((i for i, (x, y) in enumerate(zip(ids, theirs_ids)) if x != y), min(len(ids), len(theirs_ids)))
        result["first_difference"] = {"at": first, "isotope": ids[first:first + 5], "llama": theirs_ids[first:first + 5], "llama_tokens": len(theirs_ids)}
    result["llama"], result["llama_error"] = llama.perplexity(a.llama_bin, model, text_file, a.window, ours["windows"], a.threads)
    result["difference"] = result["isotope"] / result["llama"] - 1
    result["ok"] = result["same_ids"] and result["windows"] >= a.windows and abs(result["difference"]) <= a.tolerance
    return result


def line(name, r, a):
    ids = f"same {r['tokens']} ids" if r["same_ids"] else f"DIFFERENT IDS {r['first_difference']}"
    return (f"{name:14} isotope {r['isotope']:.4f} ± {r['isotope_error']:.4f}   llama.cpp {r['llama']:.4f} ± {r['llama_error']:.4f}   {100 * r['difference']:+.3f} % "
            f"(limit {100 * a.tolerance} %)   {r['windows']} windows of {a.window}, {ids}   {'ok' if r['ok'] else 'FAILED'}")
