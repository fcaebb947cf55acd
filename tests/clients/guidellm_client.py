"""guidellm: concurrent chats, completions and responses with synthetic prompts, whose report must hold every request. guidellm_client.py URL GGUF"""
import json
import pathlib
import subprocess
import sys
import tempfile

import tokenizer_folder

URL, COUNT, OUTPUT, STREAMS = sys.argv[1], 12, 16, 4


def total(benchmark, metric, kind="successful"):
    return benchmark["metrics"][metric][kind]["total_sum"]


def benchmark(folder, path, profile, data):
    report = folder / "report.json"
    command = [pathlib.Path(sys.executable).with_name("guidellm"), "run", "--backend", f"kind=openai_http,target={URL},api_key=key-of-the-test,request_format={path}", "--profile", profile,
               "--constraint", f"kind=max_requests,count={COUNT}", "--tokenizer", f"kind=huggingface_auto,model={folder}", "--data", f"kind=synthetic_text,{data}", "--seed", "kind=static,value=1",
               "--output", f"kind=json,path={report}", "--disable-console-interactive"]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900)
    assert done.returncode == 0, (path, done.stdout[-4000:])
    (result,) = json.loads(report.read_text())["benchmarks"]
    return result


with tempfile.TemporaryDirectory() as name:
    folder = tokenizer_folder.write(sys.argv[2], name)
    synthetic = f"prompt_tokens=64,output_tokens={OUTPUT}"
    cases = [("/v1/chat/completions", f"kind=concurrent,streams={STREAMS}", synthetic), ("/v1/completions", f"kind=concurrent,streams={STREAMS}", synthetic),
             ("/v1/responses", f"kind=concurrent,streams={STREAMS}", synthetic), ("/v1/completions", "kind=poisson,rate=8", synthetic),
             ("/v1/chat/completions", "kind=synchronous", synthetic + ",turns=2")]
    for path, profile, data in cases:
        b = benchmark(folder, path, profile, data)
        requests = b["metrics"]["request_totals"]
        assert (requests["successful"], requests["errored"]) == (COUNT, 0), (path, profile, requests)
        if path != "/v1/responses":   # that one has no field by which an answer could be made to go on
            assert total(b, "output_token_count") == COUNT * OUTPUT, (path, b["metrics"]["output_token_count"])
        if path == "/v1/completions":
            assert abs(total(b, "prompt_token_count") / COUNT - 64) <= 4, b["metrics"]["prompt_token_count"]
        ttft, itl = (b["metrics"][m]["successful"]["median"] for m in ("time_to_first_token_ms", "inter_token_latency_ms"))
        assert ttft > 0 and itl > 0, (ttft, itl)
        print(f"ok guidellm {path} {profile}: {requests['successful']} requests, {total(b, 'output_token_count'):.0f} tokens, median TTFT {ttft:.1f} ms, ITL {itl:.2f} ms")
