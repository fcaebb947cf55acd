// Which row fills which field. A row without a binding has no consumer yet and is listed as planned.
#pragma once

#include <span>
#include <string_view>

#include "levers/groups.h"

namespace isotope::levers {

struct AllGroups {
  Loading loading;
  Cpu cpu;
  Fusion fusion;
  Program program;
  PrefixCache prefix_cache;
  KvEvents kv_events;
  PrefillDelayer delayer;
  Capacity capacity;
  DataParallel data_parallel;
  Housekeeping housekeeping;
  Text text;
  Engram engram;
  Sparse sparse;
};

enum class Group : uint8_t {
  loading, cpu, fusion, program, prefix_cache, kv_events, delayer, capacity, data_parallel, housekeeping, text, engram, sparse, count_
};

struct Binding {
  std::string_view name;
  Group group;
  void (*set)(AllGroups&, std::string_view value);
};
std::span<const Binding> bindings();

}  // namespace isotope::levers
