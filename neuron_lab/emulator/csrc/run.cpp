// The kernel behind every computing op of the device.
#include "dispatch.h"

#include <pybind11/pybind11.h>

#include <ATen/native/Resize.h>
#include <ATen/ops/copy_ops.h>

namespace py = pybind11;

namespace neuron {

namespace {

// Copy result memory into the tensor an in-place or out= op writes to.
void write(const Result& result, void* data, const Call& call, int64_t leaf) {
  const at::Tensor& target = *call.leaves[leaf].original;
  if (target.sizes() != c10::IntArrayRef(result.sizes)) {
    for (const Leaf& other : call.leaves) // what is read as well keeps its size
      TORCH_CHECK(
          other.written || !other.original || !other.original->is_same(target), "output with shape ", target.sizes(),
          " doesn't match the broadcast shape ", c10::IntArrayRef(result.sizes));
    at::native::resize_output(target, result.sizes);
  }
  if (result.nbytes == 0)
    return;
  const bool same_order = target.strides() == c10::IntArrayRef(result.strides) ||
      (target.is_contiguous() && c10::IntArrayRef(result.strides) == c10::IntArrayRef(c10::contiguous_strides(result.sizes)));
  if (same_order) {
    check_memory(target);
    copy_bytes(target.mutable_data_ptr(), data, result.nbytes);
    return;
  }
  const at::Tensor source = host_tensor(data, size_t(result.nbytes), result.sizes, result.strides, result.dtype);
  at::Tensor alias = host_alias(target);
  at::_ops::copy_::call(alias, source, false);
}

c10::IValue build(const Return& entry, const std::vector<at::Tensor>& results, const Call& call) {
  switch (entry.from) {
    case Return::From::result:
      return results[entry.index];
    case Return::From::leaf:
      return *call.leaves[entry.index].original;
    case Return::From::none:
      return at::Tensor();
    case Return::From::value:
      return entry.index;
    case Return::From::list: {
      c10::List<at::Tensor> list;
      for (const Return& item : entry.items)
        list.push_back(build(item, results, call).toTensor());
      return list;
    }
  }
  return {};
}

} // namespace

void launch(const Plan& plan, const Call& call, torch::jit::Stack* stack, size_t arity, OpEvent* event) {
  if (plan.result_bytes + core_stats(call.core).current > hbm_limit())
    check_room(call.core, plan.result_bytes);
  c10::SmallVector<PyObject*, 10> arguments;
  std::vector<PyObject*> owned;
  struct Release {
    std::vector<PyObject*>& owned;
    PyObject* arrays = nullptr;
    ~Release() {
      for (PyObject* object : owned)
        Py_DECREF(object);
      Py_XDECREF(arrays);
    }
  } release{owned};
  Py_INCREF(plan.launch); // another thread may clear the cache while this call has let go of the GIL
  owned.push_back(plan.launch);
  arguments.push_back(nullptr); // room for PY_VECTORCALL_ARGUMENTS_OFFSET
  for (int64_t leaf : plan.inputs)
    arguments.push_back(array_of(call.leaves[leaf], owned));
  const int64_t start = event ? now_ns() : 0;
  {
    const Running running(call.core);
    release.arrays = PyObject_Vectorcall(
        plan.launch, arguments.data() + 1, (arguments.size() - 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
  }
  if (event)
    event->device_ns = now_ns() - start;
  if (!release.arrays)
    throw_python_error();
  if (event && (plan.wide_integers || plan.wide_floats)) {
    const int64_t looked = now_ns();
    event->beyond_32_bits = beyond_32_bits(plan, call, release.arrays); // before an in-place result takes an input's memory
    event->check_ns = now_ns() - looked;
  }
  auto array = [&](int64_t k) { return PyTuple_GET_ITEM(release.arrays, k); };

  std::vector<bool> wanted(plan.results.size(), true);
  for (auto [result, leaf] : plan.writes) {
    write(plan.results[result], plan.results[result].nbytes ? array_data(array(result)) : nullptr, call, leaf);
    wanted[result] = false;
  }
  std::vector<at::Tensor> results(plan.results.size());
  for (size_t k = 0; k < results.size(); ++k)
    if (wanted[k])
      results[k] = wrap_result(plan.results[k], array(int64_t(k)), call.core);
  std::vector<c10::IValue> returned;
  returned.reserve(plan.returns.size());
  for (const Return& entry : plan.returns)
    returned.push_back(build(entry, results, call));
  stack->erase(stack->end() - int64_t(arity), stack->end());
  for (c10::IValue& value : returned)
    stack->push_back(std::move(value));
}

namespace {

struct Gil {
  PyGILState_STATE state = PyGILState_Ensure();
  ~Gil() {
    PyGILState_Release(state);
  }
};

// Autograd's own kernels do it for single tensors, those for lists leave it to the op: a tensor that was saved and then changed
// must not go unnoticed.
void bump_versions(const std::vector<at::Tensor>& written) {
  for (const at::Tensor& tensor : written)
    if (!tensor.is_inference())
      tensor.unsafeGetTensorImpl()->bump_version();
}

Kind host_kind(const OpInfo& info, const Call& call) {
  if (info.route == Route::host)
    return Kind::host;
  if (info.route == Route::fallback)
    return Kind::fallback;
  // An empty input has no buffer to hand over. Concatenation leaves its empty parts out (an empty key/value cache is one).
  const bool computes = !call.any_empty || (call.any_input && info.skips_empty_inputs);
  return computes ? Kind::compiled : Kind::empty;
}

} // namespace

void run_shown_as(const c10::OperatorHandle& op, OpInfo& shown, torch::jit::Stack* stack) {
  check_not_forked();
  Gil gil;
  OpInfo& info = info_of(op);
  const bool timed = recording();
  OpEvent event{&shown, timed ? now_ns() : 0};
  Call call;
  describe(op, info, *stack, call);
  event.core = int8_t(call.core);
  const size_t arity = op.schema().arguments().size();

  event.kind = host_kind(info, call);
  if (event.kind == Kind::compiled)
    event.reason = left_to_cpu(info, call, stack->data() + stack->size() - arity);
  if (event.reason) {
    event.kind = Kind::fallback; // the CPU's kernel raises the CPU's error
  } else if (event.kind == Kind::compiled) {
    event.plan = plan_for(op, info, call, *stack, event.cold);
    event.kind = event.plan->kind;
  }
  if (event.kind == Kind::decomposed) {
    op.callBoxedForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd, *stack); // its parts are recorded, not the whole
    return;
  }
  shown.calls++;
  std::vector<at::Tensor> written; // the stack, which the leaves point into, is gone afterwards
  if (info.bumps_versions)
    for (const Leaf& leaf : call.leaves)
      if (leaf.written)
        written.push_back(*leaf.original);
  if (event.kind == Kind::compiled) {
    event.bytes = call.bytes + event.plan->result_bytes;
    launch(*event.plan, call, stack, arity, timed ? &event : nullptr);
  } else {
    const c10::impl::VirtualGuardImpl guard(kDevice);
    const c10::Device previous = guard.exchangeDevice(c10::Device(kDevice, call.core));
    event.bytes = call.bytes;
    if (event.kind == Kind::fallback)
      shown.fallback_calls++;
    const int64_t start = timed ? now_ns() : 0;
    try {
      py::gil_scoped_release no_gil;
      run_on_host(op, stack, call.core);
    } catch (...) {
      guard.uncheckedSetDevice(previous);
      throw;
    }
    guard.uncheckedSetDevice(previous);
    event.device_ns = timed ? now_ns() - start : 0;
  }
  if (info.bumps_versions)
    bump_versions(written);
  if (timed) {
    event.thread = PyThread_get_thread_ident();
    event.end_ns = now_ns() - event.check_ns;
    push(event);
  }
}

void run(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  OpInfo* info;
  {
    Gil gil;
    info = &info_of(op);
  }
  run_shown_as(op, *info, stack);
}

} // namespace neuron
