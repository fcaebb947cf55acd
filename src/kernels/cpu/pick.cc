#include "kernels/cpu/pick.h"

#include <fmt/format.h>

#include <span>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "kernels/cpu/amx.h"

namespace isotope::kernels::cpu {

namespace {

struct Feature {
  std::string_view name;
  bool (*present)();
};

struct Candidate {
  const KernelTable* table;
  std::span<const Feature> needs;
};

#if defined(__x86_64__)
// __builtin_cpu_supports also asks the operating system for the wide registers. It has no name for f16c in clang 14.
bool has_f16c() {
  unsigned a, b, c, d;
  return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
constexpr Feature kAvx2[] = {
    {"avx2", [] { return bool(__builtin_cpu_supports("avx2")); }},
    {"fma", [] { return bool(__builtin_cpu_supports("fma")); }},
    {"f16c", has_f16c},
    {"bmi2", [] { return bool(__builtin_cpu_supports("bmi2")); }},
};
constexpr Feature kAvx512Vnni[] = {
    kAvx2[0], kAvx2[1], kAvx2[2], kAvx2[3],
    {"avx512f", [] { return bool(__builtin_cpu_supports("avx512f")); }},
    {"avx512bw", [] { return bool(__builtin_cpu_supports("avx512bw")); }},
    {"avx512dq", [] { return bool(__builtin_cpu_supports("avx512dq")); }},
    {"avx512vl", [] { return bool(__builtin_cpu_supports("avx512vl")); }},
    {"avx512_vnni", [] { return bool(__builtin_cpu_supports("avx512vnni")); }},
};
constexpr Feature kAvx512Bf16[] = {
    kAvx512Vnni[0], kAvx512Vnni[1], kAvx512Vnni[2], kAvx512Vnni[3], kAvx512Vnni[4], kAvx512Vnni[5], kAvx512Vnni[6], kAvx512Vnni[7], kAvx512Vnni[8],
    {"avx512_bf16", [] { return bool(__builtin_cpu_supports("avx512bf16")); }},
};
constexpr Feature kAvx512Amx[] = {
    kAvx512Bf16[0], kAvx512Bf16[1], kAvx512Bf16[2], kAvx512Bf16[3], kAvx512Bf16[4], kAvx512Bf16[5], kAvx512Bf16[6], kAvx512Bf16[7], kAvx512Bf16[8], kAvx512Bf16[9],
    {"amx_int8", [] { return amx_in_cpu(); }},
    {"amx_permission", [] { return amx_permitted(); }},
    {"amx_self_test", [] { return amx_works(); }},
};
#endif

std::span<const Candidate> best_first() {
  static const Candidate list[] = {
#if defined(__x86_64__)
      {&amx_table(), kAvx512Amx},
      {&table_avx512_bf16, kAvx512Bf16},
      {&table_avx512_vnni, kAvx512Vnni},
      {&table_avx2, kAvx2},
#endif
      {&table_scalar, {}},
  };
  return list;
}

std::string join(std::string text, std::string_view word) {
  if (!text.empty()) text += ' ';
  return text.append(word);
}

IsaState state(const Candidate& c) {
  std::string has, lacks;
  for (const Feature& f : c.needs) {
    std::string& list = f.present() ? has : lacks;
    list = join(std::move(list), f.name);
  }
  const bool ok = lacks.empty();
  return {c.table->isa, c.table, ok, !ok ? "this CPU lacks " + lacks : has.empty() ? "runs anywhere" : "this CPU has " + has};
}

}  // namespace

std::vector<IsaState> isa_candidates() {
  std::vector<IsaState> r;
  for (const Candidate& c : best_first()) r.push_back(state(c));
  return r;
}

Result<const KernelTable*> pick_isa(std::string_view forced, std::string_view source) {
  std::string list, unrunnable;
  for (const IsaState& s : isa_candidates()) {
    const bool wanted = forced.empty() || forced == s.isa;
    if (wanted && s.runnable) return s.table;
    if (wanted && !forced.empty()) unrunnable = s.reason;
    if (s.runnable) list += fmt::format("{}{} ({})", list.empty() ? "" : ", ", s.isa, s.reason);
  }
  std::string remedy = "leave it empty for the best one, or choose one that runs here: " + list;
  if (!unrunnable.empty())
    return fail(Code::unsupported, fmt::format("instruction set '{}' cannot run: {}", forced, unrunnable), std::string(source), std::move(remedy));
  return fail(Code::invalid_argument, fmt::format("unknown instruction set '{}'", forced), std::string(source), std::move(remedy));
}

}  // namespace isotope::kernels::cpu
