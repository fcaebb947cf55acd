#include "engine/pool_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "models/direct.h"

namespace isotope::engine {
namespace {

using models::Encoder;
using ops::Tensor;

Result<std::vector<float>> finished(std::vector<float> v, bool unit) {
  if (!std::all_of(v.begin(), v.end(), [](float x) { return std::isfinite(x); }))
    return fail(Code::data_loss, "the model's result is not a finite number", "weights of the model", "use an intact checkpoint");
  if (unit) normalize(v);
  return v;
}

class EncoderPool final : public PoolModel {
 public:
  EncoderPool(std::unique_ptr<ops::Ops> o, std::shared_ptr<const Encoder> m) : ops_(std::move(o)), model_(std::move(m)) {}
  void adopt_caller() override { ops_->adopt_caller(); }

  Result<PoolRequest::Vectors> run(std::span<const PoolItem> items) override {
    const models::EncoderConfig& c = model_->config;
    tokens_.clear(), positions_.clear(), types_.clear(), start_.assign(1, 0), lengths_.clear();
    for (const PoolItem& item : items) {
      const auto& t = item.input->tokens;
      for (size_t i = 0; i < t.size(); ++i) {
        tokens_.push_back(t[i]);
        positions_.push_back(c.first_position + int32_t(i));
        types_.push_back(c.types > 1 && item.input->second >= 0 && int64_t(i) >= item.input->second ? 1 : 0);
      }
      start_.push_back(int32_t(tokens_.size()));
      lengths_.push_back(int32_t(t.size()));
    }
    const ops::Batch batch{.tokens = tokens_, .positions = positions_, .query_start = start_, .context_len = lengths_};
    ops_->begin(batch, nullptr);
    const Tensor x = model_->forward(*ops_, batch, types_);
    return answers(items, x);
  }

 private:
  Result<PoolRequest::Vectors> answers(std::span<const PoolItem> items, Tensor x) {
    std::vector<int32_t> firsts;
    for (size_t i = 0; i < items.size(); ++i)
      if (items[i].classify) firsts.push_back(start_[i]);
    const Tensor labels = firsts.empty() ? Tensor{} : model_->classify(*ops_, ops_->gather(x, firsts));
    PoolRequest::Vectors out;
    int64_t row = 0;
    for (size_t i = 0; i < items.size(); ++i) {
      std::vector<float> v = items[i].classify ? std::vector<float>(labels.row(row), labels.row(row) + labels.cols)
                                               : pool_rows(x, start_[i], start_[i + 1], items[i].pooling);
      row += items[i].classify;
      if (items[i].classify && items[i].activation && model_->config.sigmoid) v[0] = 1 / (1 + std::exp(-v[0]));
      ISO_TRY(v, finished(std::move(v), items[i].normalize && !items[i].classify));
      out.push_back(std::move(v));
    }
    return out;
  }

  std::unique_ptr<ops::Ops> ops_;
  std::shared_ptr<const Encoder> model_;
  std::vector<int32_t> tokens_, positions_, types_, start_, lengths_;
};

/// A text's rows come chunk by chunk; only what its pooling needs of them is kept.
class RowSum {
 public:
  explicit RowSum(Pooling p) : pooling_(p) {}
  void take(Tensor x, int64_t from, int64_t to) {
    if (sum_.empty()) sum_.assign(size_t(x.cols), pooling_ == Pooling::max ? -INFINITY : 0.0);
    if (pooling_ == Pooling::cls && rows_ == 0) sum_.assign(x.row(from), x.row(from) + x.cols);
    if (pooling_ == Pooling::last) sum_.assign(x.row(to - 1), x.row(to - 1) + x.cols);
    for (int64_t r = from; r < to && (pooling_ == Pooling::mean || pooling_ == Pooling::max); ++r) {
      const float* row = x.row(r);
      for (size_t i = 0; i < sum_.size(); ++i) sum_[i] = pooling_ == Pooling::mean ? sum_[i] + double(row[i]) : std::max(sum_[i], double(row[i]));
    }
    rows_ += to - from;
  }
  std::vector<float> vector() const {
    std::vector<float> out;
    for (const double v : sum_) out.push_back(float(pooling_ == Pooling::mean ? v / double(rows_) : v));
    return out;
  }

 private:
  Pooling pooling_;
  std::vector<double> sum_;
  int64_t rows_ = 0;
};

class DecoderPool final : public PoolModel {
 public:
  DecoderPool(std::unique_ptr<ops::Ops> o, std::shared_ptr<const models::Model> m, KvType kv, int64_t step)
      : ops_(std::move(o)), model_(std::move(m)), kv_(kv), step_(step) {}
  void adopt_caller() override { ops_->adopt_caller(); }

  Result<PoolRequest::Vectors> run(std::span<const PoolItem> items) override {
    PoolRequest::Vectors out;
    for (const PoolItem& item : items) {
      ISO_TRY(std::vector<float> v, one(item));
      out.push_back(std::move(v));
    }
    return out;
  }

 private:
  Result<std::vector<float>> one(const PoolItem& item) {
    const std::span<const int32_t> all = item.input->tokens;
    ISO_TRY(auto direct, models::Direct::create(*model_, *ops_, {.max_len = int64_t(all.size()), .kv = kv_}));
    RowSum sum(item.pooling);
    const int last = int(model_->config().layers);
    for (size_t at = 0; at < all.size(); at += size_t(step_)) {
      const auto part = all.subspan(at, std::min(size_t(step_), all.size() - at));
      const models::HiddenTap tap = [&](int index, Tensor x) { if (index == last) sum.take(x, 0, x.rows); };
      const models::Chunk chunk{.tokens = part, .no_logits = true};
      ISO_CHECK_OK(direct.step({&chunk, 1}, &tap));
    }
    return finished(sum.vector(), item.normalize);
  }

  std::unique_ptr<ops::Ops> ops_;
  std::shared_ptr<const models::Model> model_;
  KvType kv_;
  int64_t step_;
};

}  // namespace

std::vector<float> pool_rows(Tensor x, int64_t from, int64_t to, Pooling p) {
  RowSum sum(p);
  sum.take(x, from, to);
  return sum.vector();
}

void normalize(std::span<float> v) {
  double squares = 0;
  for (const float x : v) squares += double(x) * double(x);
  const double length = std::max(std::sqrt(squares), 1e-12);
  for (float& x : v) x = float(double(x) / length);
}

std::unique_ptr<PoolModel> make_encoder_pool(std::unique_ptr<ops::Ops> o, std::shared_ptr<const Encoder> m) {
  return std::make_unique<EncoderPool>(std::move(o), std::move(m));
}

std::unique_ptr<PoolModel> make_decoder_pool(std::unique_ptr<ops::Ops> o, std::shared_ptr<const models::Model> m, KvType kv, int64_t step_tokens) {
  return std::make_unique<DecoderPool>(std::move(o), std::move(m), kv, step_tokens);
}

}  // namespace isotope::engine
