"""Writes the small random encoders of goldens/ and what `transformers` makes of a few inputs.

  python make_goldens.py --out goldens

Each folder is a model as published ones are laid out, with `expected.json`: inputs as token ids, and the vectors or scores from the same bfloat16 weights computed in float32.
"""
import argparse
import json
import pathlib
import random

import torch
from transformers import (BertConfig, BertForSequenceClassification, BertModel, DistilBertConfig, DistilBertModel, RobertaConfig, RobertaModel,
                          XLMRobertaConfig, XLMRobertaForSequenceClassification)

SIZES = dict(vocab_size=99, hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=40, max_position_embeddings=300)
POOLINGS = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token", "max": "pooling_mode_max_tokens", "last": "pooling_mode_lasttoken"}


def inputs(seed, pairs):
    r = random.Random(seed)
    out = []
    for n in (1, 2, 3, 15, 16, 17, 40, 127, 128, 129, 200, 290):
        ids = [r.randrange(3, 99) for _ in range(n)]
        out.append({"tokens": ids, "second": r.randrange(1, n) if pairs and n > 2 else -1})
    return out


def pooled(rows, mode):
    return {"mean": rows.mean(0), "cls": rows[0], "last": rows[-1], "max": rows.max(0).values}[mode]


def write(folder, model, mode, unit, pairs, types):
    folder.mkdir(parents=True, exist_ok=True)
    model = model.float().eval()
    for name, p in model.named_parameters():  # random, and large enough that every part matters
        torch.manual_seed(sum(name.encode()))
        torch.nn.init.normal_(p, 1.0 if "LayerNorm.weight" in name or "layer_norm.weight" in name else 0.0, 0.15)
    model.to(torch.bfloat16).save_pretrained(folder, safe_serialization=True)
    model = model.float()
    (folder / "generation_config.json").unlink(missing_ok=True)
    if mode:
        modules = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                   {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}]
        if unit:
            modules.append({"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"})
        (folder / "modules.json").write_text(json.dumps(modules))
        (folder / "1_Pooling").mkdir(exist_ok=True)
        (folder / "1_Pooling" / "config.json").write_text(json.dumps({"word_embedding_dimension": 16, **{k: m == mode for m, k in POOLINGS.items()}}))
    cases = inputs(len(folder.name), pairs)
    for c in cases:
        ids = torch.tensor([c["tokens"]])
        extra = {}
        if types:
            extra["token_type_ids"] = torch.tensor([[int(0 <= c["second"] <= i) for i in range(len(c["tokens"]))]])
        with torch.inference_mode():
            out = model(ids, attention_mask=torch.ones_like(ids), **extra)
        if mode:
            v = pooled(out.last_hidden_state[0].double(), mode)
            v = v / v.norm() if unit else v
        else:
            v = torch.sigmoid(out.logits[0].double())
        c["expected"] = v.tolist()
    (folder / "expected.json").write_text(json.dumps({"pooling": mode, "normalize": unit, "cases": cases}))


def main():
    args = argparse.ArgumentParser()
    args.add_argument("--out", type=pathlib.Path, required=True)
    out = args.parse_args().out
    write(out / "bert-mean", BertModel(BertConfig(**SIZES), add_pooling_layer=True), "mean", True, True, True)
    write(out / "bert-cls-tanh", BertModel(BertConfig(**SIZES, hidden_act="gelu_new", layer_norm_eps=1e-5)), "cls", False, False, True)
    roberta = dict(SIZES, max_position_embeddings=302, type_vocab_size=1, pad_token_id=1)
    write(out / "roberta-max", RobertaModel(RobertaConfig(**roberta)), "max", False, False, False)
    write(out / "distilbert-last", DistilBertModel(DistilBertConfig(vocab_size=99, dim=16, n_layers=2, n_heads=2, hidden_dim=40, max_position_embeddings=300)),
          "last", True, False, False)
    write(out / "bert-cross", BertForSequenceClassification(BertConfig(**SIZES, num_labels=1)), None, False, True, True)
    write(out / "xlm-roberta-cross", XLMRobertaForSequenceClassification(XLMRobertaConfig(**roberta, num_labels=1)), None, False, False, False)


if __name__ == "__main__":
    main()
