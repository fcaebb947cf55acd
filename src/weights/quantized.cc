#include "weights/quantized.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>

#include "tensor/format.h"
#include "weights/json.h"
#include "weights/load_all.h"
#include "weights/metadata.h"
#include "weights/quantized_decode.h"
#include "weights/quantized_promise.h"

namespace isotope::weights {

namespace {

using nlohmann::json;
using tensor::DType;

constexpr std::string_view kMethods[] = {"fp8", "compressed-tensors", "gptq", "awq", "modelopt"};

/// Rows of n-gram tables (DeepSeek V4.1) are read one by one, as the file has them.
constexpr std::string_view kTable = ".engram.embed.weight";

/// What quantization_config says that tensors do not.
struct Method {
  std::string_view name;
  int bits = 4;
  bool zero_less_one = true;
  bool symmetric = false;
  bool act_order = false;  ///< columns of a group are not neighbours; without it g_idx only repeats that they are
};

/// One matrix: the entry that stands for it and the entries it is made of.
struct Matrix {
  TensorEntry entry;
  QuantizedParts parts;  ///< with shapes, without data
  const TensorEntry *codes = nullptr, *scales = nullptr, *zeros = nullptr, *columns = nullptr, *global = nullptr;
  std::vector<const TensorEntry*> all() const {
    std::vector<const TensorEntry*> out;
    for (const TensorEntry* e : {codes, scales, zeros, columns, global})
      if (e) out.push_back(e);
    return out;
  }
};

tensor::HostTensor shape_only(const TensorEntry* e) {
  if (!e) return {};
  if (e->rank == 0) return {.dtype = e->dtype, .shape = {1}, .rank = 1};
  return {.dtype = e->dtype, .shape = e->shape, .rank = e->rank};
}

class QuantizedCheckpoint final : public Checkpoint {
 public:
  explicit QuantizedCheckpoint(std::unique_ptr<Checkpoint> inner) : in_(std::move(inner)) {}

  std::string_view container() const override { return in_->container(); }
  const std::vector<TensorEntry>& tensors() const override { return tensors_; }
  const std::vector<std::string>& files() const override { return in_->files(); }
  const Metadata& metadata() const override { return in_->metadata(); }
  const VocabSource& vocab() const override { return in_->vocab(); }
  const TensorEntry* find(std::string_view name) const override {
    const auto it = index_.find(name);
    return it == index_.end() ? nullptr : &tensors_[it->second];
  }
  Result<void> check_unchanged(const TensorEntry& t) const override {
    const Matrix* const m = matrix(t);
    return in_->check_unchanged(m ? *m->codes : t);
  }

  Result<Data> read(const TensorEntry& t) const override {
    const Matrix* const m = matrix(t);
    if (!m) return in_->read(t);
    const auto buffer = std::make_shared<std::vector<std::byte>>(size_t(t.bytes));
    const auto decode = [&](std::span<Data> data) -> Result<void> {
      QuantizedParts p = m->parts;
      size_t at = 0;
      for (auto [entry, part] : {std::pair(m->codes, &p.codes), {m->scales, &p.scales}, {m->zeros, &p.zeros}, {m->columns, &p.columns}, {m->global, &p.global}})
        if (entry) part->data = data[at].view.data, part->bytes = data[at].view.bytes, ++at;
      return decode_quantized(p, t.name, *buffer);
    };
    ISO_CHECK_OK(load_one(*in_, {m->all(), decode}));
    return Data{.view = {.dtype = t.dtype, .data = buffer->data(), .bytes = buffer->size(), .shape = t.shape, .rank = t.rank}, .keep = buffer};
  }

  int64_t scale_columns(const TensorEntry& t) const {
    const Matrix* const m = matrix(t);
    if (!m) return 0;
    const QuantizedParts& p = m->parts;
    const bool turned = p.layout == Layout::gptq || p.layout == Layout::awq;
    const int64_t across = turned ? p.scales.shape[0] : p.scales.rank >= 2 ? p.scales.shape[size_t(p.scales.rank - 1)] : 1;
    return across > 1 ? p.k / across : 0;
  }

  Result<void> arrange(const Method& method, Promise promise) {
    promise_ = std::move(promise);
    for (const TensorEntry& e : in_->tensors()) ISO_CHECK_OK(look_at(e, method));
    std::vector<std::string> names;
    for (const Matrix& m : matrices_) names.push_back(m.entry.name);
    ISO_CHECK_OK(check_plain(promise_, *in_, names));
    for (const TensorEntry& e : in_->tensors())
      if (!taken_.contains(&e)) tensors_.push_back(e);
    for (Matrix& m : matrices_) tensors_.push_back(m.entry);
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (!index_.emplace(tensors_[i].name, i).second)
        return fail(Code::data_loss, "the matrix is there both quantized and plain", tensors_[i].name, "remove one of them");
    }
    for (size_t i = 0; i < matrices_.size(); ++i) matrix_of_.emplace(matrices_[i].entry.name, i);
    return {};
  }

 private:
  const Matrix* matrix(const TensorEntry& t) const {
    const auto it = matrix_of_.find(t.name);
    return it == matrix_of_.end() ? nullptr : &matrices_[it->second];
  }

  /// A part of the same matrix, which no longer stands for itself.
  const TensorEntry* part(const std::string& name) {
    const TensorEntry* const e = in_->find(name);
    if (e) taken_.insert(e);
    return e;
  }

  /// Does the entry begin a quantized matrix?
  Result<void> look_at(const TensorEntry& e, const Method& method) {
    const auto base = [&](std::string_view suffix) { return e.name.ends_with(suffix) ? e.name.substr(0, e.name.size() - suffix.size()) : std::string(); };
    if (e.bytes == 0 && (e.name.ends_with(".qweight") || e.name.ends_with(".weight_packed")))
      return fail(Code::data_loss, "the tensor has no elements", place_of(*in_, e), "use an intact checkpoint");
    if (const std::string b = base(".qweight"); !b.empty()) return words(e, b, method);
    if (const std::string b = base(".weight_packed"); !b.empty()) return packed(e, b, method);
    if (e.dtype == DType::f8_e4m3 || e.dtype == DType::i8 || e.dtype == DType::u8) return bytes(e);
    return {};
  }

  Result<void> words(const TensorEntry& e, const std::string& b, const Method& method) {
    const bool awq = method.name == "awq";
    Matrix m;
    m.codes = part(e.name), m.scales = part(b + ".scales"), m.zeros = part(b + ".qzeros");
    if (const TensorEntry* const groups = part(b + ".g_idx"); method.act_order) m.columns = groups;
    m.parts = {.layout = awq ? Layout::awq : Layout::gptq, .bits = method.bits, .symmetric = method.symmetric, .zero_less_one = method.zero_less_one};
    const int64_t per = 32 / std::clamp(method.bits, 1, 32);
    m.parts.n = awq ? e.shape[1] * 8 : e.shape[1];
    m.parts.k = awq ? e.shape[0] : e.shape[0] * per;
    if (m.scales) {
      QuantizedParts shapes = m.parts;
      shapes.codes = shape_only(m.codes), shapes.scales = shape_only(m.scales), shapes.zeros = shape_only(m.zeros);
      ISO_CHECK_OK(check_words_kept(promise_, shapes, place_of(*in_, e)));
    }
    return add(std::move(m), b + ".weight");
  }

  Result<void> packed(const TensorEntry& e, const std::string& b, const Method& method) {
    Matrix m;
    m.codes = part(e.name), m.scales = part(b + ".weight_scale"), m.zeros = part(b + ".weight_zero_point"), m.columns = part(b + ".weight_g_idx");
    m.parts = {.layout = Layout::packed_rows, .bits = method.bits, .n = e.shape[0]};
    const TensorEntry* const shape = part(b + ".weight_shape");  // what the other shapes say, but for padding, which nobody writes
    if (e.dtype == DType::u8) {
      m.parts.layout = Layout::fp4, m.parts.k = e.shape[1] * 2, m.parts.divide_by_global = true;
      m.global = part(b + ".weight_global_scale");
      part(b + ".input_global_scale");
    } else {
      m.parts.k = e.shape[1] * (32 / std::clamp(method.bits, 1, 32));
    }
    ISO_CHECK_OK(add(std::move(m), b + ".weight"));
    return shape && !shape_seen_ ? check_shape(*shape, matrices_.back()) : Result<void>();
  }

  /// E4M3, int8 or pairs of E2M1 under the matrix' own name, with scales beside it. Stacked experts have no ".weight".
  Result<void> bytes(const TensorEntry& e) {
    if (e.rank < 2 || e.name.ends_with(kTable)) return {};
    const std::string b = e.name.ends_with(".weight") ? e.name.substr(0, e.name.size() - 7) : e.name;
    const TensorEntry* scales = nullptr;
    for (const std::string& name : {e.name + "_scale_inv", e.name + "_scale", b + ".scale"})  // the last one: DeepSeek V4
      if (!scales) scales = part(name);
    if (!scales) return {};
    Matrix m;
    m.codes = part(e.name), m.scales = scales;
    for (const char* unused : {".input_scale", ".activation_scale", ".weight_zero_point"}) part(b + unused);
    const size_t r = size_t(e.rank);
    m.parts.n = e.shape[r - 2], m.parts.k = e.shape[r - 1];
    for (size_t i = 0; i + 2 < r; ++i) m.parts.matrices *= e.shape[i];
    // A power of two for each sixteen bytes: those are pairs of E2M1, whatever the bytes are called (DeepSeek V4's experts).
    const bool pairs = e.dtype == DType::u8 || (e.dtype == DType::i8 && scales->dtype == DType::f8_e8m0 && scales->rank == e.rank &&
                                                   scales->shape[r - 1] * 16 == e.shape[r - 1]);
    m.parts.layout = e.dtype == DType::f8_e4m3 ? Layout::floats8 : pairs ? Layout::fp4 : Layout::bytes;
    if (pairs) m.parts.k *= 2, m.global = part(e.name + "_scale_2");
    return add(std::move(m), e.name);
  }

  /// The shape that the file states. It is data and not header, so that one has to do for all; with groups the scales say the same.
  Result<void> check_shape(const TensorEntry& shape, const Matrix& m) {
    shape_seen_ = true;
    if ((shape.dtype != DType::i64 && shape.dtype != DType::i32) || shape.rank != 1 || shape.shape[0] != 2) return {};
    return load_one(*in_, {{&shape}, [&](std::span<Data> d) -> Result<void> {
                             int64_t said[2];
                             for (size_t i = 0; i < 2; ++i) {
                               int32_t narrow;
                               if (shape.dtype == DType::i64) std::memcpy(&said[i], static_cast<const std::byte*>(d[0].view.data) + i * 8, 8);
                               else std::memcpy(&narrow, static_cast<const std::byte*>(d[0].view.data) + i * 4, 4), said[i] = narrow;
                             }
                             const int64_t spare = m.parts.k - said[1];  // a last word need not be full
                             if (said[0] == m.parts.n && spare >= 0 && spare < 32) return {};
                             return fail(Code::data_loss,
                                         fmt::format("{} promises {} bits, which makes codes of [{}, {}] a matrix [{}, {}]; the file says it is [{}, {}]", promise_.source, m.parts.bits,
                                                     m.codes->shape[0], m.codes->shape[1], m.parts.n, m.parts.k, said[0], said[1]),
                                         place_of(*in_, *m.codes), "download config.json and weights of one release again, or correct num_bits if the weights are right");
                           }});
  }

  Result<void> add(Matrix m, std::string name) {
    const std::string where = place_of(*in_, *m.codes);
    ISO_CHECK_OK(check_kind(promise_, *m.codes, m.parts.layout, where));
    if (!m.scales) return fail(Code::data_loss, "the scales are missing", "quantized matrix " + name, "use an intact checkpoint");
    QuantizedParts& p = m.parts;
    p.codes = shape_only(m.codes), p.scales = shape_only(m.scales), p.zeros = shape_only(m.zeros), p.columns = shape_only(m.columns), p.global = shape_only(m.global);
    if (p.layout == Layout::floats8)
      for (const PromisedGroup& g : promise_.groups) p.block = g.block;
    ISO_CHECK_OK(check_quantized(p, name));
    ISO_CHECK_OK(check_sizes_kept(promise_, p, where));
    TensorEntry& t = m.entry;
    t = {.name = std::move(name), .dtype = decoded_type(p), .shape = {p.n, p.k}, .rank = 2, .file = m.codes->file, .offset = m.codes->offset};
    if (m.codes->rank == 3) t.shape = {p.matrices, p.n, p.k, 0}, t.rank = 3;
    t.bytes = uint64_t(p.matrices * p.n) * tensor::row_bytes(t.dtype, p.k);
    matrices_.push_back(std::move(m));
    return {};
  }

  std::unique_ptr<Checkpoint> in_;
  Promise promise_;
  bool shape_seen_ = false;
  std::vector<TensorEntry> tensors_;
  std::vector<Matrix> matrices_;
  std::unordered_set<const TensorEntry*> taken_;
  std::unordered_map<std::string_view, size_t> index_;
  std::unordered_map<std::string, size_t> matrix_of_;
};

int64_t layers_of(const Metadata& m) {
  for (const char* key : {"num_hidden_layers", "text_config.num_hidden_layers"})
    if (const auto n = m.integer_or(key, -1); n && *n > 0) return *n;
  return INT64_MAX;
}

/// Stacks of experts in MXFP4 as GPT-OSS has them: NAME_blocks and NAME_scales.
std::vector<std::string> block_names(const Checkpoint& c) {
  std::vector<std::string> out;
  for (const TensorEntry& e : c.tensors())
    if (e.name.ends_with("_blocks")) out.push_back(e.name.substr(0, e.name.size() - 7));
  return out;
}

Result<Method> method_of(const json& q, const std::string& source) {
  Method m;
  const std::string name = quantization_method(q);
  for (std::string_view known : kMethods)
    if (known == name) m.name = known;
  const json* bits = nullptr;
  if (q.contains("bits")) bits = &q["bits"];
  else if (q.contains("config_groups") && q["config_groups"].is_object())
    for (const auto& [key, group] : q["config_groups"].items()) {
      if (!group.is_object() || !group.contains("weights") || !group["weights"].is_object() || !group["weights"].contains("num_bits")) continue;
      const json& these = group["weights"]["num_bits"];
      if (bits && *bits != these)
        return fail(Code::unsupported, "config_groups have " + bits->dump() + " and " + these.dump() + " bits", source + ", quantization_config", "one number of bits is supported");
      bits = &these;
    }
  if (bits && !bits->is_number_integer()) return fail(Code::data_loss, "bits is " + bits->dump().substr(0, 80), source + ", quantization_config", "use an intact config.json");
  if (bits) m.bits = int(std::clamp<int64_t>(bits->get<int64_t>(), 0, 64));
  m.symmetric = m.name == "gptq" && q.contains("sym") && q["sym"] == true;
  m.act_order = q.contains("desc_act") && q["desc_act"] == true;
  m.zero_less_one = !(q.contains("checkpoint_format") && q["checkpoint_format"] == "gptq_v2");
  return m;
}

}  // namespace

bool known_quantization(std::string_view method) { return std::find(std::begin(kMethods), std::end(kMethods), method) != std::end(kMethods); }

std::string quantization_names() {
  std::string s;
  for (std::string_view m : kMethods) s += fmt::format("{}{}", s.empty() ? "" : ", ", m);
  return s;
}

int64_t quantized_columns(const Checkpoint& c, const TensorEntry& t) {
  const auto* const q = dynamic_cast<const QuantizedCheckpoint*>(&c);
  return q ? q->scale_columns(t) : 0;
}

Result<std::unique_ptr<Checkpoint>> present_quantized(std::unique_ptr<Checkpoint> c, const json* other) {
  const json* q = quantization_config(c->metadata());
  std::string source = c->metadata().source() + ", quantization_config";
  json beside;
  if (!q && other && other->is_object() && other->contains("quantization") && (*other)["quantization"].is_object()) {
    beside = (*other)["quantization"], beside["quant_method"] = "modelopt";
    q = &beside, source = "hf_quant_config.json beside " + c->metadata().source();
  }
  if (!q) {
    ISO_CHECK_OK(check_unannounced(*c));
    return c;
  }
  ISO_TRY(const Method method, method_of(*q, c->metadata().source()));
  ISO_TRY(Promise promise, read_promise(*q, quantization_method(*q), std::move(source)));
  promise.layers = layers_of(c->metadata());
  if (promise.method == "mxfp4") {
    ISO_CHECK_OK(check_plain(promise, *c, block_names(*c)));
  }
  if (method.name.empty()) return c;
  auto out = std::make_unique<QuantizedCheckpoint>(std::move(c));
  ISO_CHECK_OK(out->arrange(method, std::move(promise)));
  return out;
}

}  // namespace isotope::weights
