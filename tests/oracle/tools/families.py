"""The tiny models of the oracle, one entry a family. `config` is what a published config.json of the family looks like (style before
transformers 5: rope_theta and rope_scaling at the top level); sizes are small, ratios and switches are those of real models.

Entry keys: config; embed_std, final_norm, logit_gain, qk_norm (scale of random weights, so that logits spread like a real model's); wrap (the text model
sits inside a vision-language checkpoint: architecture, model_type, prefixes); gguf (False where GGUF cannot say what config.json says);
fuse_qkv (one matrix for q, k and v in the GGUF file); inside (the family exists in transformers only inside a vision-language class, which is built
with a small vision tower and stripped of it: architecture, model_type and what its configuration takes besides the text model's); rename (pairs of a pattern and what
published files have instead of it); conv_split (rows of the short convolutions that published files keep apart); unused_kv (layers that read another
one's keys and values come with matrices for them all the same, as in published files); streams (the residual is several streams, of which the goldens show the first);
pairs (a layer of theirs is two of ours); raw_config (llama.cpp's converter gets config.json
as it is, not as transformers reads it); fp4 (experts as DeepSeek V4 ships them); mtp (multi-token-prediction heads: see draft_heads.py); v5_whole,
v5_wrapped (what transformers 5 writes for a model inside a wrapper: as it is, or put back into the wrapper)."""

VOCAB = 256


def merged(*dicts, **more):
    out = {}
    for d in dicts:
        out.update(d)
    out.update(more)
    return out


BASE = dict(vocab_size=VOCAB, hidden_size=64, intermediate_size=96, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
            hidden_act="silu", rms_norm_eps=1e-5, max_position_embeddings=4096, rope_theta=10000.0, tie_word_embeddings=False,
            bos_token_id=1, eos_token_id=2, initializer_range=0.02, use_cache=True, attention_dropout=0.0)
LLAMA3 = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=64, rope_type="llama3")
QWEN = merged(BASE, rms_norm_eps=1e-6, rope_theta=1000000.0, use_sliding_window=False, max_window_layers=28)
GEMMA = merged(BASE, head_dim=32, rms_norm_eps=1e-6, hidden_act="gelu_pytorch_tanh", hidden_activation="gelu_pytorch_tanh", attention_bias=False,
               pad_token_id=0, bos_token_id=2, eos_token_id=1)
del GEMMA["tie_word_embeddings"]  # as published: the class' default (tied) holds
GEMMA3 = merged(GEMMA, num_hidden_layers=6, intermediate_size=64, rope_theta=1000000, rope_local_base_freq=10000, query_pre_attn_scalar=32,
                rope_scaling=dict(factor=8.0, rope_type="linear"), sliding_window=16, sliding_window_pattern=6,
                attn_logit_softcapping=None, final_logit_softcapping=None)
PHI = merged(BASE, original_max_position_embeddings=64, embd_pdrop=0.0, resid_pdrop=0.0, attention_bias=False, pad_token_id=0)
GEMMA_WEIGHTS = dict(embed_std=0.025, final_norm=12.0)

FAMILIES = {}


def family(name, model_type, architecture, config, **options):
    kind = dict(architectures=[architecture], model_type=model_type)
    FAMILIES[name] = merged(options, config=merged(kind, config, kind))


family("llama", "llama", "LlamaForCausalLM", merged(BASE, rope_theta=500000.0, rope_scaling=LLAMA3, attention_bias=False, mlp_bias=False, head_dim=16))
family("llama2", "llama", "LlamaForCausalLM", merged(BASE, num_key_value_heads=4, rope_scaling=None, pretraining_tp=1, max_position_embeddings=2048))
family("llama32_tied", "llama", "LlamaForCausalLM", merged(BASE, rope_theta=500000.0, head_dim=32, tie_word_embeddings=True,
                                                          rope_scaling=merged(LLAMA3, factor=32.0)))
family("llama_bias_linear", "llama", "LlamaForCausalLM", merged(BASE, attention_bias=True, mlp_bias=True, rope_scaling=dict(type="linear", factor=4.0)),
       fuse_qkv=True)
family("llama_yarn", "llama", "LlamaForCausalLM", merged(BASE, rope_scaling=dict(rope_type="yarn", factor=8.0, original_max_position_embeddings=64,
       attention_factor=1.1, beta_fast=16.0, beta_slow=2.0, truncate=False)), gguf=False)  # GGUF has no key for truncate
family("mistral", "mistral", "MistralForCausalLM", merged(BASE, sliding_window=16), gguf=False)  # its GGUF architecture "llama" drops the window
family("mistral_nemo", "mistral", "MistralForCausalLM", merged(BASE, head_dim=32, sliding_window=None, rope_theta=1000000.0))
family("mistral3", "mistral", "MistralForCausalLM", merged(BASE, head_dim=32, sliding_window=None, rope_theta=1000000000.0), gguf=False,
       wrap=dict(architecture="Mistral3ForConditionalGeneration", model_type="mistral3", body="language_model.model.", head="language_model.lm_head."))
family("smollm3", "smollm3", "SmolLM3ForCausalLM", merged(BASE, num_hidden_layers=4, intermediate_size=64, rope_theta=2000000.0, no_rope_layers=[1, 1, 1, 0],
       no_rope_layer_interval=4, layer_types=["full_attention"] * 4, attention_bias=False, mlp_bias=False, tie_word_embeddings=True,
       use_sliding_window=False, sliding_window=None, max_window_layers=28, pad_token_id=0))
family("qwen2", "qwen2", "Qwen2ForCausalLM", merged(QWEN, tie_word_embeddings=True, sliding_window=32768))
family("qwen2_sliding", "qwen2", "Qwen2ForCausalLM", merged(QWEN, use_sliding_window=True, sliding_window=16, max_window_layers=1), gguf=False)
family("qwen2_yarn", "qwen2", "Qwen2ForCausalLM", merged(QWEN, sliding_window=32768,
                                                        rope_scaling=dict(type="yarn", factor=4.0, original_max_position_embeddings=64)))
family("qwen3", "qwen3", "Qwen3ForCausalLM", merged(QWEN, head_dim=32, attention_bias=False, tie_word_embeddings=True, sliding_window=None, rope_scaling=None))
family("qwen3_yarn", "qwen3", "Qwen3ForCausalLM", merged(QWEN, head_dim=32, attention_bias=False, sliding_window=None,
                                                        rope_scaling=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64)))
family("gemma", "gemma", "GemmaForCausalLM", merged(GEMMA, num_key_value_heads=1), **GEMMA_WEIGHTS)
family("gemma2", "gemma2", "Gemma2ForCausalLM", merged(GEMMA, attn_logit_softcapping=50.0, final_logit_softcapping=30.0, query_pre_attn_scalar=32,
                                                      sliding_window=16, cache_implementation="hybrid"), **GEMMA_WEIGHTS)
family("gemma2_scalar", "gemma2", "Gemma2ForCausalLM", merged(GEMMA, attn_logit_softcapping=5.0, final_logit_softcapping=30.0, query_pre_attn_scalar=24,
                                                             sliding_window=16), gguf=False, **GEMMA_WEIGHTS)  # GGUF has no key for the scalar
family("gemma3", "gemma3_text", "Gemma3ForCausalLM", GEMMA3, **GEMMA_WEIGHTS)
family("gemma3_4b", "gemma3_text", "Gemma3ForCausalLM", merged(GEMMA3, num_hidden_layers=2, sliding_window_pattern=2), gguf=False, **GEMMA_WEIGHTS,
       wrap=dict(architecture="Gemma3ForConditionalGeneration", model_type="gemma3", body="language_model.model.", head="language_model.lm_head."))
family("phi3", "phi3", "Phi3ForCausalLM", merged(PHI, num_key_value_heads=4, sliding_window=32, rope_scaling=dict(
       type="longrope", short_factor=[1.0, 1.1, 1.2, 1.3, 1.5, 1.8, 2.0, 2.2], long_factor=[1.1, 1.5, 2.5, 5.0, 9.0, 14.0, 20.0, 30.0])))
family("phi4_mini", "phi3", "Phi3ForCausalLM", merged(PHI, sliding_window=262144, partial_rotary_factor=0.75, tie_word_embeddings=True, rope_scaling=dict(
       type="longrope", short_factor=[1.0] * 6, long_factor=[1.0, 1.2, 2.0, 5.0, 12.0, 25.0])))
family("olmo2", "olmo2", "Olmo2ForCausalLM", merged(BASE, num_key_value_heads=4, rope_theta=500000, attention_bias=False, rms_norm_eps=1e-6))
family("olmo3", "olmo3", "Olmo3ForCausalLM", merged(BASE, num_hidden_layers=2, num_key_value_heads=4, rope_theta=500000, attention_bias=False, rms_norm_eps=1e-6,
       sliding_window=16, layer_types=["sliding_attention", "full_attention"], rope_scaling=dict(rope_type="yarn", factor=8.0,
       original_max_position_embeddings=64, attention_factor=1.2079441541679836, beta_fast=32.0, beta_slow=1.0)))
family("granite", "granite", "GraniteForCausalLM", merged(BASE, tie_word_embeddings=True, attention_bias=False, mlp_bias=False, embedding_multiplier=12.0,
       logits_scaling=2.0, residual_multiplier=0.22, attention_multiplier=0.0625), embed_std=0.006, final_norm=100.0, logit_gain=2.0)

MOE = dict(num_experts=8, num_experts_per_tok=3, moe_intermediate_size=32)
QWEN_MOE = merged(QWEN, MOE, decoder_sparse_step=1, sliding_window=None, attention_bias=False)
family("mixtral", "mixtral", "MixtralForCausalLM", merged(BASE, num_local_experts=8, num_experts_per_tok=2, intermediate_size=32, sliding_window=None,
       rope_theta=1000000.0))
family("qwen2_moe", "qwen2_moe", "Qwen2MoeForCausalLM", merged(QWEN_MOE, shared_expert_intermediate_size=64, num_experts_per_tok=4, norm_topk_prob=False,
       mlp_only_layers=[], qkv_bias=True, sliding_window=32768))
family("qwen3_moe", "qwen3_moe", "Qwen3MoeForCausalLM", merged(QWEN_MOE, head_dim=32, norm_topk_prob=True, mlp_only_layers=[], rope_scaling=None))
family("qwen3_moe_dense", "qwen3_moe", "Qwen3MoeForCausalLM", merged(QWEN_MOE, head_dim=32, norm_topk_prob=True, mlp_only_layers=[0], rope_scaling=None,
       tie_word_embeddings=True), gguf=False)  # its GGUF architecture has no dense layers
family("olmoe", "olmoe", "OlmoeForCausalLM", merged(BASE, num_key_value_heads=4, num_experts=8, num_experts_per_tok=3, intermediate_size=32,
       norm_topk_prob=False, clip_qkv=None, attention_bias=False, rope_scaling=None))
family("granitemoe", "granitemoe", "GraniteMoeForCausalLM", merged(FAMILIES["granite"]["config"], num_local_experts=8, num_experts_per_tok=3,
       intermediate_size=32), embed_std=0.006, final_norm=100.0, logit_gain=2.0)
family("seed_oss", "seed_oss", "SeedOssForCausalLM", merged(BASE, head_dim=32, attention_bias=True, attention_out_bias=False, mlp_bias=False,
       rope_theta=10000000.0, rope_scaling=dict(rope_type="default"), rms_norm_eps=1e-6, residual_dropout=0.0))
family("ernie4_5", "ernie4_5", "Ernie4_5ForCausalLM", merged(BASE, head_dim=32, use_bias=False, rope_theta=500000.0, tie_word_embeddings=True, pad_token_id=0))
family("ernie4_5_moe", "ernie4_5_moe", "Ernie4_5_MoeForCausalLM", merged(BASE, num_hidden_layers=3, intermediate_size=128, use_bias=False, rope_theta=500000.0,
       tie_word_embeddings=True, pad_token_id=0, moe_capacity=[64, 64, 64], moe_gate="topk", moe_intermediate_size=32, moe_k=3, moe_layer_interval=1,
       moe_layer_start_index=1, moe_layer_end_index=2, moe_num_experts=8, moe_num_shared_experts=2, moe_use_aux_free=True))
family("glm4", "glm4", "Glm4ForCausalLM", merged(BASE, pad_token_id=0, head_dim=16, attention_bias=True, partial_rotary_factor=0.5))
DEEPSEEK_MOE = dict(moe_intermediate_size=32, n_routed_experts=8, n_shared_experts=1, num_experts_per_tok=3, n_group=1, topk_group=1, norm_topk_prob=True,
                    routed_scaling_factor=2.5, first_k_dense_replace=1)
DEEPSEEK_HEAD = dict(style="deepseek", layer=dict(first_k_dense_replace=0))
family("glm4_moe", "glm4_moe", "Glm4MoeForCausalLM", merged(BASE, DEEPSEEK_MOE, head_dim=32, attention_bias=True, partial_rotary_factor=0.5, use_qk_norm=True,
       num_nextn_predict_layers=1, rope_theta=1000000, rope_scaling=None), mtp=dict(DEEPSEEK_HEAD, heads=1))
MLA = merged(BASE, DEEPSEEK_MOE, num_key_value_heads=4, rms_norm_eps=1e-6, attention_bias=False, kv_lora_rank=32, qk_nope_head_dim=16, qk_rope_head_dim=8,
             v_head_dim=16, q_lora_rank=48, moe_layer_freq=1)
YARN_MLA = dict(type="yarn", factor=40, beta_fast=32, beta_slow=1, original_max_position_embeddings=64)
DEEPSEEK_V2 = merged(MLA, n_shared_experts=2, scoring_func="softmax", norm_topk_prob=False, rope_scaling=merged(YARN_MLA, mscale=0.707, mscale_all_dim=0.707))
family("deepseek_v2_lite", "deepseek_v2", "DeepseekV2ForCausalLM", merged(DEEPSEEK_V2, q_lora_rank=None, topk_method="greedy", routed_scaling_factor=1.0))
family("deepseek_v2", "deepseek_v2", "DeepseekV2ForCausalLM", merged(DEEPSEEK_V2, n_group=4, topk_group=2, topk_method="group_limited_greedy",
       routed_scaling_factor=4.0))
DEEPSEEK_V3 = merged(MLA, n_group=4, topk_group=2, topk_method="noaux_tc", scoring_func="sigmoid", ep_size=1, num_nextn_predict_layers=0,
                     rope_scaling=merged(YARN_MLA, mscale=1.0, mscale_all_dim=1.0))
family("deepseek_v3", "deepseek_v3", "DeepseekV3ForCausalLM", merged(DEEPSEEK_V3, num_nextn_predict_layers=2), mtp=dict(DEEPSEEK_HEAD, heads=2))
KIMI_K2 = merged(DEEPSEEK_V3, n_group=1, topk_group=1, routed_scaling_factor=2.827, rope_theta=50000.0)
family("kimi_k25", "deepseek_v3", "DeepseekV3ForCausalLM", merged(KIMI_K2, rope_scaling=merged(DEEPSEEK_V3["rope_scaling"], factor=32.0, beta_fast=1.0)), gguf=False,
       wrap=dict(architecture="KimiK25ForConditionalGeneration", model_type="kimi_k25", body="language_model.model.", head="language_model.lm_head."))
family("glm4_moe_lite", "glm4_moe_lite", "Glm4MoeLiteForCausalLM", merged(MLA, topk_method="noaux_tc", routed_scaling_factor=1.8, num_nextn_predict_layers=1,
       rope_theta=1000000, rope_scaling=None, partial_rotary_factor=1.0),
       mtp=dict(style="deepseek", heads=1, own_tables=True, layer=dict(mlp_layer_types=["sparse"])))
# Attention to the keys that an indexer chooses. Many index heads, or their rectified scores would be zero together and tie.
INDEX = dict(index_n_heads=16, index_head_dim=16, index_topk=16)
family("deepseek_v32", "deepseek_v32", "DeepseekV32ForCausalLM", merged(DEEPSEEK_V3, INDEX, num_nextn_predict_layers=1),
       mtp=dict(DEEPSEEK_HEAD, heads=1))
family("glm_moe_dsa", "glm_moe_dsa", "GlmMoeDsaForCausalLM", merged(MLA, INDEX, num_hidden_layers=4, scoring_func="sigmoid", topk_method="noaux_tc",
       num_nextn_predict_layers=1, index_topk_freq=2, index_skip_topk_offset=2, indexer_types=["full", "full", "shared", "full"],
       indexer_rope_interleave=True, rope_interleave=True, rope_theta=None,
       rope_parameters=dict(rope_theta=1000000, rope_type="default")),
       mtp=dict(style="deepseek", heads=1, layer=dict(first_k_dense_replace=0, indexer_types=["full"])))
family("minimax_m3", "minimax_m3_vl_text", "MiniMaxM3VLForCausalLM", merged(BASE, num_hidden_layers=3, head_dim=32, rotary_dim=16,
       partial_rotary_factor=0.5,
       intermediate_size=32, dense_intermediate_size=96, shared_intermediate_size=32, num_local_experts=8, num_experts_per_tok=3, rms_norm_eps=1e-6,
       rope_theta=5000000, hidden_act="swigluoai", swiglu_alpha=1.702, swiglu_limit=1.5, routed_scaling_factor=2.0, moe_layer_freq=[0, 1, 1],
       scoring_func="sigmoid", use_routing_bias=True, use_qk_norm=True, use_gemma_norm=True,
       sparse_attention_config=dict(sparse_attention_freq=[0, 1, 1],
       sparse_num_index_heads=2, sparse_index_dim=16, sparse_block_size=8, sparse_topk_blocks=3, sparse_local_block=1)), gguf=False,
       wrap=dict(architecture="MiniMaxM3SparseForConditionalGeneration", model_type="minimax_m3_vl"),
       inside=dict(architecture="MiniMaxM3SparseForConditionalGeneration", model_type="minimax_m3_vl", projector_hidden_size=16,
                   vision_config=dict(hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=28, patch_size=14)))
M3 = FAMILIES["minimax_m3"]
family("minimax_m3_limit7", "minimax_m3_vl_text", "MiniMaxM3VLForCausalLM", merged(M3["config"], num_hidden_layers=2, moe_layer_freq=[0, 1],
       swiglu_limit=7.0,
       n_shared_experts=1, sparse_attention_config=merged(M3["config"]["sparse_attention_config"], sparse_attention_freq=[0, 1])),
       wrap=M3["wrap"], inside=M3["inside"], raw_config=True)  # GGUF has no key for the limit, which is 7 there
family("deepseek_v4", "deepseek_v4", "DeepseekV4ForCausalLM", dict(vocab_size=VOCAB, hidden_size=64, num_hidden_layers=4, num_attention_heads=4,
       num_key_value_heads=1, head_dim=32, qk_rope_head_dim=8, q_lora_rank=48, moe_intermediate_size=32, n_routed_experts=8, n_shared_experts=1,
       num_experts_per_tok=3, scoring_func="sqrtsoftplus", topk_method="noaux_tc", norm_topk_prob=True, routed_scaling_factor=1.5, swiglu_limit=1.5,
       hidden_act="silu", num_hash_layers=1, compress_ratios=[0, 4, 128, 4, 0], compress_rope_theta=160000.0, sliding_window=16,
       o_groups=2, o_lora_rank=24,
       index_n_heads=16, index_head_dim=16, index_topk=8, hc_mult=4, hc_sinkhorn_iters=20, hc_eps=1e-6, rms_norm_eps=1e-6, rope_theta=10000.0,
       rope_scaling=dict(type="yarn", factor=16, beta_fast=32, beta_slow=1, original_max_position_embeddings=64), max_position_embeddings=4096,
       num_nextn_predict_layers=1, attention_bias=False, attention_dropout=0.0, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2,
       initializer_range=0.02, use_cache=True), fp4=True, mtp=dict(style="deepseek4", heads=1, layer=dict(compress_ratios=[0], num_hash_layers=0)))
# Pools of keys, streams of other kinds, n-grams.
GLM5_NEXT = dict(vocab_size=VOCAB, hidden_size=64, initializer_range=0.02, use_cache=True, bos_token_id=1, eos_token_id=2, pad_token_id=0,
       num_attention_heads=4, num_key_value_heads=4, hidden_act="silu", intermediate_size=96, moe_intermediate_size=32, num_hidden_layers=4,
       n_routed_experts=8, n_shared_experts=1, num_experts_per_tok=3, n_group=1, topk_group=1, norm_topk_prob=True, routed_scaling_factor=2.5,
       kv_lora_rank=32, q_lora_rank=48, qk_rope_head_dim=0, qk_nope_head_dim=16, v_head_dim=16, rms_norm_eps=1e-5, max_position_embeddings=4096,
       layer_types=["linear_attention", "indexed_attention", "linear_attention", "indexed_attention"], mlp_layer_types=["dense"] + ["sparse"] * 3,
       index_topk=16, index_head_dim=16, index_n_heads=16, index_kpool=4, index_kpool_always_select_tail=True, swiglu_limit=1.5, linear_head_dim=24,
       linear_num_heads=4, linear_conv_kernel_dim=4, linear_lower_bound=-5.0, hc_mult=4, hc_eps=1e-6, hc_sinkhorn_iters=20, tie_word_embeddings=False)
family("glm5_next", "glm5_next_text", "Glm5NextForConditionalGeneration", GLM5_NEXT, gguf=False,
       v5_whole=True, wrap=dict(architecture="Glm5NextForConditionalGeneration", model_type="glm5_next"),
       inside=dict(architecture="Glm5NextForConditionalGeneration", model_type="glm5_next", vision_config=dict(hidden_size=16, depth=1, num_heads=2,
       intermediate_size=16, out_hidden_size=64)))
family("hy_v4", "hy_v4", "HYV4ForCausalLM", merged(MLA, INDEX, rms_norm_eps=1e-5, num_hidden_layers=4, routed_scaling_factor=2.827, rope_theta=None,
       rope_parameters=dict(rope_theta=10000.0, rope_type="default"), mlp_layer_types=["dense"] + ["sparse"] * 3, index_head_dim=24,
       indexer_types=["full", "full", "shared", "full"], hc_mult=4, hc_magnitude=2.0, hc_eps=1e-6, learnable_sink_init=0.0, swiglu_limit=1.5,
       pad_token_id=0), gguf=False, rename=[(r"\.mlp\.(shared_experts\.)?linear_gate\.", r".mlp.\1gate_proj.")])  # which transformers 5 renames with attention's
family("minimax_m2", "minimax_m2", "MiniMaxM2ForCausalLM", merged(BASE, head_dim=32, rotary_dim=16, intermediate_size=32, num_local_experts=8,
       num_experts_per_tok=3, rms_norm_eps=1e-6, rope_theta=5000000, scoring_func="sigmoid", use_routing_bias=True, use_qk_norm=True,
       qk_norm_type="per_layer", attn_type_list=[1, 1], shared_intermediate_size=0, use_mtp=False, num_mtp_modules=0))
family("dots1", "dots1", "Dots1ForCausalLM", merged(BASE, DEEPSEEK_MOE, n_shared_experts=2, num_key_value_heads=4, attention_bias=False,
       scoring_func="noaux_tc", moe_layer_freq=1, layer_types=["full_attention"] * 2), gguf=False)  # the converter stumbles over that scoring_func
family("hy_v3", "hy_v3", "HYV3ForCausalLM", merged(BASE, MOE, head_dim=16, num_shared_experts=1, expert_hidden_dim=32, router_scaling_factor=2.826,
       first_k_dense_replace=1, qk_norm=True, rope_theta=None, rope_parameters=dict(rope_theta=11158840.0, rope_type="default"), route_norm=True,
       moe_router_enable_expert_bias=True, moe_router_use_sigmoid=True, enable_moe_fp32_combine=False, enable_lm_head_fp32=True))
family("exaone4", "exaone4", "Exaone4ForCausalLM", merged(BASE, num_hidden_layers=4, intermediate_size=64, head_dim=16, rope_theta=1000000,
       rope_scaling=merged(LLAMA3, factor=16.0), sliding_window=16, sliding_window_pattern="LLLG",
       layer_types=["sliding_attention"] * 3 + ["full_attention"]))
GPT_OSS = merged(BASE, head_dim=32, intermediate_size=64, attention_bias=True, num_local_experts=8, num_experts_per_tok=3, experts_per_token=3,
                 rope_theta=150000, rope_scaling=dict(rope_type="yarn", factor=32.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
                 original_max_position_embeddings=64), max_position_embeddings=2048, sliding_window=16, initial_context_length=64, swiglu_limit=2.0,
                 layer_types=["sliding_attention", "full_attention"], output_router_logits=False, router_aux_loss_coef=0.9)
family("gpt_oss", "gpt_oss", "GptOssForCausalLM", GPT_OSS, gguf=False)  # GGUF has no key for the limit, which is 7 there
family("gpt_oss_mxfp4", "gpt_oss", "GptOssForCausalLM", merged(GPT_OSS, swiglu_limit=7.0), mxfp4=True)

# Attention with rules of its own.
family("ministral3", "ministral3", "Ministral3ForCausalLM", merged(BASE, head_dim=16, sliding_window=None, rope_theta=None, max_position_embeddings=1024,
       rope_parameters=dict(type="yarn", rope_type="yarn", rope_theta=1000000.0, factor=16.0, original_max_position_embeddings=64, beta_fast=32.0,
       beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0, llama_4_scaling_beta=0.1)))
COHERE2 = merged(BASE, layer_norm_eps=1e-5, logit_scale=0.25, rope_theta=50000.0, use_qk_norm=False, attention_bias=False, rotary_pct=1.0, pad_token_id=0)
del COHERE2["rms_norm_eps"], COHERE2["tie_word_embeddings"]
family("cohere2", "cohere2", "Cohere2ForCausalLM", merged(COHERE2, num_hidden_layers=4, intermediate_size=64, sliding_window=16, sliding_window_pattern=4),
       embed_std=0.05, final_norm=24.0, logit_gain=4.0)
STARCODER2 = merged(BASE, hidden_act="gelu_pytorch_tanh", norm_epsilon=1e-5, use_bias=True, mlp_type="default", norm_type="layer_norm", residual_dropout=0.0,
                    embedding_dropout=0.0)
del STARCODER2["rms_norm_eps"], STARCODER2["tie_word_embeddings"]
family("starcoder2", "starcoder2", "Starcoder2ForCausalLM", merged(STARCODER2, sliding_window=16), gguf=False)  # GGUF has no key for the window
family("starcoder2_full", "starcoder2", "Starcoder2ForCausalLM", merged(STARCODER2, sliding_window=None))
HUNYUAN_ROPE = dict(type="dynamic", alpha=1000.0, beta_fast=32, beta_slow=1, factor=1.0, mscale=1.0, mscale_all_dim=1.0)
HUNYUAN = merged(BASE, head_dim=16, use_qk_norm=True, attention_bias=False, max_position_embeddings=32768, pad_token_id=0, rope_scaling=HUNYUAN_ROPE)
family("hunyuan_v1_dense", "hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM", merged(HUNYUAN, tie_word_embeddings=True))
HUNYUAN_MOE = dict(num_experts=8, moe_topk=[3, 3], moe_intermediate_size=[32, 32], num_shared_expert=[1, 1], intermediate_size=32, norm_topk_prob=True,
                   use_mixed_mlp_moe=True, moe_layer_num_skipped=0)
family("hunyuan_v1_moe", "hunyuan_v1_moe", "HunYuanMoEV1ForCausalLM", merged(HUNYUAN, HUNYUAN_MOE), gguf=False)
family("hunyuan_v1_moe_wide", "hunyuan_v1_moe", "HunYuanMoEV1ForCausalLM", merged(HUNYUAN, HUNYUAN_MOE, hidden_size=128, num_attention_heads=1,
       num_key_value_heads=1, head_dim=128, num_experts=4, num_hidden_layers=1, tie_word_embeddings=True, moe_topk=[3], moe_intermediate_size=[32],
       num_shared_expert=[1]))  # the converter knows heads of 128 only
LLAMA4 = merged(BASE, head_dim=16, num_hidden_layers=4, intermediate_size=32, intermediate_size_mlp=64, num_local_experts=4, num_experts_per_tok=1,
                interleave_moe_layer_step=2, use_qk_norm=True, attn_temperature_tuning=True, attn_scale=0.1, rope_theta=500000.0, attention_bias=False,
                for_llm_compressor=False, rope_scaling=merged(LLAMA3, factor=16.0, high_freq_factor=1.0), output_router_logits=False,
                router_aux_loss_coef=0.001, router_jitter_noise=0.0, pad_token_id=0)
LLAMA4_WRAP = dict(architecture="Llama4ForConditionalGeneration", model_type="llama4", body="language_model.model.", head="language_model.lm_head.")
family("llama4", "llama4_text", "Llama4ForCausalLM", merged(LLAMA4, no_rope_layers=[1, 1, 1, 0], attention_chunk_size=32, floor_scale=16), gguf=False,
       wrap=LLAMA4_WRAP)  # GGUF has no keys for the chunk and the scale, which are 8192 there
family("llama4_long", "llama4_text", "Llama4ForCausalLM", merged(LLAMA4, no_rope_layers=[], attention_chunk_size=8192, floor_scale=8192))

UNSCALED = dict(GEMMA_WEIGHTS, qk_norm=0.5)  # products of queries and keys are not divided: their norms keep them small
GEMMA4 = merged(GEMMA, rope_theta=None, num_hidden_layers=3, sliding_window=16, final_logit_softcapping=30.0, use_bidirectional_attention=None,
                tie_word_embeddings=True, global_head_dim=64, layer_types=["sliding_attention", "sliding_attention", "full_attention"],
                vocab_size_per_layer_input=VOCAB, hidden_size_per_layer_input=0, num_kv_shared_layers=0, use_double_wide_mlp=False,
                attention_k_eq_v=True, num_global_key_value_heads=1, enable_moe_block=False, rope_parameters=dict(
                full_attention=dict(partial_rotary_factor=0.25, rope_theta=1000000.0, rope_type="proportional"),
                sliding_attention=dict(rope_theta=10000.0, rope_type="default")))
GEMMA4_WRAP = dict(architecture="Gemma4ForConditionalGeneration", model_type="gemma4", body="model.language_model.", head="lm_head.")
family("gemma4_e2b", "gemma4_text", "Gemma4ForCausalLM", merged(GEMMA4, num_hidden_layers=6, intermediate_size=64, num_key_value_heads=1,
       layer_types=GEMMA4["layer_types"] * 2, num_kv_shared_layers=3, use_double_wide_mlp=True, hidden_size_per_layer_input=16, attention_k_eq_v=False,
       num_global_key_value_heads=None), wrap=GEMMA4_WRAP, unused_kv=True, **UNSCALED)
family("gemma4_31b", "gemma4_text", "Gemma4ForCausalLM", GEMMA4, wrap=GEMMA4_WRAP, **UNSCALED)
family("gemma4_26b_a4b", "gemma4_text", "Gemma4ForCausalLM", merged(GEMMA4, enable_moe_block=True, num_experts=8, top_k_experts=3, moe_intermediate_size=32),
       wrap=GEMMA4_WRAP, **UNSCALED)
GEMMA3N = merged(GEMMA, rope_theta=1000000.0, rope_local_base_freq=10000.0, rope_scaling=None, num_hidden_layers=6, intermediate_size=[224, 192, 64, 64, 64, 64],
                 layer_types=["sliding_attention", "sliding_attention", "full_attention"] * 2, num_kv_shared_layers=2, sliding_window=16,
                 final_logit_softcapping=30.0, vocab_size_per_layer_input=VOCAB, hidden_size_per_layer_input=16, altup_active_idx=0,
                 altup_coef_clip=120.0, altup_correct_scale=True, altup_num_inputs=4, laurel_rank=8,
                 activation_sparsity_pattern=[0.95, 0.95, 0.0, 0.0, 0.0, 0.0])
GEMMA3N_WRAP = dict(architecture="Gemma3nForConditionalGeneration", model_type="gemma3n", body="model.language_model.", head="lm_head.")
family("gemma3n", "gemma3n_text", "Gemma3nForCausalLM", merged(GEMMA3N, vocab_size_per_layer_input=VOCAB - 16), wrap=GEMMA3N_WRAP, unused_kv=True, streams=True,
       gguf=False, **UNSCALED)  # ids past the layers' own vocabulary count as id 0 here, as zeros in GGUF
family("gemma3n_full", "gemma3n_text", "Gemma3nForCausalLM", GEMMA3N, wrap=GEMMA3N_WRAP, streams=True, **UNSCALED)
MIMO_LAYERS = ["full_attention", "sliding_attention", "full_attention"]
family("mimo_v2_flash", "mimo_v2_flash", "MiMoV2FlashForCausalLM", merged(BASE, head_dim=24, v_head_dim=16, swa_head_dim=24, swa_v_head_dim=16,
       swa_num_attention_heads=4, swa_num_key_value_heads=2, num_key_value_heads=1, num_hidden_layers=3, hybrid_layer_pattern=[0, 1, 0], layer_types=MIMO_LAYERS,
       moe_layer_freq=[0, 1, 1], mlp_layer_types=["dense", "sparse", "sparse"], partial_rotary_factor=0.334, rope_theta=5000000.0, swa_rope_theta=10000.0,
       sliding_window=17, sliding_window_size=16,
       add_swa_attention_sink_bias=True, add_full_attention_sink_bias=False, attention_value_scale=0.707, moe_intermediate_size=32, n_routed_experts=8,
       n_shared_experts=None, num_experts_per_tok=3, n_group=1, topk_group=1, norm_topk_prob=True, routed_scaling_factor=None, scoring_func="sigmoid",
       topk_method="noaux_tc", attention_bias=False), raw_config=True,  # GGUF's window counts the query
       mtp=dict(style="mimo", heads=2, layer=dict(hybrid_layer_pattern=[1], layer_types=["sliding_attention"], moe_layer_freq=[0], mlp_layer_types=["dense"])))

family("step3p5", "step3p5", "Step3p5ForCausalLM", dict(vocab_size=VOCAB, hidden_size=64, intermediate_size=96, num_hidden_layers=4, hidden_act="silu",
       rms_norm_eps=1e-5, max_position_embeddings=4096, bos_token_id=1, eos_token_id=2, initializer_range=0.02, use_cache=True, tie_word_embeddings=False,
       head_dim=16, num_attention_heads=4, num_attention_groups=2, layer_types=["full_attention", "sliding_attention", "sliding_attention", "full_attention",
       "sliding_attention"], num_nextn_predict_layers=1, sliding_window=16,
       attention_other_setting=dict(attention_type="sliding_attention", num_attention_heads=6, num_attention_groups=2, head_dim=16),
       rope_theta=[5000000.0, 10000.0, 10000.0, 5000000.0, 10000.0], partial_rotary_factors=[0.5, 1.0, 1.0, 0.5, 1.0], yarn_only_types=["full_attention"],
       rope_scaling=dict(rope_type="llama3", factor=2.0, original_max_position_embeddings=64, low_freq_factor=1.0, high_freq_factor=32.0),
       moe_layers_enum="1,2,3", moe_num_experts=8, moe_top_k=3, moe_intermediate_size=32, share_expert_dim=32, moe_router_activation="sigmoid",
       moe_router_scaling_factor=3.0, use_moe_router_bias=True, norm_expert_weight=True, need_fp32_gate=True, use_head_wise_attn_gate=True, use_qk_norm=True,
       attn_output_gate=False, swiglu_limits=[0.0, 0.0, 0.0, 0.3, 0.0], swiglu_limits_shared=[0.5, 0.0, 0.0, 0.4, 0.0], sink=False, zero_centered=True,
       att_impl_type="GQA"), inside=dict(architecture="Step3p7ForConditionalGeneration", model_type="step3p7", vision_config=dict(width=16, layers=1, heads=2,
       image_size=28, patch_size=14, mlp_ratio=1.0, max_position_embeddings=4)), raw_config=True,
       mtp=dict(style="step", heads=1, layer=dict(layer_types=["sliding_attention"], rope_theta=[10000.0], partial_rotary_factors=[1.0], moe_layers_enum="",
                swiglu_limits=[0.0], swiglu_limits_shared=[0.0])))
family("mistral4", "mistral4", "Mistral4ForCausalLM", merged(MLA, rms_norm_eps=1e-6, first_k_dense_replace=0, routed_scaling_factor=1.0, rope_interleave=True,
       rope_theta=None, max_position_embeddings=1024, rope_parameters=dict(type="yarn", rope_type="yarn", rope_theta=10000.0, factor=128.0,
       original_max_position_embeddings=64, max_position_embeddings=1024, beta_fast=32.0, beta_slow=1.0, mscale=1.0, mscale_all_dim=1.0,
       llama_4_scaling_beta=0.1)), gguf=False)  # the converter forgets how queries grow
family("longcat_flash", "longcat_flash", "LongcatFlashForCausalLM", dict(vocab_size=VOCAB, hidden_size=64, initializer_range=0.02, use_cache=True, bos_token_id=1,
       eos_token_id=2, tie_word_embeddings=False, head_dim=8, num_attention_heads=4, hidden_act="silu", q_lora_rank=48, kv_lora_rank=32, qk_nope_head_dim=16,
       qk_rope_head_dim=8, v_head_dim=16, ffn_hidden_size=96, expert_ffn_hidden_size=32, num_layers=2, n_routed_experts=8, zero_expert_num=4,
       zero_expert_type="identity", moe_topk=3, routed_scaling_factor=6.0, rms_norm_eps=1e-5, rope_theta=10000000.0, max_position_embeddings=4096,
       attention_method="MLA", mla_scale_q_lora=True, mla_scale_kv_lora=True, attention_bias=False, router_bias=False), gguf=False, pairs=True)

# Layers with a recurrent state. Sizes that are no multiples of sixteen show whether the last lanes are right.
DELTA = dict(linear_conv_kernel_dim=4, linear_key_head_dim=16, linear_value_head_dim=24, linear_num_key_heads=2, linear_num_value_heads=4)
QWEN_HEAD = dict(style="qwen", heads=1, layer=dict(full_attention_interval=1))
family("qwen3_next", "qwen3_next", "Qwen3NextForCausalLM", merged(BASE, MOE, DELTA, rms_norm_eps=1e-6, rope_theta=10000000, partial_rotary_factor=0.25,
       head_dim=32, num_hidden_layers=4, full_attention_interval=4, attention_bias=False, decoder_sparse_step=1, shared_expert_intermediate_size=32,
       norm_topk_prob=True, mlp_only_layers=[], rope_scaling=None, use_sliding_window=False), mtp=QWEN_HEAD)
QWEN3_5 = merged(BASE, DELTA, rms_norm_eps=1e-6, head_dim=32, num_hidden_layers=4, full_attention_interval=4, attention_bias=False, attn_output_gate=True,
                 mamba_ssm_dtype="float32", mtp_num_hidden_layers=1, rope_theta=None, rope_parameters=dict(rope_type="default", rope_theta=10000000,
                 partial_rotary_factor=0.25, mrope_interleaved=True, mrope_section=[2, 1, 1]))
family("qwen3_5", "qwen3_5_text", "Qwen3_5ForCausalLM", merged(QWEN3_5, tie_word_embeddings=True), mtp=QWEN_HEAD,
       wrap=dict(architecture="Qwen3_5ForConditionalGeneration", model_type="qwen3_5", body="model.language_model.", head="lm_head."))
family("qwen3_5_moe", "qwen3_5_moe_text", "Qwen3_5MoeForCausalLM", merged(QWEN3_5, MOE, shared_expert_intermediate_size=32), mtp=QWEN_HEAD,
       wrap=dict(architecture="Qwen3_5MoeForConditionalGeneration", model_type="qwen3_5_moe", body="model.language_model.", head="lm_head."))
family("qwen4_exp", "qwen4_exp_text", "Qwen4ExpForCausalLM", merged(BASE, MOE, DELTA, rms_norm_eps=1e-6, head_dim=32, num_hidden_layers=4,
       attention_bias=False, rope_theta=None, rope_parameters=dict(rope_type="default", rope_theta=10000000, partial_rotary_factor=0.25,
       mrope_interleaved=True, mrope_section=[2, 1, 1]), shared_expert_intermediate_size=32, norm_topk_prob=True,
       layer_types=["linear_attention", "full_attention", "linear_attention", "full_attention"], hc_count=2, hc_lowrank=16, ple_layer_ids=[1, 3],
       ple_embed_dim=32, ple_conv_kernel_size=4, ngram_size=3, heads_per_ngram=2, ngram_vocab_size_base=100, make_ngram_vocab_size_divisible_by=16,
       seed=1234, split_ngram_parts=3, indexer_n_heads=16, indexer_kv_heads=1, indexer_head_dim=16, indexer_budget=16, indexer_compress_ratio=4),
       wrap=dict(architecture="Qwen4ExpForConditionalGeneration", model_type="qwen4_exp", body="model.language_model.", head="lm_head."), gguf=False,
       logit_gain=2.2, v5_wrapped=True)
LFM2 = dict(vocab_size=VOCAB, hidden_size=64, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2, norm_eps=1e-5, rope_theta=1000000.0,
            conv_L_cache=3, conv_bias=False, layer_types=["conv", "conv", "full_attention", "conv"], max_position_embeddings=4096, tie_embedding=True,
            initializer_range=0.02, use_cache=True, bos_token_id=1, eos_token_id=2, pad_token_id=0)
family("lfm2", "lfm2", "Lfm2ForCausalLM", merged(LFM2, block_auto_adjust_ff_dim=True, block_dim=64, block_ff_dim=96, block_ffn_dim_multiplier=1.0,
       block_multiple_of=16, conv_dim=64, conv_dim_out=64, num_heads=4, block_norm_eps=1e-5, block_use_swiglu=True, use_pos_enc=True))
family("lfm2_moe", "lfm2_moe", "Lfm2MoeForCausalLM", merged(LFM2, intermediate_size=96, moe_intermediate_size=32, num_dense_layers=1, num_experts=8,
       num_experts_per_tok=3, use_expert_bias=True, routed_scaling_factor=1.0, norm_topk_prob=True))
MAMBA = dict(vocab_size=VOCAB, hidden_size=64, num_hidden_layers=2, expand=2, conv_kernel=4, use_bias=False, use_conv_bias=True, hidden_act="silu",
             layer_norm_epsilon=1e-5, initializer_range=0.02, use_cache=True, bos_token_id=1, eos_token_id=2, pad_token_id=0)
family("mamba", "mamba", "MambaForCausalLM", merged(MAMBA, state_size=12, intermediate_size=128, time_step_rank=8, residual_in_fp32=True))
family("mamba2", "mamba2", "Mamba2ForCausalLM", merged(MAMBA, num_hidden_layers=3, num_heads=16, head_dim=8, state_size=12, n_groups=2, time_step_rank=8,
       residual_in_fp32=False, time_step_limit=[0.0, float("inf")], chunk_size=16, rms_norm=True, norm_before_gate=True, tie_word_embeddings=False))

# Hybrids: attention among or beside layers with a state.
SSM = dict(mamba_conv_bias=True, mamba_d_conv=4, mamba_d_state=12, mamba_d_head=8, mamba_expand=2, mamba_n_groups=2, mamba_n_heads=16, mamba_proj_bias=False,
           mamba_chunk_size=16)
GRANITE_HYBRID = merged(FAMILIES["granite"]["config"], SSM, num_hidden_layers=4, shared_intermediate_size=64, normalization_function="rmsnorm",
                        rope_scaling=None, layer_types=["mamba", "mamba", "attention", "mamba"])
GRANITE_WEIGHTS = dict(embed_std=0.006, final_norm=100.0, logit_gain=2.0)
family("granitemoehybrid", "granitemoehybrid", "GraniteMoeHybridForCausalLM", merged(GRANITE_HYBRID, intermediate_size=32, num_local_experts=8,
       num_experts_per_tok=3, position_embedding_type="nope"), **GRANITE_WEIGHTS)
family("granitemoehybrid_dense", "granitemoehybrid", "GraniteMoeHybridForCausalLM", merged(GRANITE_HYBRID, num_hidden_layers=3, mamba_n_groups=1,
       intermediate_size=64, num_local_experts=0, num_experts_per_tok=0, position_embedding_type="rope", layer_types=["mamba", "attention", "attention"]),
       gguf=False, **GRANITE_WEIGHTS)
NEMOTRON_H = dict(vocab_size=VOCAB, hidden_size=64, num_attention_heads=4, num_key_value_heads=2, head_dim=16, attention_bias=False, attention_dropout=0.0,
                  intermediate_size=96, mlp_hidden_act="relu2", mlp_bias=False, ssm_state_size=12, mamba_num_heads=8, mamba_head_dim=24,
                  mamba_hidden_act="silu", n_groups=2, conv_kernel=4, expand=2, time_step_min=0.001, time_step_max=0.1,
                  time_step_limit=[0.0, float("inf")], time_step_floor=1e-4, use_conv_bias=True, chunk_size=16, mamba_proj_bias=False, use_bias=False,
                  layer_norm_epsilon=1e-5, residual_in_fp32=False, max_position_embeddings=4096, tie_word_embeddings=False, bos_token_id=1, eos_token_id=2,
                  pad_token_id=0, initializer_range=0.02)
NEMOTRON_MOE = dict(n_routed_experts=8, n_shared_experts=1, moe_intermediate_size=32, moe_shared_expert_intermediate_size=48, num_experts_per_tok=3,
                    routed_scaling_factor=2.5, n_group=1, topk_group=1, norm_topk_prob=True)
family("nemotron_h", "nemotron_h", "NemotronHForCausalLM", merged(NEMOTRON_H, num_hidden_layers=4, hybrid_override_pattern="M-*-"), raw_config=True)
family("nemotron_h_moe", "nemotron_h", "NemotronHForCausalLM", merged(NEMOTRON_H, NEMOTRON_MOE, num_hidden_layers=5, hybrid_override_pattern="MEM*E"))
family("nemotron_h_latent", "nemotron_h", "NemotronHForCausalLM", merged(NEMOTRON_H, NEMOTRON_MOE, num_hidden_layers=4, hybrid_override_pattern="ME*M",
       moe_latent_size=32, n_group=2, topk_group=1))
FALCON_H1 = merged(BASE, SSM, head_dim=16, attention_bias=False, mlp_bias=False, projectors_bias=False, mamba_d_ssm=96, mamba_d_head=24, mamba_n_heads=4,
                   mamba_norm_before_gate=False, mamba_rms_norm=False, mamba_use_mlp=True, rope_theta=1e11, embedding_multiplier=2.5, lm_head_multiplier=0.25,
                   key_multiplier=0.4, attention_in_multiplier=1.1, attention_out_multiplier=0.9, ssm_in_multiplier=1.25, ssm_out_multiplier=0.7,
                   ssm_multipliers=[0.8, 1.2, 0.5, 0.7, 0.9], mlp_multipliers=[0.9, 0.6], pad_token_id=0)
family("falcon_h1", "falcon_h1", "FalconH1ForCausalLM", merged(FALCON_H1, mamba_n_groups=1), gguf=False, logit_gain=4)
# The GGUF converter multiplies the numbers into the weights; powers of two leave bfloat16 as it is.
family("falcon_h1_rms", "falcon_h1", "FalconH1ForCausalLM", merged(FALCON_H1, mamba_rms_norm=True, embedding_multiplier=2.0, key_multiplier=0.5,
       attention_in_multiplier=2.0, attention_out_multiplier=0.5, ssm_in_multiplier=0.5, ssm_out_multiplier=2.0, ssm_multipliers=[0.5, 2.0, 4.0, 1.0, 0.5],
       mlp_multipliers=[2.0, 0.5]), logit_gain=4)
family("falcon_h1_norm_first", "falcon_h1", "FalconH1ForCausalLM", merged(FALCON_H1, mamba_rms_norm=True, mamba_norm_before_gate=True,
       tie_word_embeddings=True), gguf=False, embed_std=0.05, final_norm=24.0)
family("jamba", "jamba", "JambaForCausalLM", merged(BASE, num_hidden_layers=4, intermediate_size=64, rms_norm_eps=1e-6, attn_layer_offset=2,
       attn_layer_period=4, expert_layer_offset=1, expert_layer_period=2, mamba_conv_bias=True, mamba_d_conv=4, mamba_d_state=8, mamba_dt_rank=8,
       mamba_expand=2, mamba_proj_bias=False, num_experts=4, num_experts_per_tok=2, use_mamba_kernels=False, sliding_window=None, rope_theta=None,
       pad_token_id=0))
family("kimi_linear", "kimi_linear", "KimiLinearForCausalLM", dict(vocab_size=VOCAB, hidden_size=64, initializer_range=0.02, use_cache=True, bos_token_id=1,
       eos_token_id=2, pad_token_id=0, num_attention_heads=4, num_key_value_heads=4, head_dim=24, hidden_act="silu", intermediate_size=96,
       num_hidden_layers=4, rms_norm_eps=1e-5, rope_theta=10000.0, rope_scaling=None, q_lora_rank=None, kv_lora_rank=32, qk_nope_head_dim=16,
       qk_rope_head_dim=8, v_head_dim=16, mla_use_nope=True, linear_attn_config=dict(full_attn_layers=[4], kda_layers=[1, 2, 3], head_dim=24, num_heads=4,
       short_conv_kernel_size=4), num_experts=8, num_experts_per_token=3, num_shared_experts=1, num_expert_group=1, topk_group=1, moe_intermediate_size=32,
       moe_layer_freq=1, moe_renormalize=True, moe_router_activation_func="sigmoid", routed_scaling_factor=2.446, use_grouped_topk=True,
       first_k_dense_replace=1, model_max_length=4096, num_nextn_predict_layers=0, tie_word_embeddings=False),
       rename=[(r"block_sparse_moe\.(gate|up|down)_proj", r"mlp.\1_proj")])  # the dense layer; transformers 5 writes it back under the other name
ALPHA = 3.5565588200778455
family("minimax", "minimax", "MiniMaxForCausalLM", merged(BASE, num_hidden_layers=4, head_dim=24, intermediate_size=48, num_local_experts=4,
       num_experts_per_tok=2, layer_types=["linear_attention"] * 3 + ["full_attention"], block_size=16, rope_theta=10000000, full_attn_alpha_factor=ALPHA,
       full_attn_beta_factor=1.0, linear_attn_alpha_factor=ALPHA, linear_attn_beta_factor=0.75, mlp_alpha_factor=ALPHA, mlp_beta_factor=1.25), gguf=False)
family("olmo_hybrid", "olmo_hybrid", "OlmoHybridForCausalLM", merged(BASE, num_hidden_layers=4, num_key_value_heads=4, attention_bias=False,
       layer_types=["linear_attention"] * 3 + ["full_attention"], linear_num_key_heads=4, linear_num_value_heads=4, linear_key_head_dim=12,
       linear_value_head_dim=24, linear_conv_kernel_dim=4, linear_allow_neg_eigval=True, rope_theta=None,
       rope_parameters=dict(rope_theta=None, rope_type="default"), pad_token_id=0), gguf=False,
       rename=[(r"(layers\.3\.)feedforward_layer_norm", r"\1post_attention_layernorm")], conv_split=[48, 48, 96])
family("bailing_hybrid", "bailing_hybrid", "BailingHybridForCausalLM", dict(vocab_size=VOCAB, hidden_size=64, initializer_range=0.02, use_cache=True,
       bos_token_id=1, eos_token_id=2, pad_token_id=0, num_attention_heads=4, num_key_value_heads=4, hidden_act="silu", intermediate_size=96,
       num_hidden_layers=4, rms_norm_eps=1e-6, head_dim=16, rope_theta=6000000.0, q_lora_rank=None, kv_lora_rank=32, qk_nope_head_dim=16,
       qk_rope_head_dim=8, v_head_dim=16, layer_group_size=4, first_k_dense_replace=1, num_experts=8, num_experts_per_tok=3, num_shared_experts=1, n_group=4,
       topk_group=2, moe_intermediate_size=32, routed_scaling_factor=2.5, norm_topk_prob=True, short_conv_kernel_size=4, kda_safe_gate=True,
       kda_lower_bound=-5.0, num_nextn_predict_layers=0, max_position_embeddings=4096, tie_word_embeddings=False), gguf=False)
LFM3 = {k: v for k, v in LFM2.items() if k not in ("rope_theta", "tie_embedding")}
family("lfm3", "lfm3", "Lfm3ForCausalLM", merged(LFM3, head_dim=32, intermediate_size=96, num_hidden_layers=5, layer_types=["conv", "full_attention", "conv",
       "sliding_attention", "full_attention"], sliding_window=16, conv_L_cache=7, use_sandwich_norm=True, use_attention_gate=True, attention_bias=False,
       tie_word_embeddings=True), gguf=False)
