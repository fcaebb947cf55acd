// What a model calls. One interface with a CPU and (later) a CUDA implementation; models never mention an ISA, a device or a thread.
// Shape letters: T tokens in the step, R rows that need logits, D hidden, H query heads, K kv heads, d head size, F ffn, V vocab.
// Every method's result for a row depends on that row (and the KV it may see) alone, never on T, R or the neighbours: contract 1.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "isotope/options.h"
#include "ops/batch.h"
#include "ops/channel_delta.h"
#include "ops/moe.h"
#include "ops/recurrent.h"
#include "ops/source.h"
#include "tensor/tensor.h"

namespace isotope::ops {

using tensor::HostTensor;
using tensor::Tensor;

/// Rotary embedding: per-dimension inverse frequencies are computed by the model's config, so that every scaling law is data here.
struct Rope {
  std::vector<float> inv_freq;        ///< [rot/2]; longrope's choice of factors is made once for the process (contract 1), by the served length
  float scale = 1.0f;                 ///< attention factor multiplied into cos and sin
  int rot = 0;                        ///< rotated dimensions (<= d) of each head
  bool interleaved = false;           ///< pairs (2i, 2i+1) instead of (i, i + rot/2)
  int first = 0;                      ///< the first dimension that is rotated
};

struct KvGroupSpec {
  enum class Kind { full, sliding, state } kind = Kind::full;  ///< state: blocks are slots, one for each running sequence
  int64_t window = 0;  ///< sliding: a query at p sees keys in (p - window, p]
  int layers = 0;      ///< how many model layers store KV in this group
};

/// What the blocks of a layer hold for a token.
enum class KvForm : uint8_t {
  keys_values,  ///< keys and values of each kv head
  keys,         ///< keys alone: those of an indexer (sparse.h)
  rows,         ///< a vector that is key and value in one, in the cache's type, as one run of memory
  floats,       ///< `head_dim` float32 numbers, whatever the cache's type: what later tokens are made of
};

/// Storage shape of one layer's KV.
struct KvLayerSpec {
  int group = 0;
  int kv_heads = 0;
  int head_dim = 0;
  int64_t state_floats = 0;  ///< above 0: a layer with a recurrent state of so many floats instead of keys and values
  KvForm form = KvForm::keys_values;
  int every = 1;             ///< rows: tokens to an entry, a power of two. An entry lies where its last token's would
  int value_dim = 0;         ///< above 0: values are the last `value_dim` numbers of the keys (latent attention) and are not stored again
};

/// All KV storage of a model on one device. Layout inside is the backend's own.
class KvCache {
 public:
  virtual ~KvCache() = default;
  int block_size = 16;
  KvType type = KvType::bf16;
  std::vector<int64_t> blocks;  ///< per group
  size_t bytes = 0;
  /// Copies one block within a group for all its layers (copy-on-write).
  virtual void copy_block(int group, int32_t from, int32_t to) = 0;
  /// Fills one block with zeros for all layers of its group.
  virtual void clear_block(int group, int32_t block) = 0;
  /// Raw bytes of one block of one layer, for offload, dumps and KV poison.
  virtual std::span<std::byte> block_bytes(int layer, int32_t block) = 0;
};

struct AttentionArgs {
  Tensor q, k, v;       ///< [T, H*d], [T, K*d], [T, K*d]; for attention() q and k are already rotated
  int layer = 0;
  int heads = 0, kv_heads = 0, head_dim = 0;
  float scale = 1.0f;   ///< multiplied into q·k
  float softcap = 0.0f; ///< 0 = none; s = cap * tanh(s / cap)
  int64_t window = 0;   ///< 0 = full
  bool chunked = false; ///< the window begins at the last multiple of its length: a query at p sees keys from p - p % window on (Llama 4)
  std::span<const float> sinks = {};  ///< [H] or empty
  int value_dim = 0;    ///< as the layer's KvLayerSpec has it; above 0 v is empty and the result [T, H * value_dim]

  // What attend() does to q and k first, in this order; attention() does not look at it.
  std::optional<Norm> q_norm = {}, k_norm = {};  ///< of each head by itself, weight [d]
  const Rope* rope = nullptr;
  bool norms_last = false;   ///< the norms come after the rotation (Hunyuan)
  bool gemma_norms = false;  ///< the family's norms multiply by 1 + w: what ATOM_QK_NORM_ROPE_CACHE_FUSION_MAX_TOKENS is about
  bool stored = false;       ///< k and v are in the cache already; they may be empty then, as where a layer reads another one's
};

/// Attention without a cache and without an order of tokens.
struct SelfAttentionArgs {
  Tensor q, k, v;
  int heads = 0, head_dim = 0;
  float scale = 1.0f;
};

/// weight * (x - mean) / sqrt(variance + eps) + bias; both [D].
struct LayerNorm {
  std::span<const float> weight, bias;
  float eps = 0;
};

/// How queries grow with their position: by 1 + beta · ln(1 + floor((position + offset) / period)).
struct PositionScale {
  float beta = 0;     ///< 0 = they do not
  float period = 1;
  int offset = 0;
  explicit operator bool() const { return beta != 0; }
};

/// A gated feed-forward block up to what `down` reads.
struct GatedArgs {
  const Linear &gate, &up;
  Activation act;
  const Linear& down;  ///< not computed; a backend may leave the result in the form that it multiplies
};

/// A matrix for each head: columns [first + h * step, + k) of x become head h of the result.
struct HeadsArgs {
  Tensor x;
  int64_t first = 0, step = 0;
  std::span<const Linear> ws;  ///< [H], each [n, k]
  Tensor lead = {};            ///< [T, H * m]: head h of the result begins with these m columns of it
};

using RowsDone = std::function<void(int64_t first, int64_t n)>;

class SparseOps;

class Ops {
 public:
  virtual ~Ops() = default;

  // ---- weights --------------------------------------------------------------------------------------------------------------
  /// Packs a weight [n, k] for this device. `rows`, if not empty, selects and orders source rows (fused and permuted tensors). With Precision::exact
  /// the weight is held as float32. Fails for formats without a kernel, by name. `done` hears which rows (counted as the result's) were read, every few
  /// MiB, so that their source can go; a second pass over them is rare but allowed. Thread-safe.
  virtual Result<std::unique_ptr<Weight>> pack(const HostTensor&, std::span<const int32_t> rows = {}, const RowsDone& done = {}) = 0;
  /// The same, in a file from which pages come when they are read, where the backend was given a folder (CpuOpsOptions::spill_folder); for what memory has
  /// no room for.
  virtual Result<std::unique_ptr<Weight>> pack_spilled(const HostTensor& t, std::span<const int32_t> rows = {}, const RowsDone& done = {}) {
    return pack(t, rows, done);
  }
  /// Bytes that pack() will hold for a weight [n, k] of that format, for a forecast: as the file has it unless the backend knows better.
  virtual size_t packed_bytes(tensor::DType t, int64_t n, int64_t k) const {
    const tensor::Format& f = tensor::format(t);
    return size_t(n) * size_t((k + f.block - 1) / f.block) * size_t(f.bytes);
  }

  // ---- one step -------------------------------------------------------------------------------------------------------------
  /// Starts a step: gives back all tensors of the last one and fixes the batch that attention sees.
  virtual void begin(const Batch&, KvCache*) = 0;
  virtual Tensor empty(int64_t rows, int64_t cols) = 0;  ///< uninitialised, valid until the next begin() or the second next_layer() after it
  /// Called at the start of each layer. A tensor made in a layer lives until the end of the next layer, so that a step's memory, and with it what passes
  /// through the caches, is that of two layers. Tensors made before the first call live until the next begin().
  virtual void next_layer() {}

  virtual Tensor embed(const Weight& table, float scale) = 0;                         ///< rows of the batch's tokens: [T, D]
  virtual Tensor linear(Tensor x, const Linear&) = 0;                                 ///< [T, k] -> [T, n]
  /// Several projections of one input; activations are quantized once. Same bits as calling linear() for each.
  virtual void linear_n(Tensor x, std::span<const Linear* const> ws, std::span<Tensor> outs) = 0;
  virtual Tensor linear_heads(const HeadsArgs&) = 0;                                  ///< [T, H * (m + n)]
  virtual Tensor rms_norm(Tensor x, std::span<const float> weight, float eps) = 0;    ///< weight [D] (already 1+w for Gemma); empty = none
  virtual void head_norm(Tensor x, int head_dim, std::span<const float> weight, float eps) = 0;  ///< in place, each head by itself; weight [d]
  virtual void rope(Tensor x, int head_dim, const Rope&) = 0;                         ///< in place, at the batch's positions
  virtual Tensor attention(const AttentionArgs&) = 0;                                 ///< writes k and v to the cache, attends: [T, H*d]
  virtual Tensor act_mul(Tensor gate, Tensor up, Activation) = 0;                     ///< act(gate) * up
  virtual void add(Tensor x, Tensor y, float scale = 1.0f) = 0;                       ///< x += scale * y
  virtual void scale(Tensor x, float s) = 0;
  virtual void softcap(Tensor x, float cap) = 0;                                      ///< x = cap * tanh(x / cap)
  virtual Tensor gather(Tensor x, std::span<const int32_t> rows) = 0;                 ///< [R, D]

  // ---- encoders ---------------------------------------------------------------------------------------------------------------
  virtual void add_rows(Tensor x, const Weight& table, std::span<const int32_t> rows) = 0;  ///< x[t] += table[rows[t]]; rows [T]
  virtual void layer_norm(Tensor x, const LayerNorm&) = 0;                            ///< in place
  virtual void add_layer_norm(Tensor x, Tensor y, const LayerNorm& n) { add(x, y); layer_norm(x, n); }  ///< x = layer_norm(x + y)
  virtual void activate(Tensor x, Activation) = 0;                                    ///< in place
  /// Every token of the batch sees all tokens that its sequence has in the batch, and nothing is stored. q, k, v [T, H*d]: [T, H*d]
  virtual Tensor self_attention(const SelfAttentionArgs&) = 0;

  virtual Tensor add_rms_norm(Tensor x, Tensor y, std::span<const float> weight, float eps) { add(x, y); return rms_norm(x, weight, eps); }
  virtual Tensor linear_act(Tensor x, const Linear& gate, const Linear& up, Activation a) {
    const Linear* w[2] = {&gate, &up};
    Tensor o[2];
    linear_n(x, w, o);
    return act_mul(o[0], o[1], a);
  }

  /// The mixture of experts: routes each row, runs the chosen experts, adds them up and the shared block. [T, D] -> [T, D]
  virtual Tensor moe(Tensor x, const Moe&) = 0;
  virtual Tensor moe_routed_by(Tensor x, Tensor r, const Moe&) = 0;                   ///< the same with a router that reads r [T, D]

  // ---- layers with a state; see recurrent.h ---------------------------------------------------------------------------------
  virtual Tensor short_conv(Tensor x, const ShortConv&, StatePlace) = 0;  ///< [T, C] -> [T, C]
  virtual Tensor gated_delta(const DeltaArgs&) = 0;                       ///< [T, value_heads * dv]
  virtual Tensor scan(const ScanArgs&) = 0;                               ///< [T, heads * dim]
  virtual void sigmoid_mul(Tensor x, Tensor gate) = 0;                    ///< x *= sigmoid(gate); gate [T, n]: one for each of n equal runs of columns
  virtual void mul(Tensor x, Tensor y) = 0;                               ///< x *= y
  virtual void scale_columns(Tensor x, std::span<const float> w) = 0;     ///< each row times w [cols]
  virtual Tensor channel_delta(const ChannelDeltaArgs&) = 0;              ///< [T, heads * dv]

  // ---- what a few families need; in place unless they return something --------------------------------------------------------
  virtual Tensor copy(Tensor x) = 0;
  virtual void scale_by_position(Tensor x, const PositionScale&) = 0;     ///< x [T, any], at the batch's positions
  virtual void clamp(Tensor x, float low, float high) = 0;
  /// x = max(x - (mean + s · deviation), 0), mean and standard deviation of the row: keeps what stands out (Gemma 3n's sparsity).
  virtual void keep_above(Tensor x, float s) = 0;
  virtual void add_by_row(Tensor x, Tensor y, Tensor c) = 0;              ///< x[t] += c[t] · y[t]; c [T, 1]
  /// x[t] *= rms(like[t]) / sqrt(max(mean(x[t]^2), floor)): as large as `like`.
  virtual void match_size(Tensor x, Tensor like, float floor) = 0;
  virtual Tensor resize_heads(Tensor x, int from, int to) = 0;            ///< heads of `from` numbers are cut to `to`, or filled up with zeros

  // ---- attention to chosen keys, compressed keys, residual streams; see sparse.h ----------------------------------------------
  virtual SparseOps* sparse() { return nullptr; }                         ///< null: this backend has none of them

  // ---- joined forms: what a model calls. Composed of the ops above unless a backend joins them; the bits are the same ----------------
  /// The source's rows themselves. REQUIRES: it is not quantized.
  Tensor rows(const RowSource&);
  /// Several projections of one source.
  void project(const RowSource& s, std::span<const Linear* const> ws, std::span<Tensor> outs) {
    if (!try_project(s, ws, outs)) linear_n(rows(s), ws, outs);
  }
  Tensor project(const RowSource&, const Linear&);
  /// act(gate) * up, for args.down to read: of s.x.rows rows.
  RowSource gated(const RowSource&, const GatedArgs&);
  /// Norms and rotates q and k as the args say, then attention().
  Tensor attend(AttentionArgs a) { shape(a); return attention(a); }
  /// Norms and rotates q and k, and stores k and v if the backend does that in one pass with it.
  void shape(AttentionArgs&);

  /// A backend's joined forms. False or nothing: not here, or its fusion setting is off; nothing has been done then.
  virtual bool try_project(const RowSource&, std::span<const Linear* const>, std::span<Tensor>) { return false; }
  virtual std::optional<RowSource> try_gated(const RowSource&, const GatedArgs&) { return {}; }
  /// Norms, rotates, and stores k and v, so that attention() may be called with `stored`.
  virtual bool try_store_kv(const AttentionArgs&) { return false; }

  // ---- KV storage -----------------------------------------------------------------------------------------------------------
  virtual Result<std::unique_ptr<KvCache>> make_kv(std::span<const KvLayerSpec> layers, std::span<const int64_t> blocks_per_group, int block_size,
                                                   KvType) = 0;
  /// Bytes of one block of one group over all its layers.
  virtual size_t kv_block_bytes(std::span<const KvLayerSpec> layers, int group, int block_size, KvType) const = 0;

  // ---- threads --------------------------------------------------------------------------------------------------------------
  /// Told once by the thread that will run all steps from now on, and nothing else: a backend may bind it to a core.
  virtual void adopt_caller() {}
  /// How many threads parallel() spreads over.
  virtual int workers() const { return 1; }
  /// Calls f(i, worker) once for each i in [0, n), worker < workers(); calls of one worker never overlap. Returns when all are done. f must not throw.
  virtual void parallel(int64_t n, const std::function<void(int64_t i, int worker)>& f) {
    for (int64_t i = 0; i < n; ++i) f(i, 0);
  }

  virtual std::string describe() const = 0;  ///< "cpu avx512_vnni, 2 threads": goes to the log and the fingerprint
};

/// Choices that decide speed and never a bit. Defaults were measured on a Zen 4 server core; `isotope tune` measures others.
struct CpuTuning {
  int64_t linear_alone = 8'000;       ///< a linear layer of fewer estimated core cycles runs on one thread
  int64_t pass_bytes = 640 << 10;     ///< quantized activations of one pass over a weight
  int64_t attention_alone = 100'000;  ///< attention of fewer multiply-adds runs on one thread
};

/// Which ops the CPU joins (the levers of group `fusion`). None changes a bit of a result.
struct Fusions {
  bool norm_quantize = true;        ///< adds and norms are carried out while activations are quantized
  bool act_quantize = true;         ///< a gated block's result goes to the down projection quantized
  bool qk_norm_rope_cache = false;  ///< head norms, rotation and cache write in one pass; without head norms rotation and write always are
  int64_t gemma_max_tokens = 8192;  ///< the same for Gemma's norms only up to so many tokens in a step
};

/// How sparse attention and residual streams are computed. None of it changes a bit of a result.
struct SparseTuning {
  int64_t score_bytes = int64_t{2048} << 20;  ///< an indexer's scores are computed in bands of tokens that fit
  bool streams_apart = false;                 ///< residual streams are entered and left by ops one after the other, not in one pass
  bool streams_by_sequence = false;           ///< the streams of decoding sequences one by one
};

struct CpuOpsOptions {
  int threads = 0;           ///< 0 = one a physical core
  std::string isa;           ///< empty = best
  Precision precision = Precision::fast;
  bool pin = true;
  CpuTuning tuning = {};
  Fusions fusions = {};
  bool bf16_norms = false;   ///< RMS norms round as in bfloat16 (ATOM_USE_MODEL_SENSITIVE_RMSNORM); changes results
  std::string spill_folder;  ///< where pack_spilled() puts weights; empty = into memory, as pack() does
  int first_core = -1;       ///< of this team among the process' cores (base::Team); -1 = the whole machine is its own
  SparseTuning sparse = {};
};
Result<std::unique_ptr<Ops>> make_cpu_ops(const CpuOpsOptions&);

inline Tensor Ops::rows(const RowSource& s) {
  if (s.add) {
    const Tensor y = s.add_norm ? rms_norm(s.add, s.add_norm->weight, s.add_norm->eps) : s.add;
    if (s.norm && s.norm->bias.empty() && s.add_scale == 1) return add_rms_norm(s.x, y, s.norm->weight, s.norm->eps);
    add(s.x, y, s.add_scale);
  }
  if (!s.norm) return s.x;
  if (s.norm->bias.empty()) return rms_norm(s.x, s.norm->weight, s.norm->eps);
  const Tensor y = copy(s.x);
  layer_norm(y, {s.norm->weight, s.norm->bias, s.norm->eps});
  return y;
}

inline Tensor Ops::project(const RowSource& s, const Linear& w) {
  const Linear* const ws[1] = {&w};
  Tensor out[1];
  project(s, ws, out);
  return out[0];
}

inline RowSource Ops::gated(const RowSource& s, const GatedArgs& g) {
  if (const auto joined = try_gated(s, g)) return *joined;
  if (s.recipe()) return gated({.x = rows(s)}, g);
  return {.x = linear_act(s.x, g.gate, g.up, g.act)};
}

inline void Ops::shape(AttentionArgs& a) {
  a.stored = try_store_kv(a);
  if (a.stored) return;
  const auto turn = [&] {
    if (a.rope) rope(a.q, a.head_dim, *a.rope), rope(a.k, a.head_dim, *a.rope);
  };
  if (a.norms_last) turn();
  if (a.q_norm) head_norm(a.q, a.head_dim, a.q_norm->weight, a.q_norm->eps);
  if (a.k_norm) head_norm(a.k, a.head_dim, a.k_norm->weight, a.k_norm->eps);
  if (!a.norms_last) turn();
}

}  // namespace isotope::ops
