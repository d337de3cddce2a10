"""Why torch.compile traced a function again: the guard that failed, as a person says it, and what to do about it.

Dynamo (torch 2.13, torch/_dynamo/guards.py) gives "0/1: tensor 'x' size mismatch at index 0. expected 64, actual 37", or the guard's
own code, "2/0: n == 3    # the line it came from".
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from neuron_lab.recording import GraphCompile
from neuron_lab.report._recompiles import Change, fix_for

_NUMBER = re.compile(r"^!?\d+/[\w/]+: ")
_TENSOR = re.compile(
    r"tensor '(?P<name>.+?)' (?P<what>[\w ]+?) mismatch(?: at index (?P<dim>\d+))?\. expected (?P<rest>.+)"
)
_PAIR = re.compile(r"(?P<old>.+?),? actual (?P<new>.+)")
_GLOBAL = re.compile(r"\bG\['(\w+)'\]")
_STATE = re.compile(r"GLOBAL_STATE changed: (.+)")
_LIMIT = re.compile(r"exceeding the (\w+) cache size limit \(currently set to (\d+)\)")
# ScalarType's names, where they are not the dtype's in lower case.
_DTYPES = {
    "Float": "float32",
    "Double": "float64",
    "Half": "float16",
    "Byte": "uint8",
    "Char": "int8",
    "Short": "int16",
    "Int": "int32",
    "Long": "int64",
    "ComplexFloat": "complex64",
    "ComplexDouble": "complex128",
}
_MOST = 3
_FIXES = {
    "requires_grad": "x.detach() for inference, or one compiled function for training and one for inference",
    "device": "move the tensor to the device before the call",
    "stride": "call .contiguous() before the call",
    "global": "pass it as an argument, as a tensor if it changes often",
    "attribute": "make it a buffer of the module if it changes, or set it before the first call",
    "value": "a Python value is part of the graph: pass a tensor, or keep to a few values",
    "state": "compile one function for each mode, or keep the mode",
    "limit": "mend the cause; torch._dynamo.config.recompile_limit raises the limit where the shapes are few and known",
}


@dataclass(frozen=True, slots=True)
class GuardFailure:
    """`text` says what differed from the newest compile before, `fix` what to do, "" when nothing is known to help.

    `size`: it was the size of a tensor; `limit`: Dynamo compiles the function no more.
    """

    text: str
    fix: str
    size: bool = False
    limit: bool = False


def guard_failure(item: GraphCompile) -> GuardFailure:
    """Read the guards that failed; a first compile has none, so no text.

    Dynamo stops at the first guard that fails of each earlier compile, so which of these is nearest is not known: the newest comes
    first, then those that failed for something else.
    """
    found = GuardFailure("", "")
    subjects: set[str] = set()
    for reason in item.reasons:
        other = _read(reason)
        subject = re.split(r": | == | is ", other.text, maxsplit=1)[0]
        if not subjects:
            found = other
        elif subject not in subjects and len(subjects) < _MOST:
            text = f"{found.text}; against compile {reason.partition(':')[0]}: {other.text}"
            found = GuardFailure(text, "; or ".join(dict.fromkeys(filter(None, [found.fix, other.fix]))))
        subjects.add(subject)
    limit = _LIMIT.search(item.failure)
    if limit is not None:
        text = f"{limit[1]} of {limit[2]} reached, from here on it runs eagerly; last: {found.text}"
        return GuardFailure(text, _FIXES["limit"], found.size, limit=True)
    if item.failure:
        return GuardFailure(
            f"{found.text}; not compiled: {item.failure.partition(chr(10))[0]}".removeprefix("; "), found.fix
        )
    return found


def _read(reason: str) -> GuardFailure:
    line = _NUMBER.sub("", reason).strip().partition("\n")[0]
    return _tensor(line) or _code(line)


def _tensor(reason: str) -> GuardFailure | None:
    found = _TENSOR.match(reason)
    if found is None:
        return None
    name, what = found["name"], found["what"].replace("Tensor ", "")
    if what == "requires_grad":
        was = found["rest"].startswith("requires_grad=1")
        return GuardFailure(f"requires_grad of {name}: {was} → {not was}", _FIXES["requires_grad"])
    pair = _PAIR.match(found["rest"])
    if pair is None:
        return None
    old, new = pair["old"], pair["new"]
    if what == "dispatch key set":
        hosts = ["cpu" if "CPU" in keys else "neuron" for keys in (old, new)]
        if hosts[0] != hosts[1]:
            return GuardFailure(f"device of {name}: {hosts[0]} → {hosts[1]}", _FIXES["device"])
        return GuardFailure(f"dispatch keys of {name} changed, as in another mode", _FIXES["state"])
    if what == "size" and old.isdigit() and new.isdigit():
        change = Change("dimension", old, new, (name,), int(found["dim"]))
    elif what in ("dtype", "rank"):
        change = Change("dtype" if what == "dtype" else "rank", _dtype(old), _dtype(new), (name,))
    else:
        return GuardFailure(f"{what} of {name}: {old} → {new}", _FIXES.get(what, ""))
    return GuardFailure(str(change), fix_for((change,)), change.kind == "dimension")


def _code(reason: str) -> GuardFailure:
    """A guard by its code; the comment behind it says where it was made."""
    code = re.split(r"\s{2,}# ", reason, maxsplit=1)[0].strip()
    if state := _STATE.match(code):
        return GuardFailure(f"{state[1].strip().replace('_', ' ')} changed", _FIXES["state"])
    readable = _GLOBAL.sub(r"global \1", code)
    if readable != code:
        return GuardFailure(f"{readable} no longer holds", _FIXES["global"])
    if re.match(r"[A-Za-z_]\w*(\.\w+)+ (==|is) ", code):
        return GuardFailure(f"{code} no longer holds", _FIXES["attribute"])
    fix = _FIXES["value"] if re.match(r"[A-Za-z_]\w*(\[[^]]+\])* (==|is) ", code) else ""
    return GuardFailure(f"{code} no longer holds" if "==" in code else code, fix)


def _dtype(name: str) -> str:
    return _DTYPES.get(name, name.lower())
