// Index values are checked before an executable runs: XLA clamps an index that is out of range, which would be a silent wrong
// value. The indices are host memory here, so a look at them is cheap next to a launch.
#include "dispatch.h"

#include <ATen/MemoryOverlap.h>
#include <c10/util/overflows.h>

#include <algorithm>

namespace neuron {
namespace {

// Whether every element is good, asked in order.
template <class Index, class Good>
bool all(const at::Tensor& index, Good good) {
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

template <class Good>
bool all(const at::Tensor& index, Good good) {
  if (!index.defined() || index.numel() == 0)
    return true;
  if (index.scalar_type() == at::kLong)
    return all<int64_t>(index, good);
  if (index.scalar_type() == at::kInt)
    return all<int32_t>(index, good);
  return true;
}

bool within(const at::Tensor& index, int64_t size, bool negative, std::optional<int64_t> ignored) {
  const int64_t low = negative ? -size : 0;
  return all(index, [&](int64_t value) { return (value >= low && value < size) || (ignored && value == *ignored); });
}

// Where bags begin in a list of `size` entries: the first at 0, none before the one in front of it.
bool are_offsets(const at::Tensor& offsets, int64_t size) {
  int64_t previous = 0;
  bool first = true;
  return all(offsets, [&](int64_t value) {
    const bool good = first ? value == 0 : value >= previous && value <= size;
    first = false;
    previous = value;
    return good;
  });
}

int64_t product(const c10::IValue& size) {
  if (size.isInt())
    return size.toInt();
  int64_t out = 1;
  for (const c10::IValue& item : size.toListRef())
    out *= item.toInt();
  return out;
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
  if (rule.offsets)
    return are_offsets(index.toTensor(), of.numel());
  if (rule.flat)
    return within(index.toTensor(), of.numel(), true, std::nullopt);
  int64_t dim = rule.dim_argument >= 0 ? arguments[rule.dim_argument].toInt() : rule.dim;
  int64_t size = rule.size_argument >= 0 ? product(arguments[rule.size_argument]) : 1;
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

// Whether two indices may lead to one element: unless each dimension steps over all that the finer ones reach.
bool overlaps_itself(const at::Tensor& tensor) {
  if (tensor.is_non_overlapping_and_dense() || tensor.numel() == 0)
    return false;
  c10::SmallVector<std::pair<int64_t, int64_t>, 5> dims; // stride, size
  for (int64_t d = 0; d < tensor.dim(); ++d)
    if (tensor.size(d) > 1)
      dims.emplace_back(tensor.stride(d), tensor.size(d));
  std::sort(dims.begin(), dims.end());
  int64_t reach = 0;
  for (auto [stride, size] : dims) {
    if (stride <= reach)
      return true;
    reach += stride * (size - 1);
  }
  return false;
}

// Memory that is written and read through different views. The CPU refuses most of it; what it allows it does right.
bool overlaps(const Call& call, const OpInfo& info) {
  if (!info.writes)
    return false;
  for (const Leaf& target : call.leaves) {
    if (!target.original || !target.written || !on_device(*target.original))
      continue;
    if (overlaps_itself(*target.original))
      return true;
    for (const Leaf& other : call.leaves)
      if (&other != &target && other.original && on_device(*other.original) && other.original->is_alias_of(*target.original)) {
        const auto status = at::get_overlap_status(*other.original, *target.original);
        if (status == at::MemOverlapStatus::Partial || status == at::MemOverlapStatus::TooHard)
          return true;
      }
  }
  return false;
}

template <class T>
bool fits(const Leaf& number) {
  if (number.dtype == at::kDouble)
    return !c10::overflows<T>(*reinterpret_cast<const double*>(number.bits));
  if (number.dtype == at::kLong)
    return !c10::overflows<T>(*reinterpret_cast<const int64_t*>(number.bits));
  return true;
}

bool fits(const Leaf& number, at::ScalarType dtype) {
  switch (dtype) {
    case at::kByte:
      return fits<uint8_t>(number);
    case at::kChar:
      return fits<int8_t>(number);
    case at::kShort:
      return fits<int16_t>(number);
    case at::kInt:
      return fits<int32_t>(number);
    case at::kLong:
      return fits<int64_t>(number);
    case at::kHalf:
      return fits<c10::Half>(number);
    case at::kBFloat16:
      return fits<c10::BFloat16>(number);
    case at::kFloat:
      return fits<float>(number);
    default:
      return true;
  }
}

// A number that becomes an element must fit the first tensor's dtype: the CPU raises, an executable would wrap.
bool numbers_fit(const Call& call) {
  const Leaf* first = nullptr;
  for (const Leaf& leaf : call.leaves) {
    if (!first && leaf.source)
      first = &leaf;
    if (first && !leaf.source && !fits(leaf, first->dtype))
      return false;
  }
  return true;
}

template <class T>
bool has_zero(const at::Tensor& tensor) {
  const auto* data = static_cast<const T*>(tensor.const_data_ptr());
  return std::find(data, data + tensor.numel(), T(0)) != data + tensor.numel();
}

// Integers, and booleans, divided by zero raise on the CPU. Anything that is not plain is left to the CPU too.
bool may_divide_by_zero(const Call& call) {
  for (const Leaf& leaf : call.leaves)
    if (!c10::isIntegralType(leaf.dtype, /*includeBool=*/true))
      return false;
  const Leaf& divisor = call.leaves.back();
  if (!divisor.source)
    return divisor.dtype == at::kLong && *reinterpret_cast<const int64_t*>(divisor.bits) == 0;
  const at::Tensor& tensor = *divisor.source;
  if (!tensor.is_contiguous())
    return true;
  switch (tensor.scalar_type()) {
    case at::kLong:
      return has_zero<int64_t>(tensor);
    case at::kInt:
      return has_zero<int32_t>(tensor);
    case at::kShort:
      return has_zero<int16_t>(tensor);
    default:
      return has_zero<int8_t>(tensor);
  }
}

} // namespace

const char* left_to_cpu(const OpInfo& info, const Call& call, const c10::IValue* arguments) {
  if (overlaps(call, info))
    return "what it writes overlaps what it reads";
  if (info.number_is_element && !numbers_fit(call))
    return "a number does not fit the dtype";
  if (info.divides && may_divide_by_zero(call))
    return "integers are divided by zero";
  for (const IndexRule& rule : info.index_rules)
    if (!within(rule, arguments))
      return "an index is out of range";
  return nullptr;
}

} // namespace neuron
