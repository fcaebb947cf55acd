#include "ops/metered.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <type_traits>

#include "ops/metered_sparse.h"
#include "tensor/format.h"

namespace isotope::ops {

namespace {

int64_t now_ns() { return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

int64_t bytes_of(Tensor t) { return t.rows * t.cols * int64_t(sizeof(float)); }

/// Kinds of ops; linear layers are told apart by what they multiply with as well.
enum class Op { embed, linear, linear_act, rms_norm, add_rms_norm, head_norm, rope, attention, act_mul, add, scale, softcap, gather, moe, store_kv, linear_heads,
                add_rows, layer_norm, short_conv, gated_delta, scan, sigmoid_mul, mul, channel_delta, copy, scale_by_position, clamp, keep_above, add_by_row,
                match_size, sparse };
constexpr const char* kNames[] = {"embed", "linear", "linear + activation", "rms_norm", "add + rms_norm", "head_norm", "rope", "attention", "activation", "add", "scale",
                                  "softcap", "gather", "mixture of experts", "cache write", "linear a head", "add rows", "layer_norm",
                                  "short convolution", "gated delta rule", "state space scan", "sigmoid gate", "product", "delta rule by channel", "copy",
                                  "scale by position", "clamp", "sparsity", "add by row", "match size", "sparse"};

/// What a source has done to its rows before they are multiplied, as far as it is more than quantizing.
enum Steps { kAdd = 1, kAddNorm = 2, kNorm = 4, kQuantized = 8, kQuantizes = 16 };
int steps_of(const RowSource& s) { return (s.add ? kAdd : 0) | (s.add_norm ? kAddNorm : 0) | (s.norm ? kNorm : 0) | (s.quantized ? kQuantized : 0); }
constexpr const char* kShort[] = {"linear", "linear+activation"};
std::string name_with(int steps, std::string_view op) {
  std::string name;
  const auto put = [&](bool there, const char* text) { if (there) name += text; };
  put(steps & kAddNorm, "norm+");
  put(steps & kAdd, "add+");
  put(steps & kNorm, "norm+");
  put(steps & kQuantized, "quantized+");
  name += op;
  put(steps & kQuantizes, "+quantize");
  return name;
}

struct Key {
  Op op;
  int64_t rows_class = 0, a = 0, b = 0, c = 0;
  int steps = 0;
  bool operator==(const Key&) const = default;
};

/// Row counts that run in the same kernel of a linear layer.
int64_t rows_class(int64_t rows) { return rows == 1 ? 1 : rows < 16 ? 2 : 16; }

struct Work {
  int64_t bytes = 0, operations = 0;
};

class Metered final : public Ops {
 public:
  Metered(std::unique_ptr<Ops> inside, std::shared_ptr<StepProfile> profile) : in_(std::move(inside)), profile_(std::move(profile)) {}

  Result<std::unique_ptr<Weight>> pack(const HostTensor& t, std::span<const int32_t> rows, const RowsDone& done) override { return in_->pack(t, rows, done); }
  Result<std::unique_ptr<Weight>> pack_spilled(const HostTensor& t, std::span<const int32_t> rows, const RowsDone& done) override {
    return in_->pack_spilled(t, rows, done);
  }
  size_t packed_bytes(tensor::DType t, int64_t n, int64_t k) const override { return in_->packed_bytes(t, n, k); }
  void begin(const Batch& b, KvCache* kv) override {
    batch_ = b;
    kv_type_ = kv ? kv->type : KvType::f32;
    in_->begin(b, kv);
  }
  Tensor empty(int64_t rows, int64_t cols) override { return in_->empty(rows, cols); }
  void next_layer() override { in_->next_layer(); }

  Tensor embed(const Weight& table, float scale) override {
    return timed(plain(Op::embed), {batch_.T() * table.k * 8, 0}, [&] { return in_->embed(table, scale); });
  }
  Tensor linear(Tensor x, const Linear& w) override {
    const Linear* const ws[1] = {&w};
    return timed(linear_row(Op::linear, x, ws), linear_work({.x = x}, ws), [&] { return in_->linear(x, w); });
  }
  void linear_n(Tensor x, std::span<const Linear* const> ws, std::span<Tensor> outs) override {
    timed(linear_row(Op::linear, x, ws), linear_work({.x = x}, ws), [&] { return in_->linear_n(x, ws, outs), 0; });
  }
  Tensor linear_act(Tensor x, const Linear& gate, const Linear& up, Activation a) override {
    const Linear* const ws[2] = {&gate, &up};
    return timed(linear_row(Op::linear_act, x, ws), linear_work({.x = x}, ws), [&] { return in_->linear_act(x, gate, up, a); });
  }
  bool try_project(const RowSource& s, std::span<const Linear* const> ws, std::span<Tensor> outs) override {
    const int64_t start = now_ns();
    if (!in_->try_project(s, ws, outs)) return false;
    count(linear_row(Op::linear, s.x, ws, steps_of(s)), linear_work(s, ws), start);
    return true;
  }
  std::optional<RowSource> try_gated(const RowSource& s, const GatedArgs& g) override {
    const Linear* const ws[2] = {&g.gate, &g.up};
    const int64_t start = now_ns();
    const auto out = in_->try_gated(s, g);
    if (out) count(linear_row(Op::linear_act, s.x, ws, steps_of(s) | (out->quantized ? kQuantizes : 0)), linear_work(s, ws), start);
    return out;
  }
  bool try_store_kv(const AttentionArgs& a) override {
    const int64_t start = now_ns();
    if (!in_->try_store_kv(a)) return false;
    const bool norms = a.q_norm || a.k_norm;
    const size_t row = row_of({.op = Op::store_kv, .a = norms, .b = a.rope != nullptr}, [&] {
      return OpTime{.name = fmt::format("{}{}{}", norms ? "qk_norm+" : "", a.rope ? "rope+" : "", kNames[int(Op::store_kv)]), .kernel = "float32"};
    });
    count(row, {2 * bytes_of(a.q) + bytes_of(a.k) + bytes_of(a.v) + a.k.rows * a.k.cols * 2 * kElementBytes[int(kv_type_)], 0}, start);
    return true;
  }
  Tensor rms_norm(Tensor x, std::span<const float> w, float eps) override {
    return timed(plain(Op::rms_norm), {2 * bytes_of(x), 0}, [&] { return in_->rms_norm(x, w, eps); });
  }
  Tensor add_rms_norm(Tensor x, Tensor y, std::span<const float> w, float eps) override {
    return timed(plain(Op::add_rms_norm), {4 * bytes_of(x), 0}, [&] { return in_->add_rms_norm(x, y, w, eps); });
  }
  void head_norm(Tensor x, int head_dim, std::span<const float> w, float eps) override {
    timed(plain(Op::head_norm), {2 * bytes_of(x), 0}, [&] { return in_->head_norm(x, head_dim, w, eps), 0; });
  }
  void rope(Tensor x, int head_dim, const Rope& r) override {
    timed(plain(Op::rope), {2 * bytes_of(x), 0}, [&] { return in_->rope(x, head_dim, r), 0; });
  }
  Tensor attention(const AttentionArgs& a) override {
    const Work w = attention_work(a);
    return timed(attention_row(a), w, [&] { return in_->attention(a); });
  }
  Tensor act_mul(Tensor gate, Tensor up, Activation a) override {
    return timed(plain(Op::act_mul), {3 * bytes_of(gate), 0}, [&] { return in_->act_mul(gate, up, a); });
  }
  void add(Tensor x, Tensor y, float s) override {
    timed(plain(Op::add), {3 * bytes_of(x), 0}, [&] { return in_->add(x, y, s), 0; });
  }
  void scale(Tensor x, float s) override {
    timed(plain(Op::scale), {2 * bytes_of(x), 0}, [&] { return in_->scale(x, s), 0; });
  }
  void softcap(Tensor x, float cap) override {
    timed(plain(Op::softcap), {2 * bytes_of(x), 0}, [&] { return in_->softcap(x, cap), 0; });
  }
  Tensor gather(Tensor x, std::span<const int32_t> rows) override {
    return timed(plain(Op::gather), {2 * int64_t(rows.size()) * x.cols * 4, 0}, [&] { return in_->gather(x, rows); });
  }

  Tensor linear_heads(const HeadsArgs& a) override {
    Work w;
    for (const Linear& l : a.ws) w.bytes += int64_t(l.w->bytes), w.operations += 2 * a.x.rows * l.w->n * l.w->k;
    w.bytes += bytes_of(a.x) + a.x.rows * int64_t(a.ws.size()) * a.ws[0].w->n * 4;
    return timed(plain(Op::linear_heads), w, [&] { return in_->linear_heads(a); });
  }
  void add_rows(Tensor x, const Weight& table, std::span<const int32_t> rows) override {
    timed(plain(Op::add_rows), {3 * bytes_of(x), 0}, [&] { return in_->add_rows(x, table, rows), 0; });
  }
  void layer_norm(Tensor x, const LayerNorm& n) override {
    timed(plain(Op::layer_norm), {2 * bytes_of(x), 0}, [&] { return in_->layer_norm(x, n), 0; });
  }
  void add_layer_norm(Tensor x, Tensor y, const LayerNorm& n) override {
    timed(plain(Op::layer_norm), {3 * bytes_of(x), 0}, [&] { return in_->add_layer_norm(x, y, n), 0; });
  }
  void activate(Tensor x, Activation a) override {
    timed(plain(Op::act_mul), {2 * bytes_of(x), 0}, [&] { return in_->activate(x, a), 0; });
  }
  Tensor self_attention(const SelfAttentionArgs& a) override {
    Work w{.bytes = 4 * bytes_of(a.q)};
    for (int64_t s = 0; s < batch_.S(); ++s) {
      const int64_t n = batch_.query_start[size_t(s) + 1] - batch_.query_start[size_t(s)];
      w.operations += n * n * a.heads * a.head_dim * 4;
    }
    const size_t row = row_of({.op = Op::attention, .a = 2, .c = a.heads}, [&] {
      return OpTime{.name = fmt::format("attention {} heads of {}, both ways", a.heads, a.head_dim), .kernel = "tiles of queries"};
    });
    return timed(row, w, [&] { return in_->self_attention(a); });
  }

  Tensor moe(Tensor x, const Moe& m) override {
    return timed(moe_row(x, m), moe_work(x, m), [&] { return in_->moe(x, m); });
  }
  Tensor moe_routed_by(Tensor x, Tensor r, const Moe& m) override {
    return timed(moe_row(x, m), moe_work(x, m), [&] { return in_->moe_routed_by(x, r, m); });
  }

  Tensor copy(Tensor x) override {
    return timed(plain(Op::copy), {2 * bytes_of(x), 0}, [&] { return in_->copy(x); });
  }
  void scale_by_position(Tensor x, const PositionScale& s) override {
    timed(plain(Op::scale_by_position), {2 * bytes_of(x), 0}, [&] { return in_->scale_by_position(x, s), 0; });
  }
  void clamp(Tensor x, float low, float high) override {
    timed(plain(Op::clamp), {2 * bytes_of(x), 0}, [&] { return in_->clamp(x, low, high), 0; });
  }
  void keep_above(Tensor x, float s) override {
    timed(plain(Op::keep_above), {2 * bytes_of(x), 0}, [&] { return in_->keep_above(x, s), 0; });
  }
  void add_by_row(Tensor x, Tensor y, Tensor c) override {
    timed(plain(Op::add_by_row), {3 * bytes_of(x), 0}, [&] { return in_->add_by_row(x, y, c), 0; });
  }
  void match_size(Tensor x, Tensor like, float floor) override {
    timed(plain(Op::match_size), {3 * bytes_of(x), 0}, [&] { return in_->match_size(x, like, floor), 0; });
  }
  Tensor resize_heads(Tensor x, int from, int to) override {
    return timed(plain(Op::copy), {2 * bytes_of(x), 0}, [&] { return in_->resize_heads(x, from, to); });
  }

  SparseOps* sparse() override {
    SparseOps* const inside = in_->sparse();
    if (inside && !sparse_)
      sparse_ = std::make_unique<MeteredSparse>(*inside, [this](const MeteredSparse::Call& c, const std::function<void()>& work) {
        const size_t row = row_of({.op = Op::sparse, .a = c.op}, [&] { return OpTime{.name = c.name, .kernel = "float32"}; });
        timed(row, {c.bytes, c.operations}, [&] { return work(), 0; });
      });
    return sparse_.get();
  }

  Tensor short_conv(Tensor x, const ShortConv& c, StatePlace at) override {
    return timed(plain(Op::short_conv), {2 * bytes_of(x), 2 * x.rows * x.cols * c.width}, [&] { return in_->short_conv(x, c, at); });
  }
  Tensor gated_delta(const DeltaArgs& a) override {
    const Work w{state_bytes(a.state_floats()) + 2 * bytes_of(a.v), 7 * a.v.rows * a.matrix_floats()};
    return timed(plain(Op::gated_delta), w, [&] { return in_->gated_delta(a); });
  }
  Tensor scan(const ScanArgs& a) override {
    const int64_t bytes = a.per_channel ? 8 * batch_.S() * a.state_floats() : state_bytes(a.state_floats());
    return timed(plain(Op::scan), {bytes + 2 * bytes_of(a.x), 5 * a.x.rows * a.matrix_floats()}, [&] { return in_->scan(a); });
  }
  Tensor channel_delta(const ChannelDeltaArgs& a) override {
    return timed(plain(Op::channel_delta), {8 * batch_.S() * a.state_floats() + 2 * bytes_of(a.v), 8 * a.v.rows * a.state_floats()},
                 [&] { return in_->channel_delta(a); });
  }
  void sigmoid_mul(Tensor x, Tensor gate) override {
    timed(plain(Op::sigmoid_mul), {3 * bytes_of(x), 0}, [&] { return in_->sigmoid_mul(x, gate), 0; });
  }
  void scale_columns(Tensor x, std::span<const float> w) override {
    timed(plain(Op::mul), {2 * bytes_of(x), 0}, [&] { return in_->scale_columns(x, w), 0; });
  }
  void mul(Tensor x, Tensor y) override {
    timed(plain(Op::mul), {3 * bytes_of(x), 0}, [&] { return in_->mul(x, y), 0; });
  }

  Result<std::unique_ptr<KvCache>> make_kv(std::span<const KvLayerSpec> layers, std::span<const int64_t> blocks, int block_size, KvType t) override {
    return in_->make_kv(layers, blocks, block_size, t);
  }
  size_t kv_block_bytes(std::span<const KvLayerSpec> layers, int group, int block_size, KvType t) const override {
    return in_->kv_block_bytes(layers, group, block_size, t);
  }
  void adopt_caller() override { in_->adopt_caller(); }
  int workers() const override { return in_->workers(); }
  void parallel(int64_t n, const std::function<void(int64_t i, int worker)>& f) override { in_->parallel(n, f); }
  std::string describe() const override { return in_->describe(); }

 private:
  template <class F>
  std::invoke_result_t<F> timed(size_t row, Work work, F&& f) {
    const int64_t start = now_ns();
    auto out = f();
    count(row, work, start);
    return out;
  }
  void count(size_t row, Work work, int64_t start) { profile_->add_op(row, now_ns() - start, work.bytes, work.operations); }

  template <class Make>
  size_t row_of(const Key& key, Make make) {
    const auto it = std::find(keys_.begin(), keys_.end(), key);
    if (it != keys_.end()) return rows_[size_t(it - keys_.begin())];
    keys_.push_back(key);
    rows_.push_back(profile_->declare_op(make()));
    return rows_.back();
  }

  size_t plain(Op op) {
    return row_of({op}, [&] { return OpTime{.name = kNames[int(op)], .kernel = "float32"}; });
  }

  size_t linear_row(Op op, Tensor x, std::span<const Linear* const> ws, int steps = 0) {
    Key key{op, rows_class(x.rows), x.cols, 0, 0, steps};
    for (const Linear* w : ws) key.b += w->w->n, key.c = key.c * 64 + int64_t(w->w->dtype) + 1;
    return row_of(key, [&] {
      std::string name = fmt::format("{} {}", name_with(steps, steps ? kShort[op == Op::linear_act] : kNames[int(op)]), tensor::format(ws[0]->w->dtype).name);
      for (const Linear* w : ws.subspan(1))
        if (w->w->dtype != ws[0]->w->dtype) name += fmt::format("/{}", tensor::format(w->w->dtype).name);
      name += fmt::format(" {}>{}", x.cols, key.b);
      const bool integer = quantized(*ws[0]->w);
      const char* height = key.rows_class == 1 ? "1 row" : key.rows_class == 2 ? "2 to 15 rows" : "panels of 16 rows";
      return OpTime{.name = name, .kernel = fmt::format("{}, {}", integer ? "int8 dots" : "float32 fma", height), .arithmetic = integer ? OpTime::Arithmetic::int8 : OpTime::Arithmetic::float32};
    });
  }

  static bool quantized(const Weight& w) { return tensor::format(w.dtype).block > 1; }

  static Work linear_work(const RowSource& s, std::span<const Linear* const> ws) {
    const Tensor x = s.x;
    Work w{.bytes = bytes_of(x) * (s.add ? 3 : 1)};
    for (const Linear* l : ws) {
      w.bytes += int64_t(l->w->bytes) + x.rows * l->w->n * 4;
      w.operations += 2 * x.rows * l->w->n * l->w->k;
    }
    return w;
  }

  size_t moe_row(Tensor x, const Moe& m) {
    const FeedForward& f = m.experts[0];
    return row_of({Op::moe, rows_class(x.rows), x.cols, int64_t(m.experts.size()), int64_t(f.up.w->dtype)}, [&] {
      const bool integer = quantized(*f.up.w);
      return OpTime{.name = fmt::format("{} {} {} of {}, {}>{}", kNames[int(Op::moe)], tensor::format(f.up.w->dtype).name, m.routing.used, m.experts.size(), x.cols, f.up.w->n),
                    .kernel = integer ? "int8 dots, sorted by expert" : "float32 fma, sorted by expert",
                    .arithmetic = integer ? OpTime::Arithmetic::int8 : OpTime::Arithmetic::float32};
    });
  }

  /// Each expert that some row goes to is read once: of E as many as T rows meet on average if all choices are equally likely.
  static Work moe_work(Tensor x, const Moe& m) {
    const int64_t experts = int64_t(m.experts.size()), pairs = x.rows * m.routing.used;
    const double missed = std::pow(1.0 - double(m.routing.used) / double(experts), double(x.rows));
    const int64_t read = std::llround(double(experts) * (1.0 - missed));
    Work w{.bytes = 2 * bytes_of(x)};
    const auto count = [&](const FeedForward& f, int64_t copies, int64_t rows) {
      for (const Linear* l : {&f.gate, &f.up, &f.down})
        if (l->w) w.bytes += copies * int64_t(l->w->bytes) + rows * l->w->n * 4, w.operations += 2 * rows * l->w->n * l->w->k;
    };
    count(m.experts[0], read, pairs);
    count(m.shared, 1, x.rows);
    w.bytes += int64_t(m.router.w->bytes), w.operations += 2 * x.rows * experts * x.cols;
    return w;
  }

  size_t attention_row(const AttentionArgs& a) {
    const bool decode = batch_.T() == batch_.S();
    const bool pairs = kv_type_ == KvType::bf16;
    return row_of({Op::attention, decode, a.window > 0, a.head_dim, a.heads}, [&] {
      return OpTime{.name = fmt::format("attention {}x{} heads of {}{}", a.heads, a.kv_heads, a.head_dim, a.window > 0 ? fmt::format(", window {}", a.window) : ""),
                    .kernel = fmt::format("{}, {}", pairs ? "bf16 pairs" : "float32 fma", decode ? "one token a sequence" : "tiles of queries"),
                    .arithmetic = pairs ? OpTime::Arithmetic::bf16 : OpTime::Arithmetic::float32};
    });
  }

  /// Of states of so many floats: each sequence's is read, and written where the step ends a chunk.
  int64_t state_bytes(int64_t floats) const {
    int64_t states = batch_.S();
    for (int64_t s = 0; s < batch_.S(); ++s) {
      const int32_t from = batch_.query_start[size_t(s)], to = batch_.query_start[size_t(s) + 1];
      if (from < to) states += batch_.positions[size_t(from)] / kStateChunk != (batch_.positions[size_t(to) - 1] + 1) / kStateChunk;
    }
    return int64_t(sizeof(float)) * floats * states;
  }

  /// Keys that queries see: each costs two products of head_dim for each head. Keys that a sequence has are read once.
  Work attention_work(const AttentionArgs& a) const {
    int64_t pairs = 0, keys = 0;
    for (int64_t s = 0; s < batch_.S(); ++s) {
      const int32_t from = batch_.query_start[size_t(s)], to = batch_.query_start[size_t(s) + 1];
      for (int32_t t = from; t < to; ++t) pairs += seen(batch_.positions[size_t(t)], a);
      if (from < to) keys += std::min<int64_t>(batch_.context_len[size_t(s)], seen(batch_.positions[size_t(to) - 1], a) + to - from - 1);
    }
    const int64_t stored = a.value_dim ? a.head_dim : 2 * a.head_dim, added = a.head_dim + (a.value_dim ? a.value_dim : a.head_dim);
    return {keys * a.kv_heads * stored * kElementBytes[int(kv_type_)] + bytes_of(a.q) * 2, pairs * a.heads * added * 2};
  }
  static int64_t seen(int32_t position, const AttentionArgs& a) {
    const int64_t all = int64_t{position} + 1;
    if (a.window > 0 && a.chunked) return position % a.window + 1;
    return a.window > 0 ? std::min(all, a.window) : all;
  }

  static constexpr int kElementBytes[] = {4, 2, 2, 1, 1};

  std::unique_ptr<Ops> in_;
  std::shared_ptr<StepProfile> profile_;
  std::unique_ptr<MeteredSparse> sparse_;
  std::vector<Key> keys_;
  std::vector<size_t> rows_;
  Batch batch_;
  KvType kv_type_ = KvType::f32;
};

}  // namespace

std::unique_ptr<Ops> make_metered(std::unique_ptr<Ops> inside, std::shared_ptr<StepProfile> profile) {
  return std::make_unique<Metered>(std::move(inside), std::move(profile));
}

}  // namespace isotope::ops
