#!/usr/bin/env python3
"""Writes the oracle: tiny random checkpoints in published layout and what transformers (float32, CPU, eager attention) says they compute.

    make_goldens.py --out DIR [--seed N] [--families a,b]

Needs torch, transformers >= 5.24, safetensors. For each family DIR/NAME/ holds
  config.json        published style        config.v5.json   what save_pretrained of transformers 5 writes
  model.safetensors  bfloat16 weights; the goldens are computed in float32 from these rounded values
  golden.safetensors per prompt k: ids_k [n], greedy_k [24], margin_k [24] (gap between the two best logits at each greedy step), rows_k [r],
                     logits_k [r, V]: row j = logits after token rows_k[j] of ids_k ++ greedy_k; and hidden_i [33, D] of the 33-token prompt:
                     embeddings, each layer's output, and last after the final norm; of families with multi-token-prediction heads
                     mtp_rows_k [r], mtp_logits_k_h [r, V]: row j = logits of head h at position mtp_rows_k[j], which foretells the token h + 2 behind it
  meta.json          per prompt the change of the logits under relative weight noise of 1e-6 (yardstick) and the tolerance derived from it
"""
import argparse, copy, json, math, os, re, tempfile, zlib

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

import draft_heads
from families import FAMILIES

transformers.logging.set_verbosity_error()
transformers.logging.disable_progress_bar()
torch.set_num_threads(1)
torch.use_deterministic_algorithms(True, warn_only=True)
VISION = re.compile("vision|visual|multi_modal_projector|patch_merge|vit_large_projector|vit_downsampler")
PROMPTS = [1, 33, 130]  # the last one passes every sliding window and longrope's switch at 64
HIDDEN = 33
STEPS = 24
FINAL_NORM = re.compile(r"^(model\.(norm|norm_f|embedding_norm|final_layernorm)|model\.language_model\.norm|backbone\.norm_f)\.weight$")


def build(spec):
    config = copy.deepcopy(spec["config"])
    config.pop("architectures")
    architecture = spec["config"]["architectures"][0]
    if "inside" in spec:
        wrapper = copy.deepcopy(spec["inside"])
        architecture = wrapper.pop("architecture")
        text = {k: v for k, v in config.items() if v is not None}
        config = CONFIG_MAPPING[wrapper.pop("model_type")](text_config=text, tie_word_embeddings=text["tie_word_embeddings"], **wrapper)
    else:
        config = CONFIG_MAPPING[config["model_type"]].from_dict(config)
    config._attn_implementation = "eager"
    return getattr(transformers, architecture)(config).float().eval()


def text_config(model):
    return model.config.get_text_config()


def randomize(model, spec, gen):
    """Random weights whose activations and logits spread like a trained model's; then rounded to bfloat16."""
    text = text_config(model)
    hidden = text.hidden_size
    tied = text.tie_word_embeddings
    gain = spec.get("logit_gain", 1.0)
    normal = lambda t, std: torch.randn(t.shape, generator=gen) * std
    with torch.no_grad():
        for name, p in sorted(model.named_parameters()):
            if "norm" in name:
                centre = float(p.mean())  # 0 where the family's norm multiplies by 1 + w
                final = spec.get("final_norm", 2.5 * gain / math.sqrt(hidden) / 0.04 if tied else 1.0) if FINAL_NORM.search(name) else 1.0
                heads = spec.get("qk_norm", 1.0) if name.endswith(("q_norm.weight", "k_norm.weight")) else 1.0
                p.copy_(heads * final * (1 + normal(p, 0.2)) - (1 if centre < 0.5 else 0))
            elif name.endswith("A_log"):  # decays from fast to slow
                p.copy_(torch.log(0.02 + 2 * torch.rand(p.shape, generator=gen)))
            elif name.endswith((".D", "dt_bias", "dt_proj.bias")):
                p.copy_(normal(p, 0.5) + (1 if name.endswith(".D") else -1))
            elif name.endswith((".scale", "_scale")):
                p.copy_(1 + normal(p, 0.2))
            elif "_coefs" in name:  # streams that say much of each other grow from layer to layer
                p.copy_(normal(p, 0.1))
            elif p.dim() == 1:
                p.copy_(normal(p, 0.2))
            elif "position_bias" in name:
                p.copy_(normal(p, 0.5))
            elif "embed_tokens" in name or "embeddings" in name:
                p.copy_(normal(p, spec.get("embed_std", 0.04 if tied else 0.7)))
            elif "lm_head" in name:
                p.copy_(normal(p, 2.5 * gain / math.sqrt(hidden)))
            else:
                p.copy_(normal(p, 1.0 / math.sqrt(p.shape[-1])))
        for name, b in sorted(model.named_buffers()):
            if name.endswith("e_score_correction_bias"):  # added for the choice of experts alone
                b.copy_(normal(b, 0.1).to(torch.bfloat16).float())
            elif name.endswith("layer_scalar"):
                b.copy_((1 + normal(b, 0.2)).to(torch.bfloat16).float())
            elif name.endswith("tid2eid"):  # distinct experts for each token
                b.copy_(torch.stack([torch.randperm(text.n_routed_experts, generator=gen)[:b.shape[1]] for _ in range(b.shape[0])]))
        model.tie_weights()
        for p in model.parameters():
            p.copy_(p.to(torch.bfloat16).float())


def to_mxfp4(p):
    """Expert matrices [E, K, N] as GPT-OSS ships them: blocks [E, N, K/32, 16] of two codes a byte, exponents [E, N, K/32]; and their values in p's layout."""
    values = torch.tensor([0, .5, 1, 1.5, 2, 3, 4, 6])
    x = p.transpose(1, 2).unflatten(-1, (-1, 32))
    exponents = (torch.floor(torch.log2(x.abs().amax(-1).clamp_min(1e-30))) + 125).clamp(0, 254)
    scale = torch.exp2(exponents - 127)[..., None]
    codes = ((x / scale).abs()[..., None] - values).abs().argmin(-1)
    exact = values[codes] * scale * x.sign()
    codes = codes + 8 * (x < 0)
    return (codes[..., 0::2] | codes[..., 1::2] << 4).to(torch.uint8), exponents.to(torch.uint8), exact.flatten(-2).transpose(1, 2)


def fp4_rows(x):
    """Rows as DeepSeek V4 ships its experts: two E2M1 codes a byte, the first in the low bits, an exponent for each 32, and the values of those."""
    codes, exponents, exact = to_mxfp4(x.float()[None].transpose(1, 2))
    return codes[0].flatten(-2).view(torch.int8), exponents[0].view(torch.float8_e8m0fnu), exact[0].transpose(0, 1)


def fp4_experts(tensors):
    """Adds scales to the experts' matrices, which hold values that fp4_rows() has made."""
    for key in [k for k in tensors if re.search(r"ffn\.experts\.\d+\.w\d\.weight$", k)]:
        codes, scales, exact = fp4_rows(tensors[key])
        assert torch.equal(exact.to(torch.bfloat16), tensors[key])
        tensors[key], tensors[key.replace(".weight", ".scale")] = codes, scales
    return tensors


def quantize_experts(model):
    """{name: (blocks, exponents)} of the expert matrices, whose values become what those say."""
    packed = {}
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
                blocks, exponents, exact = to_mxfp4(p)
                p.copy_(exact)
                packed[name] = blocks, exponents
    return packed


def logits_of(model, ids, **kw):
    with torch.no_grad():
        return model(input_ids=torch.tensor([ids]), use_cache=False, **kw)


def greedy(model, ids):
    out = list(ids)
    for _ in range(STEPS):
        out.append(int(logits_of(model, out).logits[0, -1].argmax()))
    return out[len(ids):]


def make_prompt(model, noisy, n, gen, bos):
    """Draws prompts until the greedy run is well separated: margins above 0.02, little noise, some variety. Takes the best of eight."""
    best = None
    for _ in range(8):
        ids = torch.randint(3, text_config(model).vocab_size, (n,), generator=gen).tolist()
        if n > 1:
            ids[0] = bos
        # A longrope model is one model below the switch and another above: the run's total length decides, as for a server with that limit.
        more = greedy(model, ids)
        logits = logits_of(model, ids + more).logits[0].float()
        steps = logits[n - 1:n + STEPS - 1]
        top = steps.topk(2, -1).values
        margin = top[:, 0] - top[:, 1]
        if steps.argmax(-1).tolist() != more:
            margin[:] = 0
        noise = float((logits - logits_of(noisy, ids + more).logits[0]).abs().max())
        score = (min(float(margin.min()), 0.02), min(len(set(more)), 6), -noise)
        if best is None or score > best[0]:
            best = (score, ids, more, logits, margin, noise)
        if score[0] >= 0.02 and score[1] >= 6 and noise < 2e-3:
            break
    return best[1:]


def rows_to_keep(n):
    return list(range(n + STEPS)) if n <= 64 else list(range(0, n, 8)) + list(range(n - 1, n + STEPS))


def deepseek_name(k):
    """DeepSeek V4's own names; save_pretrained comes close to them."""
    k = re.sub(r"^model\.", "", k).replace("embed_tokens.weight", "embed.weight").replace("lm_head.weight", "head.weight")
    return re.sub(r"^hc_head\.hc_", "hc_head_", k).replace(".attn.norm.", ".attn.kv_norm.")


def published(tensors, spec):
    for pattern, there in spec.get("rename", []):
        tensors = {re.sub(pattern, there, k): t for k, t in tensors.items()}
    if "conv_split" in spec:  # transformers 5 splits what it has joined into three equal parts
        for k in [k for k in tensors if k.endswith("q_conv1d.weight")]:
            names = [k.replace("q_conv1d", part + "_conv1d") for part in "qkv"]
            tensors.update(zip(names, torch.cat([tensors[n] for n in names]).split(spec["conv_split"])))
    wrap = spec.get("wrap")
    if spec["config"]["model_type"] == "deepseek_v4":
        return {deepseek_name(k): t for k, t in tensors.items()}
    if not wrap or "inside" in spec:
        return tensors
    swap = lambda k: wrap["body"] + k[len("model."):] if k.startswith("model.") else k.replace("lm_head.", wrap["head"])
    return {swap(k): t for k, t in tensors.items()}


def add_unused_kv(tensors, spec, gen):
    config, body = spec["config"], spec.get("wrap", {}).get("body", "model.")
    types, first = config["layer_types"], config["num_hidden_layers"] - config["num_kv_shared_layers"]
    for i in range(first, config["num_hidden_layers"]):
        like = max(j for j in range(first) if types[j] == types[i])
        for part in ("k_proj", "v_proj", "k_norm"):
            shape = tensors[f"{body}layers.{like}.self_attn.{part}.weight"].shape
            tensors[f"{body}layers.{i}.self_attn.{part}.weight"] = torch.randn(shape, generator=gen).to(torch.bfloat16)


def published_config(spec):
    config = dict(spec["config"], torch_dtype="bfloat16")
    if spec.get("mxfp4"):
        config["quantization_config"] = dict(quant_method="mxfp4", modules_to_not_convert=["model.layers.*.self_attn", "model.layers.*.mlp.router",
                                                                                          "model.embed_tokens", "lm_head"])
    if spec.get("fp4"):
        config["quantization_config"] = dict(quant_method="fp8", fmt="e4m3", scale_fmt="ue8m0", weight_block_size=[128, 128],
                                             activation_scheme="dynamic")
    wrap = spec.get("wrap")
    if wrap:
        text = {k: v for k, v in config.items() if k != "architectures"}
        config = dict(architectures=[wrap["architecture"]], model_type=wrap["model_type"], torch_dtype="bfloat16", text_config=text)
        if "tie_word_embeddings" in text:
            config["tie_word_embeddings"] = text.pop("tie_word_embeddings")
    return config


def with_fp4_experts(model):
    """The values of its experts become what four bits can say."""
    with torch.no_grad():
        for key, p in model.named_parameters():
            if key.endswith(("experts.gate_up_proj", "experts.down_proj")):
                for e in range(p.shape[0]):
                    p[e].copy_(fp4_rows(p[e])[2])
    return model


def random_model(spec, gen):
    model = build(spec)
    randomize(model, spec, gen)
    return with_fp4_experts(model) if spec.get("fp4") else model


def saved(model):
    """What save_pretrained() writes: tensors but for those of pictures, and the configuration."""
    with tempfile.TemporaryDirectory() as tmp:
        copy.deepcopy(model).to(torch.bfloat16).save_pretrained(tmp)  # a copy: the rotary frequencies of `model` must stay float32
        tensors = load_file(os.path.join(tmp, "model.safetensors"))
        return {k: t for k, t in tensors.items() if not VISION.search(k)}, json.load(open(os.path.join(tmp, "config.json")))


def with_noise(model, gen):
    noisy = copy.deepcopy(model)
    with torch.no_grad():
        for p in noisy.parameters():
            p.mul_(1 + 1e-6 * torch.randn(p.shape, generator=gen))
    return noisy


def run(name, out, seed):
    spec = FAMILIES[name]
    seed = (seed * 1000003 + zlib.crc32(name.encode())) % 2**31
    folder = os.path.join(out, name)
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(seed)
    model = random_model(spec, torch.Generator().manual_seed(seed))
    packed = quantize_experts(model) if spec.get("mxfp4") else {}
    noisy = with_noise(model, torch.Generator().manual_seed(seed + 1))
    tensors, v5 = saved(model)
    for key, (blocks, exponents) in packed.items():
        tensors.pop(key)
        tensors[key + "_blocks"], tensors[key + "_scales"] = blocks, exponents
    tensors = published(tensors, spec)
    if spec.get("unused_kv"):
        add_unused_kv(tensors, spec, torch.Generator().manual_seed(seed + 3))
    heads = [draft_heads.Head(model, spec, torch.Generator().manual_seed(seed + 10 + h), random_model) for h in range(spec.get("mtp", {}).get("heads", 0))]
    for h, head in enumerate(heads):
        tensors.update(head.tensors(h, published(saved(head.inner)[0], spec)))
    if spec.get("fp4"):
        tensors = fp4_experts(tensors)
        v5["quantization_config"] = published_config(spec)["quantization_config"]
    save_file({k: tensors[k].contiguous() for k in sorted(tensors)}, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    json.dump(published_config(spec), open(os.path.join(folder, "config.json"), "w"), indent=1)
    wrap = spec.get("wrap")
    if spec.get("v5_wrapped"):
        text = {k: v for k, v in v5.items() if k not in ("architectures", "transformers_version")}
        v5 = dict(architectures=[wrap["architecture"]], model_type=wrap["model_type"], text_config=text, tie_word_embeddings=False, dtype="bfloat16",
                  transformers_version=v5["transformers_version"])
    if not wrap and not spec.get("inside") or spec.get("v5_wrapped") or spec.get("v5_whole"):
        json.dump(v5, open(os.path.join(folder, "config.v5.json"), "w"), indent=1)

    golden, prompts, texts = {}, [], []
    gen = torch.Generator().manual_seed(seed + 2)
    for k, n in enumerate(PROMPTS):
        ids, more, logits, margin, noise = make_prompt(model, noisy, n, gen, spec["config"]["bos_token_id"])
        rows = rows_to_keep(n)
        texts.append((ids, more))
        golden[f"ids_{k}"] = torch.tensor(ids, dtype=torch.int32)
        golden[f"greedy_{k}"] = torch.tensor(more, dtype=torch.int32)
        golden[f"margin_{k}"] = margin.contiguous()
        golden[f"rows_{k}"] = torch.tensor(rows, dtype=torch.int32)
        golden[f"logits_{k}"] = logits[rows].contiguous()
        # Another order of float32 sums moves logits about a tenth as far as weight noise of 1e-6 does; twice the latter is a mistake.
        prompts.append(dict(tokens=n, min_margin=float(margin.min()), noise=noise, tolerance=max(1e-4, 2 * noise), distinct=len(set(more)),
                            std=float(logits.std())))
        if n == HIDDEN:
            states = logits_of(model, ids, output_hidden_states=True).hidden_states
            if "Mamba" in type(model).__name__:  # these classes leave the embeddings out and show the last layer's own output instead
                states = (model.get_input_embeddings()(torch.tensor([ids])), *states[:-2], states[-1])
            if spec.get("pairs"):  # two of our layers are one there; what stands between them is what the second norm reads
                between = []
                hooks = [l.input_layernorm[1].register_forward_pre_hook(lambda m, args: between.append(args[0])) for l in model.model.layers]
                logits_of(model, ids)
                for hook in hooks:
                    hook.remove()
                states = [h for pair in zip(states, between) for h in pair] + [states[-1]]
            if spec.get("streams"):  # each is all streams; the last one is not the final norm's output there
                with torch.no_grad():
                    final = model.model(input_ids=torch.tensor([ids]), use_cache=False).last_hidden_state
                states = (*(h[0] for h in states[:spec["config"]["num_hidden_layers"]]), final)
            for i, h in enumerate(states):
                golden[f"hidden_{i}"] = h[0].float().contiguous()
    if heads:
        noisy_heads = [head.noisy(torch.Generator().manual_seed(seed + 20)) for head in heads]
        more, tolerances = draft_heads.goldens([model, noisy], [heads, noisy_heads], texts)
        golden.update(more)
        for p, tolerance in zip(prompts, tolerances):
            p["mtp_tolerance"] = tolerance
    save_file(golden, os.path.join(folder, "golden.safetensors"))
    meta = dict(family=name, seed=seed, torch=torch.__version__.split("+")[0], transformers=transformers.__version__, prompts=prompts)
    json.dump(meta, open(os.path.join(folder, "meta.json"), "w"), indent=1)
    size = sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder))
    worst = lambda key, f: f(p[key] for p in prompts)
    print(f"{name:18s} {size / 1e3:6.0f} kB  margin >= {worst('min_margin', min):.4f}  noise <= {worst('noise', max):.1e}  "
          f"distinct >= {worst('distinct', min)}  std >= {worst('std', min):.2f}", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", required=True)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--families", default="", help="comma-separated; default all")
    a = p.parse_args()
    for name in [x for x in a.families.split(",") if x] or FAMILIES:
        run(name, a.out, a.seed)


if __name__ == "__main__":
    main()
