#include "models/planner.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>

#include "base/log.h"
#include "models/loader.h"

namespace isotope::models {

using tensor::HostTensor;

Names names_of(const Checkpoint& c) {
  if (c.container() == "gguf") return {true, "", "blk.", ""};
  static constexpr std::string_view kBodies[][2] = {
      {"model.", ""}, {"language_model.model.", "language_model."}, {"model.language_model.", ""}, {"backbone.", ""}, {"", ""}};
  if (c.find("embed.weight")) return {false, "", "layers.", ""};  // DeepSeek's own names
  for (const auto& [body, head] : kBodies)
    for (const char* table : {"embed_tokens", "embeddings", "word_embeddings"})
      if (c.find(fmt::format("{}{}.weight", body, table))) return {false, std::string(body), fmt::format("{}layers.", body), std::string(head)};
  return {false, "model.", "model.layers.", ""};
}

HostTensor rows_of(HostTensor t, int64_t first, int64_t n) {
  if (first == 0 && n == t.rows() && t.rank == 2) return t;
  const size_t row = tensor::row_bytes(t.dtype, t.cols());
  t.data = static_cast<const std::byte*>(t.data) + size_t(first) * row;
  t.bytes = size_t(n) * row;
  t.shape = {n, t.cols()};
  t.rank = 2;
  return t;
}

Result<std::unique_ptr<ops::Weight>> pack_columns(ops::Ops& o, const HostTensor& t, int64_t first, int64_t n, int64_t step) {
  const size_t size = size_t(tensor::format(t.dtype).bytes), k = size_t(t.rows()), columns = size_t(t.cols());
  std::vector<std::byte> rows(size_t(n) * k * size);
  const auto* const from = static_cast<const std::byte*>(t.data);
  for (size_t i = 0; i < k; ++i)
    for (size_t r = 0; r < size_t(n); ++r)
      std::memcpy(&rows[(r * k + i) * size], from + (i * columns + size_t(first) + r * size_t(step)) * size, size);
  return o.pack({.dtype = t.dtype, .data = rows.data(), .bytes = rows.size(), .shape = {n, int64_t(k)}, .rank = 2});
}

Planner::Planner(const Checkpoint& c, ops::Ops& o, const Arch& a, const ModelConfig& config) : ck_(c), ops_(o), arch_(a), c_(config), names_(names_of(c)) {
  for (const ops::Rope& r : config.ropes) rot_ = std::max<int64_t>(rot_, r.rot);
}

template <class Owner>
Result<void> Planner::add(const TensorRow<Owner>& row, Owner& owner, const std::string& prefix) {
  const Presence when = row.when ? c_.*row.when : Presence::yes;
  if (when == Presence::no) return {};
  const Place place = find(row, prefix);
  if (place.entry) return use(row, owner, place);
  const std::string_view own = names_.gguf ? row.gguf : row.hf;
  const int64_t shape[] = {place.total, place.k};
  if (when == Presence::yes) need(prefix + std::string(own.empty() ? row.fused.hf : own), std::span(shape).first(place.k ? 2 : 1));
  return {};
}
template Result<void> Planner::add(const LayerRow&, Layer&, const std::string&);
template Result<void> Planner::add(const GlobalRow&, Globals&, const std::string&);

Result<void> Planner::check(const levers::Loading& levers) {
  ISO_CHECK_OK(fill_missing_experts(levers));
  weights::Coverage coverage;
  for (const Missing& m : missing_) coverage.missing.push_back(m.name);
  std::vector<std::string> drafts;
  std::vector<DraftPlace> kept;
  for (int64_t k = 0; k < c_.draft_heads; ++k) kept.push_back(draft_place(ck_, arch_, c_.layers, k));
  for (const TensorEntry& e : ck_.tensors()) {
    if (job_of_.contains(&e) || ignorable(e.name)) continue;
    if (is_draft(e.name, kept)) drafts.push_back(e.name);
    else if (!(c_.tied_head && e.name.ends_with("lm_head.weight"))) coverage.unexpected.push_back(e.name);
  }
  if (!drafts.empty()) log_left_out(drafts);
  else if (arch_.drafts && c_.no_drafts.empty() && c_.draft_heads < c_.draft_layers)
    base::log(base::LogLevel::info, "the configuration announces {} multi-token-prediction heads, the files hold {}", c_.draft_layers, c_.draft_heads);
  return weights::require(ck_, coverage, levers);
}

std::vector<Planner::Missing> Planner::take_missing() {
  for (const Slot& s : missing_experts_) need(s.name, std::array{s.n, s.k});
  missing_experts_.clear();
  return std::move(missing_);
}

std::vector<weights::LoadJob> Planner::take_jobs() {
  std::vector<weights::LoadJob> out = std::move(pairs_);
  for (Job& j : jobs_)
    if (!j.uses.empty()) out.push_back({{j.entry}, [uses = std::move(j.uses)](std::span<Checkpoint::Data> data) -> Result<void> {
                     for (const Use& use : uses) ISO_CHECK_OK(use(data[0]));
                     return {};
                   }});
  return out;
}

bool Planner::Place::fits() const {
  const auto& s = entry->shape;
  return k ? entry->rank == 2 && s[0] == total && s[1] == k : entry->rank == 1 && s[0] == total;
}

/// The tensor of the row's own name; else, or if that one has another shape (Phi 3's ffn_up holds the gate too), the fused one.
template <class Owner>
Planner::Place Planner::find(const TensorRow<Owner>& row, const std::string& prefix) const {
  Place own{.n = size_of(row.rows, c_, layer_), .k = row.weight ? size_of(row.cols, c_, layer_) : 0};
  const std::string_view name = names_.gguf ? row.gguf : row.hf;
  if (!name.empty()) own.entry = entry(prefix + std::string(name));
  own.total = own.n;
  if ((own.entry && own.fits()) || row.fused.count == 0) return own;
  Place part = own;
  part.entry = entry(prefix + std::string(names_.gguf ? row.fused.gguf : row.fused.hf));
  part.total = 0;
  for (int i = 0; i < row.fused.count; ++i) {
    if (i == row.fused.index) part.first = part.total;
    part.total += size_of(row.fused.parts[size_t(i)], c_, layer_);
  }
  return name.empty() || (part.entry && (part.fits() || !own.entry)) ? part : own;
}

template <class Owner>
Result<void> Planner::use(const TensorRow<Owner>& row, Owner& owner, const Place& place) {
  const int64_t want[] = {place.total, place.k};
  ISO_CHECK_OK(expect_shape(*place.entry, std::span(want).first(place.k ? 2 : 1)));
  std::vector<int32_t> order;
  if (row.turns && names_.gguf && arch_.gguf_pairs) order = halves_from_pairs(place.n / c_.head_dim, c_.head_dim, rot_);
  if (row.weight) {
    add_use(*place.entry, pack_into(owner.*row.weight, place.first, place.n, std::move(order)));
    return {};
  }
  const bool norm = row.vector != nullptr;
  const float shift = norm && !names_.gguf ? arch_.hf_norm_shift : 0.0f;
  add_use(*place.entry, read_into(norm ? owner.*row.vector : (owner.*row.bias).bias, place.first, place.n, shift, std::move(order)));
  return {};
}

std::string Planner::spelled_out(std::string name) const {
  if (const size_t at = name.find("{}"); at != name.npos) name.replace(at, 2, std::to_string(sublayer_));
  return name;
}

void Planner::ignore(const LayerRow& row, const std::string& prefix) { ignore(prefix + std::string(names_.gguf ? row.gguf : row.hf)); }

void Planner::ignore(const std::string& name) {
  const TensorEntry* const e = entry(name);
  if (e && job_of_.try_emplace(e, jobs_.size()).second) jobs_.push_back({e, {}});
}

/// Of each stream but the first one tensor, or (GGUF) all in one.
Result<void> Planner::add_streams(Globals& g) {
  const size_t others = size_t(c_.streams.count) - 1;
  const int64_t D = c_.hidden, stacked[] = {int64_t(others), D, D};
  const auto add = [&](std::vector<ops::Linear>& to, const char* gguf, const char* hf) -> Result<void> {
    to.resize(others);
    if (names_.gguf) {
      ISO_TRY(const TensorEntry* const e, required(gguf, stacked));
      for (size_t i = 0; e && i < others; ++i) add_use(*e, pack_into(to[i], int64_t(i) * D, D));
      return {};
    }
    for (size_t i = 0; i < others; ++i) ISO_CHECK_OK(add_matrix(to[i], fmt::format("{}{}.{}.weight", names_.body, hf, i), D, D));
    return {};
  };
  ISO_CHECK_OK(add(g.stream_in, "altup_proj.weight", "altup_projections"));
  return add(g.stream_out, "altup_unembd_proj.weight", "altup_unembed_projections");
}

Result<const TensorEntry*> Planner::required(const std::string& name, std::span<const int64_t> shape) {
  const TensorEntry* const e = entry(name);
  if (e) ISO_CHECK_OK(expect_shape(*e, shape));
  else need(name, shape);
  return e;
}

Result<void> Planner::expect_shape(const TensorEntry& e, std::span<const int64_t> want) const {
  const auto shape = std::span(e.shape).first(size_t(std::clamp(e.rank, 0, 4)));
  if (std::equal(shape.begin(), shape.end(), want.begin(), want.end())) return {};
  return fail(Code::data_loss, fmt::format("tensor {} has shape [{}], the configuration asks for [{}]", e.name, fmt::join(shape, ", "), fmt::join(want, ", ")),
              ck_.files()[size_t(e.file)], "use an intact checkpoint of that architecture");
}

void Planner::add_use(const TensorEntry& e, Use use) {
  const auto [at, fresh] = job_of_.try_emplace(&e, jobs_.size());
  if (fresh) jobs_.push_back({&e, {}});
  if (draft_names_) draft_entries_.try_emplace(&e, packed_bytes(e));
  jobs_[at->second].uses.push_back(std::move(use));
}

Use Planner::pack_into(ops::Linear& slot, int64_t first, int64_t n, std::vector<int32_t> order) {
  return [this, expert = in_experts_, &slot, first, n, order = std::move(order)](const Checkpoint::Data& d) -> Result<void> {
    // Reordered rows stay within a head, so that few pages, if any, come in twice.
    const size_t row = tensor::row_bytes(d.view.dtype, d.view.cols());
    const auto done = [&](int64_t from, int64_t rows) { d.release(size_t(first + from) * row, size_t(rows) * row); };
    const ops::RowsDone told = d.release ? ops::RowsDone(done) : ops::RowsDone();
    ISO_TRY(slot.w, expert ? pack_expert(rows_of(d.view, first, n), order, told) : ops_.pack(rows_of(d.view, first, n), order, told));
    return {};
  };
}

Use Planner::read_into(std::vector<float>& slot, int64_t first, int64_t n, float shift, std::vector<int32_t> order) {
  return [&slot, first, n, shift, order = std::move(order)](const Checkpoint::Data& d) -> Result<void> {
    const HostTensor& t = d.view;
    std::vector<float> v(size_t(t.elements()));
    ISO_CHECK_OK(tensor::dequantize(t.dtype, t.data, v));
    slot.resize(size_t(n));
    for (size_t i = 0; i < slot.size(); ++i) slot[i] = v[size_t(first) + (order.empty() ? i : size_t(order[i]))] + shift;
    return {};
  };
}

}  // namespace isotope::models
