"""aiperf: chat, completions, responses and messages, streamed and whole, by concurrency and by rate; its report must hold every request. aiperf_client.py URL GGUF"""
import json
import pathlib
import subprocess
import sys
import tempfile
import urllib.request

import tokenizer_folder

URL, COUNT, OUTPUT = sys.argv[1], 12, 16
MODEL = json.load(urllib.request.urlopen(urllib.request.Request(URL + "/v1/models", headers={"Authorization": "Bearer key-of-the-test"})))["data"][0]["id"]


def profile(folder, kind, *flags):
    out = folder / "artifacts" / (kind + "".join(flags)).replace("/", "_")
    command = [pathlib.Path(sys.executable).with_name("aiperf"), "profile", "--model", MODEL, "--url", URL, "--api-key", "key-of-the-test", "--endpoint-type", kind, "--tokenizer", folder,
               "--request-count", COUNT, "--prompt-input-tokens-mean", 64, "--prompt-output-tokens-mean", OUTPUT, "--random-seed", 1, "--ui", "simple",
               "--output-artifact-dir", out, "--no-gpu-telemetry", *flags]
    done = subprocess.run([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900)
    report = out / "profile_export_aiperf.json"
    assert done.returncode == 0 and report.exists(), (kind, flags, done.stdout[-4000:])
    return json.loads(report.read_text()), out


def value(report, metric):
    return report[metric]["avg"] if report.get(metric) else None


EXACT = ("--use-server-token-count", "--extra-inputs", "ignore_eos:true")
# An answer that its length ends is "incomplete" in the responses API, and aiperf reads no usage from that event: it counts by itself there.
CASES = [("chat", "--streaming", "--concurrency", "4", *EXACT), ("chat", "--streaming", "--per-chunk-usage", "--concurrency", "4", *EXACT), ("chat", "--concurrency", "4", *EXACT),
         ("completions", "--streaming", "--request-rate", "10", "--use-legacy-max-tokens", *EXACT), ("responses", "--streaming", "--concurrency", "4"),
         ("messages", "--streaming", "--use-server-token-count", "--concurrency", "4")]

with tempfile.TemporaryDirectory() as name:
    folder = tokenizer_folder.write(sys.argv[2], pathlib.Path(name, "tokenizer"))
    for kind, *flags in CASES:
        report, out = profile(folder, kind, *flags)
        assert value(report, "request_count") == COUNT and not value(report, "error_request_count"), (kind, flags, report.get("request_count"), report.get("error_request_count"))
        tokens = value(report, "output_sequence_length")
        assert tokens == OUTPUT if "ignore_eos:true" in flags else 0 < tokens <= OUTPUT, (kind, flags, tokens)
        if "--streaming" in flags:
            assert value(report, "time_to_first_token") > 0 and value(report, "inter_token_latency") > 0, report
        assert (out / "server_metrics_export.json").exists(), "the metrics were not read"
        print(f"ok aiperf {kind} {' '.join(flags[:3])}: {COUNT} requests of {tokens:g} tokens, TTFT {value(report, 'time_to_first_token') or 0:.1f} ms, "
              f"{value(report, 'output_token_throughput'):.1f} tokens/s")
