// Launching a compiled graph: torch.compile's counterpart of the eager road, with the same plans, arrays and events.
#include "dispatch.h"

#include <cstring>

namespace neuron {
namespace {

bool same_buffer(const Leaf& leaf, const Leaf& expected) {
  return leaf.dtype == expected.dtype && leaf.contiguous == expected.contiguous && leaf.shape == expected.shape &&
      (leaf.contiguous || leaf.layout == expected.layout);
}

Shape strides_of(const Leaf& leaf, c10::IntArrayRef sizes) {
  Shape strides(sizes.size(), 0);
  if (leaf.contiguous) {
    const auto plain = c10::contiguous_strides(sizes);
    return {plain.begin(), plain.end()};
  }
  int64_t step = 1;
  for (auto d = leaf.layout.rbegin(); d != leaf.layout.rend(); ++d) {
    strides[*d] = step;
    step *= sizes[*d];
  }
  return strides;
}

// The input in the layout the graph was compiled for. Eager parts between graphs, and callers that a guard lets through, may
// hand over another one, a conjugate that is still to be computed, or a tensor that is still on the host.
void take(const at::Tensor& input, const Leaf& expected, c10::DeviceIndex core, Call& call) {
  Leaf& leaf = call.leaves.emplace_back();
  leaf.original = leaf.source = &input;
  leaf.dtype = input.scalar_type();
  const bool lazy = input.is_conj() || input.is_neg(); // its values are not what lies in its memory
  if (on_device(input) && input.get_device() == core && !lazy && buffer_layout(input, leaf) && same_buffer(leaf, expected))
    return;
  TORCH_CHECK(input.scalar_type() == expected.dtype, "a compiled graph was given dtype ", input.scalar_type(), " for ", expected.dtype);
  at::Tensor& copy = call.copies.emplace_back(empty_strided_on(core, input.sizes(), strides_of(expected, input.sizes()), expected.dtype));
  transfer(input, copy);
  leaf = Leaf(expected);
  leaf.original = &input;
  leaf.source = &copy;
}

} // namespace

std::vector<c10::IValue> run_graph(Graph& graph, const std::vector<at::Tensor>& inputs) {
  PyGILState_STATE gil = PyGILState_Ensure();
  struct Release {
    PyGILState_STATE gil;
    ~Release() {
      PyGILState_Release(gil);
    }
  } release{gil};
  TORCH_CHECK(inputs.size() == graph.inputs.size(), "a compiled graph takes ", graph.inputs.size(), " tensors, got ", inputs.size());
  const bool timed = recording();
  OpEvent event{&graph.info, timed ? now_ns() : 0, graph.plan.get()};
  event.cold = graph.plan->hits == 0;
  Call call;
  call.core = current_core();
  for (const at::Tensor& input : inputs)
    if (on_device(input)) {
      call.core = input.get_device();
      break;
    }
  for (size_t i = 0; i < inputs.size(); ++i) {
    take(inputs[i], graph.inputs[i], call.core, call);
    call.bytes += int64_t(inputs[i].nbytes());
  }
  torch::jit::Stack stack;
  event.core = int8_t(call.core);
  launch(*graph.plan, call, &stack, 0, timed ? &event : nullptr);
  graph.plan->hits++;
  graph.info.calls++;
  if (timed) {
    event.bytes = call.bytes + graph.plan->result_bytes;
    event.thread = PyThread_get_thread_ident();
    event.end_ns = now_ns() - event.check_ns;
    push(event);
  }
  return stack;
}

} // namespace neuron
