// The kernel behind every computing op of the device.
#include "dispatch.h"

#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Exceptions.h>

#include <ATen/native/Resize.h>
#include <ATen/ops/copy_ops.h>

#include <cstring>

namespace py = pybind11;

namespace neuron {

Callbacks g_callbacks;

namespace {

std::unordered_map<const c10::FunctionSchema*, std::unique_ptr<OpInfo>> g_ops;
std::unordered_map<std::string, Plan*> g_plans;
int64_t g_cleared_hits = 0;
std::vector<const Graph*> g_graphs;

py::object dtype_object(at::ScalarType dtype) {
  return py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(torch::getTHPDtype(dtype)));
}

// Dtypes travel as integers on the stack; only the schema tells them apart.
bool holds_dtype(const c10::Type& type) {
  if (type.kind() == c10::TypeKind::OptionalType)
    return holds_dtype(*type.castRaw<c10::OptionalType>()->getElementType());
  return type.kind() == c10::TypeKind::ScalarTypeType;
}

py::object to_python(const c10::IValue& v, const c10::Type& type, size_t& leaf, bool lifted) {
  if (lifted && (v.isInt() || v.isDouble() || v.isComplexDouble()))
    return py::make_tuple("leaf", leaf++);
  if (v.isTensor())
    return v.toTensor().defined() ? py::object(py::make_tuple("leaf", leaf++)) : py::object(py::none());
  if (v.isInt() && holds_dtype(type))
    return dtype_object(at::ScalarType(v.toInt()));
  if (v.isInt())
    return py::int_(v.toInt());
  if (v.isDouble())
    return py::float_(v.toDouble());
  if (v.isBool())
    return py::bool_(v.toBool());
  if (v.isComplexDouble())
    return py::cast(std::complex<double>(v.toComplexDouble()));
  if (v.isString())
    return py::str(v.toStringRef());
  if (v.isList()) {
    py::list out;
    for (const c10::IValue& item : v.toListRef())
      out.append(to_python(item, type, leaf, lifted));
    return out;
  }
  return py::none(); // None, devices, generators, streams
}

py::tuple leaf_to_python(const Leaf& leaf) {
  py::object dtype = dtype_object(leaf.dtype);
  auto ints = [](c10::IntArrayRef values) {
    py::tuple out(values.size());
    for (size_t i = 0; i < values.size(); ++i)
      out[i] = values[i];
    return out;
  };
  if (!leaf.source)
    return py::make_tuple(dtype, py::tuple(), py::none(), leaf.wrapped, leaf.number);
  py::object layout = leaf.contiguous ? py::object(py::none()) : py::object(ints(leaf.layout));
  return py::make_tuple(dtype, ints(leaf.original->sizes()), layout, false, false);
}

// dispatch.py's answer: (kind, launch, inputs, results, writes, returns, neff, reason, keep).
Return parse_return(py::handle item) {
  auto entry = py::cast<py::tuple>(item);
  const auto from = py::cast<std::string>(entry[0]);
  Return out{Return::From::none, 0, {}};
  if (from == "out") {
    out.from = Return::From::result;
    out.index = py::cast<int64_t>(entry[1]);
  } else if (from == "leaf") {
    out.from = Return::From::leaf;
    out.index = py::cast<int64_t>(entry[1]);
  } else if (from == "list") {
    out.from = Return::From::list;
    for (py::handle nested : py::cast<py::sequence>(entry[1]))
      out.items.push_back(parse_return(nested));
  } else if (from == "value") {
    out.from = Return::From::value;
    out.index = py::cast<int64_t>(entry[1]);
  } else {
    TORCH_INTERNAL_ASSERT(from == "none", "unknown return entry ", from);
  }
  return out;
}

std::unique_ptr<Plan> parse_plan(const OpInfo& info, const py::tuple& answer) {
  auto plan = std::make_unique<Plan>();
  plan->op = &info;
  plan->kind = Kind(py::cast<int>(answer[0]));
  plan->reason = py::cast<std::string>(answer[7]);
  if (plan->kind != Kind::compiled)
    return plan;
  plan->launch = py::object(answer[1]).release().ptr();
  plan->inputs = py::cast<std::vector<int64_t>>(answer[2]);
  for (py::handle item : py::cast<py::sequence>(answer[3])) {
    auto entry = py::cast<py::tuple>(item);
    Result result;
    result.dtype = reinterpret_cast<THPDtype*>(py::object(entry[0]).ptr())->scalar_type;
    result.nbytes = int64_t(c10::elementSize(result.dtype));
    for (auto [shape, index] : {std::pair{&result.sizes, 1}, {&result.strides, 2}, {&result.shape, 3}})
      for (py::handle x : py::cast<py::sequence>(entry[index]))
        shape->push_back(py::cast<int64_t>(x));
    for (int64_t size : result.shape)
      result.nbytes *= size;
    plan->result_bytes += result.nbytes;
    plan->results.push_back(std::move(result));
  }
  plan->writes = py::cast<std::vector<std::pair<int64_t, int64_t>>>(answer[4]);
  for (py::handle item : py::cast<py::sequence>(answer[5]))
    plan->returns.push_back(parse_return(item));
  plan->neff = py::cast<std::string>(answer[6]);
  return plan;
}

std::unique_ptr<Plan> make_plan(const c10::OperatorHandle& op, const OpInfo& info, const Call& call, const torch::jit::Stack& stack, bool& keep) {
  try {
    size_t leaf = 0;
    py::list arguments;
    const auto& schema = op.schema().arguments();
    for (size_t i = 0; i < schema.size(); ++i) {
      const c10::IValue& v = stack[stack.size() - schema.size() + i];
      arguments.append(to_python(v, *schema[i].real_type(), leaf, lifts(info, op.schema(), i, v)));
    }
    py::list leaves;
    for (const Leaf& item : call.leaves)
      leaves.append(leaf_to_python(item));
    TORCH_INTERNAL_ASSERT(leaf == call.leaves.size(), info.name, ": ", leaf, " references to ", call.leaves.size(), " leaves");
    py::tuple answer = py::reinterpret_borrow<py::object>(g_callbacks.make_plan)(info.name, arguments, leaves);
    keep = py::cast<bool>(answer[8]);
    return parse_plan(info, answer);
  } catch (py::error_already_set& error) {
    error.restore();
    throw_python_error();
  }
}

// Copy result memory into the tensor an in-place or out= op writes to.
void write(const Result& result, void* data, const at::Tensor& target) {
  if (target.sizes() != c10::IntArrayRef(result.sizes))
    at::native::resize_output(target, result.sizes);
  if (result.nbytes == 0)
    return;
  const bool same_order = target.strides() == c10::IntArrayRef(result.strides) ||
      (target.is_contiguous() && c10::IntArrayRef(result.strides) == c10::IntArrayRef(c10::contiguous_strides(result.sizes)));
  if (same_order) {
    std::memcpy(target.mutable_data_ptr(), data, size_t(result.nbytes));
    return;
  }
  c10::Storage storage(
      c10::Storage::use_byte_size_t(), size_t(result.nbytes), at::DataPtr(data, c10::Device(c10::DeviceType::CPU)), nullptr, false);
  auto source = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(result.dtype));
  source.unsafeGetTensorImpl()->set_sizes_and_strides(result.sizes, result.strides);
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

int64_t launch(const Plan& plan, const Call& call, torch::jit::Stack* stack, size_t arity, bool timed) {
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
  const int64_t start = timed ? now_ns() : 0;
  release.arrays = PyObject_Vectorcall(
      plan.launch, arguments.data() + 1, (arguments.size() - 1) | PY_VECTORCALL_ARGUMENTS_OFFSET, nullptr);
  const int64_t spent = timed ? now_ns() - start : 0;
  if (!release.arrays)
    throw_python_error();
  auto array = [&](int64_t k) { return PyTuple_GET_ITEM(release.arrays, k); };

  std::vector<bool> wanted(plan.results.size(), true);
  for (auto [result, leaf] : plan.writes) {
    write(plan.results[result], plan.results[result].nbytes ? array_data(array(result)) : nullptr, *call.leaves[leaf].original);
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
  return spent;
}

namespace {

struct Gil {
  PyGILState_STATE state = PyGILState_Ensure();
  ~Gil() {
    PyGILState_Release(state);
  }
};

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

// (dtype, sizes, layout or None) of every input, and the answer of dispatch.py as for an op.
Graph* make_graph(const std::string& name, const py::list& inputs, const py::tuple& answer) {
  auto* graph = new Graph;
  graph->info.name = name;
  for (py::handle item : inputs) {
    auto entry = py::cast<py::tuple>(item);
    Leaf leaf;
    leaf.dtype = reinterpret_cast<THPDtype*>(py::object(entry[0]).ptr())->scalar_type;
    const auto sizes = py::cast<std::vector<int64_t>>(entry[1]);
    leaf.contiguous = entry[2].is_none();
    if (leaf.contiguous) {
      leaf.shape.assign(sizes.begin(), sizes.end());
    } else {
      for (int64_t d : py::cast<std::vector<int64_t>>(entry[2])) {
        leaf.layout.push_back(d);
        leaf.shape.push_back(sizes[size_t(d)]);
      }
    }
    graph->inputs.push_back(std::move(leaf));
  }
  graph->plan = parse_plan(graph->info, answer);
  g_graphs.push_back(graph);
  return graph;
}

py::list call_graph(Graph& graph, const std::vector<at::Tensor>& inputs) {
  py::list out;
  for (c10::IValue& value : run_graph(graph, inputs)) {
    if (value.isTensor() && !value.toTensor().defined())
      out.append(py::none());
    else if (value.isTensor())
      out.append(value.toTensor());
    else
      out.append(value.toInt());
  }
  return out;
}

void bind_graphs(py::module_& m) {
  py::class_<Graph, std::unique_ptr<Graph, py::nodelete>>(m, "Graph");
  m.def("make_graph", &make_graph, py::return_value_policy::reference);
  m.def("call_graph", &call_graph);
}

void run_shown_as(const c10::OperatorHandle& op, OpInfo& shown, torch::jit::Stack* stack) {
  check_not_forked();
  Gil gil;
  OpInfo& info = info_of(op);
  const bool timed = recording();
  OpEvent event{&shown, nullptr, Kind::compiled, 0, false, 0, timed ? now_ns() : 0, 0, 0, 0};
  Call call;
  describe(op, info, *stack, call);
  event.core = int8_t(call.core);
  const size_t arity = op.schema().arguments().size();

  Plan* plan = nullptr;
  std::unique_ptr<Plan> once; // a plan that is not remembered: the cause was transient
  event.kind = host_kind(info, call);
  // The CPU's kernel raises the CPU's error.
  if (event.kind == Kind::compiled && !(plain_enough(info, call) && indices_in_range(info, stack->data() + stack->size() - arity)))
    event.kind = Kind::fallback;
  if (event.kind == Kind::compiled) {
    auto found = g_plans.find(call.key);
    if (found != g_plans.end()) {
      plan = found->second;
      plan->hits++;
    } else {
      event.cold = true;
      bool keep = false;
      once = make_plan(op, info, call, *stack, keep);
      plan = once.get();
      if (keep) { // another thread may have planned the same call meanwhile
        auto [entry, added] = g_plans.emplace(call.key, once.get());
        plan = entry->second;
        if (added)
          once.release();
      }
    }
    event.kind = plan->kind;
  }
  if (event.kind == Kind::decomposed) {
    op.callBoxedForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd, *stack); // its parts are recorded, not the whole
    return;
  }
  shown.calls++;
  if (event.kind == Kind::compiled) {
    event.plan = plan;
    event.bytes = call.bytes + plan->result_bytes;
    event.device_ns = launch(*plan, call, stack, arity, timed);
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
    event.plan = plan && !once ? plan : nullptr; // carries the reason
  }
  if (timed) {
    event.thread = PyThread_get_thread_ident();
    event.end_ns = now_ns();
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

OpInfo& info_of(const c10::OperatorHandle& op) {
  std::unique_ptr<OpInfo>& slot = g_ops[&op.schema()];
  if (slot)
    return *slot;
  auto info = std::make_unique<OpInfo>();
  const c10::OperatorName& name = op.operator_name();
  info->name = name.name + "." + (name.overload_name.empty() ? "default" : name.overload_name);
  for (const c10::Argument& argument : op.schema().arguments())
    info->written.push_back(argument.alias_info() && argument.alias_info()->isWrite());
  info->writes = std::find(info->written.begin(), info->written.end(), true) != info->written.end();
  try {
    py::tuple answer = py::reinterpret_borrow<py::object>(g_callbacks.describe_op)(name.name, name.overload_name);
    info->route = Route(py::cast<int>(answer[0]));
    info->reason = py::cast<std::string>(answer[1]);
    info->lifted = py::cast<std::vector<bool>>(answer[2]);
    info->takes_host_tensors = py::cast<bool>(answer[3]);
    info->skips_empty_inputs = py::cast<bool>(answer[4]);
    info->name = py::cast<std::string>(answer[5]);
    for (const auto& rule : py::cast<std::vector<std::tuple<int, int, int, int, int, int, bool, bool>>>(answer[6]))
      info->index_rules.push_back(std::make_from_tuple<IndexRule>(rule));
    info->number_is_element = py::cast<bool>(answer[7]);
    info->divides = py::cast<bool>(answer[8]);
  } catch (py::error_already_set& error) {
    error.restore();
    throw_python_error();
  }
  TORCH_INTERNAL_ASSERT(info->lifted.size() == info->written.size());
  if (!slot) // the callback let go of the GIL: another thread may have met the op meanwhile
    slot = std::move(info);
  return *slot;
}

std::vector<OpInfo*> known_ops() {
  std::vector<OpInfo*> out;
  for (auto& entry : g_ops)
    if (entry.second)
      out.push_back(entry.second.get());
  return out;
}

std::vector<const Plan*> plans() {
  std::vector<const Plan*> out;
  for (auto& entry : g_plans)
    out.push_back(entry.second);
  for (const Graph* graph : g_graphs)
    out.push_back(graph->plan.get());
  return out;
}

// Plans are kept alive: a recording session may still point at them. Their executables go.
void clear_plans() {
  for (auto& entry : g_plans) {
    Py_CLEAR(entry.second->launch);
    if (entry.second->kind == Kind::compiled)
      g_cleared_hits += entry.second->hits;
  }
  g_plans.clear();
  g_graphs.clear(); // a compiled function keeps its own
}

int64_t launches_of_cleared_plans() {
  return g_cleared_hits;
}

void throw_python_error() {
  python_error error;
  error.persist();
  throw error;
}

} // namespace neuron
