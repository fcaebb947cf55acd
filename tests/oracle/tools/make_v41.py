#!/usr/bin/env python3
"""Writes the oracle of DeepSeek V4.1, which transformers does not have: a tiny random checkpoint in the published layout and what a plain reference says.

    make_v41.py --out DIR [--seed N]

The reference below is written from the published facts (names, shapes, order of computation) in float32, one sequence at a time, without a cache: every
token's compressed keys, choices and n-gram rows are computed anew from all tokens before it. n-gram hashes use numpy's own generator and plain Python
integers, the compressed vocabulary the `tokenizers` library's normalizers. Files are those of make_goldens.py, and beside them
  tokenizer.json     256 tokens of which several say the same
  engram.json        the map of tokens, primes and multipliers, rows of some n-grams
It rounds no activations: the released model's FP8 and FP4 roundings of activations and caches are a device's business, as they are for other families.
"""
import argparse, json, math, os, types, zlib

import numpy as np
import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from make_goldens import HIDDEN, PROMPTS, fp4_rows, make_prompt, rows_to_keep

NAME, VOCAB = "deepseek_v41", 256
TEXT = dict(model_type="deepseek_v41_text", vocab_size=VOCAB, hidden_size=64, num_hidden_layers=6, num_attention_heads=4, num_key_value_heads=1,
            head_dim=32, qk_rope_head_dim=8, q_lora_rank=64, o_lora_rank=32, o_groups=2, hidden_act="silu", swiglu_limit=1.5, rms_norm_eps=1e-20,
            attention_bias=False, max_position_embeddings=4096, rope_theta=10000, rope_scaling=dict(rope_type="yarn", factor=16, beta_fast=32, beta_slow=1,
            original_max_position_embeddings=64), moe_intermediate_size=32, n_routed_experts=8, n_shared_experts=1, num_experts_per_tok=3,
            scoring_func="sqrtsoftplus", topk_method="noaux_tc", norm_topk_prob=True, routed_scaling_factor=1.5, sliding_window=16,
            compress_ratios=[0, 2, 2, 1, 1, 1, 0], compress_rope_theta=160000, kv_source_layer_ids=[1, 3], index_source_layer_ids=[1, 3, 4],
            index_n_heads=16, index_head_dim=16, index_topk=8, candidate_source_layer_id=3, candidate_topk_blocks=6, candidate_block_size=4, hc_mult=4,
            hc_sinkhorn_iters=20, hc_eps=1e-6, engram_layer_ids=[1, 4], engram_max_ngram_size=4, engram_vocab_size=40, engram_n_heads=2,
            engram_head_dim=64, engram_pad_token_id=2, num_nextn_predict_layers=1, tie_word_embeddings=False)
QUANTIZATION = dict(quant_method="fp8", activation_scheme="dynamic", scale_fmt="ue8m0", weight_block_size=[32, 32], expert_dtype="fp4")


# ---- tokens ----------------------------------------------------------------------------------------------------------------------------
def make_tokenizer():
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    spell = lambda text: "".join(byte_char(b) for b in text.encode())
    tokens = ["<pad>", "<s>", "</s>"]
    words = [" the", "the", "The", " THE", "é", "É", "e", " e", "ﬁn", "fin", " Fin", "ǅ", "dž", "ｆ", "²", "2", "  ", " ", "\t", "\n", "\r\n", " \t x", "x",
             "Ω", "ω", "İ", "i̇", "ß", "ẞ", "ss", "नि", "न", "\u0301", "́a", "a", "\u00a0", "\u3000b", "b", "b ", "\ue000", "ё", "е", "Å", "å", "한", "中", "​"]
    tokens += [spell(w) for w in words]
    tokens += [c for c in alphabet if byte_of(c) >= 0x80][:40]  # bytes that are no text
    tokens += [c for c in alphabet if c not in tokens and 0x21 <= byte_of(c) < 0x7f]
    i = 0
    while len(tokens) < VOCAB:
        tokens += [spell(f" w{i}"), spell(f"W{i}"), spell(f"w{i}")]
        i += 1
    tokens = list(dict.fromkeys(tokens))[:VOCAB]
    while len(tokens) < VOCAB:
        tokens.append(f"v{len(tokens)}")
    t = Tokenizer(models.BPE(vocab={s: i for i, s in enumerate(tokens)}, merges=[]))
    t.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    t.decoder = decoders.ByteLevel()
    t.add_special_tokens([AddedToken(s, special=True, normalized=False) for s in tokens[:3]])
    assert t.get_vocab_size() == VOCAB
    return t


def byte_char(b):
    kept = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    return chr(b) if b in kept else chr(256 + [x for x in range(256) if x not in kept].index(b))


def byte_of(c):
    return next(b for b in range(256) if byte_char(b) == c)


def compressed_vocab(tokenizer):
    spare = "\ue000"
    normal = normalizers.Sequence([normalizers.NFKC(), normalizers.NFD(), normalizers.StripAccents(), normalizers.Lowercase(),
                                   normalizers.Replace(Regex(r"[ \t\r\n]+"), " "), normalizers.Replace(Regex(r"^ $"), spare), normalizers.Strip(),
                                   normalizers.Replace(spare, " ")])
    numbers, out, keys = {}, [], []
    for i in range(tokenizer.get_vocab_size()):
        text = tokenizer.decode([i], skip_special_tokens=False)
        key = tokenizer.id_to_token(i) if "\ufffd" in text else normal.normalize_str(text) or text
        keys.append(key)
        out.append(numbers.setdefault(key, len(numbers)))
    return out, keys, len(numbers)


# ---- n-grams ---------------------------------------------------------------------------------------------------------------------------
def is_prime(n):
    return n > 1 and all(n % d for d in range(2, math.isqrt(n) + 1))


def hash_heads(c):
    """For each table: primes by order and head, and the multipliers."""
    used, tables = set(), []
    for layer in c["engram_layer_ids"]:
        orders = []
        for _ in range(c["engram_max_ngram_size"] - 1):
            at, heads = c["engram_vocab_size"] - 1, []
            for _ in range(c["engram_n_heads"]):
                at += 1
                while at in used or not is_prime(at):
                    at += 1
                used.add(at)
                heads.append(at)
            orders.append(heads)
        bound = max(1, (2**63 - 1) // c["engram_compressed_vocab_size"] // 2)
        drawn = np.random.default_rng(10007 * layer).integers(0, bound, size=(c["engram_max_ngram_size"],), dtype=np.int64)
        tables.append((orders, [2 * int(v) + 1 for v in drawn]))
    return tables


def ngram_rows(table, ids, position, pad):
    orders, multipliers = table
    rolling, first, rows = 0, 0, []
    for back in range(len(multipliers)):
        token = ids[position - back] if position >= back else pad
        rolling ^= token * multipliers[back]
        if back:
            for prime in orders[back - 1]:
                rows.append(first + rolling % prime)
                first += prime
    return rows


# ---- the model -------------------------------------------------------------------------------------------------------------------------
def rms(x, weight=None, eps=1e-20):
    y = x * torch.rsqrt(x.square().mean(-1, keepdim=True) + eps)
    return y if weight is None else y * weight


def frequencies(dim, theta, scaling=None):
    f = 1.0 / theta ** (torch.arange(0, dim, 2, dtype=torch.float32) / dim)
    if scaling:
        at = lambda turns: dim * math.log(scaling["original_max_position_embeddings"] / (turns * 2 * math.pi)) / (2 * math.log(theta))
        low, high = max(math.floor(at(scaling["beta_fast"])), 0), min(math.ceil(at(scaling["beta_slow"])), dim - 1)
        ramp = ((torch.arange(dim // 2, dtype=torch.float32) - low) / max(high - low, 1e-3)).clamp(0, 1)
        f = f / scaling["factor"] * ramp + f * (1 - ramp)
    return f


def turn(x, positions, freq, back=False):
    """Rotates the last dimensions of x [T, ..., d], neighbours together."""
    n = 2 * len(freq)
    angle = positions.float()[:, None] * freq * (-1 if back else 1)
    pairs = torch.view_as_complex(x[..., -n:].unflatten(-1, (-1, 2)).contiguous())
    by = torch.polar(torch.ones_like(angle), angle).reshape(len(positions), *[1] * (x.dim() - 2), n // 2)
    return torch.cat((x[..., :-n], torch.view_as_real(pairs * by).flatten(-2)), -1)


class Reference:
    """weights: {published name: float32}. Called as transformers' models are."""

    def __init__(self, c, weights, token_map):
        self.c, self.w, self.map = c, weights, token_map
        self.config = types.SimpleNamespace(get_text_config=lambda: types.SimpleNamespace(vocab_size=c["vocab_size"]))
        self.heads = hash_heads(c)
        self.freq = [frequencies(c["qk_rope_head_dim"], c["rope_theta"]),
                     frequencies(c["qk_rope_head_dim"], c["compress_rope_theta"], c["rope_scaling"])]

    def __call__(self, input_ids, use_cache=False, output_hidden_states=False):
        hidden, final = self.forward(input_ids[0].tolist())
        return types.SimpleNamespace(logits=(final @ self.w["head.weight"].T)[None], hidden_states=[*hidden, final])

    def forward(self, ids):
        c, n, self.positions = self.c, self.c["hc_mult"], torch.arange(len(ids))
        x = self.w["embed.weight"][ids][:, None].repeat(1, n, 1)
        read = torch.zeros(len(ids), n)
        read[:, 0] = 1
        self.entries, self.keys, self.blocks, hidden = {}, {}, None, []
        for l in range(c["num_hidden_layers"]):
            hidden.append(x.flatten(1))
            if l in c["engram_layer_ids"]:
                x = x + self.memory(l, ids, x)
            for block, run in (("attn", self.attention), ("ffn", self.experts)):
                pre, post, comb = self.mixes(x, f"layers.{l}.hc_{block}_")
                u = rms((x * read[..., None]).sum(1), self.w[f"layers.{l}.{block}_norm.weight"])
                y = run(l, u)
                x = (comb[..., None] * x[:, :, None]).sum(1) + post[..., None] * y[:, None]
                read = pre
        return hidden, rms((x * read[..., None]).sum(1), self.w["norm.weight"])

    def mixes(self, x, at):
        c, n = self.c, self.c["hc_mult"]
        m = rms(x.flatten(1)) @ self.w[at + "fn"].T
        scale, base = self.w[at + "scale"], self.w[at + "base"]
        pre = torch.sigmoid(m[:, :n] * scale[0] + base[:n]) + c["hc_eps"]
        post = 2 * torch.sigmoid(m[:, n:2 * n] * scale[1] + base[n:2 * n])
        comb = (m[:, 2 * n:] * scale[2] + base[2 * n:]).unflatten(1, (n, n)).softmax(-1) + c["hc_eps"]
        comb = comb / (comb.sum(1, keepdim=True) + c["hc_eps"])
        for _ in range(c["hc_sinkhorn_iters"] - 1):
            comb = comb / (comb.sum(2, keepdim=True) + c["hc_eps"])
            comb = comb / (comb.sum(1, keepdim=True) + c["hc_eps"])
        return pre, post, comb

    def memory(self, l, ids, x):
        c, n, d = self.c, self.c["hc_mult"], self.c["hidden_size"]
        table = self.heads[c["engram_layer_ids"].index(l)]
        same = [self.map[i] for i in ids]
        rows = [ngram_rows(table, same, p, self.map[c["engram_pad_token_id"]]) for p in range(len(ids))]
        at = f"layers.{l}.engram."
        kv = self.w[at + "embed.weight"][torch.tensor(rows)].flatten(1) @ self.w[at + "wkv.weight"].T
        key = rms(kv[:, :n * d].unflatten(1, (n, d)), self.w[at + "k_weight"])
        score = (key * rms(x, self.w[at + "q_weight"])).sum(-1) / math.sqrt(d)
        gate = torch.sigmoid(score.abs().clamp_min(1e-6).sqrt() * score.sign())
        return gate[..., None] * kv[:, None, n * d:]

    def attention(self, l, u):
        c, w, pos = self.c, self.w, self.positions
        h, d, ratio, at = c["num_attention_heads"], c["head_dim"], c["compress_ratios"][l], f"layers.{l}.attn."
        freq = self.freq[ratio > 0]
        latent = rms(u @ w[at + "wq_a.weight"].T, w[at + "q_norm.weight"])
        q = turn((latent @ w[at + "wq_b.weight"].T).unflatten(1, (h, d)), pos, freq)
        kv = turn(rms(u @ w[at + "wkv.weight"].T, w[at + "kv_norm.weight"]), pos, freq)
        if l in c["kv_source_layer_ids"]:
            self.make_entries(l, u, ratio, freq)
        if l in c["index_source_layer_ids"]:
            self.choose(l, u, latent, ratio, freq)
        out = torch.zeros(len(pos), h, d)
        for t in range(len(pos)):
            keys = kv[max(0, t - c["sliding_window"] + 1):t + 1]
            if ratio:
                keys = torch.cat((keys, self.entries["values"][self.chosen[t]]))
            s = torch.cat((q[t] @ keys.T * d**-0.5, w[at + "attn_sink"][:, None]), 1).softmax(1)[:, :-1]
            out[t] = s @ keys
        out = turn(out, pos, freq, back=True).flatten(1).unflatten(1, (c["o_groups"], -1))
        weight = w[at + "wo_a.weight"].unflatten(0, (c["o_groups"], -1))
        return torch.einsum("tgi,goi->tgo", out, weight).flatten(1) @ w[at + "wo_b.weight"].T

    def make_entries(self, l, u, ratio, freq):
        w, at = self.w, f"layers.{l}.attn."
        values = u @ w[at + "compressor.wkv.weight"].T
        if ratio > 1:
            full = len(u) // ratio * ratio
            gates = (u @ w[at + "compressor.wgate.weight"].T)[:full].unflatten(0, (-1, ratio)).softmax(1)
            values = (values[:full].unflatten(0, (-1, ratio)) * gates).sum(1)
        values = rms(values, w[at + "compressor.norm.weight"])
        first = torch.arange(len(values)) * ratio
        keys = rms(values @ w[at + "indexer.wk.weight"].T, w[at + "indexer.k_norm.weight"])
        self.entries = dict(values=turn(values, first, freq), keys=turn(keys, first, freq))

    def choose(self, l, u, latent, ratio, freq):
        c, w, at = self.c, self.w, f"layers.{l}.attn.indexer."
        heads, dim = c["index_n_heads"], c["index_head_dim"]
        q = turn((latent @ w[at + "wq_b.weight"].T).unflatten(1, (heads, dim)), self.positions, freq)
        weights = u @ w[at + "weights_proj.weight"].T * heads**-0.5 * dim**-0.5
        scores = ((q @ self.entries["keys"].T).relu() * weights[..., None]).sum(1)
        within, self.chosen = self.blocks if l > c["candidate_source_layer_id"] else None, []
        if l == c["candidate_source_layer_id"]:
            self.blocks = []
        for t in range(len(u)):
            s, size = scores[t, :(t + 1) // ratio].clone(), c["candidate_block_size"]
            if l == c["candidate_source_layer_id"]:
                best = torch.stack([b.max() for b in s.split(size)])
                best[-1] = math.inf
                self.blocks.append(best.sort(descending=True, stable=True).indices[:c["candidate_topk_blocks"]])
            if within is not None:
                s[~torch.isin(torch.arange(len(s)) // size, within[t])] = -math.inf
            top = s.sort(descending=True, stable=True).indices[:c["index_topk"]]
            self.chosen.append(top[s[top] > -math.inf].sort().values)

    def experts(self, l, u):
        c, w, at = self.c, self.w, f"layers.{l}.ffn."
        scores = torch.nn.functional.softplus(u @ w[at + "gate.weight"].T).sqrt()
        used = (scores + w[at + "gate.bias"]).topk(c["num_experts_per_tok"], -1).indices
        weight = scores.gather(1, used)
        weight = weight / weight.sum(-1, keepdim=True) * c["routed_scaling_factor"]
        out = self.feed(at + "shared_experts.", u)
        for e in range(c["n_routed_experts"]):
            out = out + self.feed(f"{at}experts.{e}.", u) * (weight * (used == e)).sum(-1, keepdim=True)
        return out

    def feed(self, at, u):
        limit = self.c["swiglu_limit"]
        gate, up = (u @ self.w[at + f"{p}.weight"].T for p in ("w1", "w3"))
        return (torch.nn.functional.silu(gate.clamp(max=limit)) * up.clamp(-limit, limit)) @ self.w[at + "w2.weight"].T


# ---- the checkpoint --------------------------------------------------------------------------------------------------------------------
def fp8_blocks(x, rows, cols=32):
    """E4M3 with a power of two for each block of `rows` by `cols`, and the values of those."""
    n, k = x.shape
    blocks = x.reshape(n // rows, rows, k // cols, cols)
    exponent = torch.ceil(torch.log2(blocks.abs().amax((1, 3)).clamp_min(1e-20) / 448)).clamp(-126, 126)
    scale = torch.exp2(exponent)[:, None, :, None]
    codes = (blocks / scale).to(torch.float8_e4m3fn)
    return codes.reshape(n, k), (exponent + 127).to(torch.uint8).view(torch.float8_e8m0fnu), (codes.float() * scale).reshape(n, k)


def make_weights(c, gen):
    """The tensors of the file, and their values."""
    stored, values = {}, {}
    normal = lambda *shape, std=1.0: torch.randn(shape, generator=gen) * std

    def plain(name, x, dtype=torch.bfloat16):
        stored[name] = x.to(dtype)
        values[name] = stored[name].float()

    def linear(name, n, k, rows=32):
        codes, scale, values[name + ".weight"] = fp8_blocks(normal(n, k, std=k**-0.5), rows)
        stored[name + ".weight"], stored[name + ".scale"] = codes, scale

    def norm(name, *shape):
        plain(name, 1 + normal(*shape, std=0.2))

    d, n, h, hd, mid = c["hidden_size"], c["hc_mult"], c["num_attention_heads"], c["head_dim"], c["moe_intermediate_size"]
    plain("embed.weight", normal(VOCAB, d, std=0.7))
    plain("head.weight", normal(VOCAB, d, std=2.5 * d**-0.5))
    norm("norm.weight", d)
    for l in range(c["num_hidden_layers"]):
        at, ratio = f"layers.{l}.", c["compress_ratios"][l]
        for block in ("attn", "ffn"):
            norm(f"{at}{block}_norm.weight", d)
            plain(f"{at}hc_{block}_fn", normal(n * (n + 2), n * d, std=(n * d)**-0.5), torch.float32)
            plain(f"{at}hc_{block}_base", normal(n * (n + 2), std=0.2), torch.float32)
            plain(f"{at}hc_{block}_scale", 1 + normal(3, std=0.2), torch.float32)
        plain(at + "attn.attn_sink", normal(h, std=0.2), torch.float32)
        norm(at + "attn.q_norm.weight", c["q_lora_rank"])
        norm(at + "attn.kv_norm.weight", hd)
        linear(at + "attn.wq_a", c["q_lora_rank"], d)
        linear(at + "attn.wq_b", h * hd, c["q_lora_rank"])
        linear(at + "attn.wkv", hd, d)
        linear(at + "attn.wo_a", c["o_groups"] * c["o_lora_rank"], h * hd // c["o_groups"])
        linear(at + "attn.wo_b", d, c["o_groups"] * c["o_lora_rank"])
        if l in c["kv_source_layer_ids"]:
            for part in ("wkv", "wgate")[:1 + (ratio > 1)]:
                plain(f"{at}attn.compressor.{part}.weight", normal(hd, d, std=d**-0.5))
            norm(at + "attn.compressor.norm.weight", hd)
            plain(at + "attn.indexer.wk.weight", normal(c["index_head_dim"], hd, std=hd**-0.5))
            norm(at + "attn.indexer.k_norm.weight", c["index_head_dim"])
        if l in c["index_source_layer_ids"]:
            linear(at + "attn.indexer.wq_b", c["index_n_heads"] * c["index_head_dim"], c["q_lora_rank"])
            plain(at + "attn.indexer.weights_proj.weight", normal(c["index_n_heads"], d, std=d**-0.5))
        plain(at + "ffn.gate.weight", normal(c["n_routed_experts"], d, std=d**-0.5))
        plain(at + "ffn.gate.bias", normal(c["n_routed_experts"], std=0.1), torch.float32)
        plain(at + "ffn.gate.bias_vl", normal(c["n_routed_experts"]), torch.float32)  # of pictures
        for part, rows, cols in (("w1", mid, d), ("w3", mid, d), ("w2", d, mid)):
            linear(f"{at}ffn.shared_experts.{part}", rows, cols)
            for e in range(c["n_routed_experts"]):
                name = f"{at}ffn.experts.{e}.{part}."
                stored[name + "weight"], stored[name + "scale"], values[name + "weight"] = fp4_rows(normal(rows, cols, std=cols**-0.5))
    for l, rows in zip(c["engram_layer_ids"], c["engram_num_embeddings"]):
        at = f"layers.{l}.engram."
        width = (c["engram_max_ngram_size"] - 1) * c["engram_n_heads"] * c["engram_head_dim"]
        table = normal(rows, c["engram_head_dim"]) * torch.exp2(torch.randint(-3, 4, (rows, 1), generator=gen).float())
        stored[at + "embed.weight"], stored[at + "embed.scale"], values[at + "embed.weight"] = fp8_blocks(table, 1)
        linear(at + "wkv", (n + 1) * d, width)
        for name in ("k_weight", "q_weight"):
            norm(at + name, n, d)
    # Parts that text does without: a drafter's layer, the picture tower.
    stored["mtp.0.attn_norm.weight"] = torch.ones(d, dtype=torch.bfloat16)
    stored["vision.norm.weight"] = torch.ones(8, dtype=torch.bfloat16)
    stored["aligner.w1.weight"] = torch.ones(8, 8, dtype=torch.bfloat16)
    stored["image_newline"] = torch.ones(d, dtype=torch.bfloat16)
    return stored, values


def make(out, seed):
    seed = (seed * 1000003 + zlib.crc32(NAME.encode())) % 2**31
    folder = os.path.join(out, NAME)
    os.makedirs(folder, exist_ok=True)
    tokenizer = make_tokenizer()
    token_map, keys, size = compressed_vocab(tokenizer)
    c = dict(TEXT, engram_compressed_vocab_size=size, engram_num_embeddings=[])
    c["engram_num_embeddings"] = [sum(sum(o) for o in orders) for orders, _ in hash_heads(c)]
    gen = torch.Generator().manual_seed(seed)
    stored, values = make_weights(c, gen)
    model = Reference(c, values, token_map)
    noisy = Reference(c, {k: v * (1 + 1e-6 * torch.randn(v.shape, generator=gen)) for k, v in values.items()}, token_map)

    save_file({k: stored[k].contiguous() for k in sorted(stored)}, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    tokenizer.save(os.path.join(folder, "tokenizer.json"))
    config = dict(architectures=["DeepseekV41ForCausalLM"], model_type="deepseek_v41", dtype="bfloat16", bos_token_id=1, eos_token_id=2, pad_token_id=0,
                  image_token_id=255, quantization_config=QUANTIZATION, text_config=c,
                  vision_config=dict(model_type="deepseek_v41_vision", num_hidden_layers=1, hidden_size=8))
    json.dump(config, open(os.path.join(folder, "config.json"), "w"), indent=1)
    ids = torch.randint(0, VOCAB, (9,), generator=gen).tolist()
    same = [token_map[i] for i in ids]
    json.dump(dict(map=token_map, keys=keys, size=size, ids=ids,
                   tables=[dict(primes=sum(h[0], []), multipliers=[str(m) for m in h[1]],
                                rows=[ngram_rows(h, same, p, token_map[c["engram_pad_token_id"]]) for p in range(len(ids))]) for h in model.heads]),
              open(os.path.join(folder, "engram.json"), "w"), ensure_ascii=False)

    golden, prompts = {}, []
    for k, n in enumerate(PROMPTS):
        ids, more, logits, margin, noise = make_prompt(model, noisy, n, gen, 1)
        rows = rows_to_keep(n)
        golden[f"ids_{k}"], golden[f"greedy_{k}"] = torch.tensor(ids, dtype=torch.int32), torch.tensor(more, dtype=torch.int32)
        golden[f"margin_{k}"], golden[f"rows_{k}"] = margin.contiguous(), torch.tensor(rows, dtype=torch.int32)
        golden[f"logits_{k}"] = logits[rows].contiguous()
        prompts.append(dict(tokens=n, min_margin=float(margin.min()), noise=noise, tolerance=max(1e-4, 2 * noise), distinct=len(set(more)),
                            std=float(logits.std())))
        if n == HIDDEN:
            for i, h in enumerate(model(torch.tensor([ids])).hidden_states):
                golden[f"hidden_{i}"] = h.contiguous()
    save_file(golden, os.path.join(folder, "golden.safetensors"))
    json.dump(dict(family=NAME, seed=seed, torch=torch.__version__.split("+")[0], prompts=prompts), open(os.path.join(folder, "meta.json"), "w"), indent=1)
    print(NAME, sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder)) // 1000, "kB", prompts)


if __name__ == "__main__":
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", required=True)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    with torch.no_grad():
        make(a.out, a.seed)
