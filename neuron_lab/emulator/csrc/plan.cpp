// What Python says about ops and calls, and the table of plans: how each overload is served, and one plan for each signature.
#include "dispatch.h"

#include <pybind11/complex.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/Exceptions.h>

#include <tuple>

namespace py = pybind11;

namespace neuron {

Callbacks g_callbacks;

namespace {

std::unordered_map<const c10::FunctionSchema*, std::unique_ptr<OpInfo>> g_ops;
using Plans = std::unordered_map<std::string, Plan*>; // by key
Plans g_plans;
std::unordered_map<std::string, Plan*> g_passing; // by op and reason
int64_t g_cleared_hits = 0;
std::vector<const Graph*> g_graphs;
std::vector<std::pair<Plans, std::vector<const Graph*>>> g_aside;

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

template <class Leaves>
std::unique_ptr<Plan> parse_plan(const OpInfo& info, const Leaves& leaves, const py::tuple& answer) {
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
  find_wide(*plan, leaves.data());
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
    return parse_plan(info, call.leaves, answer);
  } catch (py::error_already_set& error) {
    error.restore();
    throw_python_error();
  }
}

} // namespace

// The plan of a call, made when there is none; `cold` then. One whose cause may pass is kept for its reason only and not found again.
Plan* plan_for(const c10::OperatorHandle& op, const OpInfo& info, const Call& call, const torch::jit::Stack& stack, bool& cold) {
  auto found = g_plans.find(call.key);
  if (found != g_plans.end()) {
    found->second->hits++;
    return found->second;
  }
  cold = true;
  bool keep = false;
  std::unique_ptr<Plan> made = make_plan(op, info, call, stack, keep);
  // Another thread may have planned the same call meanwhile.
  auto [entry, added] = keep ? g_plans.emplace(call.key, made.get()) : g_passing.emplace(info.name + made->reason, made.get());
  return added ? made.release() : entry->second;
}

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
  graph->plan = parse_plan(graph->info, graph->inputs, answer);
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

OpInfo& info_of(const c10::OperatorHandle& op) {
  std::unique_ptr<OpInfo>& slot = g_ops[&op.schema()];
  if (slot)
    return *slot;
  auto info = std::make_unique<OpInfo>();
  const c10::OperatorName& name = op.operator_name();
  info->name = name.name + "." + (name.overload_name.empty() ? "default" : name.overload_name);
  for (const c10::Argument& argument : op.schema().arguments())
    info->written.push_back(argument.alias_info() && argument.alias_info()->isWrite());
  info->bumps_versions = info->name.rfind("aten::_foreach_", 0) == 0;
  info->writes = std::find(info->written.begin(), info->written.end(), true) != info->written.end();
  try {
    py::tuple answer = py::reinterpret_borrow<py::object>(g_callbacks.describe_op)(name.name, name.overload_name);
    info->route = Route(py::cast<int>(answer[0]));
    info->reason = py::cast<std::string>(answer[1]);
    info->lifted = py::cast<std::vector<bool>>(answer[2]);
    info->takes_host_tensors = py::cast<bool>(answer[3]);
    info->skips_empty_inputs = py::cast<bool>(answer[4]);
    info->name = py::cast<std::string>(answer[5]);
    for (const auto& rule : py::cast<std::vector<std::tuple<int, int, int, int, int, int, bool, bool, bool>>>(answer[6]))
      info->index_rules.push_back(std::make_from_tuple<IndexRule>(rule));
    info->number_is_element = py::cast<bool>(answer[7]);
    info->divides = py::cast<bool>(answer[8]);
    info->casts = py::cast<bool>(answer[9]);
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

// Plans are kept alive: a recording session may still point at them. The executables of ops go; a compiled function keeps its own.
void clear_plans() {
  for (auto& entry : g_plans) {
    Py_CLEAR(entry.second->launch);
    if (entry.second->kind == Kind::compiled)
      g_cleared_hits += entry.second->hits;
  }
  for (const Graph* graph : g_graphs)
    g_cleared_hits += graph->plan->hits;
  g_plans.clear();
  g_graphs.clear();
}

// Until `put_plans_back` every call is a first call; the plans made meanwhile are then cleared.
void set_plans_aside() {
  g_aside.emplace_back(std::exchange(g_plans, {}), std::exchange(g_graphs, {}));
}

void put_plans_back() {
  TORCH_CHECK(!g_aside.empty(), "no plans were set aside");
  clear_plans();
  std::tie(g_plans, g_graphs) = std::move(g_aside.back());
  g_aside.pop_back();
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
