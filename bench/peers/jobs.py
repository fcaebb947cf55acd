"""Measurements. A job has sides, each a function from the number of the pair to {metric: value}; several rows may read one job."""
import base64, json, random, re, struct, time, urllib.request

import hf_tokenizers, isotope, llama, processes, transformers_peer, vllm
from context import Skip
from servers import Server

NO_EXPLAIN = "this isotope has no `bench --explain`"


class Job:
    def __init__(self, run, argument, metrics, peers):
        """`metrics` and `peers`: those that the chosen rows read."""
        self.run, self.argument, self.metrics, self.peers = run, argument, metrics, peers
        self.model = run.model(argument) if argument else None
        self.unavailable = {}  # metric -> why it is left out

    def sides(self):
        """{name: function}; "isotope" is one of them. Raises Skip when nothing can be measured; a missing peer goes to self.missing."""
        raise NotImplementedError


class Speed(Job):
    """Prompt, generation, generation at a depth and in a batch."""
    isa, variant = None, "native"

    def sides(self):
        folder = self.run.llama(self.variant)
        s, threads = self.run.sizes, self.run.threads
        ours = lambda **kw: isotope.bench(self.run, self.model, isa=self.isa, **kw)
        theirs = lambda **kw: llama.bench(folder, self.model, threads, **kw)
        batches = (lambda: isotope.batched(self.run, self.model, s.sequences, s.batch_generate),
                   lambda: llama.batched(folder, self.model, threads, s.sequences, s.batch_generate))
        return {"isotope": lambda i: self.measure(ours, batches[0]), "llama": lambda i: self.measure(theirs, batches[1])}

    def measure(self, bench, batch):
        s, wanted = self.run.sizes, self.metrics
        prompts = [n for metric, n in (("prompt-512", s.prompt), ("prompt-2048", s.long)) if metric in wanted]
        out = {}
        if prompts or "generation" in wanted:
            got = bench(prompts=prompts, generate=s.generate if "generation" in wanted else 0)
            out = {"prompt-512": got.get(("prompt", s.prompt)), "prompt-2048": got.get(("prompt", s.long)), "generation": got.get(("generation", 0))}
        if "depth-2048" in wanted:
            out["depth-2048"] = bench(generate=s.generate, depth=s.depth)[("generation", s.depth)]
        if "batch-16" in wanted:
            out["batch-16"] = batch()
        return {metric: out[metric] for metric in wanted}


class Avx2(Speed):
    isa, variant = "avx2", "avx2"


class Start(Job):
    """From the start of the process to the first byte of the answer, and the most memory it had. Both get the same text and room for 512 tokens."""

    def sides(self):
        prompt = {"smollm2": "The capital of France is", "gemma3": "The capital of France"}[self.argument]  # five tokens, <bos> counted
        folder, threads = self.run.llama("native"), self.run.threads
        ours = [self.run.isotope, "run", self.model, "--raw", "-p", prompt, "-n", "1", "--temp", "0", "--ctx-size", "512", "--threads", str(threads)]
        theirs = llama.completion_command(folder, self.model, threads, prompt, 512)
        for command in (ours, theirs):
            processes.first_output(command)  # brings the files into the page cache
        return {"isotope": lambda i: self.best(ours), "llama": lambda i: self.best(theirs)}

    def best(self, command):
        """Three starts, of which the middle one counts: a start is short."""
        runs = sorted(processes.first_output(command)[:2] for _ in range(3))
        return {"first": runs[1][0], "memory": runs[1][1] / (1 << 20)}


class Limit(Job):
    """Shares of what `isotope doctor` measured on this machine just before; of the read bandwidth in turns, because that changes from second to second."""

    def sides(self):
        if not isotope.explains(self.run):
            for m in {"gemm", "generation"} & set(self.metrics):
                self.unavailable[m] = NO_EXPLAIN
            self.metrics = [m for m in self.metrics if m not in self.unavailable]
        return {"isotope": self.shares}

    def shares(self, i):
        s, limits, cost = self.run.sizes, isotope.limits(self.run), isotope.linear_cost(self.run, self.model)
        out = {}
        if "prompt" in self.metrics:
            out["prompt"] = isotope.bench(self.run, self.model, prompts=[s.prompt])[("prompt", s.prompt)] * cost["ops"] / limits["int8_ops"]
        if "generation" in self.metrics:
            out["generation"] = isotope.read_share(self.run, self.model, turns=s.turns)
        if "gemm" in self.metrics:
            out["gemm"] = integer_share(isotope.explain(self.run, self.model, prompt=s.prompt), limits["int8_ops"])
        return {metric: out[metric] for metric in self.metrics}


def integer_share(explain, peak):
    """Integer operations a second of the ops that do them, as a share of the peak."""
    ops = [o for o in explain["ops"] if o["arithmetic"] == "int8"]
    seconds = sum(o["us_per_step"] for o in ops) * explain["steps"] * 1e-6
    return sum(o["operations"] for o in ops) / seconds / peak


class Explain(Job):
    """What a step of 32 sequences spends outside ops and sampling."""

    def sides(self):
        if not isotope.explains(self.run):
            raise Skip(NO_EXPLAIN)
        return {"isotope": self.share}

    def share(self, i):
        e = isotope.explain(self.run, self.model, generate=32, sequences=32)
        return {"outside": (e["model_us"] + e["engine_us"]) / e["us_per_step"]}


class Order(Job):
    """How much longer our kernels take than variants that are free in the order of sums, as `bench_order` prints it; the dearest of its cases counts."""

    def sides(self):
        program = isotope.built(self.run, "bench_order")
        if not program:
            raise Skip("bench_order is not built; cmake --build --preset release --target bench_order builds it")
        return {"isotope": lambda i: order_costs(processes.run([program])[0])}


def order_costs(text):
    """{"gemm": share, "attention": share} of lines like "gemm Q4_K …   cost of the fixed order +1.2 %"."""
    out = {}
    for kernel, percent in re.findall(r"^(gemm|attention) .*cost of the fixed order ([-+.0-9]+) %$", text, re.M):
        out[kernel] = max(out.get(kernel, -1.0), float(percent) / 100)
    if set(out) != {"gemm", "attention"}:
        raise processes.Failed(f"bench_order printed no costs: {processes.last_lines(text)}")
    return out


class Tokenize(Job):
    """The same tokenizer.json and the same documents; both sides must give the same ids."""

    def sides(self):
        python = self.run.tokenizers()
        file, text = hf_tokenizers.tokenizer_json(python, self.model), hf_tokenizers.text()
        self.sums = {}
        ours = lambda threads, seconds: [self.run.isotope, "tokenize", file, "--bench", text, "--threads", str(threads), "--seconds", str(seconds)]
        theirs = lambda threads, seconds: hf_tokenizers.command(python, file, text, threads, seconds)
        return {"isotope": lambda i: self.measure(ours), "tokenizers": lambda i: self.measure(theirs)}

    def measure(self, command):
        threads = {"single": 1, "batch": self.run.threads}
        got = {m: json.loads(processes.run(command(threads[m], self.run.sizes.tokenize_seconds))[0]) for m in self.metrics}
        for row in got.values():
            if self.sums.setdefault("ids", row["crc32"]) != row["crc32"]:
                raise processes.Failed(f"the two sides gave different ids ({row['tokens']} tokens here); scripts/check-long tokenizers finds the text")
        return {m: row["bytes_per_s"] / 1e6 for m, row in got.items()}


class Serve(Job):
    """The same requests to each server; every pair has its own prompts, so that no cache knows them. Servers stay up from pair to pair."""
    shared = False

    def __init__(self, run, argument, metrics, peers):
        super().__init__(run, "smollm2", metrics, peers)

    def sides(self):
        run, out = self.run, {}
        makers = {"isotope": lambda: isotope.server(run, self.model, run.log("isotope-serve")), "llama": self.llama, "vllm": self.vllm}
        for name in ["isotope"] + [p for p in ("llama", "vllm") if p in self.peers]:
            try:
                server = makers[name]()
            except Skip as why:
                run.missing[name] = str(why)
                continue
            out[name] = self.side(name, server)
        if len(out) == 1:
            raise Skip("; ".join(run.missing[p] for p in self.peers))
        return out

    def llama(self):
        run, s = self.run, self.run.sizes
        room = s.shared + s.own + s.output + 32
        return llama.server(run.llama("native"), self.model, run.log("llama-server"), run.threads, s.concurrency, room)

    def vllm(self):
        run = self.run
        env = run.vllm()
        return vllm.server(env, run.vllm_folder(env, self.model), run.log("vllm"), run.threads)

    def side(self, name, stopped):
        run, s = self.run, self.run.sizes
        shared = s.shared if self.shared else 0

        def measure(i):
            fresh = name not in run.pool.servers
            server = run.pool.use(name, stopped)
            if fresh:  # whatever a server does for its first requests only is no part of its speed
                isotope.client(run, server.address, name, 9000, s, shared, requests=s.concurrency, output=8)
            result = isotope.client(run, server.address, name, seed(self, i), s, shared)
            server.need_alive()
            if result["total_output_tokens"] != s.requests * s.output:
                raise processes.Failed(f"{server.name} gave {result['total_output_tokens']} tokens instead of {s.requests * s.output}")
            run.keep_serving(type(self).__name__, name, i, result)
            return {"output": result["output_throughput"]}
        return measure


class ServeShared(Serve):
    shared = True


def seed(job, i):
    return 100 * (i + 1) + (50 if job.shared else 0)


class Embed(Job):
    """The same texts to both servers in one request; every pair has its own. The answer's vectors must agree."""
    kind, flags = "equal", ["--precision", "exact"]

    def __init__(self, run, argument, metrics, peers):
        super().__init__(run, None, metrics, peers)
        self.vectors = {}

    def sides(self):
        run = self.run
        python, model = run.tokenizers(), run.minilm()
        servers = {"isotope": Server("isotope", lambda port: [run.isotope, "serve", "--model", model, "--port", str(port), "--threads", str(run.threads), *self.flags],
                                     run.log(f"isotope-embed-{self.kind}")),
                   "transformers": transformers_peer.server(python, model, run.log("transformers"), run.threads)}
        return {name: self.side(name, server) for name, server in servers.items()}

    def side(self, name, stopped):
        key = f"{name}-{self.kind}" if name == "isotope" else name

        def measure(i):
            fresh = key not in self.run.pool.servers
            server = self.run.pool.use(key, stopped)
            if fresh:
                embed(server.address, texts(self.kind, 99, 32))
            given = texts(self.kind, i, self.run.sizes.texts)
            begin = time.monotonic()
            answer = embed(server.address, given)
            seconds = time.monotonic() - begin
            self.compare(i, name, answer)
            return {"texts": len(given) / seconds}
        return measure

    def compare(self, i, name, blobs):
        mine = self.vectors.setdefault(i, {})
        mine[name] = [struct.unpack(f"<{len(b) // 4}f", b) for b in blobs[:8] + blobs[-8:]]
        if len(mine) == 2:
            worst = min(sum(x * y for x, y in zip(a, b)) for a, b in zip(*mine.values()))
            if worst < 0.9999:
                raise processes.Failed(f"the vectors of both sides have a cosine of {worst:.6f} only")


class EmbedMixed(Embed):
    kind, flags = "mixed", []


def texts(kind, seed, count):
    """Words that are one token each."""
    r = random.Random(f"{kind} {seed}")
    words = "time year people way day man thing woman life child world school state family student group country problem hand part place case week company".split()
    return [" ".join(r.choice(words) for _ in range(126 if kind == "equal" else r.randint(1, 200))) for _ in range(count)]


def embed(address, given):
    body = json.dumps({"input": given, "encoding_format": "base64"}).encode()
    with urllib.request.urlopen(urllib.request.Request(address + "/v1/embeddings", body, {"Content-Type": "application/json"})) as answer:
        return [base64.b64decode(d["embedding"]) for d in json.load(answer)["data"]]


JOBS = {"speed": Speed, "avx2": Avx2, "start": Start, "limit": Limit, "explain": Explain, "order": Order, "tokenize": Tokenize, "embed-equal": Embed, "embed-mixed": EmbedMixed, "serve": Serve, "serve-shared": ServeShared}


def make(run, name, metrics, peers):
    kind, _, argument = name.partition(":")
    return JOBS[kind](run, argument, metrics, peers)
