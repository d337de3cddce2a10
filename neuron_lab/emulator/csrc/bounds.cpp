// Index values are checked before an executable runs: XLA clamps an index that is out of range, which would be a silent wrong
// value. The indices are host memory here, so a look at them is cheap next to a launch.
#include "dispatch.h"

#include <algorithm>

namespace neuron {
namespace {

template <class Index>
bool within(const at::Tensor& index, int64_t size, bool negative, std::optional<int64_t> ignored) {
  const int64_t low = negative ? -size : 0;
  auto good = [&](Index value) { return (value >= low && value < size) || (ignored && value == *ignored); };
  const auto* data = static_cast<const Index*>(index.const_data_ptr());
  if (index.is_contiguous())
    return std::all_of(data, data + index.numel(), good);
  // Every element once, whatever the strides.
  Shape at(index.dim(), 0);
  for (int64_t n = index.numel(); n > 0; --n) {
    int64_t offset = 0;
    for (int64_t d = 0; d < index.dim(); ++d)
      offset += at[d] * index.stride(d);
    if (!good(data[offset]))
      return false;
    for (int64_t d = index.dim() - 1; d >= 0 && ++at[d] == index.size(d); --d)
      at[d] = 0;
  }
  return true;
}

bool within(const at::Tensor& index, int64_t size, bool negative, std::optional<int64_t> ignored) {
  if (!index.defined() || index.numel() == 0)
    return true;
  if (index.scalar_type() == at::kLong)
    return within<int64_t>(index, size, negative, ignored);
  if (index.scalar_type() == at::kInt)
    return within<int32_t>(index, size, negative, ignored);
  return true;
}

bool within(const IndexRule& rule, const c10::IValue* arguments) {
  const at::Tensor& of = arguments[rule.of].toTensor();
  const c10::IValue& index = arguments[rule.index];
  if (index.isList()) { // x[i, :, j]: entry d indexes dimension d
    int64_t dim = 0;
    for (const c10::IValue& item : index.toListRef()) {
      if (!item.isNone() && item.toTensor().defined() && dim < of.dim() && !within(item.toTensor(), of.size(dim), true, std::nullopt))
        return false;
      ++dim;
    }
    return true;
  }
  if (!index.isTensor())
    return true;
  if (rule.flat)
    return within(index.toTensor(), of.numel(), true, std::nullopt);
  int64_t dim = rule.dim_argument >= 0 ? arguments[rule.dim_argument].toInt() : rule.dim;
  int64_t size = rule.size_argument >= 0 ? arguments[rule.size_argument].toInt() : 1;
  if (rule.size_argument < 0 && of.dim() > 0) {
    if (dim < 0)
      dim += of.dim();
    if (dim < 0 || dim >= of.dim())
      return true; // the op's own check has the better message
    size = of.size(dim);
  }
  std::optional<int64_t> ignored;
  if (rule.ignore_argument >= 0)
    ignored = arguments[rule.ignore_argument].toInt();
  return within(index.toTensor(), size, rule.negative, ignored);
}

} // namespace

bool indices_in_range(const OpInfo& info, const c10::IValue* arguments) {
  return std::all_of(info.index_rules.begin(), info.index_rules.end(), [&](const IndexRule& rule) { return within(rule, arguments); });
}

} // namespace neuron
