"""docs/performance.md's measured part and its pictures, from the results file."""
import os, re

import draw, results
from rows import ROWS, TITLES, Sizes

BEGIN, END = "<!-- measured: begin (written by bench/peers/compare --write-docs) -->", "<!-- measured: end -->"


def cell(text):
    return str(text).replace("|", "\\|").replace("\n", " ")


def table(report, sizes):
    out, group = [], None
    for row in ROWS:
        r = report["rows"].get(row.name)
        if r is None:
            continue
        if row.group != group:
            group = row.group
            out += ["", f"**{group}**", "", "| case | Isotope | peer | ratio | spread | aim | row |", "|---|---|---|---|---|---|---|"]
        case = results.text(row, sizes)
        if r["status"] != "ok":
            out.append(f"| {case} | | {row.peer or '–'} | {r['status']}: {cell(r['why'])} | | {results.aim(r)} | `{row.name}` |")
            continue
        unit = "" if r["unit"] in ("share", "tokens/s") else " " + r["unit"]
        peer = f"{row.peer}: {results.number(r['peer'], r['unit'])}{unit}" if row.peer else "–"
        ours = results.number(r["isotope"], r["unit"]) + unit
        out.append(f"| {case} | {ours} | {peer} | {'' if row.peer == '' else '**' + results.ratio(r) + '**'} | {results.spread(r)} | {results.aim(r)}{'' if r['met'] else ', short'} | `{row.name}` |")
    return out


def serving_table(report):
    """Latencies behind the serving ratios: medians over the pairs."""
    import statistics
    groups = {}
    for s in report["serving"]:
        groups.setdefault((s["job"], s["side"]), []).append(s)
    if not groups:
        return []
    names = {"Serve": "own prompts", "ServeShared": "shared beginning", "isotope": "Isotope", "llama": "llama-server", "vllm": "vLLM CPU, bf16"}
    out = ["", "**Latencies of the serving rows** (medians over the pairs, milliseconds)", "", "| load | server | output tokens/s | TTFT mean / p99 | TPOT mean / p99 | whole answer mean |",
           "|---|---|---|---|---|---|"]
    for (job, side), runs in groups.items():
        m = lambda key: statistics.median(r[key] for r in runs)
        out.append(f"| {names[job]} | {names[side]} | {m('output_throughput'):.1f} | {m('mean_ttft_ms'):.0f} / {m('p99_ttft_ms'):.0f} | "
                   f"{m('mean_tpot_ms'):.1f} / {m('p99_tpot_ms'):.1f} | {m('mean_e2el_ms'):.0f} |")
    return out


def perplexity_table(report):
    rows = {n: r for n, r in report["rows"].items() if n.startswith("perplexity-") and "isotope_ppl" in r}
    if not rows:
        return []
    out = ["", "The answer stays as good: perplexity of the same token ids, windows with the second half scored, f16 KV on both sides.", "",
           "| model | Isotope | llama.cpp | difference |", "|---|---|---|---|"]
    for name, r in rows.items():
        out.append(f"| {TITLES[name.removeprefix('perplexity-')]} | {r['isotope_ppl']:.3f} ± {r['isotope_error']:.3f} | {r['llama_ppl']:.3f} ± {r['llama_error']:.3f} | "
                   f"{100 * r['difference']:+.2f} % |")
    return out


def heading(report):
    done = [r for r in report["rows"].values() if r["status"] == "ok"]
    dates = sorted(r["date"][:10] for r in done)
    pairs = sorted({len(r["pairs"]) for r in done if "pairs" in r})
    counted = f"{pairs[0]}" if len(pairs) == 1 else f"{pairs[0]} to {pairs[-1]}" if pairs else "no"
    when = dates[0] if dates and dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}" if dates else "not yet"
    load = report.get("machine", {}).get("load", 0)
    busy = f" **The machine was busy (load {load:.1f}): these ratios mean little.**" if load > 0.5 else ""
    versions = "; ".join(v for v in report.get("versions", {}).values() if v)
    return [f"{report.get('machine', {}).get('cpu', 'unknown processor')}, {report.get('threads', '?')} threads, {counted} interleaved pairs a row, measured {when}. {versions}.{busy}"]


SHORT = {"smollm2": "SmolLM2", "gemma3": "Gemma 3", "llama1b-q4_k": "llama-1b Q4_K", "llama1b-q4_0": "llama-1b Q4_0", "llama1b-q8_0": "llama-1b Q8_0",
         "qwen3moe-q4_k": "qwen3moe-3b Q4_K"}
KINDS = {"prompt-512": "prompt {prompt}", "prompt-2048": "prompt {long}", "generation": "generation", "depth-2048": "generation at {depth}", "batch-16": "{sequences} at a time",
         "serve": "{own}+{output}", "serve-shared": "{shared}+{own}+{output}"}


def kind(word, sizes):
    return KINDS[word].format(**vars(sizes))


def speed_rows(report, sizes):
    """(label, result) of the rows where more is better."""
    for row in ROWS:
        r, (job, _, model) = report["rows"].get(row.name), row.job.partition(":")
        if not (r and r["status"] == "ok" and row.peer and not row.less):
            continue
        if job.startswith("serve"):
            yield f"serving {kind(job, sizes)}, {'vLLM bf16' if row.side == 'vllm' else 'llama-server'}", r
        elif job == "tokenize":
            yield f"tokenizer of {SHORT[model]}, {'one thread' if row.metric == 'single' else 'batch'}", r
        elif job.startswith("embed"):
            yield f"embeddings, {'equal lengths, float32' if job == 'embed-equal' else 'mixed lengths'}, transformers", r
        else:
            yield f"{SHORT[model]}{', AVX2' if job == 'avx2' else ''}, {kind(row.metric, sizes)}", r


def points(report, sizes):
    """Where prompts and generation lie under the roofline."""
    rows_a_pass = {"prompt-512": sizes.prompt, "prompt-2048": sizes.prompt, "generation": 1, "batch-16": sizes.sequences}
    for row in ROWS:
        job, _, model = row.job.partition(":")
        r, cost = report["rows"].get(row.name), report["models"].get(model)
        if not (r and cost and r["status"] == "ok" and job == "speed" and row.metric in rows_a_pass):
            continue
        ops, size = (cost["ops"], cost["bytes"]) if row.metric.startswith("prompt") else (cost["token_ops"], cost["token_bytes"])
        for side, speed in (("isotope", r["isotope"]), ("llama", r["peer"])):
            yield TITLES[model], kind(row.metric, sizes), side, ops * rows_a_pass[row.metric] / size, ops * speed


def pictures(report, sizes, folder):
    """Writes what there is data for; returns the lines that show it."""
    out, note = [], f"{report.get('machine', {}).get('cpu', '')}, {report.get('threads', '?')} threads"
    speeds = list(speed_rows(report, sizes))
    if speeds:
        with open(os.path.join(folder, "performance.svg"), "w") as f:
            f.write(draw.ratios(speeds, "Speed against peers", note))
        out += ["", "![ratios](performance.svg)"]
    places = list(points(report, sizes))
    if places and report.get("limits"):
        with open(os.path.join(folder, "roofline.svg"), "w") as f:
            f.write(draw.roofline(report["limits"], places, "Roofline: linear layers", note + "; one read of the weights for each pass"))
        out += ["", "![roofline](roofline.svg)"]
    return out


def write(report, page, sizes=Sizes()):
    """Replaces the measured part of the page."""
    lines = heading(report) + table(report, sizes) + pictures(report, sizes, os.path.dirname(page)) + serving_table(report) + perplexity_table(report)
    with open(page) as f:
        text = f.read()
    if BEGIN not in text or END not in text:
        raise SystemExit(f"compare: {page} lacks the marks '{BEGIN}' and '{END}' between which results belong")
    body = re.sub(r"\n{3,}", "\n\n", "\n".join(lines))
    text = text[:text.index(BEGIN) + len(BEGIN)] + "\n" + body + "\n" + text[text.index(END):]
    with open(page, "w") as f:
        f.write(text)
