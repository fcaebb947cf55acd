"""Multi-token-prediction heads for the oracle. A head is a model of one layer, as transformers has it, that reads what a way in of the head's own makes of an
embedding and a hidden state; its tensors go into the checkpoint under their published names.

A family's option `mtp`: style (a row of STYLES), heads (how many), layer (what the configuration of a model of such a layer has instead), own_tables (embedding
and output matrix of the heads differ from the model's)."""
import copy, math, re
import torch

# prefix: of the head's layer ({body}, {layer}: as the model's layers, counted on; {head}: number of the head). own: of the other tensors, named behind it.
# raw: the state before final norms is read and handed on. copies: heads come with matrices that are the model's.
DEEPSEEK = dict(prefix="{body}layers.{layer}.", join="eh_proj", embed_norm="enorm", hidden_norm="hnorm", norm="shared_head.norm",
                copies=dict(embed="embed_tokens", head="shared_head.head"))
STYLES = dict(
    deepseek=DEEPSEEK,
    step=dict(DEEPSEEK, norm="transformer.shared_head.norm", copies=dict(head="transformer.shared_head.output"), raw=True),
    qwen=dict(prefix="mtp.layers.{head}.", own="mtp.", join="fc", embed_norm="pre_fc_norm_embedding", hidden_norm="pre_fc_norm_hidden", norm="norm"),
    mimo=dict(DEEPSEEK, prefix="{body}mtp.layers.{head}.", norm="final_layernorm", copies={}, rename=[("post_attention_layernorm", "pre_mlp_layernorm")]),
    deepseek4=dict(prefix="mtp.{head}.", from_embed="e_proj", from_hidden="h_proj", embed_norm="enorm", hidden_norm="hnorm", norm="norm"),
)


def bf16(t):
    return t.to(torch.bfloat16).float()


def one_layer(spec):
    """The family with a head's layer alone."""
    config = dict(spec["config"], **{k: 0 for k in ("num_nextn_predict_layers", "mtp_num_hidden_layers") if k in spec["config"]})
    return dict(spec, config=dict(config, num_hidden_layers=1, **spec["mtp"].get("layer", {})))


def run_decoder(model, style, streams=None, **inputs):
    """What heads read of a model, and the state after its final norm. streams: what the first layer gets instead of the spread embeddings."""
    decoder, seen = model.get_decoder(), {}
    first = lambda x: x[0] if isinstance(x, tuple) else x
    hooks = [decoder.norm.register_forward_pre_hook(lambda m, a: seen.update(raw=a[0])),
             decoder.layers[-1].register_forward_hook(lambda m, a, out: seen.update(streams=first(out)))]
    if streams is not None:
        hooks.append(decoder.layers[0].register_forward_pre_hook(lambda m, a: (streams, *a[1:])))
    with torch.no_grad():
        final = decoder(use_cache=False, **inputs).last_hidden_state
    for hook in hooks:
        hook.remove()
    return seen["streams"] if "from_embed" in style else seen["raw"] if style.get("raw") else final, final


class Head:
    def __init__(self, model, spec, gen, make):
        self.style, self.after = STYLES[spec["mtp"]["style"]], spec["config"]["num_hidden_layers"]
        self.inner = make(one_layer(spec), gen)
        final = self.inner.get_decoder().norm
        hidden = final.weight.numel()
        zero_centred = int(type(final)(hidden).weight.mean() < 0.5)
        normal = lambda *shape: torch.randn(shape, generator=gen)
        self.embed_norm, self.hidden_norm = copy.deepcopy(final), copy.deepcopy(final)
        with torch.no_grad():
            for norm in (self.embed_norm, self.hidden_norm):
                norm.weight.copy_(bf16(1 + 0.2 * normal(hidden) - zero_centred))
        ways = ("from_embed", "from_hidden") if "from_embed" in self.style else ("join",)
        self.ways = {way: bf16(normal(hidden, 2 * hidden // len(ways)) / math.sqrt(2 * hidden)) for way in ways}
        self.embed, self.head = model.get_input_embeddings().weight.detach(), model.get_output_embeddings().weight.detach()
        if spec["mtp"].get("own_tables"):
            self.embed, self.head = (bf16(t + t.std() * normal(*t.shape)) for t in (self.embed, self.head))

    def noisy(self, gen):
        other = copy.deepcopy(self)
        with torch.no_grad():
            for p in (*other.inner.parameters(), other.embed_norm.weight, other.hidden_norm.weight, *other.ways.values()):
                p.mul_(1 + 1e-6 * torch.randn(p.shape, generator=gen))
        return other

    def __call__(self, state, tokens):
        """Of each position the logits for the token after `tokens`, and what the next head reads."""
        with torch.no_grad():
            e, h = self.embed_norm(self.embed[tokens][None]), self.hidden_norm(state)
            streams = None
            if "join" in self.ways:
                x = torch.cat([e, h], -1) @ self.ways["join"].T
            else:
                x = e
                streams = (e @ self.ways["from_embed"].T).unsqueeze(2) + h @ self.ways["from_hidden"].T
            state, final = run_decoder(self.inner, self.style, streams, inputs_embeds=x)
            return (final @ self.head.T)[0].float(), state

    def tensors(self, number, saved):
        """Under published names; `saved`: the tensors of `inner` under the names that a model of that layer has."""
        style, out = self.style, {}
        body = next(m.group(1) for m in (re.match(r"(.*?)layers\.0\.", k) for k in saved) if m)
        prefix = style["prefix"].format(body=body, layer=self.after + number, head=number)
        own = style.get("own", prefix)
        for k, t in saved.items():
            if k.startswith(body + "layers.0."):
                rest = k[len(body + "layers.0."):]
                for pattern, there in style.get("rename", []):
                    rest = rest.replace(pattern, there)
                out[prefix + rest] = t
            elif re.search(r"(^|\.)norm\.weight$", k):
                out[own + style["norm"] + ".weight"] = t
            elif "hc_head_" in k:
                out[own + k[k.index("hc_head_"):]] = t
        for name in ("embed_norm", "hidden_norm"):
            out[own + style[name] + ".weight"] = getattr(self, name).weight.detach().to(torch.bfloat16)
        for way, t in self.ways.items():
            out[own + style[way] + ".weight"] = t.to(torch.bfloat16)
        for table, name in style.get("copies", {}).items():
            out[own + name + ".weight"] = getattr(self, table).to(torch.bfloat16)
        return out


def rows_to_keep(n):
    return list(range(n)) if n <= 64 else [*range(0, n, 8), n - 1]


def goldens(models, heads, prompts):
    """mtp_rows_k [r], mtp_logits_k_h [r, V] of head h, and the tolerance of each prompt. models, heads: as they are, and with noise; prompts: (ids, greedy)."""
    golden, tolerances = {}, []
    for k, (ids, more) in enumerate(prompts):
        n, rows, noise = len(ids), rows_to_keep(len(ids)), 0.0
        states = [run_decoder(m, heads[0][0].style, input_ids=torch.tensor([ids]))[0] for m in models]
        golden[f"mtp_rows_{k}"] = torch.tensor(rows, dtype=torch.int32)
        for h in range(len(heads[0])):
            tokens = torch.tensor((ids + more)[h + 1:h + 1 + n])
            runs = [chain[h](state, tokens) for chain, state in zip(heads, states)]
            states = [state for _, state in runs]
            golden[f"mtp_logits_{k}_{h}"] = runs[0][0][rows].contiguous()
            noise = max(noise, float((runs[0][0] - runs[1][0]).abs().max()))
        tolerances.append(max(1e-4, 2 * noise))
    return golden, tolerances
