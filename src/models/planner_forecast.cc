// What the packed weights will take, before anything is allocated; and what becomes of experts that memory has no room for.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "base/log.h"
#include "models/planner.h"
#include "weights/online.h"

namespace isotope::models {
namespace {

using tensor::DType;

/// Bytes.
struct Forecast {
  uint64_t all = 0, experts = 0;  ///< packed
  uint64_t largest = 0;           ///< tensor of a file, which is there beside the packed ones while it is read
};

void count(Forecast& f, const TensorEntry& e, uint64_t bytes) {
  f.all += bytes;
  if (e.name.find("_exps.") != e.name.npos || e.name.find("experts.") != e.name.npos) f.experts += bytes;
  f.largest = std::max<uint64_t>(f.largest, e.bytes);
}

std::string gib(double bytes) { return fmt::format("{:.2f} GiB", bytes / double(1 << 30)); }

/// What a token costs when `resident` bytes of the experts stay in memory: it needs its share of them, and reads from the disk what is not there.
std::string cost(const Forecast& f, double resident, double share) {
  const double there = std::clamp(resident / double(f.experts), 0.0, 1.0), needed = share * double(f.experts), read = needed * (1 - there);
  return fmt::format("memory holds {:.0f} % of them; a token needs {} of experts and reads about {} of that from the disk, {:.2g} s at 2 GB/s", 100 * there,
                     gib(needed), gib(read), read / 2e9);
}

/// The folder for experts must be there and have room for all of them: otherwise hours may pass, and a disk be full, before that is found out.
Result<void> check_folder(const std::string& folder, uint64_t experts) {
  std::error_code ec;
  const std::string from = folder + ", ISOTOPE_EXPERT_FOLDER";
  if (!std::filesystem::is_directory(folder, ec))
    return fail(Code::not_found, ec ? "the folder for experts cannot be used: " + ec.message() : "the folder for experts is no folder", from,
                "create it, or name another one");
  const std::filesystem::space_info room = std::filesystem::space(folder, ec);
  if (ec || room.available >= experts) return {};
  return fail(Code::resource_exhausted, fmt::format("the experts take {}, {} are free there", gib(double(experts)), gib(double(room.available))), from,
              "free space, or name a folder on another disk");
}

}  // namespace

uint64_t Planner::packed_bytes(const TensorEntry& e) const {
  const int64_t cols = e.shape[size_t(std::max(e.rank, 1) - 1)];
  int64_t rows = 1;
  for (int i = 0; i + 1 < e.rank; ++i) rows *= e.shape[size_t(i)];
  const bool vector = e.rank < 2, codes = e.dtype == tensor::DType::u8;  // codes of MXFP4 are as many bytes packed
  if (vector) return uint64_t(cols) * sizeof(float);
  if (codes) return e.bytes;
  const int64_t group = weights::scale_columns(ck_, e);
  const bool single = group > 0 && group % 128 && cols % 128 == 0 && (e.dtype == DType::i4_g32 || e.dtype == DType::i8_g16);
  if (!single) return ops_.packed_bytes(e.dtype, rows, cols);
  // Scales of fewer than 128 columns each are held one by one, as those of rows that do not fill 128 are.
  return ops_.packed_bytes(e.dtype, rows, cols + 32) - ops_.packed_bytes(e.dtype, rows, 32);
}

Result<void> Planner::forecast(const levers::Loading& levers, uint64_t free) {
  Forecast f;
  uint64_t mapped = 0;
  const auto in_table = [&](const TensorEntry* e) {
    return std::any_of(tables_.begin(), tables_.end(), [&](const Table& t) { return e == t.values || e == t.scales; });
  };
  for (const auto& [e, job] : job_of_)
    if (!in_table(e)) count(f, *e, packed_bytes(*e));
    else if (levers.disable_mmap) f.all += e->bytes;
    else mapped += e->bytes;
  if (mapped)
    base::log(base::LogLevel::info, "n-gram tables of {} stay in the file; a token reads {} rows of {} each", gib(double(mapped)), c_.engram.columns(),
              c_.engram.layers.size() == 1 ? "one table" : fmt::format("{} tables", c_.engram.layers.size()));
  uint64_t heads = 0;
  for (const auto& [e, bytes] : draft_entries_) heads += bytes;
  const std::string drafts = heads ? fmt::format(", {} multi-token-prediction heads", gib(double(heads))) : "";
  base::log(base::LogLevel::info, "the weights take {} of memory{}{}; {} free", gib(double(f.all)),
            f.experts ? fmt::format(", {} of them experts", gib(double(f.experts))) : "", drafts,
            free ? gib(double(free)) + " are" : "nobody knows how much is");
  if (!free || f.all + f.largest <= free) return {};
  const std::string numbers =
      fmt::format("the weights take {} of memory and {} while they are read, {} are free", gib(double(f.all)), gib(double(f.largest)), gib(double(free)));
  const bool helps = f.experts && f.all - f.experts + f.largest <= free;
  if (!helps || levers.expert_folder.empty())
    return fail(Code::resource_exhausted, numbers, ck_.files().empty() ? "" : ck_.files()[0],
                std::string("free memory, or choose a smaller quantization (isotope quantize, --online-quant-config)") +
                    (heads && f.all - heads + f.largest <= free ? fmt::format(", or do without the {} of multi-token-prediction heads: --no-mtp", gib(double(heads))) : "") +
                    (helps ? fmt::format(", or name a folder on a fast disk for the {} of experts: ISOTOPE_EXPERT_FOLDER", gib(double(f.experts))) : ""));
  ISO_CHECK_OK(check_folder(levers.expert_folder, f.experts));
  spill_ = true;
  const double share = double(c_.moe.routing.used) / double(std::max<int64_t>(1, c_.moe.experts));
  base::log(base::LogLevel::warning, "{}: experts are kept in {}; {}", numbers, levers.expert_folder, cost(f, double(free - (f.all - f.experts)), share));
  return {};
}

}  // namespace isotope::models
