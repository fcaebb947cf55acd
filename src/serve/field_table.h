// The request fields that are told by type and range alone: the one table behind validation and /openapi.json.
#pragma once

#include <span>
#include <string_view>

#include "serve/fields.h"

namespace isotope::serve {

/// What a field may hold.
enum FieldKind : unsigned { kBool = 1, kInteger = 2, kNumber = 4, kString = 8, kArray = 16, kObject = 32 };
/// Which requests have it.
enum FieldPlace : unsigned {
  kInCompletion = 1, kInChat = 2, kInBoth = 3,
  kReadElsewhere = 4,   ///< its reader checks it, with more to say
  kInEmbedding = 8, kInRerank = 16, kInScore = 32, kInPooling = kInEmbedding | kInRerank | kInScore,
};

struct FieldRow {
  const char* name;
  unsigned kinds;
  unsigned place = kInBoth;
  double low = 0, high = 0;      ///< of integers and numbers; high below low: no bound
  bool low_open = false;
  const char* meaning = "";
};

std::span<const FieldRow> field_table();
/// Null for a field that is not in the table.
const FieldRow* field_row(std::string_view name);
/// Every field of the table that the request has is of its type and within its range. Errors name field, value and what is expected.
Result<void> check_fields(const Fields&, FieldPlace);
/// The JSON schema of a row; null stands for absence everywhere.
Json field_schema(const FieldRow&);

}  // namespace isotope::serve
