// 64-bit values. They are computed in full here; TorchNeuron's snapshot of April 2026 computes int64 as int32 and float64 as float32
// inside an executable (casts between them run on the CPU), and what does not fit wraps or saturates without a word.
#include "dispatch.h"

#include <cfloat>
#include <cmath>

namespace neuron {
namespace {

bool is_wide_float(at::ScalarType dtype) {
  return dtype == at::kDouble || dtype == at::kComplexDouble;
}

bool leaves(int64_t value) {
  return value != int32_t(value);
}

bool leaves(double value) {
  return std::fabs(value) > double(FLT_MAX) && std::isfinite(value);
}

// In blocks without a branch, so that the compiler can vectorise them.
template <class T>
bool any_leaves(const void* data, int64_t count) {
  constexpr int64_t kBlock = 1024;
  const T* values = static_cast<const T*>(data);
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = std::min(begin + kBlock, count);
    bool found = false;
    for (int64_t i = begin; i < end; ++i)
      found |= leaves(values[i]);
    if (found)
      return true;
  }
  return false;
}

bool any_leaves(at::ScalarType dtype, const void* data, c10::IntArrayRef shape) {
  const int64_t count = c10::multiply_integers(shape);
  if (dtype == at::kLong)
    return any_leaves<int64_t>(data, count);
  return is_wide_float(dtype) && any_leaves<double>(data, dtype == at::kDouble ? count : 2 * count);
}

} // namespace

void find_wide(Plan& plan, const Leaf* leaves) {
  if (plan.op->casts)
    return;
  auto look = [&](at::ScalarType dtype) {
    plan.wide_integers |= dtype == at::kLong;
    plan.wide_floats |= is_wide_float(dtype);
  };
  for (int64_t leaf : plan.inputs)
    if (!leaves[leaf].number && !leaves[leaf].scalar) // they take the dtype of what they meet
      look(leaves[leaf].dtype);
  for (const Result& result : plan.results)
    look(result.dtype);
}

bool beyond_32_bits(const Plan& plan, const Call& call, PyObject* arrays) {
  for (int64_t index : plan.inputs) {
    const Leaf& leaf = call.leaves[index];
    if (leaf.source && any_leaves(leaf.dtype, leaf.source->const_data_ptr(), leaf.shape))
      return true;
  }
  for (size_t k = 0; k < plan.results.size(); ++k) {
    const Result& result = plan.results[k];
    if (result.nbytes && any_leaves(result.dtype, array_data(PyTuple_GET_ITEM(arrays, k)), result.shape))
      return true;
  }
  return false;
}

} // namespace neuron
